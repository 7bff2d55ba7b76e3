"""Door of the stage: a plan's islands onto a cluster's nodes.

Islands of the largest replicas go first. Where alike islands end up under more switches than need be, they are placed
anew together; where some find no room, they go first in another round, and on small clusters the set of islands that
holds most GPUs is solved for; then every island is lifted and put down again as long as that improves the score. A
handful of groups on up to three nodes is enumerated instead.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import inf

from planner.domain import (
    Cluster,
    Placement,
    PlacementDemand,
    PlacementSettings,
    PlacementWeights,
    Shortfall,
    Victim,
)
from planner.domain.node_room import Ask
from planner.errors import InputError
from planner.placement.islands.evictions.eviction_order import Eviction, gains, in_order, waits_of
from planner.placement.islands.evictions.eviction_rivals import rivals_without_evictions
from planner.placement.islands.evictions.eviction_trials import Evictions, evicted_for
from planner.placement.islands.exact import best_of_all, refine
from planner.placement.islands.filling import (
    Level,
    capacities,
    fill,
    largest_first,
    levels,
    place_island,
    preference,
    shares_of,
)
from planner.placement.islands.fleet import Fleet, Occupancy, Site, under_switches
from planner.placement.islands.joint_switches import allocate_jointly
from planner.placement.islands.parts import parts_of, record_of
from planner.placement.islands.scoring import score_of, splits_of, terms_of
from planner.placement.islands.second_tries.alternatives import alternatives_of, with_preemptions
from planner.placement.islands.second_tries.largest_sets import most_gpus
from planner.placement.islands.shortfalls import shortfalls_of
from planner.placement.islands.states import Watts, require_watts, state_of, within_cap
from planner.placement.islands.switches import entropy

ROUNDS = 3
MOST_EXCHANGED = 10_000
"""Pairs of islands that are taken anew together, times switches: a second of work at most."""
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
    types = sorted({demand.gpu for demand in demands})
    before = state_of(Occupancy.of(fleet, settings.tolerations), types, watts or {}, settings.cpus_per_gpu)
    require_watts(settings, types, watts or {})
    occupancy, sites, evictions, over_cap = _within_cap(demands, fleet, settings, types, watts or {})
    late = {eviction.island: place for place, eviction in enumerate(evictions.done, start=1)}
    # In the order of coming up: indices of pods that go later are not free yet.
    rising = sorted(sites, key=lambda site: late.get(site.demand.island, 0))
    freed = {eviction.island: eviction.pods for eviction in evictions.done}
    victims = _victims(in_order(evictions.done, gains(demands)))
    parts = parts_of(rising, fleet, freed)
    waits = waits_of(rising, parts, victims, fleet) if victims else {}
    numbers = {demand.island: number for number, demand in enumerate(demands)}
    terms = terms_of(sites, occupancy, settings.weights, sum(pod.gpu_count for pod, _ in evictions.pods))
    settled = {site.demand.island for site in sites} | {shortfall.island for shortfall in over_cap}
    left_out = [demand for demand in demands if demand.island not in settled]
    return Placement(
        cluster=fleet.cluster.name,
        parts=tuple(sorted(parts, key=lambda part: numbers[part.island])),
        sites=tuple(record_of(site, fleet, waits.get(site.demand.island)) for site in sites),
        shortfalls=(
            *over_cap,
            *_shortfalls(left_out, demands, sites, occupancy, settings, evictions),
        ),
        before=before,
        after=state_of(occupancy, types, watts or {}, settings.cpus_per_gpu),
        score=score_of(terms),
        terms=terms,
        victims=victims,
    )


def _shortfalls(
    left_out: Sequence[PlacementDemand],
    demands: Sequence[PlacementDemand],
    sites: Iterable[Site],
    occupancy: Occupancy,
    settings: PlacementSettings,
    evictions: Evictions,
) -> tuple[Shortfall, ...]:
    """Of islands that found no room; nothing is proposed beside a power cap, as it would have to keep to that, too."""
    forms = {} if settings.power_cap_w else alternatives_of(left_out, occupancy, settings.weights)
    shortfalls = shortfalls_of(left_out, occupancy, settings, evictions.kept_out, evictions.rivals, forms)
    placed = {site.demand.island: site for site in sites}
    return with_preemptions(shortfalls, demands, placed, occupancy, settings)


def _require_names(demands: Iterable[PlacementDemand]) -> None:
    names: set[str] = set()
    for demand in demands:
        if demand.island in names:
            raise InputError(
                f"placement: island {demand.island}: must be listed once, got twice.", hint="Rename one of them."
            )
        names.add(demand.island)


def _victims(evictions: Iterable[Eviction]) -> tuple[Victim, ...]:
    pods = ((pod, eviction.island) for eviction in evictions for pod in eviction.pods)
    return tuple(
        Victim(
            pod=pod.key,
            node=pod.node,
            island=island,
            priority=pod.priority,
            gpus=pod.gpu_count,
            lost_gpu_hours=None if pod.checkpoint_age_s is None else pod.checkpoint_age_s / 3600 * pod.gpu_count,
            order=order,
        )
        for order, (pod, island) in enumerate(pods, start=1)
    )


def _within_cap(
    demands: Sequence[PlacementDemand], fleet: Fleet, settings: PlacementSettings, types: Sequence[str], watts: Watts
) -> tuple[Occupancy, list[Site], Evictions, list[Shortfall]]:
    """What is held then, by whom, who goes for it, and who is kept out by the power cap.

    Where pods went for an island that is kept out, everything is placed anew without it.
    """
    over: list[Shortfall] = []
    while True:
        occupancy = Occupancy.of(fleet, settings.tolerations)
        out = {shortfall.island for shortfall in over}
        placed, evictions = _sites([d for d in demands if d.island not in out], occupancy, settings)
        sites, more = within_cap(placed, occupancy, settings, types, watts)
        over += more
        if not {shortfall.island for shortfall in more} & {island for _, island in evictions.pods}:
            return occupancy, sites, evictions, over


def _sites(
    demands: Sequence[PlacementDemand], occupancy: Occupancy, settings: PlacementSettings
) -> tuple[list[Site], Evictions]:
    """Sites in the order of the demands, and the pods that have to go."""
    exact = best_of_all(occupancy, demands, settings.weights)
    if exact is not None:
        return list(exact), Evictions()
    site_of = _in_rounds(demands, occupancy, settings.weights)
    solved = False
    if len(site_of) < len(demands):
        site_of, solved = most_gpus(demands, site_of, occupancy)
    _lift(demands, site_of, occupancy, settings.weights)
    site_of = {site.demand.island: site for site in refine(list(site_of.values()), occupancy, settings.weights)}
    evictions = Evictions()
    if settings.preempt and len(site_of) < len(demands):
        evictions = evicted_for(demands, site_of, occupancy, settings)
        site_of = dict(evictions.placed)
    elif solved:
        evictions = Evictions(rivals=rivals_without_evictions(demands, site_of, occupancy, settings))
    return [site_of[demand.island] for demand in demands if demand.island in site_of], evictions


def _in_rounds(demands: Sequence[PlacementDemand], occupancy: Occupancy, weights: PlacementWeights) -> dict[str, Site]:
    """All at once; then types of which some find no room, though there are GPUs enough, again with those first."""
    best = _in_order(sorted(demands, key=largest_first), occupancy, weights, {})
    for gpu in sorted({demand.gpu for demand in demands if demand.island not in best}):
        of_type = [demand for demand in demands if demand.gpu == gpu]
        idle = sum(occupancy.fleet.free[node].idle for node in occupancy.fleet.of_type([gpu]))
        # With too few GPUs no order helps.
        if sum(demand.size for demand in of_type) <= idle:
            best = _again(of_type, best, occupancy, weights)
    return best


def _again(
    of_type: Sequence[PlacementDemand], best: dict[str, Site], occupancy: Occupancy, weights: PlacementWeights
) -> dict[str, Site]:
    """Islands of one type in other orders, as long as that places more GPUs."""
    late: set[str] = set()
    for _ in range(ROUNDS):
        fresh = {demand.island for demand in of_type if demand.island not in best} - late
        # The same islands first would give the same placement.
        if not fresh:
            break
        late |= fresh
        old = {demand.island: best[demand.island] for demand in of_type if demand.island in best}
        others = {island: site for island, site in best.items() if island not in old}
        for site in old.values():
            site.leave(occupancy)
        order = sorted(of_type, key=lambda demand: (demand.island not in late, *largest_first(demand)))
        new = _in_order(order, occupancy, weights, others)
        # As many are no gain: the first order was the better guess.
        if _gpus(new) <= _gpus(best):
            for island in new.keys() - others.keys():
                new[island].leave(occupancy)
            for site in old.values():
                site.enter(occupancy)
            break
        best = new
    return best


def _gpus(sites: Mapping[str, Site]) -> int:
    return sum(site.demand.size for site in sites.values())


def _in_order(
    demands: Iterable[PlacementDemand],
    occupancy: Occupancy,
    weights: PlacementWeights,
    placed: Mapping[str, Site],
) -> dict[str, Site]:
    """One after the other, beside those that are `placed`; then those that ask alike, together."""
    fleet = occupancy.fleet
    site_of: dict[str, Site] = {}
    shares = {island: shares_of(site, fleet) for island, site in placed.items()}
    for demand in demands:
        site = place_island(occupancy, demand, weights, preference(demand, shares, fleet))
        if site is not None:
            site_of[demand.island] = site
            shares[demand.island] = shares_of(site, fleet)
    by_kind: dict[tuple[Ask, int], list[Site]] = defaultdict(list)
    by_ask: dict[Ask, list[Site]] = defaultdict(list)
    for site in site_of.values():
        by_kind[site.ask, site.demand.groups].append(site)
    for batch in by_kind.values():
        site_of |= _together(batch, occupancy, weights, list(levels(batch[0].demand)))
    for site in site_of.values():
        if any(len({group.node for group in replica}) > 1 for replica in site.replicas):
            by_ask[site.ask].append(site)
    for batch in by_ask.values():
        site_of |= _together(batch, occupancy, weights, [SINGLY])
    return {**placed, **site_of}


def _together(
    batch: list[Site], occupancy: Occupancy, weights: PlacementWeights, closest: Sequence[Level]
) -> dict[str, Site]:
    """Islands that ask alike placed jointly, at the closest level that has room for all, where that leaves them under
    fewer switches and no more of their replicas across them."""
    now = _spread(batch, occupancy.fleet)
    # Islands each under one switch cannot lie closer.
    if len(batch) > 1 and now > (0, 0, BETTER):
        for site in batch:
            site.leave(occupancy)
        new = _jointly(batch, occupancy, weights, closest)
        if new and _spread(new, occupancy.fleet) < (*now[:2], now[2] - BETTER):
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
    ask = batch[0].ask
    for level in closest:
        jobs = [site.demand.replicas * site.demand.groups // level.unit for site in batch]
        room = capacities(occupancy, ask, level)
        open_to_all = [place for place, units in enumerate(room) if units]
        trials = MOST_EXCHANGED // max(1, len(open_to_all))
        amounts = allocate_jointly(jobs, [room[place] for place in open_to_all], trials=trials)
        switch_parts = [dict(zip(open_to_all, parts, strict=True)) for parts in amounts if parts is not None]
        if len(switch_parts) == len(batch):
            return [
                fill(occupancy, site.demand, ask, weights, level, [parts.get(s, 0) for s in range(len(room))])
                for site, parts in zip(batch, switch_parts, strict=True)
            ]
    return []


def _spread(sites: Iterable[Site], fleet: Fleet) -> tuple[int, int, float]:
    """Replicas in several places, islands split over NVLink domains, and the sum of the islands' entropies."""
    listed = list(sites)
    crossing = sum(
        len({fleet.places.of[group.node] for group in replica}) > 1 for site in listed for replica in site.replicas
    )
    return crossing, splits_of(listed, fleet)[1], sum(_entropy(site, fleet) for site in listed)


def _entropy(site: Site, fleet: Fleet) -> float:
    nodes = site.nodes
    over_places = entropy(list(under_switches(nodes.items(), fleet.places.of).values()))
    if not fleet.places.has_domains:
        return over_places
    # Domains first, and of alike ones those under fewer switches.
    return over_places + entropy(list(under_switches(nodes.items(), fleet.switch_of).values()))


def _lift(
    demands: Sequence[PlacementDemand], site_of: dict[str, Site], occupancy: Occupancy, weights: PlacementWeights
) -> None:
    """Lift each island and put it down anew, now that its partners have their places; keep what is better."""
    # Every lift asks all nodes again.
    if not 0 < len(site_of) <= MOST_LIFTED:
        return
    splits = splits_of(site_of.values(), occupancy.fleet)
    score = score_of(terms_of(list(site_of.values()), occupancy, weights))
    shares = {island: shares_of(site, occupancy.fleet) for island, site in site_of.items()}
    for demand, near_first in product(demands, (False, True)):
        if demand.island not in site_of:
            continue
        old = site_of[demand.island]
        old.leave(occupancy)
        near = preference(demand, shares, occupancy.fleet)
        new = place_island(occupancy, demand, weights, near, near_first=near_first)
        tried, splits_tried = -inf, splits
        if new is not None:
            trial = list((site_of | {demand.island: new}).values())
            tried, splits_tried = score_of(terms_of(trial, occupancy, weights)), splits_of(trial, occupancy.fleet)
        if new is not None and (splits_tried < splits or (splits_tried == splits and tried > score + BETTER)):
            site_of[demand.island], score, splits = new, tried, splits_tried
            shares[demand.island] = shares_of(new, occupancy.fleet)
        else:
            if new is not None:
                new.leave(occupancy)
            old.enter(occupancy)
