"""What it would take to host an island that found no room: the fewest moves found, against evictions.

Both are tried on the cluster with the other islands in their places, and the placer has the last word on either.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.defragmentation import moves_for, replay
from planner.domain import Cluster, Placement, PlacementDemand, PlacementSettings
from planner.domain.defragmentation import Defragmentation, DefragmentationSettings
from planner.placement import place, with_islands

Watts = dict[str, tuple[float, float]]
MOST_ISLANDS = 8
"""Shortfalls for which moves are looked for."""


def with_moves(
    placement: Placement,
    demands: Sequence[PlacementDemand],
    cluster: Cluster,
    settings: PlacementSettings,
    watts: Watts,
) -> Placement:
    """The placement whose shortfalls tell first what moves would do for each of them alone (`advice_of`)."""
    return advised_by(placement, advice_of(placement, demands, cluster, settings, watts))


def advised_by(placement: Placement, advice: Mapping[str, str]) -> Placement:
    """The placement whose shortfalls begin with the advice on their islands."""
    shortfalls = tuple(
        replace(row, remedies=(advice[row.island], *row.remedies)) if row.island in advice else row
        for row in placement.shortfalls
    )
    return replace(placement, shortfalls=shortfalls)


def advice_of(
    placement: Placement,
    demands: Sequence[PlacementDemand],
    cluster: Cluster,
    settings: PlacementSettings,
    watts: Watts,
) -> dict[str, str]:
    """By island without room, what moves of `settings.most_moves` at most would do for it, and what evictions would;
    those are left out for which no moves are found. At most 8 islands are looked at."""
    if not settings.most_moves or not placement.shortfalls:
        return {}
    by_name = {demand.island: demand for demand in demands}
    occupied = _occupied(placement, by_name, cluster)
    names = [shortfall.island for shortfall in placement.shortfalls[:MOST_ISLANDS]]
    advice = {name: _advice(by_name[name], occupied, settings, watts) for name in names}
    return {name: text for name, text in advice.items() if text}


def _advice(demand: PlacementDemand, cluster: Cluster, settings: PlacementSettings, watts: Watts) -> str:
    moves = _moves(demand, cluster, settings, watts)
    if moves is None:
        return ""
    evictions = _evictions(demand, cluster, settings, watts)
    return f"{_count(len(moves.moves), 'move')} would host it ({moves.gpu_hours:.3g} GPU-hours with both copies up)" + (
        f" against {evictions}" if evictions else "; no evictions would"
    )


def _moves(
    demand: PlacementDemand, cluster: Cluster, settings: PlacementSettings, watts: Watts
) -> Defragmentation | None:
    """Moves after which the placer does find room for the island; None where there are none, or too many."""
    plan = moves_for(cluster, demand, DefragmentationSettings(), tolerations=settings.tolerations)
    # more moves than the scenario would make are no advice
    if plan is None or len(plan.moves) > settings.most_moves:
        return None
    # the search for moves knows fewer rules than the placer, which is asked again without evictions
    after = place([demand], replay(cluster, plan.moves), replace(settings, preempt=False), watts)
    return None if after.shortfalls else plan


def _evictions(demand: PlacementDemand, cluster: Cluster, settings: PlacementSettings, watts: Watts) -> str:
    """The evictions that would host it, in words; "" where none would."""
    evicting = place([demand], cluster, replace(settings, preempt=True), watts)
    if evicting.shortfalls or evicting.evictions is None:
        return ""
    lost = evicting.evictions
    unknown = f", {lost.unknown_lost_work} of unknown checkpoints" if lost.unknown_lost_work else ""
    return f"{_count(lost.victims, 'eviction')} ({lost.lost_gpu_hours:.3g} GPU-hours lost{unknown})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _occupied(placement: Placement, demands: dict[str, PlacementDemand], cluster: Cluster) -> Cluster:
    """The cluster with the placed islands on it, which stay, and without the pods that go for them."""
    # advice is for this island beside all that was placed
    gone = {victim.pod for victim in placement.victims}
    pods = tuple(pod for pod in cluster.pods if pod.key not in gone)
    return with_islands(replace(cluster, pods=pods), placement.parts, demands.values())
