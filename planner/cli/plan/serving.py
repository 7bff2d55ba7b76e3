"""`planner serving`: requests/s of split pools, aggregated ones and a free choice against the bound on TPOT."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import screen
from planner.errors import EXIT_INTERRUPTED, InputError

if TYPE_CHECKING:
    from planner.domain import FormComparison, FormPoint


def command(
    scenario: Annotated[Path, typer.Argument(help="A scenario file.", show_default=False)],
    tpot: Annotated[
        str | None,
        typer.Option(
            help="Bounds on TPOT in ms, parted by commas. [default: 8 around the scenario's own]", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for serving.md, serving.html, serving.csv and serving.png. [default: none is written]",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a comparison that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """From which bound on TPOT splitting prefill from decode pays: the best rate of each form of serving."""
    from planner import files
    from planner.proposing.serving_forms import compare_forms
    from planner.workload import summarize

    bounds_ms = _bounds(tpot)
    read = files.load_scenario(scenario, summarize)
    if out is not None:
        files.refuse_existing(out / "serving.csv", force=force)  # fails before the work, not after it
    comparison = compare_forms(read, bounds_ms, _progress(quiet=quiet or json))
    if out is not None:
        from planner import report
        from planner.report.kit.tables import frame_csv
        from planner.runs.pages import page_bytes

        frame, page = report.serving_frame(comparison), report.serving_page(comparison, read)
        written = {
            "serving.csv": frame_csv(frame),
            "serving.png": report.encode_figure(report.serving_figure(comparison, read)),
            "serving.md": report.page_text(page, {"Rate against the bound on TPOT, by form": "serving.png"}).encode(),
            "serving.html": page_bytes(page),
        }
        files.write_folder(out, written, force=force)
    if json:
        screen.show_json(_document(comparison, None if out is None else str(out)))
    else:
        _show(comparison, out)
    if comparison.interrupted:
        folder_note = "" if out is None else f"; what was found is in {out}"
        before = len(comparison.unasked)
        where = f"{before} bounds before the end" if before else "before all changes were narrowed down"
        screen.show_note(f"Interrupted {where}{folder_note}")
        raise typer.Exit(EXIT_INTERRUPTED)


def _bounds(text: str | None) -> tuple[float, ...]:
    """The bounds that were typed; none where nothing was."""
    if text is None:
        return ()
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError:
        raise InputError(
            f"--tpot: must be numbers of milliseconds, parted by commas, got {text!r}.", hint="Try --tpot 15,20,30,60."
        ) from None


def _progress(*, quiet: bool) -> "Callable[[int, int, tuple[FormPoint, ...]], None]":
    def listen(done: int, total: int, points: "tuple[FormPoint, ...]", /) -> None:
        if not quiet:
            rates = ", ".join(f"{point.form.value} {point.rate_rps:.1f}" for point in points)
            screen.show_note(f"{done}/{total}: {points[0].tpot_ms:.3g} ms TPOT: {rates} requests/s")

    return listen


def _document(comparison: "FormComparison", folder: str | None) -> dict[str, Any]:
    from planner.report.comparison.serving_forms import headline, pool_words

    return {
        "folder": folder,
        "summary": headline(comparison),
        "own_ms": comparison.own_ms,
        "bounds_ms": list(comparison.bounds_ms),
        "changes": [asdict(change) | {"at_ms": change.at_ms} for change in comparison.changes],
        "transfer": None if comparison.transfer is None else asdict(comparison.transfer),
        "unasked_ms": list(comparison.unasked),
        "interrupted": comparison.interrupted,
        "points": [
            {
                "tpot_ms": point.tpot_ms,
                "serving": point.form.value,
                "rate_rps": point.rate_rps,
                "bound_rps": point.bound_rps,
                "gap": point.gap,
                "pools": pool_words(point.pools),
                "why": point.why or None,
                "late": point.late,
            }
            for point in comparison.points
        ],
    }


def _show(comparison: "FormComparison", out: Path | None) -> None:
    from planner.domain import ServingForm
    from planner.report.comparison.serving_forms import FORMS, NAMES, conclusions, pool_words, rate_words

    rows = [
        (
            f"{ms:g}",
            *(rate_words(comparison.at(ms, form)) for form in FORMS),
            pool_words(comparison.at(ms, ServingForm.AUTO).pools),
        )
        for ms in comparison.bounds_ms
    ]
    columns = ("TPOT bound (ms)", *(NAMES[form] for form in FORMS), "servers × GPUs of the free choice")
    screen.show_table("Requests/s by form of serving", columns, rows)
    for sentence in conclusions(comparison):
        screen.show_prose(sentence)
    if out is not None:
        screen.show_prose(f"Written to {out}")
