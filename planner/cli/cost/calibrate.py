"""`planner cost calibrate` and `planner cost accuracy`: the model against measurements."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.cost import options as cost_options

if TYPE_CHECKING:
    from planner.domain import CalibrationFit, JudgedMeasurement


def calibrate_command(
    measurements: Annotated[Path, typer.Argument(help="A CSV: gpu, model, phase, tp, dp, ep, length, batch, ms.")],
    out: Annotated[
        Path | None, typer.Option(help="Calibration file. [default: NAME.calibration.yaml beside the CSV]")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the calibration. [default: the CSV's]")] = None,
    base: Annotated[Path | None, typer.Option(help="A calibration to start from. [default: built in]")] = None,
    model: cost_options.Models = None,
    force: cost_options.Force = False,
    json: cost_options.Json = False,
) -> None:
    """Fit the efficiency factors to measured step times, and write them for scenarios to name (cost.calibration)."""
    from planner import cost, files

    called = name or measurements.stem
    path = out or measurements.with_name(f"{called}.calibration.yaml")
    files.refuse_existing(path, force=force)
    rows = files.load_measurements(measurements)
    gpus, models = files.measured_records(rows, str(measurements), cost_options.models(model))
    before = files.load_calibration(base) if base else None
    fit = cost.with_bands(cost.fit_calibration(rows, gpus, models, name=called, base=before))
    files.write_calibration(fit, path, force=force)
    _show_fit(fit, json=json, file=str(path))


def accuracy_command(
    measurements: Annotated[
        Path | None, typer.Argument(help="A CSV of measurements. [default: the published ones]")
    ] = None,
    model: cost_options.Models = None,
    figure: cost_options.FigureFile = None,
    force: cost_options.Force = False,
    json: cost_options.Json = False,
) -> None:
    """How far predictions are from measurements: fitted, and each point left out of its own fit."""
    from planner import cost, files, report
    from planner.domain import Origin

    if measurements is None:
        rows = files.load_published_measurements()
        gpus, models = files.measured_records(rows, "published measurements")
        fit = cost.fit_calibration(
            rows, gpus, models, name="published", origin=Origin.PUBLISHED, base=cost.UNFITTED, free=cost.PUBLISHED_FREE
        )
    else:
        rows = files.load_measurements(measurements)
        gpus, models = files.measured_records(rows, str(measurements), cost_options.models(model))
        fit = cost.fit_calibration(rows, gpus, models, name=measurements.stem)
    cost_options.draw(figure, lambda: report.accuracy_figure(fit), force=force)
    _show_fit(fit, json=json)


def _show_fit(fit: "CalibrationFit", *, json: bool, file: str | None = None) -> None:
    from planner import cost

    means = {which: fit.mean_error(which) for which in ("before", "after", "left_out")}
    if json:
        screen.show_json(
            {
                "calibration": fit.calibration.name,
                "file": file,
                "factors": {f"{f.name}.{f.family}": f.value for f in fit.calibration.factors},
                "mean_absolute_error": means,
                "points": [_point(p) for p in fit.points],
            }
        )
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
    screen.show_text(
        f"mean absolute error of the fitted points: {means['before']:.1%} before, {means['after']:.1%} after the fit, "
        f"{means['left_out']:.1%} left out"
    )
    for factor in fit.calibration.factors:
        unit = "" if factor.unit == "1" else f" {factor.unit}"
        screen.show_text(f"{factor.name} ({factor.family}): {factor.value:.4f}{unit}; {factor.provenance}")
    if file:
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
