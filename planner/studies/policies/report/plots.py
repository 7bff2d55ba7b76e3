"""Plots of online policies over all that arrives: power saved, GPUs held, fragments, the baseline's power."""

from collections.abc import Mapping, Sequence

from planner.report.kit.html.plots import Kind, Plot, Series, series_of
from planner.studies.policies.means import savings
from planner.studies.policies.report.curves import PolicyCurve, PolicyRuns, policy_curves

ARRIVED = "GPU capacity asked for (% of the cluster)"
_FIGURES = (
    ("grar", "GPUs held over GPUs asked for", "GPUs held / asked for (GRAR)", 1.0),
    ("allocation_percent", "GPUs held", "GPUs held (% of the cluster)", 1.0),
    ("fragmentation_percent", "Idle GPUs that no pod of the trace can use", "idle and of no use (% of all GPUs)", 1.0),
    ("power_w", "Power drawn", "power (kW)", 1e-3),
)


def policy_plots(runs: PolicyRuns, baseline: str, *, trace: str = "", rest: str = "metrics.csv") -> tuple[Plot, ...]:
    """Power saved against the baseline where several policies ran, and each figure of all of them.

    `trace`: its name, where a page has plots of several. InputError: a policy without runs, an unknown baseline.
    """
    curves = policy_curves(runs, baseline)
    suffix, of = (f"-{trace}", f": {trace}") if trace else ("", "")
    saved = [_saved(curves, baseline, suffix, of, rest)] if len(curves) > 1 else []
    return (*saved, *(_figure(curves, row, suffix, of, rest) for row in _FIGURES))


def trace_plots(traces: Mapping[str, PolicyRuns], baseline: str) -> tuple[Plot, ...]:
    """Savings and GRAR of every trace."""
    plots = [
        plot for name, runs in traces.items() for plot in policy_plots(runs, baseline, trace=name, rest="the CSVs")
    ]
    return tuple(plot for plot in plots if plot.name.startswith(("saved", "grar")))


def _saved(curves: Mapping[str, PolicyCurve], baseline: str, suffix: str, of: str, rest: str) -> Plot:
    base = curves[baseline]
    series = [
        Series(name=curve.title, x=tuple(map(float, saved)), y=tuple(saved.values()), place=place)
        for place, (label, curve) in enumerate(curves.items())
        if label != baseline
        for saved in [savings(base.means, curve.means)]
    ]
    return Plot(
        name=f"saved{suffix}",
        title=f"Power saved against {base.title}{of}",
        says="Above 0 a policy draws less than the baseline at the same load.",
        kind=Kind.LINES,
        x=ARRIVED,
        y="power saved (%)",
        series=tuple(series),
        bounds=((base.title, 0.0),),
        rest=rest,
    )


def _figure(
    curves: Mapping[str, PolicyCurve], row: tuple[str, str, str, float], suffix: str, of: str, rest: str
) -> Plot:
    name, title, unit, factor = row
    return Plot(
        name=f"{name.replace('_', '-')}{suffix}",
        title=f"{title}{of}",
        says="Means over the seeds, a line a policy.",
        kind=Kind.LINES,
        x=ARRIVED,
        y=unit,
        series=tuple(_line(curve, name, factor, place) for place, curve in enumerate(curves.values())),
        rest=rest,
    )


def _line(curve: PolicyCurve, name: str, factor: float, place: int) -> Series:
    values: Sequence[float] = (factor * curve.values(name)).tolist()
    return series_of(curve.title, list(zip(map(float, curve.percents), values, strict=True)), place=place)
