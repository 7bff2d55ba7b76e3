"""What holds a replayed fleet back, in words."""

from planner.domain.layout import Phase
from planner.domain.replay.results import IslandUse, LevelCheck, ReplayResult

_FULL = 0.9


def bottleneck_of(result: ReplayResult) -> str:
    """One sentence: the level that breaks first or is nearest to it, and the island behind it."""
    if not result.islands:
        return ""
    level = min(result.levels, key=_slack, default=None)
    if level is None:
        busiest = max(result.islands, key=lambda island: island.utilisation.mean)
        return f"{busiest.island} is the busiest, {busiest.utilisation.mean:.0%} of its time."
    state = "is broken" if not level.holds else "is nearest to its bound"
    return f"{level.name} {state}: {_cause(level, result)}."


def _slack(level: LevelCheck) -> float:
    if level.needed:
        return level.share.mean - level.needed
    return 1 - level.value_ms.mean / level.bound_ms if level.bound_ms else 1.0


def _cause(level: LevelCheck, result: ReplayResult) -> str:
    taking = [island for island in result.islands if island.phase is not Phase.DECODE]
    answering = [island for island in result.islands if island.phase is not Phase.PREFILL]
    if level.name.startswith("TPOT"):
        fullest = max(answering, key=lambda island: island.batch.mean * island.utilisation.mean)
        return f"{fullest.island} answers {fullest.batch.mean:.0f} sequences a rank at a time{_crowded(fullest)}"
    place, queue = result.total.place_ms, result.total.queue_ms
    if place is not None and queue is not None and place.p99.mean > queue.p99.mean:
        fullest = max(answering, key=lambda island: island.wait_ms.p99.mean if island.wait_ms else 0.0)
        return f"prompts wait for a place in {fullest.island}{_crowded(fullest)}"
    slowest = max(taking, key=lambda island: island.wait_ms.p99.mean if island.wait_ms else 0.0)
    wait_ms = slowest.wait_ms.p99.mean if slowest.wait_ms else 0.0
    return f"P99 of the wait for a prefill step of {slowest.island} is {wait_ms:.0f} ms"


def _crowded(island: IslandUse) -> str:
    if island.most_kv_share.mean > _FULL:
        return f", its KV caches filled {island.most_kv_share.mean:.0%} of their room at most"
    return ""
