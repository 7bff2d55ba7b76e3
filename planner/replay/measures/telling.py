"""Whether a replay is long enough to tell, and how many requests that takes at least.

| symbol | meaning | unit |
|---|---|---|
| R | time from arrival to end of the requests that came before the middle of the time that counts | ms |
| t | time from the first arrival to that middle | ms |

At a steady rate the requests in flight after a time t are E[min(R, t)] / E[R] of those there will be: until a fleet is
`FULL`, times are those of an emptier one. Where no level tells, requests in flight have to: behind a fleet that is
nearly full they grow for a few R though it keeps up, so that `LASTING` of them are waited for.
"""

import math
from collections.abc import Sequence

import numpy as np

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
