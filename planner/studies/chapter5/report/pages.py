"""A study as files: names and bytes, for whoever may write them. matplotlib is loaded with the first figure."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.report.kit.tables import Frame, frame_csv
from planner.studies.chapter5.records import Study
from planner.studies.chapter5.report.frames import TABLE, study_frame
from planner.studies.chapter5.report.page import study_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {
    "4.8": "Figure 4.8: island sizes by skew",
    "5.1": "Figure 5.1: what an island of each class can do",
    "5.2": "Figure 5.2: islands' time on each range",
    "5.3": "Figure 5.3: throughput per range",
    "5.4": "Figure 5.4: throughput per sequence length",
    "5.5": "Figure 5.5: batch size, divider",
    "5.6": "Figure 5.6: execution time by batch size, divider",
    "5.7": "Figure 5.7: skew range, divider",
    "5.8": "Figure 5.8: least island size, divider",
    "5.9": "Figure 5.9: batch size, direct, SAASBO",
    "5.10": "Figure 5.10: batch size, direct, BO",
    "5.11": "Figure 5.11: execution time by batch size, direct",
    "5.12": "Figure 5.12: slots per GPU type, direct, SAASBO",
    "5.13": "Figure 5.13: tokens of the requests",
}


def render_study(study: Study) -> dict[str, bytes]:
    """`study.md`, a CSV a figure and for table 5.1, and each figure as PNG and SVG."""
    from planner.report.kit.style import encoded  # matplotlib takes a second to load

    pages = {"study.md": study_page(study).encode()}
    for name in study.figures:
        stem = file_stem(name)
        pages[f"{stem}.csv"] = _csv(study_frame(study, name))
        if name != TABLE:
            drawn = study_figure(study, name)
            pages |= {f"{stem}.png": encoded(drawn), f"{stem}.svg": encoded(drawn, "svg")}
    return pages


def _csv(frame: Frame) -> bytes:
    """Nine digits: the rest is the solver's."""
    return frame_csv(frame, float_format="%.9g")


def file_names(figures: Iterable[str]) -> list[str]:
    """The names of the files that `render_study` gives for these figures."""
    names = ["study.md"]
    for name in figures:
        kinds = ("csv",) if name == TABLE else ("csv", "png", "svg")
        names += [f"{file_stem(name)}.{kind}" for kind in kinds]
    return names


def file_stem(name: str) -> str:
    """`table_5_1`, `figure_5_5`."""
    return (
        f"table_{name.removeprefix('table')}".replace(".", "_") if name == TABLE else f"figure_{name}".replace(".", "_")
    )


def study_figure(study: Study, name: str) -> "Figure":
    """One of the study's figures. Raises InputError where the study was not asked for it."""
    if name not in study.figures or name not in TITLES:
        drawn = ", ".join(figure for figure in study.figures if figure in TITLES)
        raise InputError(f"figure: must be one of {drawn}, got {name!r}.", hint="Choose one, or run the study for it.")
    from planner.report.kit.style import look  # matplotlib takes a second to load

    with look():
        return _drawing(name)(study, name, TITLES[name])


def _drawing(name: str) -> "Callable[[Study, str, str], Figure]":
    from planner.studies.chapter5.report import curves, inputs, islands, times  # matplotlib, as above

    drawings = {
        "4.8": inputs.draw_divisions,
        "5.1": islands.draw_benchmarks,
        "5.2": islands.draw_shares,
        "5.3": islands.draw_rates,
        "5.4": islands.draw_lengths,
        "5.6": times.draw,
        "5.11": times.draw,
        "5.13": inputs.draw_tokens,
    }
    return drawings.get(name, curves.draw)
