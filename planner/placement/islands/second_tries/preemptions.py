"""What evictions would gain where a plan does without: on small clusters all islands are placed once more with them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.domain import PlacementDemand, PlacementSettings, Shortfall
from planner.placement.islands.evictions.eviction_trials import evicted_for
from planner.placement.islands.evictions.preemption import pods_that_may_go
from planner.placement.islands.fleet import Occupancy
from planner.placement.islands.shortfalls import LISTED, counted
from planner.placement.islands.sites import Site

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
