"""What settings are judged on: stretches of a trace and seeds, some for the search and others that it never sees.

| symbol | meaning | unit |
|---|---|---|
| b, a | value of a goal on one stream, before and after | the goal's |
| g | ln(a / b), ln(b / a) where less is better | 1 |
| gain | exp(mean of g) - 1, with Student's interval of 95 % over the streams | 1 |

Both settings meet the same requests, so that what a stream does to both is in neither b nor a alone but in g no more.
"""

import math
from collections.abc import Sequence

from planner.domain import LengthProfile, RequestTrace
from planner.domain.serving.levels import Spread
from planner.domain.serving.tuning import Stream
from planner.replay.measures.columns import spread

HALF_HOUR_S = 1800.0
MOST_STRETCHES = 4  # for the search, and as many that it does not see
_NOTHING = 1e-9  # of a value that is 0, whose logarithm would have no end

Stretch = tuple[float, float] | None


def stretches_of(source: RequestTrace | LengthProfile) -> tuple[list[Stretch], list[Stretch]]:
    """Half hours of a trace for the search, and those between that it does not see; of a shorter trace its halves; of
    what has no clock nothing but seeds tells the two apart."""
    if isinstance(source, LengthProfile) or not max(source.arrival_s) > min(source.arrival_s):
        return [None], [None]
    span = max(source.arrival_s) - min(source.arrival_s)
    width = HALF_HOUR_S if span >= 2 * HALF_HOUR_S else span / 2
    starts = [number * width for number in range(int(span / width * (1 + _NOTHING)))]
    every: list[Stretch] = [(start, start + width) for start in starts]
    return _some(every[0::2]), _some(every[1::2])


def _some(stretches: list[Stretch]) -> list[Stretch]:
    """At most `MOST_STRETCHES`, evenly over all."""
    count = min(MOST_STRETCHES, len(stretches))
    return [stretches[number * len(stretches) // count] for number in range(count)]


def streams_of(stretches: Sequence[Stretch], seeds: Sequence[int], fewest: int) -> tuple[Stream, ...]:
    """Every stretch with as many of the seeds as make `fewest` streams together."""
    each = math.ceil(fewest / len(stretches))
    return tuple(Stream(between=stretch, seed=seed) for seed in seeds[:each] for stretch in stretches)


def logs(before: Sequence[float], after: Sequence[float], *, less_is_better: bool) -> list[float]:
    """g of every stream."""
    sign = -1.0 if less_is_better else 1.0
    pairs = zip(before, after, strict=True)
    return [sign * (math.log(max(a, _NOTHING)) - math.log(max(b, _NOTHING))) for b, a in pairs]


def gain_of(before: Sequence[float], after: Sequence[float], *, less_is_better: bool = False) -> Spread:
    """The share by which `after` is better, stream by stream."""
    of_logs = spread(logs(before, after, less_is_better=less_is_better))
    low, high = (None if end is None else math.expm1(end) for end in (of_logs.low, of_logs.high))
    return Spread(mean=math.expm1(of_logs.mean), low=low, high=high)


def middle(values: Sequence[float]) -> float:
    """The geometric mean; 0 where one of them is 0."""
    return math.exp(sum(math.log(value) for value in values) / len(values)) if min(values) > 0 else 0.0
