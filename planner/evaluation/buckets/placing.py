"""Pools on real nodes: placed, priced where their servers lie. A pool that finds no room whole is made smaller."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.cost.table import require_placeable
from planner.domain import (
    PHASES,
    BucketPool,
    Phase,
    PlacedPart,
    Placement,
    PlacementDemand,
    Question,
    Reach,
    Shortfall,
    SurvivalSettings,
)
from planner.errors import InfeasibleError
from planner.evaluation.buckets.priced import serves
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.buckets.spreads import lost_servers
from planner.evaluation.exchanges import exchanged
from planner.evaluation.hosting import advice_of, advised_by
from planner.evaluation.placing import judged_rps, remedy
from planner.evaluation.reaches import reaches_of
from planner.placement import Fleet, place_around

MOST_ATTEMPTS = 24
_SLOW = "keep no service level where they lie"
SMALLER = 8  # a pool without room gives up an eighth of its servers at a time, at least one


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPools:
    """Pools that found room, where they lie, and their reaches by island. Shortfalls of the placement: pools that did
    not; `unplaced`: servers that the others lack, by island; `advice`: what moves would do for those without room."""

    placement: Placement
    priced: PricedPools
    reaches: dict[str, Reach]
    unplaced: dict[str, int]
    advice: dict[str, str]


def place_pools(
    pools: Sequence[BucketPool],
    question: Question,
    fleet: Fleet,
    *,
    advises: bool = False,
    stays: Sequence[PlacedPart] = (),
) -> PlacedPools:
    """Put named pools on nodes; `advises`: it is told what moves would do for those without room. `stays`: servers that
    run where they are to be, copies numbered from 0; they move only where others would find no room otherwise.

    Raises InfeasibleError where a bucket is left without servers, and says why; InputError as `require_placeable` does.
    """
    require_placeable(question.scenario.cost)
    if (words := question.scenario.placement.exchange) and not stays:
        settings = replace(question.scenario.placement, exchange="")
        question = replace(question, scenario=replace(question.scenario, placement=settings))
        stays = exchanged(place_pools(pools, question, fleet).placement.parts, words, fleet)
    scenario, unplaced_rps = question.scenario, BucketService(question).priced(pools).rate_rps
    gpus = [item.gpu for item in scenario.inventory.items]
    watts = {gpu.name: (gpu.idle_w, gpu.max_w) for gpu in gpus}
    remaining, first_shortfalls, advice, slow, alone = list(pools), None, {}, Counter[str](), list[BucketPool]()
    given: dict[str, Shortfall] = {}
    for _ in range(MOST_ATTEMPTS):
        demands = demands_of_pools(remaining, question)
        placement = place_around(stays, demands, fleet, scenario.placement, watts)
        if advises and first_shortfalls is None:
            advice = advice_of(placement, demands, fleet.cluster, scenario.placement, watts)
            placement = advised_by(placement, advice)
            advice = {**_for_givers(advice, remaining, question), **advice}
        short = {shortfall.island: shortfall for shortfall in placement.shortfalls}
        first_shortfalls = placement.shortfalls if first_shortfalls is None else first_shortfalls
        reaches = reaches_of(placement, demands, fleet, gpus, scenario.cost.cross_switch_bandwidth)
        givers = {_giver(pool, remaining, question): short[pool.island] for pool in remaining if pool.island in short}
        given, gives_up = givers | given, set(givers)
        if not short:
            gives_up = _without_level(remaining, question, reaches)
            slow.update(pool.island for pool in remaining if pool.island in gives_up for _ in range(_eighth(pool)))
        if not gives_up:
            break
        smaller = [_smaller(pool) if pool.island in gives_up else pool for pool in remaining]
        remaining = _with_partners([pool for pool in smaller if pool.count], alone)
    placed = _with_partners([pool for pool in remaining if pool.island not in gives_up.union(short)], alone)
    shortfalls = (*(first_shortfalls or ()), *_too_slow(pools, placed, slow))
    shortfalls = (*shortfalls, *_left_alone(pools, alone, {row.island for row in shortfalls}))
    shortfalls = (*shortfalls, *_given_up(pools, given, {row.island for row in shortfalls}))
    _require_service(pools, placed, shortfalls, placement)
    priced = BucketService(question, reaches).priced(placed)
    if not priced.rate_rps:
        raise _not_surviving(placement, question)
    placed_servers = {pool.island: pool.count for pool in placed}
    if advises:  # a search compares rates of the whole alone
        placement = placement.priced(_rates_of(placed, question, reaches))
    return PlacedPools(
        placement=replace(
            placement,
            shortfalls=tuple(row for row in shortfalls if row.island not in placed_servers),
            unplaced_rps=unplaced_rps,
            placed_rps=priced.rate_rps,
            judged_rps=judged_rps(placement, priced.rate_rps, scenario.placement, fleet),
        ),
        priced=priced,
        reaches=reaches,
        unplaced={
            pool.island: pool.count - placed_servers[pool.island]
            for pool in pools
            if pool.count > placed_servers.get(pool.island, pool.count)
        },
        advice=advice | {island: f"{count} of these would {_SLOW}" for island, count in slow.items()},
    )


def _rates_of(
    pools: Sequence[BucketPool], question: Question, reaches: Mapping[str, Reach]
) -> dict[str, tuple[float, float]]:
    """What each pool could serve where it lies, and under one switch, no node being lost."""
    actual, ideal = (BucketService(question, at).unbroken(pools).pools for at in (reaches, {}))
    ideal_rps = {pool.island: pool.count * pool.capacity_rps for pool in ideal}
    return {pool.island: (pool.count * pool.capacity_rps, ideal_rps[pool.island]) for pool in actual}


def _without_level(pools: Sequence[BucketPool], question: Question, reaches: Mapping[str, Reach]) -> set[str]:
    """Pools whose servers serve nothing within the service levels where they lie."""
    fault_free = replace(question, scenario=replace(question.scenario, survive=SurvivalSettings()))
    priced = BucketService(fault_free, reaches).priced(pools).pools
    return {pool.island for pool in priced if not pool.capacity_rps}


def _too_slow(
    pools: Sequence[BucketPool], placed: Sequence[BucketPool], slow: Mapping[str, int]
) -> Iterator[Shortfall]:
    """Pools that have room, of which no server keeps a level there."""
    placed_islands = {pool.island for pool in placed}
    for pool in pools:
        if pool.island in slow and pool.island not in placed_islands:
            reason = f"its servers {_SLOW}: under several switches, or far from those that they work with"
            yield Shortfall(
                island=pool.island,
                gpu=pool.gpu,
                gpus=pool.gpus,
                resource="levels",
                reason=reason,
                remedies=("idle nodes under one switch, or looser bounds in slo",),
            )


def _with_partners(pools: Sequence[BucketPool], alone: list[BucketPool]) -> list[BucketPool]:
    """Without those of one phase that nobody complements where mixed pools serve their bucket: they would be idle, and
    are added to `alone`."""
    phases: dict[tuple[int, int], set[Phase]] = defaultdict(set)
    for pool in pools:
        phases[pool.start, pool.end].add(pool.phase)
    halves = ({Phase.MIXED, Phase.PREFILL}, {Phase.MIXED, Phase.DECODE})
    idle = [pool for pool in pools if pool.phase is not Phase.MIXED and phases[pool.start, pool.end] in halves]
    alone += idle
    return [pool for pool in pools if pool not in idle]


def _left_alone(
    pools: Sequence[BucketPool], alone: Sequence[BucketPool], explained: Collection[str]
) -> Iterator[Shortfall]:
    """Pools that would have room, but nobody to work with."""
    islands = {pool.island for pool in alone}.difference(explained)
    for pool in pools:
        if pool.island in islands:
            reason = (
                f"nobody is left to {'decode' if pool.phase is Phase.PREFILL else 'prefill'} what its servers do not"
            )
            yield Shortfall(
                island=pool.island,
                gpu=pool.gpu,
                gpus=pool.gpus,
                resource="partners",
                reason=reason,
                remedies=("room for the pools that found none",),
            )


def _given_up(
    pools: Sequence[BucketPool], given: Mapping[str, Shortfall], explained: Collection[str]
) -> Iterator[Shortfall]:
    """Pools that gave up all their servers; `given`: for whom, by island, and what that one lacked."""
    for pool in pools:
        if pool.island in given and pool.island not in explained:
            lack = given[pool.island]
            if lack.island != pool.island:
                reason = f"its servers make room for {lack.island}, which nobody else stands in for"
                lack = replace(lack, reason=reason, remedies=("room for the pools that found none",))
            yield replace(lack, island=pool.island, gpu=pool.gpu, gpus=pool.gpus)


def _require_service(
    pools: Sequence[BucketPool], placed: Sequence[BucketPool], shortfalls: Sequence[Shortfall], placement: Placement
) -> None:
    if frozenset().union(*map(serves, placed)) != frozenset().union(*map(serves, pools)):
        placed_islands = {pool.island for pool in placed}
        missing = [row for row in shortfalls if row.island not in placed_islands] or list(shortfalls)
        reasons = "; ".join(f"{row.island}: {row.reason}" for row in missing[:3])
        raise InfeasibleError(
            f"placement: the pools that find room on cluster {placement.cluster} do not serve every bucket: {reasons}.",
            hint=remedy(shortfalls),
        )


def _not_surviving(placement: Placement, question: Question) -> InfeasibleError:
    survive = question.scenario.survive
    nodes = "any one node" if survive.nodes == 1 else f"any {survive.nodes} nodes"
    return InfeasibleError(
        f"placement: survive.share must be kept by the servers that find room on cluster {placement.cluster}, "
        f"{survive.share:g} after losing {nodes}; some bucket would have none left.",
        hint="Add nodes with idle GPUs, or plan without survive.",
    )


def _for_givers(advice: Mapping[str, str], pools: Sequence[BucketPool], question: Question) -> dict[str, str]:
    """The advice on pools without room, by the islands that give up servers for them."""
    return {
        _giver(pool, pools, question): f"for {pool.island}, {advice[pool.island]}"
        for pool in pools
        if pool.island in advice
    }


def _eighth(pool: BucketPool) -> int:
    return max(1, pool.count // SMALLER)


def _smaller(pool: BucketPool) -> BucketPool:
    return replace(pool, count=pool.count - _eighth(pool))


def _giver(short: BucketPool, pools: Sequence[BucketPool], question: Question) -> str:
    """The island that gives up servers where a pool finds no room: itself, unless every bucket was served, after losses
    that are to be survived too, and would not be without them; then the largest other pool of its GPU type that can."""
    others = sorted((pool for pool in pools if pool.gpu == short.gpu), key=lambda pool: -pool.gpus)
    order = [short, *(pool for pool in others if pool.island != short.island)]
    if not _lasts(pools, question):
        return short.island
    able = (pool for pool in order if _lasts([_smaller(p) if p is pool else p for p in pools], question))
    return next(able, short).island


def _lasts(pools: Sequence[BucketPool], question: Question) -> bool:
    """Whether every bucket has servers, whatever nodes are lost that are to be survived."""
    scenario, in_use = question.scenario, [pool for pool in pools if pool.count]
    if frozenset().union(*map(serves, in_use)) != frozenset().union(*map(serves, pools)):
        return False
    if not scenario.survive.share:
        return True
    hosts = {item.gpu.name: item.gpu.gpus_per_host for item in scenario.inventory.items}
    every = frozenset().union(*map(serves, in_use))
    for number in range(len(in_use)):
        lost = lost_servers(in_use, hosts, number, scenario.survive.nodes)
        surviving = (pool for k, pool in enumerate(in_use) if pool.count > lost.get(k, 0))
        if frozenset().union(*map(serves, surviving)) != every:
            return False
    return True


def demands_of_pools(pools: Sequence[BucketPool], question: Question) -> list[PlacementDemand]:
    """What the pools ask of nodes."""
    settings = question.scenario.placement
    served = {pool.island: pool.share * pool.count * pool.capacity_rps for pool in pools}
    decoded = sum(served[pool.island] for pool in pools if pool.phase is Phase.DECODE) or 1.0

    def feeds(pool: BucketPool) -> tuple[tuple[str, float], ...]:
        """Islands of the other phase that share a length with it, by what they serve."""
        others = (p for p in pools if {p.phase, pool.phase} == {*PHASES} and p.start < pool.end and pool.start < p.end)
        return tuple((other.island, served[pool.island] * served[other.island] / decoded) for other in others)

    return [
        PlacementDemand(
            island=pool.island,
            gpu=pool.gpu,
            phase=pool.phase,
            replicas=pool.count,
            groups=pool.server.parallel.dp * pool.server.parallel.pp,
            tp=pool.server.parallel.tp,
            qos=settings.qos(pool.phase),
            cpus_per_gpu=settings.cpus_per_gpu,
            memory_gb_per_gpu=settings.memory_gb_per_gpu,
            feeds=feeds(pool),
            rate_rps=served[pool.island],
            per_node=pool.spread(question.scenario.inventory.item(pool.gpu).gpu.gpus_per_host),
        )
        for pool in pools
    ]
