"""What an island does under a reading: the published simulator's steps, counted as the thesis's text or code has it.

| symbol | meaning | unit |
|---|---|---|
| G, tp, r | GPUs of the island, degree of tensor parallelism, replicas of G / r GPUs | 1 |
| s, e | midpoint and end of a range | tokens |
| N, M | mean and longest answer | tokens |
| b | sequences of a GPU | 1 |
| R[c, j], p[j] | rate of configuration c on range j, probability of the range | requests/s, 1 |

prefill 1000 / t(s); decode 1000 r b / sum over an answer's tokens of t(s + i).
The configuration that an island gets has the least mean over j of (best_j - R[c, j]) / best_j; in Point.WORST the
least of (R[c, j] - best_j) / best_j, which is the greatest.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from planner.cost.arrays import Array, ceil_divide, divisors
from planner.cost.reference import decode_step, max_batch, prefill_step
from planner.domain import ClassPerformance, GpuSpec, IslandClass, ModelSpec, ParallelConfig, PhasePerformance, Workload
from planner.studies.chapter5.readings.records import Point, Reading

LARGEST_DEGREE = 8
LARGEST_BATCH, BATCH_STEP = 1024, 8
MS_PER_S = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Prices islands of a model on a workload under a reading."""

    reading: Reading
    model: ModelSpec
    workload: Workload

    def row(self, gpu: GpuSpec, size: int) -> ClassPerformance:
        """An island in both phases."""
        return ClassPerformance(
            island=IslandClass(gpu=gpu.name, size=size),
            prefill=self._chosen(self._degrees(size, replicas=False), lambda pair: self._prefill(gpu, size, pair)),
            decode=self._chosen(self._degrees(size, replicas=True), lambda pair: self._decode(gpu, size, pair)),
        )

    def _degrees(self, size: int, *, replicas: bool) -> list[tuple[int, int]]:
        """(tp, r) of every configuration."""
        if Point.DEGREES in self.reading:
            some = [degree for degree in divisors(size) if degree <= LARGEST_DEGREE]
            return [(tp, r) for tp in some for r in (some if replicas else [1])]
        copies = divisors(size) if replicas else [1]
        return [(tp, r) for r in copies for tp in divisors(size // r)]

    def _chosen(self, degrees: list[tuple[int, int]], rates_of: Callable[[Array], Array]) -> PhasePerformance:
        rates = rates_of(np.array(degrees, dtype=float).T[:, :, None])
        best = rates.max(axis=0)
        short = np.divide(best - rates, best, out=np.zeros(rates.shape), where=best > 0)
        mixed = self._probabilities if Point.MEAN not in self.reading else np.full(len(best), 1 / len(best))
        missed = short @ mixed
        place = int(np.argmax(missed) if Point.WORST in self.reading else np.argmin(missed))
        tp, r = degrees[place]
        return PhasePerformance(
            parallel=ParallelConfig(tp=tp, dp=1, replicas=r),
            rates_rps=tuple(rates[place].tolist()),
            batch_sizes=(1,) * len(best),
            step_ms=(1.0,) * len(best),
        )

    def _prefill(self, gpu: GpuSpec, size: int, degrees: Array) -> Array:
        tp, _ = degrees
        hits = 1.0 if Point.HITS in self.reading else 0.0
        step = prefill_step(gpu, self.model, seq_len=self._midpoints, tp=tp, dp=size / tp, kv_cache_rate=hits)
        return np.asarray(MS_PER_S / step.total_ms)

    def _decode(self, gpu: GpuSpec, size: int, degrees: Array) -> Array:
        tp, r = degrees
        devices = size // r
        batch = self._batch(gpu, tp, devices)
        offsets = self._offsets
        step = decode_step(
            gpu,
            self.model,
            seq_len=self._midpoints[..., None] + offsets,
            tp=tp[..., None],
            batch_size=np.maximum(batch, 1)[..., None],
            devices=devices[..., None],
        )
        token_ms = (step.overlapped_ms if Point.HIDDEN in self.reading else step.total_ms).mean(axis=-1)
        return np.asarray(r * batch * MS_PER_S / (self._tokens * token_ms))

    @property
    def _tokens(self) -> int:
        """Of an answer, those that take time."""
        return max(1, round(self.workload.mean_output_tokens)) - (Point.TOKENS in self.reading)

    @property
    def _offsets(self) -> Array:
        """Where in an answer a token is: where nothing waits for communication its mean place stands for all, as times
        grow linearly with length."""
        places = np.arange(self._tokens, dtype=float) + (Point.TOKENS in self.reading)
        if Point.HIDDEN in self.reading:
            return np.array([places.mean()], dtype=float)
        return places

    def _batch(self, gpu: GpuSpec, tp: Array, devices: Array) -> Array:
        """Sequences of a GPU; 0 where none fit."""
        experts = self.model.experts
        assert experts is not None, "the thesis serves a mixture of experts"

        def fitting(length: Array, answer: float) -> Array:
            on_device = ceil_divide(experts.routed, devices) + experts.shared
            return max_batch(gpu, self.model, seq_len=length, decode_len=answer, tp=tp, experts_on_device=on_device)

        longest = float(self.workload.max_output_tokens)
        if Point.BATCH not in self.reading:
            limit = fitting(self._midpoints, longest)
            floor = np.minimum(np.floor(np.maximum(limit, 0)), LARGEST_BATCH)
            return np.where(limit >= 1, np.maximum(floor - floor % BATCH_STEP, BATCH_STEP), 0.0)
        limit = np.minimum(fitting(self._ends, longest), LARGEST_BATCH)
        batch = np.maximum(limit - np.mod(limit, BATCH_STEP), BATCH_STEP)
        return np.where(batch <= fitting(self._midpoints, float(round(self.workload.mean_output_tokens))), batch, 0.0)

    @property
    def _midpoints(self) -> Array:
        return np.array([[span.midpoint for span in self.workload.ranges]], dtype=float)

    @property
    def _ends(self) -> Array:
        return np.array([[span.end for span in self.workload.ranges]], dtype=float)

    @property
    def _probabilities(self) -> Array:
        return np.array([span.probability for span in self.workload.ranges])
