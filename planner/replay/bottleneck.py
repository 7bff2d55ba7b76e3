"""What holds a replayed fleet back, in words: an island is named where it is busy.

A prefill island is as busy as the share of its time with a step under way. Servers that decode are always at a step:
they are as busy as the places of their batches are taken, or the room for KV caches.
"""

from planner.domain.fleet import ReplayFleet
from planner.domain.layout import Phase
from planner.domain.replay import IslandUse, ReplayResult
from planner.domain.serving.levels import LevelCheck

_FULL = 0.9
_BUSY = 0.7
"""Load from which waits pile up behind an island: below, its requests wait for what they do themselves."""


def bottleneck_of(result: ReplayResult, fleet: ReplayFleet) -> str:
    """One sentence: the level that breaks first or is nearest to it, and the busy island behind it."""
    if not result.islands:
        return ""
    loads = {use.island: _load(use, pool.batch) for use, pool in zip(result.islands, fleet.pools, strict=True)}
    level = min((level for level in result.levels if level.bound_ms is not None), key=_slack, default=None)
    if level is None:
        busiest = max(loads, key=lambda island: loads[island])
        return f"{busiest} is the busiest, {loads[busiest]:.0%} of what it can do."
    state = "is nearest to its bound" if level.seems_kept else "is broken"
    return f"{level.name} {state}: {_cause(level, result, loads)}."


def _load(use: IslandUse, places: int) -> float:
    """How much of what it can do an island does, up to 1."""
    batch = use.batch.mean * use.utilisation.mean / places if places else 0.0
    taking = use.utilisation.mean if use.phase is Phase.PREFILL else 0.0
    return min(1.0, max(taking, batch, use.kv_share.mean))


def _slack(level: LevelCheck) -> float:
    if level.needed:
        return level.keeping - level.needed
    return 1 - level.time_ms / level.bound_ms if level.bound_ms else 1.0


def _cause(level: LevelCheck, result: ReplayResult, loads: dict[str, float]) -> str:
    taking = [island for island in result.islands if island.phase is not Phase.DECODE]
    answering = [island for island in result.islands if island.phase is not Phase.PREFILL]
    if level.phase is Phase.DECODE:
        fullest = max(answering, key=lambda island: island.batch.mean * island.utilisation.mean)
        return f"{fullest.island} answers {fullest.batch.mean:.0f} sequences a rank at a time{_crowded(fullest)}"
    place, queue = result.total.place_ms, result.total.queue_ms
    if place is not None and queue is not None and place.p99.mean > queue.p99.mean:
        fullest = max(answering, key=lambda island: island.wait_ms.p99.mean if island.wait_ms else 0.0)
        return f"prompts wait for a place in {fullest.island}{_crowded(fullest)}"
    slowest = max(taking, key=lambda island: island.wait_ms.p99.mean if island.wait_ms else 0.0)
    wait_ms = slowest.wait_ms.p99.mean if slowest.wait_ms else 0.0
    busy = "" if loads[slowest.island] >= _BUSY else f", busy {loads[slowest.island]:.0%} of its time"
    return f"P99 of the wait for a prefill step of {slowest.island} is {wait_ms:.0f} ms{busy}"


def _crowded(island: IslandUse) -> str:
    if island.most_kv_share.mean > _FULL:
        return f", its KV caches filled {island.most_kv_share.mean:.0%} of their room at most"
    return ""
