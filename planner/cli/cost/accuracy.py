"""`planner cost accuracy`: predictions beside what was measured, by slice, with bands."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.cost import benchmark_options as runs
from planner.cli.cost import options as cost_options
from planner.cli.program.option_records import with_records
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.cost import Evidence
    from planner.domain import Accuracy, Calibration, JudgedFigure


@with_records
def command(
    measurements: runs.Files = None,
    calibration: cost_options.Calibration = None,
    *,
    conditions: runs.RunOptions,
    seen: Annotated[
        bool, typer.Option("--seen", help="Of points that the fit has seen, tell the fit's own predictions.")
    ] = False,
    figure: cost_options.FigureFile = None,
    force: cost_options.Force = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a table of kinds of figures in Markdown.")
    ] = False,
    json: cost_options.Json = False,
) -> None:
    """How far predictions are from measurements, by slice; without a file: all at hand, left out of the fit."""
    from planner import files, report

    factors = files.load_calibration(calibration) if calibration else None
    models_of_user, stated = conditions.read()
    paths: list[Path] = measurements or []
    if not paths and stated != files.Conditions():
        raise InputError(
            "FILE: must be given with conditions of runs, got none.",
            hint="Without a file all measurements that come along are judged; leave the conditions out.",
        )
    measured, step_files = runs.load_measured(paths, models_of_user, stated) if paths else runs.load_given()
    judged = _judged(measured, step_files, factors, left_out=not paths and not seen and factors is None)
    cost_options.draw(figure, lambda: report.judged_figure(judged), force=force)
    if json:
        screen.show_json([_row(item) for item in judged.figures])
        return
    if markdown:
        from planner.report.kit.markdown import block_text

        screen.show_markdown("\n\n".join(map(block_text, report.accuracy_table(judged))))
        return
    _show(judged)
    if doubts := [entry.run for entry in measured.runs if entry.run.doubt]:
        first = doubts[0]
        screen.show_prose(
            f"left aside, as nothing can be concluded from them: {len(doubts):,} runs; the first is row {first.row} of "
            f"{Path(first.file).name}: {first.doubt}"
        )


def _judged(
    measured: "Evidence", step_files: Sequence[str], calibration: "Calibration | None", *, left_out: bool
) -> "Accuracy":
    from planner import cost, files

    judged = list(cost.judged_runs(measured.runs, calibration))
    judged += [
        cost.judged_step(m, measured.gpus[m.gpu], measured.models[m.model], calibration, file=file)
        for m, file in zip(measured.measurements, step_files, strict=True)
    ]
    record = files.load_left_out() if left_out else None
    return cost.accuracy(cost.with_records(judged, left_out=record, peer=files.load_peer()))


def _row(item: "JudgedFigure") -> dict[str, object]:
    """A figure in the unit of its file."""

    def in_file(value: float | None) -> float | None:
        return None if value is None else value * item.run.file_scale

    return {
        "file": item.run.file,
        "row": item.run.row,
        "metric": item.run.file_metric or str(item.metric),
        "measured": in_file(item.measured),
        "predicted": in_file(item.predicted),
        "low": in_file(item.low),
        "high": in_file(item.high),
        "left_out": in_file(item.left_out),
        "rate_error": item.rate_error,
        "peer": in_file(item.peer),
        "slice": item.slice,
        "reason": item.reason,
    }


def _show(judged: "Accuracy") -> None:
    columns = ("slice of", "", "points", "mean error", "median error", "bias", "not predicted", "in bands", "score")
    beside = ("the peer's", "ours there", "peer")

    def share(value: float | None) -> str:
        return "" if value is None else f"{value:.1%}"

    rows = [
        (
            *(s.dimension, s.name, s.points, share(s.mean), share(s.median), f"{s.bias:+.1%}", s.unanswered or ""),
            *("" if s.covered is None else f"{s.covered:.0%}", "" if s.interval is None else f"{s.interval:.2f}"),
            *(s.peer_points or "", share(s.beside_peer), share(s.peer)),
        )
        for s in judged.slices
    ]
    screen.show_table(
        "Errors of rates, each at most 100 %; bias: median, positive where predicted too fast",
        columns + beside,
        rows,
    )
    if judged.pairs:
        screen.show_prose(
            f"GPU types at equal work, more than 15 % apart: {judged.in_order} of {judged.pairs} pairs in order"
        )
    screen.show_prose(
        f"within their 80 % bands: {judged.covered:.0%} of the figures; mean interval score {judged.interval:.3f} "
        "(width of a band + 10 times what lies beyond it, in logarithms)"
    )
    worst = [
        (item.run.file.rsplit("/", 1)[-1], item.run.row, item.slice, str(item.metric), *_values(item))
        for item in judged.worst
    ]
    screen.show_table("Farthest off", ("file", "row", "conditions", "metric", "measured", "predicted"), worst)


def _values(item: "JudgedFigure") -> tuple[str, str]:
    prediction = item.predicted if item.left_out is None else item.left_out
    return f"{item.measured:,.4g}", f"{prediction:,.4g}" if prediction is not None else item.reason
