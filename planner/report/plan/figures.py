"""The figures of a plan, by name. matplotlib is loaded with the first figure, not with this file."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from planner.domain import Plan
from planner.report.buckets.view import simplicity_plot, useful_simpler
from planner.report.kit.plots import Plot, require_figure
from planner.report.plan.importance import importance_of
from planner.report.plan.routing_plots import length_plots, mix_plots, rate_plots, share_plots
from planner.report.plan.search import parameter_plots, pareto_plots, search_plots, slice_plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = ("routing", "throughput", "mix", "islands", "search")
"""Figures that can be drawn of every plan."""

SIMPLICITY = "simplicity"
"""Of plans of buckets."""

PARAMETERS = ("importance", "slices")
"""Of plans that searched: what the trials tell of the search's parameters."""

ACROSS = 3
"""Parameters beside each other."""

PARETO = "pareto"
PLACEMENT = "placement"

_WANTING = {
    SIMPLICITY: "Plan with routing.form buckets.",
    **dict.fromkeys(
        PARAMETERS,
        "Its layout was solved for, or too few layouts were tried: plan with routing.form table and a search.method "
        "such as divider.",
    ),
    PARETO: "Plan with objective.kind pareto.",
    PLACEMENT: "Place the plan on a cluster.",
}


def figures_of(plan: Plan) -> tuple[str, ...]:
    """The names of the plan's figures that show something: a search of one trial, buckets of which there is one, and
    what the plan has not, are left out."""
    shown = {
        "search": len(plan.search.trials) > 1,
        "routing": len({route.range_start for route in plan.routing}) > 1,
        SIMPLICITY: len(useful_simpler(plan)) > 1,
        **dict.fromkeys(PARAMETERS, bool(importance_of(plan))),
        PARETO: bool(plan.search.frontier),
        PLACEMENT: bool(plan.placement),
    }
    return tuple(name for name in (*FIGURES, *_WANTING) if shown.get(name, True))


def figure(plan: Plan, name: str) -> "Figure":
    """The figure `name`, one of FIGURES or `figures_of(plan)`, as a matplotlib Figure on an Agg canvas.

    Raises InputError for another name.
    """
    names = tuple(dict.fromkeys((*FIGURES, *figures_of(plan))))
    require_figure(name, names, _WANTING)
    from planner.report.kit.style import look  # noqa: PLC0415  # matplotlib takes a second to load

    if name in _PLOTS:
        return _still(plan, name)
    with look():
        return _drawings()[name](plan)


def _drawings() -> "dict[str, Callable[[Plan], Figure]]":
    """Pictures that are no plots."""
    from planner.report.cluster import placement_figure  # noqa: PLC0415  # matplotlib, as above
    from planner.report.plan import islands_figure  # noqa: PLC0415

    return {"islands": islands_figure.draw, PLACEMENT: placement_figure.draw}


def _still(plan: Plan, name: str) -> "Figure":
    from planner.report.kit.stills import still_of_plan  # noqa: PLC0415  # matplotlib, as above

    words, plots, nothing = _PLOTS[name]
    if plan.form.row.pooled:
        words = _OF_POOLS.get(name, words)
    elif name == "mix" and len(plots(plan)) == 1:
        words = "served mix equals the workload's"
    return still_of_plan(plan, words, plots(plan), nothing, across=ACROSS if name == PARAMETERS[1] else 1)


def _mix(plan: Plan) -> tuple[Plot, ...]:
    return length_plots(plan) if plan.form.row.pooled else mix_plots(plan)


_UNROUTED = "no requests are routed"
_PLOTS: "Mapping[str, tuple[str, Callable[[Plan], tuple[Plot, ...]], str]]" = {
    "search": ("throughput of the layouts tried", search_plots, "no search was made"),
    "routing": ("who serves which prompts", share_plots, _UNROUTED),
    "throughput": ("requests served per range", rate_plots, _UNROUTED),
    "mix": ("served mix against the workload's", _mix, _UNROUTED),
    SIMPLICITY: ("what a simpler plan would serve", lambda plan: (simplicity_plot(plan),), ""),
    PARAMETERS[0]: ("what the search's parameters explain", parameter_plots, ""),
    PARAMETERS[1]: ("rate of the layouts tried over each parameter", slice_plots, ""),
    PARETO: ("layouts that no other beats in every goal", pareto_plots, ""),
}
"""Figure -> what it shows, its plots, and why it may have none."""
_OF_POOLS = {"throughput": "what each bucket's pools could serve", "mix": "prompts by length, and their buckets"}
