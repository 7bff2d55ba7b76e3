"""How fast the servers of an interval are to each other, as the plan has it: what a router that counts requests weighs
them by, and which of them are equal to one that cannot.

symbol   meaning                                                                  unit        source
w        of the plan's pool, of one server                                        of 1        `BucketPool.weight`
p, s     a range's part of all requests; an island's share of the range           0..1        the plan's routes
t        step of the island's engines at the batch that the plan counts on        ms          `Route.step_ms`
load     prefill, and both phases in one: sum of p s over the ranges              of 1
         decode: sum of p s t over the ranges, as parts of all islands' sum       of 1

Where the plan was made for a router that counts for weights, a server's weight is w; else its load. By least requests
for the weight, servers hold requests as their weights are: a decode server answers for as long as its steps take, so
that by Little's law it holds rate x time, and prefill servers that are loaded alike let prompts wait alike and hold
them as their rates are. Both then take the plan's shares at the plan's rate. Where shares are meant as they are,
requests go in turn, and t counts 1.
"""

from collections.abc import Mapping, Sequence
from math import isfinite

from planner.domain import Phase, Plan, Route
from planner.export.routers.intervals import covering_routes
from planner.export.routers.intervals_served import ServedInterval
from planner.export.summary import balanced

EQUAL_WITHIN = 0.05
"""Servers whose loads differ by no more are equal: the weights of one program would not tell them apart better than the
step times, which a calibration knows to a few percent."""


def island_loads(plan: Plan, interval: ServedInterval, phase: Phase) -> dict[str, float]:
    """Island -> its load, of all that take the interval's prompts in `phase`."""
    routes = [
        route
        for route in covering_routes(plan)
        if route.phase is phase
        and route.share > 0
        and route.range_start < interval.end
        and interval.start < route.range_end
    ]
    loads: dict[str, float] = {}
    for route in routes:
        loads[route.island] = loads.get(route.island, 0.0) + _load(route, routes, timed=balanced(plan))
    total = sum(loads.values())
    return {name: load / total for name, load in loads.items()}


def weighed_loads(plan: Plan, loads: Mapping[str, float]) -> dict[str, float]:
    """The loads of some islands, in all as much, parted as a program that counts weighs them: by the weights of the
    plan's pools, where it has any of all."""
    weights = {pool.island: pool.count * pool.weight for pool in plan.outlook.pools if pool.island in loads}
    if not weights or len(weights) < len(loads) or not all(weights.values()):
        return dict(loads)
    scale = sum(loads.values()) / sum(weights.values())
    return {name: scale * weights[name] for name in loads}


def _load(route: Route, routes: Sequence[Route], *, timed: bool) -> float:
    """What a route adds; its ranges count alike where the trace has no prompts in them, and steps where one is no
    time."""
    part = route.probability if any(other.probability > 0 for other in routes) else 1.0
    timed = (
        timed and route.phase is Phase.DECODE and all(isfinite(other.step_ms) and other.step_ms > 0 for other in routes)
    )
    return part * route.share * (route.step_ms if timed else 1.0)


def server_counts(plan: Plan, *, ranks: bool) -> dict[str, int]:
    """Island -> its servers; where `ranks` are told apart, each of its attention ranks is one."""
    shapes = {island.id: island.parallel for island in plan.islands if island.parallel is not None}
    return {name: parallel.replicas * (parallel.dp if ranks else 1) for name, parallel in shapes.items()}


def equal_groups(loads: Mapping[str, float], counts: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """The islands of `loads` (of all of an island's servers), those whose servers are equally fast together, the
    fastest first. `counts`: servers of each island."""
    each = {name: load / max(1, counts.get(name, 1)) for name, load in loads.items()}
    groups: list[list[str]] = []
    for name in sorted(each, key=lambda name: -each[name]):
        if groups and each[name] >= (1 - EQUAL_WITHIN) * each[groups[-1][0]]:
            groups[-1].append(name)
        else:
            groups.append([name])
    return tuple(tuple(name for name in loads if name in group) for group in groups)
