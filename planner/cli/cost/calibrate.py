"""`planner cost calibrate`: the factors fitted to the user's own measurements."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.cost import benchmark_options as runs
from planner.cli.cost import options as cost_options
from planner.cli.program.option_records import with_records
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.cost import Evidence, RunsFit
    from planner.domain import Calibration, CalibrationFit, JudgedFigure, JudgedMeasurement


@with_records
def command(
    measurements: runs.Files = None,
    *,
    out: Annotated[
        Path | None, typer.Option(help="Calibration file. [default: NAME.calibration.yaml beside the first file]")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the calibration. [default: the first file's]")] = None,
    base: Annotated[Path | None, typer.Option(help="A calibration to start from. [default: built in]")] = None,
    conditions: runs.RunOptions,
    force: cost_options.Force = False,
    json: cost_options.Json = False,
) -> None:
    """Fit the pace of your machines to step times or benchmark runs, for scenarios to name (cost.calibration)."""
    from planner import cost, files

    paths = measurements or []
    if not paths:
        raise InputError("FILE: must name at least one file of measurements, got none.", hint="See --help for formats.")
    called = name or paths[0].stem
    path = out or paths[0].with_name(f"{called}.calibration.yaml")
    files.refuse_existing(path, force=force)
    models_of_user, stated = conditions.read()
    measured, _ = runs.load_measured(paths, models_of_user, stated)
    _require_engines(measured)
    before = files.load_calibration(base) if base else None
    if measured.runs:
        _require_runs(measured)
        fit = cost.fit_own_runs(measured, name=called, base=before)
        files.write_runs_calibration(fit.calibration, fit.before, fit.after, fit.left_out, path, force=force)
        _show_runs_fit(fit, json=json, file=str(path))
        return
    fit_to_steps = cost.fit_calibration(measured.measurements, measured.gpus, measured.models, name=called, base=before)
    steps = cost.with_bands(fit_to_steps)
    files.write_calibration(steps, path, force=force)
    _show_fit(steps, json=json, file=str(path))


def _require_engines(measured: "Evidence") -> None:
    """A pace is that of an engine: which one is asked for, never guessed."""
    steps = [f"row {m.row}" for m in measured.measurements if not m.engine]
    rows = steps + [f"{k.run.file}: row {k.run.row}" for k in measured.runs if not k.run.engine]
    if rows:
        more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
        raise InputError(
            f"engine: must be told of every measurement, is not of {', '.join(rows[:_SHOWN])}{more}.",
            hint="Give --engine vllm (or sglang, trt, atom), or name it in a column `engine`.",
        )


_SHOWN = 3


def _require_runs(measured: "Evidence") -> None:
    """Every run must be of a GPU type and a model that are known: a fit leaves nothing out silently."""
    faults = [f"{k.run.file}: row {k.run.row}: {k.reason}" for k in measured.runs if k.reason]
    if faults:
        raise InputError(" ".join(faults[:5]), hint="Correct the names or the degrees, or leave the runs out.")


def _show_runs_fit(fit: "RunsFit", *, json: bool, file: str) -> None:
    means = {which: _mean(getattr(fit, which)) for which in ("before", "after", "left_out")}
    if json:
        figures = [_figure(*pair) for pair in zip(fit.before, fit.after, strict=True)]
        screen.show_json(_document(fit.calibration, file, means) | {"figures": figures})
        return
    columns = ("file", "row", "figure", "measured", "before the fit", "after")
    rows = [
        (
            after.run.file.rsplit("/", 1)[-1],
            after.run.row,
            after.kind,
            f"{after.measured:,.4g}",
            f"{before.rate_error:+.1%}",
            f"{after.rate_error:+.1%}",
        )
        for before, after in zip(fit.before, fit.after, strict=True)
    ]
    screen.show_table(f"Calibration {fit.calibration.name}", columns, rows)
    left_out = f", {means['left_out']:.1%} left out" if fit.left_out else "; one run alone: none is left out"
    screen.show_prose(
        f"mean absolute error of rates: {means['before']:.1%} before, {means['after']:.1%} after the fit{left_out}"
    )
    _show_factors(fit.calibration)
    for band in fit.calibration.bands:
        screen.show_prose(
            f"band of {band.model} on {band.gpu} in {band.phase}: {band.low:.0%} to {band.high:.0%} of the estimate "
            f"({band.points} left-out figures)"
        )
    screen.show_text(f"written: {file}")


def _mean(figures: "tuple[JudgedFigure, ...]") -> float | None:
    errors = [min(1.0, abs(figure.rate_error)) for figure in figures]
    return sum(errors) / len(errors) if errors else None


def _figure(before: "JudgedFigure", after: "JudgedFigure") -> dict[str, object]:
    return {
        "file": after.run.file,
        "row": after.run.row,
        "metric": str(after.metric),
        "measured": after.measured,
        "before": before.predicted,
        "after": after.predicted,
        "reason": after.reason,
    }


def _document(calibration: "Calibration", file: str, means: Mapping[str, float | None]) -> dict[str, object]:
    """What every fit tells as JSON."""
    return {
        "calibration": calibration.name,
        "file": file,
        "factors": {f"{f.name}.{f.family}": f.value for f in calibration.factors},
        "mean_absolute_error": means,
    }


def _show_factors(calibration: "Calibration") -> None:
    for factor in calibration.factors:
        unit = "" if factor.unit == "1" else f" {factor.unit}"
        screen.show_prose(f"{factor.name} ({factor.family}): {factor.value:.4f}{unit}; {factor.provenance}")


def _show_fit(fit: "CalibrationFit", *, json: bool, file: str) -> None:
    from planner import cost

    means = {which: fit.mean_error(which) for which in ("before", "after", "left_out")}
    if json:
        points = [_point(p) for p in fit.points]
        screen.show_json(_document(fit.calibration, file, means) | {"points": points})
        return
    columns = ("measurement", "measured tokens/s per GPU", "predicted", "before the fit", "after", "left out")
    rows = [
        (
            p.measurement.label,
            round(p.measurement.tokens_per_s_per_gpu),
            round(p.measurement.tokens_per_s_per_gpu * p.measurement.ms / p.after_ms),
            f"{p.before_error:+.1%}",
            f"{p.after_error:+.1%}",
            f"{p.left_out_error:+.1%}" if p.measurement.fitted else "not fitted",
        )
        for p in fit.points
    ]
    screen.show_table(f"Calibration {fit.calibration.name}", columns, rows)
    screen.show_prose(
        f"mean absolute error of the fitted points: {means['before']:.1%} before, {means['after']:.1%} after the fit, "
        f"{means['left_out']:.1%} left out"
    )
    _show_factors(fit.calibration)
    screen.show_text(f"written: {file}")
    for warning in cost.doubts(fit):
        screen.show_warning(warning)


def _point(p: "JudgedMeasurement") -> dict[str, object]:
    return {
        "row": p.measurement.row,
        "measurement": p.measurement.label,
        "fitted": p.measurement.fitted,
        "measured_ms": p.measurement.ms,
        "before_ms": p.before_ms,
        "after_ms": p.after_ms,
        "before_error": p.before_error,
        "after_error": p.after_error,
        "left_out_error": p.left_out_error if p.measurement.fitted else None,
        "source": p.measurement.source,
    }
