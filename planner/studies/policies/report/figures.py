"""Figures of online policies: those of the PWR paper for any trace, and the whole set for its seven traces.

matplotlib is loaded with the first figure, not with this file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.studies.policies.report.curves import PolicyRuns, combines_power, policy_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    from planner.studies.policies.report import panels as policy_panels  # matplotlib takes a second to load

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
