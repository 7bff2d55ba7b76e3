"""Which islands of a given layout do what, where bounds on TTFT make queues count.

maximise lambda subject to the rows of `island_options`; the stocks are the islands of each class, and a role takes one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pulp

from planner.assignment.island_options import IslandOption, island_rows
from planner.assignment.layout_options import IslandKind
from planner.domain import AssignmentSettings, Layout
from planner.milp import solve

GAP = 0.005  # at least: a plan's own gap may be wider


def choose_roles(
    kinds: Sequence[IslandKind],
    layout: Layout,
    probabilities: Sequence[float],
    settings: AssignmentSettings,
    *,
    better_than_rps: float = 0.0,
) -> Layout | None:
    """The islands of `layout` in the roles that serve the mix fastest; those left out keep none.

    None where even fractions of islands would serve no more than `better_than_rps`. Raises as `solve` does.
    """
    problem = _opened(kinds, layout, probabilities)
    # Of most layouts a search asks about this linear programme is the end.
    if not _relaxed_rps(problem, settings) > better_than_rps:
        return None
    _set_category(problem.islands, pulp.LpInteger)
    solve(problem.model, replace(settings, gap=max(settings.gap, GAP)))
    return _in_roles(layout, problem.options, [round(variable.varValue or 0) for variable in problem.islands])


def fractional_rps(
    kinds: Sequence[IslandKind], layout: Layout, probabilities: Sequence[float], settings: AssignmentSettings
) -> float:
    """What fractions of the islands of `layout` would serve in these roles (requests/s). Raises as `solve` does."""
    return _relaxed_rps(_opened(kinds, layout, probabilities), settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Roles:
    """The programme: its variables by option."""

    model: pulp.LpProblem
    rate: pulp.LpVariable
    options: list[IslandOption]
    islands: list[pulp.LpVariable]


def _opened(kinds: Sequence[IslandKind], layout: Layout, probabilities: Sequence[float]) -> _Roles:
    """Of `kinds` those of the classes of `layout`."""
    places = {island: k for k, (island, _) in enumerate(layout.counts)}
    options = [
        IslandOption(stock=places[kind.island.plain], use=1, kind=kind) for kind in kinds if kind.island.plain in places
    ]
    model, rate = pulp.LpProblem("roles", pulp.LpMaximize), pulp.LpVariable("rate", lowBound=0)
    model.setObjective(1 * rate)
    islands = island_rows(model, options, [count for _, count in layout.counts], probabilities, rate)
    return _Roles(model=model, rate=rate, options=options, islands=islands)


def _relaxed_rps(problem: _Roles, settings: AssignmentSettings) -> float:
    _set_category(problem.islands, pulp.LpContinuous)
    solve(problem.model, settings)
    return float(problem.rate.varValue or 0.0)


def _set_category(islands: Sequence[pulp.LpVariable], category: str) -> None:
    for variable in islands:
        variable.cat = category


def _in_roles(layout: Layout, options: Sequence[IslandOption], numbers: Sequence[int]) -> Layout:
    counts = Counter(dict(layout.counts))
    islands = [o.kind.island for o, n in zip(options, numbers, strict=True) for _ in range(n)]
    counts.subtract(island.plain for island in islands)
    return Layout.of([*islands, *counts.elements()])
