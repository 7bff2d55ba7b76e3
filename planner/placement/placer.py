"""Door of the stage: a plan's islands onto a cluster's nodes.

Islands of the largest replicas go first. Where alike islands end up under more switches than need be, they are placed
anew together; where some find no room, they go first in another round; then every island is lifted and put down again
as long as that improves the score. A handful of groups on up to three nodes is enumerated instead.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from planner.domain import (
    Cluster,
    Placement,
    PlacementDemand,
    PlacementSettings,
    PlacementWeights,
    Victim,
)
from planner.errors import InputError
from planner.placement.exact import best_of_all
from planner.placement.fleet import Ask, Fleet, Occupancy
from planner.placement.islands import (
    Level,
    capacities,
    fill,
    largest_first,
    levels,
    place_island,
    preference,
    shares_of,
)
from planner.placement.joint_switches import allocate_jointly
from planner.placement.parts import parts_of, record_of
from planner.placement.preemption import Evictions, make_room
from planner.placement.scoring import score_of, terms_of
from planner.placement.shortfalls import shortfall_of
from planner.placement.sites import Site, under_switches
from planner.placement.states import Watts, state_of
from planner.placement.switches import entropy

ROUNDS = 3
MOST_LIFTED = 40
"""Lifting every island anew costs its square; above, the order in which they came has to do."""
BETTER = 1e-9
SINGLY = Level(1, False)
"""Islands of different replicas share switches group by group."""


def place(
    demands: Sequence[PlacementDemand],
    cluster: Cluster | Fleet,
    settings: PlacementSettings,
    watts: Watts | None = None,
) -> Placement:
    """Put islands on nodes; those that find no room are told as shortfalls, with what would help.

    `cluster` must be sound (`require_sound`); `watts`: GPU type -> (W at rest, W at work). The same input gives the
    same placement. Raises InputError where two islands have one name.
    """
    fleet = cluster if isinstance(cluster, Fleet) else Fleet.of(cluster)
    _require_names(demands)
    occupancy = Occupancy.of(fleet, settings.tolerations)
    types = sorted({demand.gpu for demand in demands})
    before = state_of(occupancy, types, watts or {}, settings.cpus_per_gpu)
    sites, evictions = _sites(demands, occupancy, settings)
    terms = terms_of(sites, occupancy, settings.weights, sum(pod.gpu_count for pod, _ in evictions.pods))
    placed = {site.demand.island for site in sites}
    return Placement(
        cluster=fleet.cluster.name,
        parts=parts_of(sites, fleet, [pod for pod, _ in evictions.pods]),
        sites=tuple(record_of(site, fleet) for site in sites),
        shortfalls=tuple(
            shortfall_of(demand, occupancy, settings) for demand in demands if demand.island not in placed
        ),
        before=before,
        after=state_of(occupancy, types, watts or {}, settings.cpus_per_gpu),
        score=score_of(terms),
        terms=terms,
        victims=_victims(evictions),
    )


def _require_names(demands: Iterable[PlacementDemand]) -> None:
    seen: set[str] = set()
    for demand in demands:
        if demand.island in seen:
            raise InputError(
                f"placement: island {demand.island}: must be listed once; came twice.", hint="Rename one of them."
            )
        seen.add(demand.island)


def _victims(evictions: Evictions) -> tuple[Victim, ...]:
    return tuple(
        Victim(
            pod=pod.key,
            node=pod.node,
            island=island,
            priority=pod.priority,
            gpus=pod.gpu_count,
            lost_gpu_hours=None if pod.checkpoint_age_s is None else pod.checkpoint_age_s / 3600 * pod.gpu_count,
        )
        for pod, island in evictions.pods
    )


def _sites(
    demands: Sequence[PlacementDemand], occupancy: Occupancy, settings: PlacementSettings
) -> tuple[list[Site], Evictions]:
    """Sites in the order of the demands, and the pods that have to go."""
    exact = best_of_all(occupancy, demands, settings.weights)
    if exact is not None:
        return list(exact), Evictions()
    found = _in_rounds(demands, occupancy, settings.weights)
    _lift(demands, found, occupancy, settings.weights)
    evictions = Evictions()
    if settings.preempt:
        for demand in sorted((d for d in demands if d.island not in found), key=largest_first):
            site = make_room(demand, occupancy, settings, evictions)
            if site is not None:
                found[demand.island] = site
    return [found[demand.island] for demand in demands if demand.island in found], evictions


def _in_rounds(demands: Sequence[PlacementDemand], occupancy: Occupancy, weights: PlacementWeights) -> dict[str, Site]:
    """All at once, and again with those first that found no room, as long as that places more GPUs."""
    best = _in_order(sorted(demands, key=largest_first), occupancy, weights)
    late = [demand.island for demand in demands if demand.island not in best]
    for _ in range(ROUNDS):
        if not late or not best:
            break
        for site in best.values():
            site.leave(occupancy)
        first = set(late)
        again = _in_order(
            sorted(demands, key=lambda demand: (demand.island not in first, *largest_first(demand))), occupancy, weights
        )
        if _gpus(again) <= _gpus(best):
            for site in again.values():
                site.leave(occupancy)
            for site in best.values():
                site.enter(occupancy)
            break
        best = again
        late += [demand.island for demand in demands if demand.island not in best and demand.island not in first]
    return best


def _gpus(sites: Mapping[str, Site]) -> int:
    return sum(site.demand.size for site in sites.values())


def _in_order(demands: Iterable[PlacementDemand], occupancy: Occupancy, weights: PlacementWeights) -> dict[str, Site]:
    """One after the other; then those that ask alike, together."""
    found: dict[str, Site] = {}
    shares: dict[str, dict[int, float]] = {}
    for demand in demands:
        site = place_island(occupancy, demand, weights, preference(demand, shares, occupancy.fleet))
        if site is not None:
            found[demand.island] = site
            shares[demand.island] = shares_of(site, occupancy.fleet)
    by_kind: dict[tuple[Ask, int], list[Site]] = defaultdict(list)
    by_ask: dict[Ask, list[Site]] = defaultdict(list)
    for site in found.values():
        by_kind[site.ask, site.demand.groups].append(site)
    for batch in by_kind.values():
        found |= _together(batch, occupancy, weights, list(levels(batch[0].demand)))
    for site in found.values():
        if any(len({held.node for held in replica}) > 1 for replica in site.replicas):
            by_ask[site.ask].append(site)
    for batch in by_ask.values():
        found |= _together(batch, occupancy, weights, [SINGLY])
    return found


def _together(
    batch: list[Site], occupancy: Occupancy, weights: PlacementWeights, closest: Sequence[Level]
) -> dict[str, Site]:
    """Islands that ask alike placed jointly, at the closest level that has room for all, where that leaves them under
    fewer switches and no more of their replicas across them."""
    now = _spread(batch, occupancy.fleet)
    if len(batch) > 1 and now > (0, BETTER):
        for site in batch:
            site.leave(occupancy)
        new = _jointly(batch, occupancy, weights, closest)
        if new and _spread(new, occupancy.fleet) < (now[0], now[1] - BETTER):
            batch = new
        else:
            for site in new:
                site.leave(occupancy)
            for site in batch:
                site.enter(occupancy)
    return {site.demand.island: site for site in batch}


def _jointly(
    batch: Sequence[Site], occupancy: Occupancy, weights: PlacementWeights, closest: Sequence[Level]
) -> list[Site]:
    """Nothing where no level has room for all."""
    for level in closest:
        jobs = [site.demand.replicas * site.demand.groups // level.unit for site in batch]
        taken = allocate_jointly(jobs, capacities(occupancy, batch[0].ask, level))
        whole = [parts for parts in taken if parts is not None]
        if len(whole) == len(batch):
            pairs = zip(batch, whole, strict=True)
            return [fill(occupancy, site.demand, weights, level, parts) for site, parts in pairs]
    return []


def _spread(sites: Iterable[Site], fleet: Fleet) -> tuple[int, float]:
    """Replicas under several switches, and the sum of the islands' entropies."""
    listed = list(sites)
    crossing = sum(
        len({fleet.switch_of[held.node] for held in replica}) > 1 for site in listed for replica in site.replicas
    )
    return crossing, sum(_entropy(site, fleet) for site in listed)


def _entropy(site: Site, fleet: Fleet) -> float:
    return entropy(list(under_switches(site.nodes.items(), fleet.switch_of).values()))


def _lift(
    demands: Sequence[PlacementDemand], found: dict[str, Site], occupancy: Occupancy, weights: PlacementWeights
) -> None:
    """Lift each island and put it down anew, now that its partners have their places; keep what is better."""
    if not 1 < len(found) <= MOST_LIFTED:
        return
    score = score_of(terms_of(list(found.values()), occupancy, weights))
    shares = {island: shares_of(site, occupancy.fleet) for island, site in found.items()}
    for demand in demands:
        if demand.island not in found:
            continue
        old = found[demand.island]
        old.leave(occupancy)
        new = place_island(occupancy, demand, weights, preference(demand, shares, occupancy.fleet))
        if new is None:  # cannot be: the room it left is there
            old.enter(occupancy)
            continue
        tried = score_of(terms_of(list((found | {demand.island: new}).values()), occupancy, weights))
        if tried > score + BETTER:
            found[demand.island], score = new, tried
            shares[demand.island] = shares_of(new, occupancy.fleet)
        else:
            new.leave(occupancy)
            old.enter(occupancy)
