"""The figures of a plan, by name. matplotlib is loaded with the first figure, not with this file."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from planner.domain import Plan
from planner.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = ("search", "routing", "throughput", "mix", "islands")
"""Figures that every plan has."""

PARETO = "pareto"
PLACEMENT = "placement"

_WANTING = {PARETO: "Plan with objective.kind pareto.", PLACEMENT: "Place the plan on a cluster."}


def figures_of(plan: Plan) -> tuple[str, ...]:
    """The names of the plan's figures: those of a frontier and of a placement only where there is one."""
    frontier = (PARETO,) if plan.search.frontier else ()
    return (*FIGURES, *frontier, *((PLACEMENT,) if plan.placement else ()))


def figure(plan: Plan, name: str) -> "Figure":
    """The figure `name`, one of `figures_of(plan)`, as a matplotlib Figure on an Agg canvas.

    Raises InputError for another name.
    """
    names = figures_of(plan)
    if name not in names:
        raise InputError(
            f"Figure: the name must be one of {', '.join(names)}, got {name!r}.",
            hint=_WANTING.get(name, "Choose one of these names."),
        )
    from planner.report.kit.style import look  # noqa: PLC0415  # matplotlib takes a second to load

    with look():
        return _drawings()[name](plan)


def _drawings() -> "dict[str, Callable[[Plan], Figure]]":
    from planner.report.cluster import placement_figure  # noqa: PLC0415  # matplotlib, as above
    from planner.report.comparison import pareto_figure  # noqa: PLC0415
    from planner.report.plan import islands_figure, mix_figure, routing_figures, search_figure  # noqa: PLC0415

    return {
        "search": search_figure.draw,
        "routing": routing_figures.draw_shares,
        "throughput": routing_figures.draw_rates,
        "mix": mix_figure.draw,
        "islands": islands_figure.draw,
        PARETO: pareto_figure.draw,
        PLACEMENT: placement_figure.draw,
    }
