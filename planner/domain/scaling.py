"""How many copies of each pool a load asks for: the rules that autoscalers follow, and what they follow from.

Pools of one phase and range of lengths are variants of each other: a group. Groups that hand KV caches to each other
hang together: a chain. All pools of a chain follow one signal, the requests/s that come to the chain: so prefill and
decode keep the plan's ratio, and a queue before one of them does not hide the load from the other, which would start
its copies a cold start later. Rates, not requests in flight: those grow faster than the rate as servers fill, and
copies wanted by them swing.

| symbol | meaning | unit | source |
|---|---|---|---|
| P, R | what the plan promises, and can do | requests/s | BucketPlan.promise_rps, Plan.throughput_rps |
| p_g, p | share of all requests that group g takes, that its chain takes | 1 | rates of islands over R |
| c_i | what one copy of pool i serves within the levels | requests/s | BucketPool.capacity_rps |
| tau | relative difference that a HorizontalPodAutoscaler leaves be | 1 | 0.1, kube-controller-manager's default |
| x_i | c_i min(P / R, 1 / (1 + tau)): what a copy is given, so that levels hold within the tolerance | requests/s | |
| T_i | x_i p / p_g: requests/s of the chain for each copy of pool i, the threshold | requests/s | |
| m_j | copies that fit where all pools of a GPU type grow alike: the plan's, and a part of the spare GPUs | 1 | |
| b_i | sum of m_j T_j of the group's cheaper variants: pool i grows from there on | requests/s | |
| r | rise within a cold start that copies which are ready carry: warm spares | requests/s | |
| L, q | load of the chain; requests that wait in it | requests/s, 1 | the trigger's metrics |
| s | cold start: q is to be worked off within one | s | |

wanted copies of i = ceil((L + q / s + r p - b_i) / T_i), at least its floor, at most its ceiling. Variants of a group
stand by rent of a request/s: the cheapest grows first and shrinks last. Floors carry the least rate that comes (of the
hours, else the demand, else the promise), and after a loss the share that must survive; floors of hours carry theirs.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from planner.domain.layout import Phase
from planner.domain.plan import Plan, PlannedIsland
from planner.domain.serving.deploy import HOURS
from planner.domain.serving.server import BucketPool

TOLERANCE = 0.1
_ROUNDING = 1e-6
_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledPool:
    """A pool as its copies count. `capacity_rps`: of a copy, within the levels; `full_rps`: where nobody waits for
    longer and longer; `given_rps`: what it is given at most; `part`: of all requests that its group takes; `lost`:
    copies that the worst loss of nodes takes; `usd_per_rps`: rent of a copy over what it is given; `ceiling`: where no
    other pool takes the spare GPUs; `fitting`: where all take their part of them."""

    island: str
    gpu: str
    phase: Phase
    group: tuple[str, ...]
    chain: tuple[str, ...]
    planned: int
    ceiling: int
    fitting: int
    gpus: int
    capacity_rps: float
    full_rps: float
    given_rps: float
    part: float
    lost: int
    usd_per_hour: float

    @property
    def usd_per_rps(self) -> float:
        """Rent of a request/s of the group (USD/hour); GPUs count alike where they have no price."""
        return (self.usd_per_hour or self.gpus) / self.given_rps


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRule:
    """What an autoscaler keeps to: ceil((load of the chain + `spare` - `before`) / `per_copy`) copies, in requests/s,
    at least `floor` and what the hour asks for (`hours`: of each, empty: none), at most `ceiling`."""

    pool: ScaledPool
    per_copy: float
    before: float
    spare: float
    floor: int
    ceiling: int
    hours: tuple[int, ...] = ()


def scaled_pools(plan: Plan, *, pinned: bool = False) -> tuple[ScaledPool, ...]:
    """The plan's serving islands as pools, in its order; `pinned`: copies may only go to the placement's nodes."""
    pools = {pool.island: pool for pool in plan.outlook.pools}
    serving = [island for island in plan.islands if island.phase is not None and island.parallel is not None]
    groups = _groups(serving, pools)
    chains = _chains(plan, groups)
    return tuple(_pool(plan, island, pools.get(island.id), groups, chains, pinned=pinned) for island in serving)


def _pool(
    plan: Plan,
    island: PlannedIsland,
    pool: BucketPool | None,
    groups: Mapping[str, tuple[str, ...]],
    chains: Mapping[str, tuple[str, ...]],
    *,
    pinned: bool,
) -> ScaledPool:
    assert island.parallel is not None
    assert island.phase is not None
    planned, gpus = island.parallel.replicas, island.parallel.devices
    capacity = (pool.capacity_rps if pool else 0.0) or island.rate_rps / planned
    item = plan.scenario.inventory.item(island.gpu)
    rate, spare = plan.throughput_rps, 0 if pinned else spare_gpus(plan, island.gpu)
    used = sum(other.size for other in plan.islands if other.gpu == island.gpu and other.phase is not None)
    share = min(plan.outlook.promise_rps / rate if rate else 1.0, 1 / (1 + TOLERANCE))
    return ScaledPool(
        island=island.id,
        gpu=island.gpu,
        phase=island.phase,
        group=groups[island.id],
        chain=chains[island.id],
        planned=planned,
        ceiling=planned + spare // gpus,
        fitting=planned + spare * island.size // used // gpus,
        gpus=gpus,
        capacity_rps=capacity,
        full_rps=max(capacity, pool.full_rps if pool else 0.0),
        given_rps=capacity * share,
        part=sum(other.rate_rps for other in plan.islands if other.id in groups[island.id]) / rate if rate else 0.0,
        lost=max((loss.servers for loss in plan.outlook.losses if loss.island == island.id), default=0),
        usd_per_hour=item.rent_usd_per_gpu_hour * gpus,
    )


def spare_gpus(plan: Plan, gpu: str) -> int:
    """GPUs of a type that no island serves with; of a fleet whose size was chosen, those that may be rented yet."""
    count = plan.scenario.inventory.item(gpu).count
    return max(0, count - sum(island.size for island in plan.islands if island.gpu == gpu and island.phase is not None))


def _groups(serving: Sequence[PlannedIsland], pools: Mapping[str, BucketPool]) -> dict[str, tuple[str, ...]]:
    keys = {
        island.id: (pool.phase, pool.start, pool.end, island.lane) if (pool := pools.get(island.id)) else island.id
        for island in serving
    }
    return {name: tuple(other for other, key in keys.items() if key == keys[name]) for name in keys}


def _chains(plan: Plan, groups: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Island -> all islands that groups and shared lengths connect it with, in the plan's order."""
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in groups}
    for route in plan.routing:
        if route.share > 0 and route.island in spans:
            spans[route.island].append((route.range_start, route.range_end))
    roles = {island.id: (island.phase, island.lane) for island in plan.islands}
    chain_of = {name: set(group) for name, group in groups.items()}
    for name in groups:
        for other in groups:
            phases, lanes = map(set, zip(roles[name], roles[other], strict=True))
            hands_over = phases == {Phase.PREFILL, Phase.DECODE} and len(lanes) == 1
            if chain_of[name] is not chain_of[other] and (
                other in groups[name] or (hands_over and _meet(spans[name], spans[other]))
            ):
                joined = chain_of[name] | chain_of[other]
                chain_of |= dict.fromkeys(joined, joined)
    return {name: tuple(other for other in groups if other in chain_of[name]) for name in groups}


def _meet(spans: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> bool:
    return any(max(a, c) < min(b, d) for a, b in spans for c, d in others)


def demand_rps(plan: Plan) -> float:
    """What is asked of the whole mix; the promise where nothing is said."""
    demanded = plan.scenario.objective.demand_rps or plan.scenario.workload.arrival_rps or 0.0
    return demanded or plan.outlook.promise_rps


def scaling_rules(
    plan: Plan,
    *,
    hours: Sequence[float] = (),
    spare_rps: float = 0.0,
    to_none: bool = True,
    pinned: bool = False,
) -> tuple[ScalingRule, ...]:
    """A rule for each serving island, in the plan's order.

    `hours`: requests/s of the whole mix that each hour of the day surely brings, 24 of them or none; `spare_rps`: that
    warm copies carry beyond the load; `to_none`: dearer variants may have no copy at all.
    """
    pools = scaled_pools(plan, pinned=pinned)
    floor_rps = min(hours) if hours else demand_rps(plan)
    floors, survivors = (
        copies_for(pools, rate, planned=True) for rate in (floor_rps, plan.scenario.survive.share * floor_rps)
    )
    of_hours = [copies_for(pools, rate) for rate in hours]
    rules = []
    for pool in pools:
        part = chain_part(pools, pool.chain)
        per_copy = {other.island: part * other.given_rps / other.part for other in pools if other.part}
        cheaper = [other for other in _variants(pools, pool.group) if _order(other) < _order(pool)]
        floor = max(floors[pool.island], survivors[pool.island] + pool.lost if plan.scenario.survive.share else 0)
        rules.append(
            ScalingRule(
                pool=pool,
                per_copy=_rounded(per_copy.get(pool.island, 1.0)),
                before=_rounded(sum(other.fitting * per_copy[other.island] for other in cheaper)),
                spare=_rounded(part * spare_rps),
                floor=min(pool.planned, max(floor, 0 if cheaper and to_none else 1)),
                ceiling=pool.ceiling,
                hours=tuple(copies[pool.island] for copies in of_hours),
            )
        )
    return tuple(rules)


def copies_for(pools: Sequence[ScaledPool], rate_rps: float, *, planned: bool = False) -> dict[str, int]:
    """Copies of each pool that a rate of the whole mix needs, the cheapest variants first, each up to what fits
    (`planned`: to the copies of the plan); the rest of the rate where all have that many is left."""
    copies: dict[str, int] = {}
    for group in dict.fromkeys(pool.group for pool in pools):
        left_rps = rate_rps * next(pool.part for pool in pools if pool.group == group)
        for pool in _variants(pools, group):
            needed = math.ceil(left_rps / pool.given_rps - _ROUNDING)
            copies[pool.island] = max(0, min(pool.planned if planned else pool.fitting, needed))
            left_rps -= copies[pool.island] * pool.given_rps
    return copies


def _variants(pools: Sequence[ScaledPool], group: tuple[str, ...]) -> list[ScaledPool]:
    return sorted((pool for pool in pools if pool.island in group), key=_order)


def _order(pool: ScaledPool) -> tuple[float, str]:
    return pool.usd_per_rps, pool.island


def chain_part(pools: Sequence[ScaledPool], chain: Sequence[str]) -> float:
    """Share of all requests that come to a chain, which its decode pools see once more."""
    groups = {pool.group: pool for pool in pools if pool.island in chain}.values()
    return sum(pool.part for pool in groups if pool.phase is not Phase.DECODE)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def floors_of_hours(hours: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(first hour, hour after the last, copies) of stretches of equal copies; the last may end after midnight."""
    if len(set(hours)) < 2:
        return
    starts = [hour for hour in range(HOURS) if hours[hour] != hours[hour - 1]]
    for number, start in enumerate(starts):
        yield start, starts[(number + 1) % len(starts)], hours[start]


SEEN_S = 90
"""From a rise until copies start: a scrape, a mean over a minute, the controller's period, each at its longest."""


def settle_s(start_s: float) -> int:
    """How long fewer copies must be wanted before one goes: a copy that goes and is wanted again costs a cold start."""
    return min(3600, math.ceil(max(300.0, start_s)))


def lead_s(start_s: float) -> float:
    """How long before an hour its copies start, in whole minutes."""
    return 60.0 * math.ceil((start_s + 30) / 60)
