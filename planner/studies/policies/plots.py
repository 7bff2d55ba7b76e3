"""Plots and figures of online policies: power saved, GPUs held, fragments; those of the PWR paper for any trace.

matplotlib is loaded with the first figure, not with this file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.report.kit.plots import Kind, Plot, Series, series_of
from planner.studies.policies.means import PolicyCurve, PolicyRuns, combines_power, policy_curves, savings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ARRIVED = "GPU capacity asked for (% of the cluster)"
_FIGURES = (
    ("grar", "GPUs held over GPUs asked for", "GPUs held / asked for (GRAR)", 1.0),
    ("allocation_percent", "GPUs held", "GPUs held (% of the cluster)", 1.0),
    ("fragmentation_percent", "Idle GPUs that no pod of the trace can use", "idle and of no use (% of all GPUs)", 1.0),
    ("power_w", "Power drawn", "power (kW)", 1e-3),
)


def policy_plots(
    runs: PolicyRuns, baseline: str, *, trace: str = "", rest_file: str = "metrics.csv"
) -> tuple[Plot, ...]:
    """Power saved against the baseline where several policies ran, and each figure of all of them.

    `trace`: its name, where a page has plots of several. InputError: a policy without runs, an unknown baseline.
    """
    curves = policy_curves(runs, baseline)
    suffix, of = (f"-{trace}", f": {trace}") if trace else ("", "")
    saved = [_saved(curves, baseline, suffix, of, rest_file)] if len(curves) > 1 else []
    return (*saved, *(_figure(curves, row, suffix, of, rest_file) for row in _FIGURES))


def trace_plots(traces: Mapping[str, PolicyRuns], baseline: str) -> tuple[Plot, ...]:
    """Savings and GRAR of every trace."""
    plots = [
        plot for name, runs in traces.items() for plot in policy_plots(runs, baseline, trace=name, rest_file="the CSVs")
    ]
    return tuple(plot for plot in plots if plot.name.startswith(("saved", "grar")))


def _saved(curves: Mapping[str, PolicyCurve], baseline: str, suffix: str, of: str, rest_file: str) -> Plot:
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
        rest=rest_file,
    )


def _figure(
    curves: Mapping[str, PolicyCurve], row: tuple[str, str, str, float], suffix: str, of: str, rest_file: str
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
        rest=rest_file,
    )


def _line(curve: PolicyCurve, name: str, factor: float, place: int) -> Series:
    values: Sequence[float] = (factor * curve.values(name)).tolist()
    return series_of(curve.title, list(zip(map(float, curve.percents), values, strict=True)), place=place)


POLICY_FIGURES = ("power", "combinations", "savings", "grar", "allocation", "fragmentation")
"""What can be drawn of a trace. `power`: the baseline's, CPUs and GPUs; `combinations`: PWR and its mixtures with FGD,
savings and GRAR; `savings` and `grar` of all policies; `allocation` and `fragmentation` over all that arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFigure:
    """A figure of the PWR paper: which of POLICY_FIGURES, and of which traces of openb."""

    kind: str
    traces: tuple[str, ...]


PAPER_FIGURES = {
    "figure-01": PaperFigure(kind="power", traces=("default",)),
    "figure-02": PaperFigure(kind="combinations", traces=("default",)),
    "figure-03": PaperFigure(kind="savings", traces=("default",)),
    "figure-04": PaperFigure(kind="savings", traces=("gpushare100",)),
    "figure-05": PaperFigure(kind="savings", traces=("multigpu20", "multigpu50")),
    "figure-06": PaperFigure(kind="savings", traces=("gpuspec10", "gpuspec33")),
    "figure-07": PaperFigure(kind="grar", traces=("default",)),
    "figure-08": PaperFigure(kind="grar", traces=("gpushare40", "gpushare100")),
    "figure-09": PaperFigure(kind="grar", traces=("multigpu20", "multigpu50")),
    "figure-10": PaperFigure(kind="grar", traces=("gpuspec10", "gpuspec33")),
}
"""The paper's figures by number (section VI)."""


def policy_figure(kind: str, traces: Mapping[str, PolicyRuns], baseline: str) -> "Figure":
    """One of POLICY_FIGURES, a panel a trace; traces by name ("" for one that needs none).

    InputError: another kind, no trace, a baseline that did not run, no PWR among the policies of `combinations`.
    """
    from planner.report.kit import style  # matplotlib takes a second to load
    from planner.studies.policies import panels as policy_panels  # matplotlib takes a second to load

    draw = {
        "power": policy_panels.draw_power,
        "combinations": policy_panels.draw_combinations,
        "savings": policy_panels.draw_savings,
        "grar": policy_panels.draw_grar,
        "allocation": policy_panels.draw_allocation,
        "fragmentation": policy_panels.draw_fragmentation,
    }
    if kind not in draw:
        raise InputError(
            f"figure: must be one of {', '.join(POLICY_FIGURES)}, got {kind!r}.", hint="Choose one of these names."
        )
    if not traces:
        raise InputError("traces: must hold at least one entry, got none.", hint="Give the runs of one trace.")
    if not all(kind in kinds_of(runs) for runs in traces.values()):
        raise InputError(f"figure {kind}: needs runs of PWR or of PWR with FGD; there are none.", hint="Let pwr run.")
    labels = tuple(dict.fromkeys(label for runs in traces.values() for label in runs))
    panels = [
        policy_panels.TracePanel(name=name, curves=policy_curves(runs, baseline), baseline=baseline, labels=labels)
        for name, runs in traces.items()
    ]
    with style.look():
        return draw[kind](panels)


def kinds_of(runs: PolicyRuns) -> tuple[str, ...]:
    """Those of POLICY_FIGURES that can be drawn of these policies."""
    combined = any(map(combines_power, runs))
    return tuple(kind for kind in POLICY_FIGURES if combined or kind != "combinations")


def policy_figures(runs: PolicyRuns, baseline: str, *, name: str = "") -> dict[str, bytes]:
    """Every figure that a trace's runs allow as a PNG, by its name in POLICY_FIGURES."""
    return {kind: _png(kind, {name: runs}, baseline) for kind in kinds_of(runs)}


def paper_figures(traces: Mapping[str, PolicyRuns], baseline: str = "fgd") -> dict[str, bytes]:
    """Figures 1 to 10 as PNGs, by their names in PAPER_FIGURES: those whose traces are all there."""
    return {
        name: _png(figure.kind, {trace: traces[trace] for trace in figure.traces}, baseline)
        for name, figure in PAPER_FIGURES.items()
        if all(trace in traces and figure.kind in kinds_of(traces[trace]) for trace in figure.traces)
    }


def _png(kind: str, traces: Mapping[str, PolicyRuns], baseline: str) -> bytes:
    from planner.report.kit import style  # matplotlib takes a second to load

    return style.encoded(policy_figure(kind, traces, baseline))
