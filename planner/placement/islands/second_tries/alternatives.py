"""What would help islands that found no room, tried before it is said: another form, or evictions.

A form has the island's GPUs in smaller attention groups: those that the demand lists (configurations that its model
runs in, best first), else even splits, 6 + 6 for 12. The first form of each island that fits keeps its place
while later islands are looked at, so that the forms named first fit together.

Where a plan does without evictions, all islands of small clusters are placed once more with them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from planner.domain import IslandForm, PlacementDemand, PlacementSettings, PlacementWeights, Shortfall
from planner.placement.islands.evictions.eviction_trials import evicted_for
from planner.placement.islands.evictions.preemption import pods_that_may_go
from planner.placement.islands.filling import place_island
from planner.placement.islands.fleet import Occupancy, Site
from planner.placement.islands.shortfalls import LISTED, counted

MOST_LOOKED_AT = 200_000
"""Nodes asked about for all islands: less than a second of work."""

LEAST_TRIED = 8
"""Forms that are tried in any case."""

MOST_NAMED = 2
"""Forms that a shortfall names."""

MOST_PARTS = 8
"""Parts of a copy in even splits."""

MOST_TRIED = 8
"""Forms that are tried of an island."""

SPELLED_OUT = 4
"""Copies that are written as 6 + 6."""


def alternatives_of(
    demands: Iterable[PlacementDemand], occupancy: Occupancy, weights: PlacementWeights
) -> dict[str, tuple[str, ...]]:
    """Remedies of each island without a place, by name: forms that fit into what `occupancy` has left, in words."""
    trial = occupancy.copy()
    remedies: dict[str, tuple[str, ...]] = {}
    tries = max(LEAST_TRIED, MOST_LOOKED_AT // max(1, len(occupancy.fleet.nodes)))
    for demand in demands:
        tried = list(islice(demand.forms or even_splits(demand), min(MOST_TRIED, tries)))
        tries -= len(tried)
        sites = [(form, site) for form in tried if (site := _tried(demand, form, trial, weights)) is not None]
        if sites:
            # It keeps its place, or the next island's form would be told for the same GPUs.
            sites[0][1].enter(trial)
            remedies[demand.island] = tuple(_words(demand, form) for form, _ in sites[:MOST_NAMED])
    return remedies


def _tried(demand: PlacementDemand, form: IslandForm, trial: Occupancy, weights: PlacementWeights) -> Site | None:
    """Where the island would lie in another form; nothing is held."""
    copies = max(1, form.replicas // demand.replicas)  # smaller ones: as many GPUs of it on a node as before
    other = replace(
        demand,
        replicas=form.replicas,
        groups=form.groups,
        tp=form.tp,
        per_node=demand.per_node * copies,
        running=tuple((node, count * copies) for node, count in demand.running),
    )
    site = place_island(trial, other, weights)
    if site is not None:
        site.leave(trial)
    return site


def even_splits(demand: PlacementDemand) -> Iterator[IslandForm]:
    """Twice as many copies of half the GPUs, and so on, in groups smaller than the island's, the largest first."""
    gpus = demand.groups * demand.tp
    for parts in range(2, min(gpus, MOST_PARTS) + 1):
        if gpus % parts == 0:
            share = gpus // parts
            # Smaller groups than its own, as those of its size found no room.
            for tp in range(min(demand.tp - 1, share), 0, -1):
                if share % tp == 0:
                    yield IslandForm(replicas=demand.replicas * parts, groups=share // tp, tp=tp)


def _words(demand: PlacementDemand, form: IslandForm) -> str:
    copies = "one copy" if form.replicas == 1 else f"{form.replicas:,} copies"
    gpus = form.groups * form.tp
    split = f", {' + '.join([str(gpus)] * form.replicas)} GPUs" if 1 < form.replicas <= SPELLED_OUT else ""
    groups = f"{counted(form.groups, 'attention group')} of {counted(form.tp, 'GPU')}"
    if not demand.forms:
        return f"an even split{split}: {copies} of {groups} would fit, if the model runs like that"
    rate = f"{form.rate_rps:.4g} requests/s laid out compactly"
    if demand.rate_rps > 0:
        rate += f", {100 * form.rate_rps / demand.rate_rps:.0f} % of the {demand.rate_rps:.4g} of its own form"
    return f"another form{split}: {copies} of {groups} would fit; {rate}"


MOST_NODES = 64
"""Above, shortfalls name what evictions on single nodes gain, and no more."""

LEAD = "a preemption"


def with_preemptions(
    shortfalls: Sequence[Shortfall],
    demands: Sequence[PlacementDemand],
    placed: Mapping[str, Site],
    occupancy: Occupancy,
    settings: PlacementSettings,
) -> tuple[Shortfall, ...]:
    """Shortfalls with what `placement.preempt: true` would place, of those that name no preemption yet."""
    silent = {
        short.island for short in shortfalls if not any(remedy.startswith(LEAD) for remedy in short.remedies)
    } - placed.keys()
    types = {short.gpu for short in shortfalls}
    # Under a cap what evictions gain may draw too much.
    small = len(occupancy.fleet.nodes) <= MOST_NODES and not settings.power_cap_w
    if settings.preempt or not silent or not small or not any(pods_that_may_go(occupancy, types, settings).values()):
        return tuple(shortfalls)
    evictions = evicted_for(demands, placed, occupancy.copy(), replace(settings, preempt=True))
    victims = [pod.key for pod, _ in evictions.pods]
    text = f"{LEAD}: with placement.preempt: true it would fit, {counted(len(victims), 'pod')} evicted for all islands"
    text += f" ({', '.join(victims[:LISTED])}{', ...' if len(victims) > LISTED else ''})"
    if back := [demand.island for demand in demands if demand.island in placed.keys() - evictions.placed.keys()]:
        text += f"; {', '.join(back)} would stand back"
    return tuple(
        replace(short, remedies=(*short.remedies, text))
        if victims and short.island in silent and short.island in evictions.placed
        else short
        for short in shortfalls
    )
