"""An independent look at a finished plan: it knows the plan's own rows and not how they were found.

Raises InconsistentPlanError; a plan that breaks an invariant never leaves the program.
"""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planner.cost.serving.loading import change_usd
from planner.domain import (
    PHASES,
    BucketPlan,
    BucketPool,
    Goal,
    KvFlow,
    LengthRange,
    NetworkSettings,
    Phase,
    Placement,
    Plan,
    PlannedIsland,
    Route,
    Trial,
    Workload,
    contradictions,
    halves_of,
    kv_gb,
)
from planner.domain.objective import ServerKind
from planner.errors import InconsistentPlanError
from planner.plans.claims import TOLERANCE, close, false_claims


def audit(plan: Plan, workload: Workload) -> None:
    """Check inventory, parallel degrees, shares, coverage, rates, time and network of every island."""
    for broken in _violations(plan, workload):
        raise InconsistentPlanError(
            f"plan {plan.scenario.name}: {broken}.", hint="This is a defect of the planner; please report it."
        )


def _violations(plan: Plan, workload: Workload) -> Iterator[str]:
    yield from contradictions(plan)
    yield from _inventory(plan)
    yield from _roles(plan)
    for phase in PHASES:
        yield from _coverage(plan, workload, phase)
    yield from _time(plan)
    yield from _totals(plan)
    yield from false_claims(plan)
    yield from _several_goals(plan)
    if plan.form.row.pooled:
        yield from false_pools(plan, plan.outlook)
    if plan.scenario.network is not None:
        yield from _handed_over(plan, workload)
        yield from _network(plan, plan.scenario.network)
    elif plan.flows:
        yield "it has KV flows, the scenario no network"
    if plan.placement is not None:
        yield from _placement(plan, plan.placement)


def _inventory(plan: Plan) -> Iterator[str]:
    """No type has more GPUs in islands than in the inventory."""
    used: dict[str, int] = defaultdict(int)
    for island in plan.islands:
        used[island.gpu] += island.size
    for item in plan.scenario.inventory.items:
        if used[item.gpu.name] > item.count:
            yield f"islands hold {used[item.gpu.name]} {item.gpu.name}, the inventory {item.count}"
    prices = {item.gpu.name: item.rent_usd_per_gpu_hour for item in plan.scenario.inventory.items}
    for island in plan.islands:
        if not close(island.price_usd_per_hour, prices[island.gpu] * island.size):
            yield f"island {island.id}: its price is not that of its GPUs"


def _roles(plan: Plan) -> Iterator[str]:
    """Islands with a phase have degrees, and no others."""
    for island in plan.islands:
        if (island.phase is None) != (island.parallel is None):
            yield f"island {island.id} has a phase without degrees, or degrees without a phase"


def _coverage(plan: Plan, workload: Workload, phase: Phase) -> Iterator[str]:
    """Every range of the workload is served in `phase`, shares sum to 1, rates to its part of the throughput."""
    rows: dict[int, list[Route]] = defaultdict(list)
    for route in plan.routing:
        if route.phase is phase:
            rows[route.range_start].append(route)
    for span in _spans(workload, rows):
        span_routes = rows.pop(span.start, [])
        if not all(route.range_end == span.end and close(route.probability, span.probability) for route in span_routes):
            yield f"{phase} routes of {span.label} tokens have another end or probability than the workload"
        if not abs(sum(route.share for route in span_routes) - 1) <= TOLERANCE:
            yield f"{phase} shares of {span.label} tokens sum to {sum(r.share for r in span_routes):.6g}, not 1"
        if not all(0 < route.share <= 1 + TOLERANCE for route in span_routes):
            yield f"a {phase} share of {span.label} tokens lies outside (0, 1]"
        due = plan.throughput_rps * span.probability
        if not sum(route.rate_rps for route in span_routes) >= due * (1 - TOLERANCE):
            yield f"{phase} of {span.label} tokens serves less than {due:.6g} requests/s"
    if rows:
        yield f"{phase} routes prompts of lengths that the workload does not have"


def _spans(workload: Workload, rows: Mapping[int, Sequence[Route]]) -> Iterator[LengthRange]:
    """The stretches of a phase's routes, of whole ranges each, and every range that none of them covers."""
    starts, after = [span.start for span in workload.ranges], 0
    for start, routes in sorted(rows.items()):
        end, first = max(route.range_end for route in routes), bisect_left(starts, start)
        yield from workload.ranges[after:first]
        covered = [span for span in workload.ranges[max(after, first) : bisect_left(starts, end)] if span.end <= end]
        if covered:  # else nothing is due of it, and its routes are of lengths that nobody sends
            yield replace(covered[0], start=start, end=end, probability=math.fsum(s.probability for s in covered))
        after = max(after, first) + len(covered)
    yield from workload.ranges[after:]


def _time(plan: Plan) -> Iterator[str]:
    """Each route goes to an island of its phase, and no island is busy beyond its time."""
    islands = {island.id: island for island in plan.islands}
    busy: dict[tuple[str, Phase], float] = defaultdict(float)  # passes of mixed islands do both phases at once
    for route in plan.routing:
        if not _serves(islands.get(route.island), route):
            yield f"a {route.phase} route goes to {route.island}, which does not {route.phase}"
        busy[route.island, route.phase] += route.rate_rps / route.capacity_rps
    for (name, _), share in busy.items():
        if not share <= 1 + TOLERANCE:
            yield f"island {name} is busy {share:.6g} of its time"


def _totals(plan: Plan) -> Iterator[str]:
    """What the plan says of itself and of each island is what its routes add up to."""
    if not close(plan.throughput_rps, min(plan.prefill_rps, plan.decode_rps)):
        yield "throughput is not the lower of prefill and decode"
    best = [trial.throughput_rps for trial in plan.search.trials if trial.index == plan.search.best_trial]
    if len(best) != 1 or not close(best[0], _searched_rps(plan)):
        yield f"trial {plan.search.best_trial} is not the plan's"
    by_island: dict[str, list[Route]] = defaultdict(list)
    for route in plan.routing:
        by_island[route.island].append(route)
    for island in plan.islands:
        first = Phase.PREFILL if island.phase is Phase.MIXED else island.phase  # its requests have a route in either
        island_routes = [route for route in by_island[island.id] if route.phase is first]
        if not close(island.rate_rps, sum(route.rate_rps for route in island_routes)):
            yield f"island {island.id}: rate is not the sum of its routes"
        if not close(island.utilisation, sum(route.rate_rps / route.capacity_rps for route in island_routes)):
            yield f"island {island.id}: utilisation is not that of its routes"
        if island.batch_size != max((route.batch_size for route in island_routes), default=0):
            yield f"island {island.id}: batch size is not the largest of its routes"
        if island.longest_prompt != max((route.range_end - 1 for route in island_routes), default=0):
            yield f"island {island.id}: longest prompt is not the longest of its routes"


def _searched_rps(plan: Plan) -> float:
    """The rate that the search saw: before placement, or after and less what lost work counts if it placed layouts."""
    if plan.placement is None:
        return plan.throughput_rps
    if not plan.scenario.objective.kind.row.placed:
        return plan.placement.unplaced_rps
    judged_rps = plan.placement.judged_rps
    return plan.throughput_rps if judged_rps is None else judged_rps


def _several_goals(plan: Plan) -> Iterator[str]:
    """The plan is one of the frontier and has its goals; the frontier holds what no trial beats, and no more."""
    record, goals = plan.search, plan.scenario.objective.goals
    if not plan.scenario.objective.kind.row.several:
        if record.frontier:
            yield "it has a frontier, the scenario a single goal"
        return
    served = {trial.index: trial for trial in record.trials if trial.throughput_rps > 0}
    if not set(record.frontier) <= served.keys() or record.best_trial not in record.frontier:
        yield f"trial {record.best_trial}, the plan's, or another of the frontier is not on it or serves nothing"
        return
    for trial in served.values():
        if [name for name, _ in trial.goals] != [goal.value for goal in goals]:
            yield f"trial {trial.index} has other goals than the scenario"
            return
    yield from _own_goals(plan, dict(served[record.best_trial].goals))
    front = [served[index] for index in record.frontier]
    for trial in served.values():
        on_it = trial.index in record.frontier
        if any(_beats(other, trial, goals) for other in front):
            if on_it:
                yield f"trial {trial.index} of the frontier is beaten"
        elif not on_it and not any(_beats(other, trial, goals, ties=True) for other in front):
            yield f"trial {trial.index} is not beaten and not on the frontier"


def _beats(trial: Trial, other: Trial, goals: tuple[Goal, ...], *, ties: bool = False) -> bool:
    """Whether `trial` is as good in every goal and (without `ties`) better in some."""
    signs = [1 if goal.maximised else -1 for goal in goals]
    gains = [sign * (a - b) for sign, (_, a), (_, b) in zip(signs, trial.goals, other.goals, strict=True)]
    return min(gains) >= 0 and (ties or max(gains) > 0)


def _own_goals(plan: Plan, claimed: dict[str, float]) -> Iterator[str]:
    """What the plan's trial says of its goals is what its islands come to."""
    items = plan.scenario.inventory
    serving = Counter((island.gpu, island.size, island.phase) for island in plan.islands if island.phase is not None)
    running: Counter[tuple[str, int, Phase]] = Counter()
    for current in plan.scenario.objective.current:
        running[current.gpu, current.size, current.phase] += current.count
    due = {
        Goal.RATE.value: _searched_rps(plan),
        Goal.PRICE.value: sum(island.price_usd_per_hour for island in plan.islands),
        Goal.WATTS.value: sum(items.item(island.gpu).gpu.max_w * island.size for island in plan.islands),
        Goal.CHANGES.value: max((serving - running).total(), (running - serving).total()),
    }
    if Goal.CHANGE_COST in plan.scenario.objective.goals and plan.placement is None:
        due[Goal.CHANGE_COST.value] = change_usd(plan.scenario, plan.scenario.objective.running_servers, _servers(plan))
    layout = next(trial.layout for trial in plan.search.trials if trial.index == plan.search.best_trial)
    all_placed = sum(island.size for island in plan.islands) == sum(kind.size * count for kind, count in layout.counts)
    if not all_placed:  # pools that lost servers on a cluster: their goals count these, too
        del due[Goal.PRICE.value], due[Goal.WATTS.value]
    if plan.placement is not None and (plan.placement.shortfalls or not all_placed):
        del due[Goal.CHANGES.value]  # counted as if every island found room
    for name, value in claimed.items():
        if name in due and not close(value, due[name]):
            yield f"its {name} is {due[name]:.6g}, its trial says {value:.6g}"


def _servers(plan: Plan) -> Counter[ServerKind]:
    serving = Counter[ServerKind]()
    for island in plan.islands:
        if island.phase is not None and island.parallel is not None:
            serving[island.gpu, island.phase, replace(island.parallel, replicas=1)] += island.parallel.replicas
    return serving


def _handed_over(plan: Plan, workload: Workload) -> Iterator[str]:
    """Flows add up to the routes at both of their ends, and carry the caches of their requests. Islands of both phases
    hand nothing over."""
    gb = {span.start: kv_gb(plan.scenario.model, span.mean_input_tokens) for span in workload.ranges}
    rates: dict[tuple[Phase, str, int], float] = defaultdict(float)
    for flow in plan.flows:
        rates[Phase.PREFILL, flow.prefill, flow.range_start] += flow.rate_rps
        rates[Phase.DECODE, flow.decode, flow.range_start] += flow.rate_rps
        if not close(flow.gb_s, flow.rate_rps * gb.get(flow.range_start, 0.0)):
            yield f"the flow from {flow.prefill} to {flow.decode} does not carry the KV caches of its requests"
        if not flow.rate_rps >= 0:
            yield f"the flow from {flow.prefill} to {flow.decode} is negative"
    hand_over = {island.id for island in plan.islands if island.phase in PHASES}
    for route in plan.routing:
        if route.island not in hand_over:
            continue
        starts = [start for start in gb if route.range_start <= start < route.range_end]
        sums = sum(rates.pop((route.phase, route.island, start), 0.0) for start in starts)
        if not close(sums, route.rate_rps):
            yield f"{route.phase} flows of {route.island} are not its routes of {route.range_start} tokens and more"
    for phase, name, start in rates:
        yield f"{phase} flows of {name} have no route of {start} tokens and more"


def _network(plan: Plan, network: NetworkSettings) -> Iterator[str]:
    """No island's NICs and no type's uplink carry more than they can."""
    islands = {island.id: island for island in plan.islands}
    for way in ("prefill", "decode"):
        carried: dict[str, float] = defaultdict(float)
        crossed: dict[str, float] = defaultdict(float)
        for flow in plan.flows:
            carried[getattr(flow, way)] += flow.gb_s
            if _crosses(flow, islands):
                crossed[islands[getattr(flow, way)].gpu] += flow.gb_s
        for name, gb_s in carried.items():
            nic = plan.scenario.inventory.item(islands[name].gpu).gpu.nic_gb_s
            if not gb_s <= islands[name].size * nic * network.nic_share * (1 + TOLERANCE):
                yield f"NICs of island {name} carry {gb_s:.6g} GB/s of KV caches, more than their share"
        for gpu, uplink in network.switch_gb_s:
            if not crossed[gpu] <= uplink * (1 + TOLERANCE):
                yield f"the uplink of {gpu} carries {crossed[gpu]:.6g} GB/s, its capacity is {uplink:.6g}"


def _crosses(flow: KvFlow, islands: dict[str, PlannedIsland]) -> bool:
    return islands[flow.prefill].gpu != islands[flow.decode].gpu


def _serves(island: PlannedIsland | None, route: Route) -> bool:
    return island is not None and island.phase is not None and route.phase in halves_of(island.phase)


def _placement(plan: Plan, placement: Placement) -> Iterator[str]:
    """Every island that serves lies on nodes, with all its GPUs; who found no room serves nothing."""
    if not close(placement.placed_rps, plan.throughput_rps):
        yield f"its placement serves {placement.placed_rps:.6g} requests/s, the plan {plan.throughput_rps:.6g}"
    sizes: Counter[str] = Counter()
    for part in placement.parts:
        sizes[part.island] += len(part.gpu_indices)
    for island in plan.islands:
        if island.phase is not None and sizes[island.id] != island.size:
            yield f"island {island.id} has {island.size} GPUs, {sizes[island.id]} of them on nodes"
    lost = {short.island for short in placement.shortfalls}
    for route in plan.routing:
        if route.island in lost:
            yield f"island {route.island} found no room on the cluster, and has routes"


def false_pools(plan: Plan, buckets: BucketPlan) -> Iterator[str]:
    """What the record of the pools says that the rest of the plan does not."""
    islands = {island.id: island for island in plan.islands if island.phase is not None}
    names = [pool.island for pool in buckets.pools]
    if sorted(names) != sorted(islands):
        yield f"its pools are {', '.join(names)}, its islands with a phase {', '.join(islands)}"
        return
    for pool in buckets.pools:
        if not _is_pool(islands[pool.island], pool):
            yield f"island {pool.island} is not the {pool.count} servers of its pool"
    yield from _false_routes(plan, buckets)
    yield from _false_figures(plan, buckets)


def _is_pool(island: PlannedIsland, pool: BucketPool) -> bool:
    server = pool.server
    return (
        (island.gpu, island.phase, island.size) == (pool.gpu, pool.phase, pool.gpus)
        and island.parallel == replace(server.parallel, replicas=pool.count)
        and (island.tokens_per_step, island.batch_size) == (server.tokens_per_step, server.batch_size)
        and (island.overlapped, island.context, island.drafted) == (server.overlapped, pool.context, server.drafted)
    )


def _false_routes(plan: Plan, buckets: BucketPlan) -> Iterator[str]:
    routes = {(route.island, route.phase): route for route in plan.routing}
    for pool, phase in [(bucket_pool, half) for bucket_pool in buckets.pools for half in halves_of(bucket_pool.phase)]:
        route = routes.get((pool.island, phase))
        if route is None:
            yield f"pool {pool.island} has no {phase} route"
        elif (route.range_start, route.range_end) != (pool.start, pool.end):
            yield f"the route to {pool.island} is not of prompts of {pool.start} to {pool.end - 1} tokens"
        elif not close(route.share, pool.share) or not close(route.capacity_rps, pool.count * pool.capacity_rps):
            yield f"the route to {pool.island} has another share or capacity than its pool"


def _false_figures(plan: Plan, buckets: BucketPlan) -> Iterator[str]:
    promise, sure = plan.throughput_rps * plan.scenario.routing.margin, plan.scenario.promise.sure
    if sure and buckets.odds:
        promise = min(promise, buckets.odds.sure_rps(sure))
    if not close(buckets.promise_rps, promise):
        yield f"it promises {buckets.promise_rps:.6g} requests/s, its margin and odds leave {promise:.6g}"
    if sum(point.chosen for point in buckets.simpler) != 1:
        yield "not exactly one of its simpler plans is the plan itself"
    strangers = {loss.island for loss in buckets.losses} - {pool.island for pool in buckets.pools}
    if strangers:
        yield f"it tells the loss of {', '.join(sorted(strangers))}, which is no pool"
