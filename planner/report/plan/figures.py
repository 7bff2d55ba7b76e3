"""The figures of a plan, by name. matplotlib is loaded with the first figure, not with this file."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from planner.domain import Plan
from planner.errors import InputError
from planner.report.buckets.plots import simplicity_plot
from planner.report.buckets.view import useful_simpler
from planner.report.plan.importance import importance_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = ("routing", "throughput", "mix", "islands", "search")
"""Figures that can be drawn of every plan."""

SIMPLICITY = "simplicity"
"""Of plans of buckets."""

PARAMETERS = ("importance", "slices")
"""Of plans that searched: what the trials tell of the search's parameters."""

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
    if name not in names:
        raise InputError(
            f"Figure: the name must be one of {', '.join(names)}, got {name!r}.",
            hint=_WANTING.get(name, "Choose one of these names."),
        )
    from planner.report.kit.style import look  # noqa: PLC0415  # matplotlib takes a second to load

    with look():
        return (_drawings() | (_bucket_drawings() if plan.outlook.pools else {}))[name](plan)


def _drawings() -> "dict[str, Callable[[Plan], Figure]]":
    from planner.report.cluster import placement_figure  # noqa: PLC0415  # matplotlib, as above
    from planner.report.comparison import pareto_figure  # noqa: PLC0415
    from planner.report.plan import (  # noqa: PLC0415
        importance_figures,
        islands_figure,
        mix_figure,
        routing_figures,
        search_figure,
    )

    return {
        "search": search_figure.draw,
        "routing": routing_figures.draw_shares,
        "throughput": routing_figures.draw_rates,
        "mix": mix_figure.draw,
        "islands": islands_figure.draw,
        PARAMETERS[0]: importance_figures.draw_importance,
        PARAMETERS[1]: importance_figures.draw_slices,
        PARETO: pareto_figure.draw,
        PLACEMENT: placement_figure.draw,
    }


def _bucket_drawings() -> "dict[str, Callable[[Plan], Figure]]":
    """What is drawn otherwise of pools behind buckets, and of them alone."""
    from planner.report.buckets import bucket_figures, mix_figure  # noqa: PLC0415  # as above
    from planner.report.kit.stills import still_of_plan  # noqa: PLC0415

    return {
        "routing": bucket_figures.draw_shares,
        "throughput": bucket_figures.draw_rates,
        "mix": mix_figure.draw,
        SIMPLICITY: lambda plan: still_of_plan(plan, "what a simpler plan would serve", (simplicity_plot(plan),)),
    }
