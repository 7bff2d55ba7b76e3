"""What evictions would gain where a plan does without: on small clusters all islands are placed once more with them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.domain import PlacementDemand, PlacementSettings, Shortfall
from planner.placement.islands.evictions.eviction_trials import evicted_for
from planner.placement.islands.evictions.preemption import pods_that_may_go
from planner.placement.islands.fleet import Occupancy
from planner.placement.islands.shortfalls import NAMED, counted
from planner.placement.islands.sites import Site

MOST_NODES = 64
"""Above, shortfalls name what evictions on single nodes gain, and no more."""

LEAD = "a preemption"


def with_preemptions(
    shortfalls: Sequence[Shortfall],
    demands: Sequence[PlacementDemand],
    there: Mapping[str, Site],
    occupancy: Occupancy,
    settings: PlacementSettings,
) -> tuple[Shortfall, ...]:
    """Shortfalls with what `placement.preempt: true` would place, of those that name no preemption yet."""
    silent = {
        short.island for short in shortfalls if not any(remedy.startswith(LEAD) for remedy in short.remedies)
    } - there.keys()
    types = {short.gpu for short in shortfalls}
    small = len(occupancy.fleet.nodes) <= MOST_NODES and not settings.power_cap_w
    if settings.preempt or not silent or not small or not any(pods_that_may_go(occupancy, types, settings).values()):
        return tuple(shortfalls)
    evictions = evicted_for(demands, there, occupancy.copy(), replace(settings, preempt=True))
    victims = [pod.key for pod, _ in evictions.pods]
    text = f"{LEAD}: with placement.preempt: true it would fit, {counted(len(victims), 'pod')} evicted for all islands"
    text += f" ({', '.join(victims[:NAMED])}{', ...' if len(victims) > NAMED else ''})"
    if back := [demand.island for demand in demands if demand.island in there.keys() - evictions.there.keys()]:
        text += f"; {', '.join(back)} would stand back"
    return tuple(
        replace(short, remedies=(*short.remedies, text))
        if victims and short.island in silent and short.island in evictions.there
        else short
        for short in shortfalls
    )
