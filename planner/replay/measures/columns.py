"""The log of one run as arrays over the requests that count, times in ms (inf: the moment never came)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.domain.slo import SloSettings
from planner.replay.engine import Engine
from planner.replay.measures.spreads import QUANTILES

Column = NDArray[np.float64]
_DEVIATIONS = 4.0  # standard ones, of the difference of two counts
_GROWTH = 0.01  # of the requests that come


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Of the requests `first` and later. `tpot`: nan where an answer has one token."""

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
    started: Column
    prefilled: Column
    placed: Column
    ended: Column
    prefill: NDArray[np.int64]
    decode: NDArray[np.int64]

    @classmethod
    def of(cls, engine: Engine, first: int) -> "Columns":
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
                started=started,
                prefilled=prefilled,
                placed=placed,
                ended=ended,
                prefill=np.array(log.prefill)[first:],
                decode=np.array(log.decode)[first:],
            )

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
