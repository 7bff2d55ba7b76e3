"""Intervals of prompt length with the moments of their mix, and the bounds that hold in them.

| symbol | meaning | unit |
|---|---|---|
| j, B | range of the workload, bucket: ranges a <= j < b | |
| p[j], P(B) | probability of a range, of a bucket | 1 |
| w[B, j] | p[j] / P(B) inside the bucket, else 0 | 1 |
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.cost.arrays import Array
from planner.cost.grid import longest_prompts, mean_answers, mean_prompts
from planner.cost.service_levels import FIRST_STEP_MS
from planner.domain import SloSettings, Workload
from planner.domain.service import range_bounds

Interval = tuple[int, int]  # first range, range after the last


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """`intervals` of the ranges of a workload. `weights` has shape (buckets, ranges), `probabilities` (buckets,);
    `prompts`, `longest` and `answers` are tokens of the ranges, shape (ranges,)."""

    intervals: tuple[Interval, ...]
    weights: Array
    probabilities: Array
    prompts: Array
    longest: Array
    answers: Array

    @classmethod
    def of(cls, workload: Workload, intervals: Sequence[Interval]) -> "Buckets":
        """The mixes of `intervals`."""
        chance = np.array([span.probability for span in workload.ranges])
        inside = np.zeros((len(intervals), len(chance)))
        for row, (first, after) in enumerate(intervals):
            inside[row, first:after] = chance[first:after]
        probabilities = inside.sum(axis=1)
        return cls(
            intervals=tuple(intervals),
            weights=inside / probabilities[:, None],
            probabilities=probabilities,
            prompts=mean_prompts(workload)[0],
            longest=longest_prompts(workload)[0],
            answers=mean_answers(workload)[0],
        )

    @classmethod
    def of_lengths(cls, lengths: Sequence[int], probabilities: Sequence[float], answers: Sequence[float]) -> "Buckets":
        """One bucket of exact lengths (tokens), each a range of its own, with its mean answer (tokens)."""
        prompts, chance = np.array(lengths, dtype=float), np.array(probabilities, dtype=float)
        return cls(
            intervals=((0, len(lengths)),),
            weights=(chance / chance.sum())[None],
            probabilities=chance.sum(keepdims=True),
            prompts=prompts,
            longest=prompts,
            answers=np.array(answers, dtype=float),
        )

    def rps_of(self, seconds: Array) -> Array:
        """Requests/s of each bucket of what takes so many `seconds` of a request of a range, shape (servers, ranges);
        inf where it takes none. Shape (servers, buckets)."""
        mean = seconds @ self.weights.T
        return np.asarray(np.divide(1.0, mean, out=np.full(mean.shape, np.inf), where=mean > 0))

    @property
    def members(self) -> Array:
        """Whether a range is in a bucket, shape (buckets, ranges)."""
        return np.asarray(self.weights > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Bounds on the ranges of a workload, shape (ranges,), inf where there is none (ms).

    `misses`: share of a bucket's requests that may miss the bound on TTFT, shape (buckets,); None: bounds hold for the
    mean. `spread`: standard deviations that the bound on TPOT keeps above the mean load. `first_ms`: what the first
    decode step takes of a TTFT, where the decode servers are known; else the bound on TPOT stands for it.
    """

    ttft_ms: Array
    tpot_ms: Array
    misses: Array | None
    spread: float
    first_ms: float | None = None

    @classmethod
    def of(cls, slo: SloSettings, workload: Workload, misses: Array | None = None) -> "Levels":
        """The bounds of `slo`; `misses` of each bucket, where not all have the same."""
        pairs = [range_bounds(slo, span) for span in workload.ranges]
        ttft, tpot = (np.array([np.inf if b is None else b for b in column]) for column in zip(*pairs, strict=True))
        if slo.percentile is None:
            return cls(ttft_ms=ttft, tpot_ms=tpot, misses=None, spread=0.0)
        from scipy.special import ndtri  # noqa: PLC0415  (slow to load, needed under service levels only)

        missed = 1 - slo.percentile / 100
        return cls(
            ttft_ms=ttft,
            tpot_ms=tpot,
            misses=np.array([missed]) if misses is None else misses,
            # Below P50 the mean load decides.
            spread=max(0.0, float(ndtri(1 - missed))),
        )

    def least_ttft_ms(self, buckets: Buckets) -> Array:
        """The tightest bound on TTFT in each bucket, shape (buckets,); inf where there is none."""
        return np.asarray(np.where(buckets.members, self.ttft_ms, np.inf).min(axis=1))

    @property
    def bounds_ttft(self) -> bool:
        """Whether the TTFT of some range is bounded."""
        return bool(np.isfinite(self.ttft_ms).any())

    @property
    def first_step_ms(self) -> Array:
        """What the first decode step takes of a TTFT, shape (ranges,)."""
        if self.first_ms is not None:
            return np.full(np.shape(self.ttft_ms), self.first_ms)
        return np.asarray(np.where(np.isfinite(self.tpot_ms), self.tpot_ms, FIRST_STEP_MS))


def pool_rps(together_rps: Array, rate: Array, full: Array, *, served: bool) -> Array:
    """Full rate of all servers of the buckets (requests/s), shape (..., servers, buckets) as `rate`: `together_rps`, or
    where that is what is `served`, of those that serve it at `rate`; `full`: of one server. There is always one."""
    if not served:
        return np.broadcast_to(together_rps, rate.shape)
    needed = np.divide(together_rps * full, rate, out=np.full(rate.shape, np.inf), where=rate > 0)
    return np.asarray(np.maximum(needed, full))
