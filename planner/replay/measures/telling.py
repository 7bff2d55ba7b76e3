"""What a replay tells: whether it is long enough to tell anything, and what holds the fleet back.

| symbol | meaning | unit |
|---|---|---|
| R | time from arrival to end of the requests that came before the middle of the time that counts | ms |
| t | time from the first arrival to that middle | ms |

At a steady rate the requests in flight after a time t are E[min(R, t)] / E[R] of those there will be: until a fleet is
`FULL`, times are those of an emptier one. Where no level tells, requests in flight have to: behind a fleet that is
nearly full they grow for a few R though it keeps up, so that `LASTING` of them are waited for.

An island is named as what holds the fleet back where it is busy. A prefill island is as busy as the share of its time
with a step under way. Servers that decode are always at a step: they are as busy as the places of their batches are
taken, or the room for KV caches.
"""

import math
from collections.abc import Sequence

import numpy as np

from planner.domain.fleet import ReplayFleet
from planner.domain.layout import Phase
from planner.domain.replay import IslandUse, ReplayResult
from planner.domain.serving.levels import LevelCheck
from planner.replay.measures.columns import Column
from planner.replay.measures.results import SeedRun

FULL = 0.95
LASTING = 3.0
_HALVINGS = 30


def requests_to_tell(runs: Sequence[SeedRun], levels: Sequence[LevelCheck]) -> int:
    """Requests a seed, those of the warm-up among them, that would tell whether the levels hold and the fleet keeps
    up; 0 where these do."""
    many = max(len(run.engine.requests) for run in runs)
    untold = [many * check.requests_to_tell / max(1, check.requests) for check in levels if check.decides]
    longer = max([*untold, many * _times_as_long(runs, judged=bool(levels))], default=0.0)
    return _round_up(longer) if longer else 0


def _times_as_long(runs: Sequence[SeedRun], *, judged: bool) -> float:
    """How many times as long requests would have to come until the fleet is full by the middle; 0: it is."""
    starts = [run.engine.requests.arrival_ms[0] for run in runs]
    middles = [float(run.columns.arrival[0] + run.columns.arrival[-1]) / 2 for run in runs]
    until = float(np.mean([middle - start for middle, start in zip(middles, starts, strict=True)]))
    early = [run.columns.end_to_end[run.columns.arrival <= middle] for run, middle in zip(runs, middles, strict=True)]
    lasting = np.concatenate(early)
    lasting = lasting[np.isfinite(lasting)]
    if not len(lasting) or not until:
        return 0.0
    if not judged:
        return _if_above_one(LASTING * float(lasting.mean()) / until)
    if _share_full(lasting, until) >= FULL:
        return 0.0
    # The share only rises with the time.
    low, high = until, float(lasting.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _share_full(lasting, middle) >= FULL else (middle, high)
    # The end at which the fleet is known to be full.
    return high / until


def _if_above_one(times: float) -> float:
    return times if times > 1 else 0.0


def _share_full(lasting: Column, until_ms: float) -> float:
    """E[min(R, t)] / E[R]."""
    return float(np.minimum(lasting, until_ms).mean() / lasting.mean())


def _round_up(requests: float) -> int:
    """To two digits."""
    # More digits would claim to know it better than a draw can.
    unit = 10.0 ** max(0, math.floor(math.log10(requests)) - 1)
    return int(math.ceil(requests / unit) * unit)


_CROWDED = 0.9
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
    if island.most_kv_share.mean > _CROWDED:
        return f", its KV caches filled {island.most_kv_share.mean:.0%} of their room at most"
    return ""
