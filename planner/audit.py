"""An independent look at a finished plan: it knows the plan's own rows and not how they were found.

Raises InconsistentPlanError; a plan that breaks an invariant never leaves the program.
"""

from collections import defaultdict
from collections.abc import Iterator

from planner.domain import Phase, Plan, PlannedIsland, Route, Workload
from planner.errors import InconsistentPlanError

TOLERANCE = 1e-6  # comparisons below are written as "not within", so that a NaN fails them


def audit(plan: Plan, workload: Workload) -> None:
    """Check inventory, parallel degrees, shares, coverage, rates and time of every island."""
    for broken in _violations(plan, workload):
        raise InconsistentPlanError(
            f"plan {plan.scenario.name}: {broken}.", hint="This is a defect of the planner; please report it."
        )


def _violations(plan: Plan, workload: Workload) -> Iterator[str]:
    yield from _inventory(plan)
    yield from _islands(plan)
    for phase in Phase:
        yield from _coverage(plan, workload, phase)
    yield from _time(plan)
    yield from _totals(plan)


def _inventory(plan: Plan) -> Iterator[str]:
    """No type has more GPUs in islands than in the inventory."""
    used: dict[str, int] = defaultdict(int)
    for island in plan.islands:
        used[island.gpu] += island.size
    for item in plan.scenario.inventory.items:
        if used[item.gpu.name] > item.count:
            yield f"islands hold {used[item.gpu.name]} {item.gpu.name}, the inventory {item.count}"
    for gpu in used.keys() - {item.gpu.name for item in plan.scenario.inventory.items}:
        yield f"islands hold {gpu}, which is not in the inventory"
    prices = {item.gpu.name: item.price_usd_per_gpu_hour for item in plan.scenario.inventory.items}
    for island in plan.islands:
        if not _close(island.price_usd_per_hour, prices.get(island.gpu, 0.0) * island.size):
            yield f"island {island.id}: its price is not that of its GPUs"


def _islands(plan: Plan) -> Iterator[str]:
    """Names are unique and degrees multiply to the size."""
    names = [island.id for island in plan.islands]
    if len(set(names)) < len(names):
        yield "two islands share a name"
    for island in plan.islands:
        if (island.phase is None) != (island.parallel is None):
            yield f"island {island.id} has a phase without degrees, or degrees without a phase"
        if island.parallel and island.parallel.size != island.size:
            yield f"island {island.id}: degrees multiply to {island.parallel.size} GPUs, it has {island.size}"


def _coverage(plan: Plan, workload: Workload, phase: Phase) -> Iterator[str]:
    """Every range of the workload is served in `phase`, shares sum to 1, rates to its part of the throughput."""
    rows: dict[int, list[Route]] = defaultdict(list)
    for route in plan.routing:
        if route.phase is phase:
            rows[route.range_start].append(route)
    for span in workload.ranges:
        mine = rows.pop(span.start, [])
        if not all(route.range_end == span.end and _close(route.probability, span.probability) for route in mine):
            yield f"{phase} routes of {span.label} tokens have another end or probability than the workload"
        if not abs(sum(route.share for route in mine) - 1) <= TOLERANCE:
            yield f"{phase} shares of {span.label} tokens sum to {sum(r.share for r in mine):.6g}, not 1"
        if not all(0 < route.share <= 1 + TOLERANCE for route in mine):
            yield f"a {phase} share of {span.label} tokens lies outside (0, 1]"
        due = plan.throughput_rps * span.probability
        if not sum(route.rate_rps for route in mine) >= due * (1 - TOLERANCE):
            yield f"{phase} of {span.label} tokens serves less than {due:.6g} requests/s"
    if rows:
        yield f"{phase} routes prompts of lengths that the workload does not have"


def _time(plan: Plan) -> Iterator[str]:
    """Each route goes to an island of its phase, and no island is busy beyond its time."""
    islands = {island.id: island for island in plan.islands}
    busy: dict[str, float] = defaultdict(float)
    for route in plan.routing:
        if not _serves(islands.get(route.island), route):
            yield f"a {route.phase} route goes to {route.island}, which does not {route.phase}"
        busy[route.island] += route.rate_rps / route.capacity_rps
    for name, share in busy.items():
        if not share <= 1 + TOLERANCE:
            yield f"island {name} is busy {share:.6g} of its time"


def _totals(plan: Plan) -> Iterator[str]:
    """What the plan says of itself and of each island is what its routes add up to."""
    if not _close(plan.throughput_rps, min(plan.prefill_rps, plan.decode_rps)):
        yield "throughput is not the lower of prefill and decode"
    best = [trial.throughput_rps for trial in plan.search.trials if trial.index == plan.search.best_trial]
    if len(best) != 1 or not _close(best[0], plan.throughput_rps):
        yield f"trial {plan.search.best_trial} is not the plan's"
    by_island: dict[str, list[Route]] = defaultdict(list)
    for route in plan.routing:
        by_island[route.island].append(route)
    for island in plan.islands:
        mine = by_island[island.id]
        if not _close(island.rate_rps, sum(route.rate_rps for route in mine)):
            yield f"island {island.id}: rate is not the sum of its routes"
        if not _close(island.utilisation, sum(route.rate_rps / route.capacity_rps for route in mine)):
            yield f"island {island.id}: utilisation is not that of its routes"
        if island.batch_size != max((route.batch_size for route in mine), default=0):
            yield f"island {island.id}: batch size is not the largest of its routes"
        if island.longest_prompt != max((route.range_end - 1 for route in mine), default=0):
            yield f"island {island.id}: longest prompt is not the longest of its routes"


def _close(found: float, due: float) -> bool:
    return abs(found - due) <= TOLERANCE * max(1.0, abs(due))


def _serves(island: PlannedIsland | None, route: Route) -> bool:
    return island is not None and island.phase is route.phase
