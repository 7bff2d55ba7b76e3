"""Figures over seeds with their intervals, and what they are of: the log of a run as arrays (ms; inf: never reached).

| symbol | meaning |
|---|---|
| n, m, s | seeds, mean and standard deviation (n - 1) of the figure over them |

interval of 95 %: m -+ t s / sqrt(n), t the quantile of Student's distribution with n - 1 degrees of freedom.

Share of the requests that keep a bound, those that come one after the other not being independent:

| symbol | meaning |
|---|---|
| N, p | requests of all seeds, share of them that keeps the bound |
| b, v | requests of a block, of `BLOCKS` a seed; mean square of the blocks' shares about p |
| D | what blocks vary by over what independent requests would: max(1, b v / (p (1 - p))) |
| N', z | N / D; quantile of the normal distribution for 99 % |

interval of 99 % (Wilson): (p + z^2 / 2N' -+ z sqrt(p (1 - p) / N' + z^2 / 4N'^2)) / (1 + z^2 / N').
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from planner.domain.replay import Times
from planner.domain.serving.levels import CERTAIN, Spread
from planner.domain.slo import SloSettings
from planner.replay.stations.serving import PlayedRun

QUANTILES = (50.0, 90.0, 95.0, 99.0)
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_NORMAL = 1.959964


def spread(values: Sequence[float]) -> Spread:
    """Of values; their mean is infinite where one of them is, and has no interval then."""
    mean = sum(values) / len(values) if values else 0.0
    if len(values) < 2 or not isfinite(mean):
        return Spread(mean=mean)
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    width = _student(len(values) - 1) * deviation / sqrt(len(values))
    return Spread(mean=mean, low=mean - width, high=mean + width)


BLOCKS = 20
"""Blocks of a seed's requests, in the order in which they come: enough to tell D within a fifth in three seeds."""


def kept_share(kept_by_seed: Sequence[NDArray[np.bool_]]) -> Spread:
    """The share of requests that keep a bound with its interval of 99 %; of each seed who does, as they came."""
    keeps = np.concatenate(kept_by_seed)
    if not len(keeps):
        return Spread(mean=1.0, low=0.0, high=1.0)
    share = float(keeps.mean())
    blocks = [block for seed in kept_by_seed for block in np.array_split(seed, BLOCKS) if len(block)]
    squares = sum(len(block) ** 2 * (float(block.mean()) - share) ** 2 for block in blocks) / len(keeps)
    alone = share * (1 - share)
    counted = len(keeps) / max(1.0, squares / alone) if alone else float(len(keeps))
    z2 = CERTAIN**2 / counted
    middle, width = share + z2 / 2, CERTAIN * sqrt(alone / counted + z2 / (4 * counted))
    return Spread(mean=share, low=max(0.0, (middle - width) / (1 + z2)), high=min(1.0, (middle + width) / (1 + z2)))


def _student(degrees: int) -> float:
    """t; beyond the table by the first terms of its expansion about the normal quantile (Cornish and Fisher)."""
    if degrees <= len(_T):
        return _T[degrees - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def times(by_seed: Sequence[Sequence[float] | None]) -> Times | None:
    """Of rows (mean, P50, P90, P95, P99), one a seed; None where no seed has any."""
    rows = [row for row in by_seed if row is not None]
    if not rows:
        return None
    mean, p50, p90, p95, p99 = (spread(column) for column in zip(*rows, strict=True))
    return Times(mean=mean, p50=p50, p90=p90, p95=p95, p99=p99)


Column = NDArray[np.float64]
_DEVIATIONS = 4.0  # standard ones, of the difference of two counts
_GROWTH = 0.01  # of the requests that come


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Of the requests `first` and later. `tpot`: nan where an answer has one token; `loads`: tokens from each tier of
    the fleet, a column each; `later`: whether it is a later turn of its session."""

    arrival: Column
    prompt: NDArray[np.int64]
    answer: NDArray[np.int64]
    ttft: Column
    tpot: Column
    end_to_end: Column
    queue: Column
    transfer: Column
    place: Column
    hits: Column
    loads: Column
    later: NDArray[np.bool_]
    started: Column
    prefilled: Column
    placed: Column
    ended: Column
    prefill: NDArray[np.int64]
    decode: NDArray[np.int64]

    @classmethod
    def of(cls, engine: PlayedRun, first: int) -> "Columns":
        """The columns of a run."""
        log, requests = engine.log, engine.requests
        arrival = np.array(requests.arrival_ms[first:])
        answer = np.array(requests.answer[first:])

        def moments(column: object) -> Column:
            values = np.array(column, dtype=float)[first:]
            return np.where(np.isnan(values), np.inf, values)

        started, prefilled, arrived = moments(log.started), moments(log.prefilled), moments(log.arrived)
        placed, first_token, ended = moments(log.placed), moments(log.first), moments(log.ended)
        with np.errstate(invalid="ignore"):
            later = np.where(np.isinf(ended), np.inf, ended - first_token) / np.maximum(answer - 1, 1)
            return cls(
                arrival=arrival,
                prompt=np.array(requests.prompt[first:]),
                answer=answer,
                ttft=first_token - arrival,
                tpot=np.where(answer > 1, later, np.nan),
                end_to_end=ended - arrival,
                queue=started - arrival,
                transfer=_between(prefilled, arrived),
                place=_between(arrived, placed),
                hits=np.array(log.hits, dtype=float)[first:],
                loads=np.array([*log.loads.values()], dtype=float).reshape(len(log.loads), len(requests)).T[first:],
                later=np.array(requests.turns.later if requests.turns else [False] * len(requests))[first:],
                started=started,
                prefilled=prefilled,
                placed=placed,
                ended=ended,
                prefill=np.array(log.prefill)[first:],
                decode=np.array(log.decode)[first:],
            )

    def between(self, since: float, until: float) -> "Columns":
        """Of the requests that came between two moments (ms), in the order in which they did."""
        order = np.argsort(self.arrival, kind="stable")
        moments = self.arrival[order]
        return self.of_rows(order[(moments >= since) & (moments <= until)])

    def of_rows(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> "Columns":
        """Of some of the requests."""
        return replace(self, **{column.name: getattr(self, column.name)[rows] for column in fields(self)})

    def bounds(self, slo: SloSettings) -> tuple[Column, Column]:
        """The bounds on (TTFT, TPOT) of each request, inf without one."""
        lengths, where = np.unique(self.prompt, return_inverse=True)
        pairs = [slo.bounds(tokens) for tokens in lengths.tolist()]
        pairs_ms = np.array([[np.inf if bound is None else bound for bound in pair] for pair in pairs])
        return pairs_ms[where, 0], pairs_ms[where, 1]

    def within_bounds(self, slo: SloSettings) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether each request kept its bounds on (TTFT, TPOT); without one it did if it ended."""
        ttft, tpot = self.bounds(slo)
        done = np.isfinite(self.ended)
        return (self.ttft <= ttft) & done, (np.isnan(self.tpot) | (self.tpot <= tpot)) & done

    @property
    def more_in_flight(self) -> int:
        """By how many requests those in flight grew over the second half of the time; 0 where that may be chance.

        A fleet that keeps up has as many at the end as in the middle, but for the square root of them; one that gets
        1 % more than it serves has 1 % of what came.
        """
        start, end = float(self.arrival[0]), float(self.arrival[-1])
        middle, last = (self._in_flight(moment) for moment in ((start + end) / 2, end))
        arrived = int((self.arrival > (start + end) / 2).sum())
        by_chance = _DEVIATIONS * float(np.sqrt(middle + last)) + _GROWTH * arrived
        return last - middle if last - middle > by_chance else 0

    def _in_flight(self, moment: float) -> int:
        return int((self.arrival <= moment).sum() - (self.ended <= moment).sum())


def _between(start: Column, end: Column) -> Column:
    """From one moment to the next; inf where the next never came."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isinf(end), np.inf, end - start))


def quantiles(values: Column) -> tuple[float, ...] | None:
    """(mean, P50, P90, P95, P99) of the values that are numbers; None where there are none."""
    numbers = values[~np.isnan(values)]
    if not len(numbers):
        return None
    # A value that was measured: between one that is infinite and another there is no number.
    ranked = np.quantile(numbers, [q / 100 for q in QUANTILES], method="inverted_cdf")
    return (float(numbers.mean()), *(float(value) for value in ranked))
