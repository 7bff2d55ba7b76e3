"""All files of a replay, by name."""

import json

from planner.domain.replay import ReplayResult, ReplaySweep
from planner.report.kit.csv_tables import frame_csv
from planner.report.replay.document import replay_document
from planner.report.replay.figures import SWEEP, replay_figure, replay_figures_of
from planner.report.replay.frames import (
    replay_frame,
    replay_islands_frame,
    replay_moments_frame,
    replay_sweep_frame,
)
from planner.report.replay.page import replay_page


def replay_files(result: ReplayResult, sweep: ReplaySweep | None = None) -> dict[str, bytes]:
    """replay.json, replay.md, groups.csv, islands.csv, moments.csv, of a sweep sweep.csv; figures as PNG and SVG."""
    from planner.report.kit.style import encoded  # noqa: PLC0415  # matplotlib takes a second to load

    titles = replay_figures_of(sweep)
    document = json.dumps(replay_document(result, sweep), indent=2, ensure_ascii=False, allow_nan=False)
    files = {
        "replay.json": f"{document}\n".encode(),
        "replay.md": replay_page(
            result, sweep, {title: f"figures/{name}.png" for name, title in titles.items()}
        ).encode(),
        "groups.csv": frame_csv(replay_frame(result)),
        "islands.csv": frame_csv(replay_islands_frame(result)),
        "moments.csv": frame_csv(replay_moments_frame(result)),
    }
    if sweep is not None:
        files[f"{SWEEP}.csv"] = frame_csv(replay_sweep_frame(sweep))
    for name in titles:
        drawn = replay_figure(result, name, sweep)
        files |= {f"figures/{name}.png": encoded(drawn), f"figures/{name}.svg": encoded(drawn, "svg")}
    return files


def replay_file_names() -> tuple[str, ...]:
    """All that a replay's folder may hold."""
    names = [*replay_figures_of(None), SWEEP]
    tables = ("groups.csv", "islands.csv", "moments.csv", f"{SWEEP}.csv")
    return (
        "replay.json",
        "replay.md",
        *tables,
        *(f"figures/{name}.{kind}" for name in names for kind in ("png", "svg")),
    )
