"""Configurations as columns, ranges as rows: the shape that rates are computed in."""

from dataclasses import dataclass

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array
from planner.domain import ParallelConfig, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class RateGrid:
    """Rates (requests/s), batch sizes and step times (ms), each of shape (configurations, ranges).

    Under service levels also the utilisation that the rates stop at, and the time that a bound is held against (ms):
    prefill and KV transfer, or TPOT.
    """

    rates_rps: Array
    batch_sizes: Array
    step_ms: Array
    utilisation_limits: Array | None = None
    service_ms: Array | None = None

    @classmethod
    def joined(cls, pieces: list["RateGrid"], ranges: int) -> "RateGrid":
        """The configurations of all pieces in one grid over so many ranges."""
        none = np.zeros((0, ranges))
        return cls(
            rates_rps=np.concatenate([none, *(piece.rates_rps for piece in pieces)]),
            batch_sizes=np.concatenate([none, *(piece.batch_sizes for piece in pieces)]),
            step_ms=np.concatenate([none, *(piece.step_ms for piece in pieces)]),
            utilisation_limits=_joined([piece.utilisation_limits for piece in pieces]),
            service_ms=_joined([piece.service_ms for piece in pieces]),
        )


def _joined(pieces: list[Array | None]) -> Array | None:
    arrays = [piece for piece in pieces if piece is not None]
    return np.concatenate(arrays) if arrays else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """Parallel degrees as columns of shape (configurations, 1)."""

    tp: Array
    dp: Array
    pp: Array
    replicas: Array

    @classmethod
    def of(cls, configs: list[ParallelConfig]) -> "Degrees":
        """Columns of `configs`."""
        columns = np.array([(c.tp, c.dp, c.pp, c.replicas) for c in configs], dtype=float).T[:, :, None]
        return cls(tp=columns[0], dp=columns[1], pp=columns[2], replicas=columns[3])

    @property
    def devices(self) -> Array:
        """GPUs of a replica's stage, over which experts are spread."""
        return np.asarray(self.tp * self.dp)


def midpoints(workload: Workload) -> Array:
    """Midpoint of every range, shape (1, ranges)."""
    return np.array([[r.midpoint for r in workload.ranges]], dtype=float)


def mean_prompts(workload: Workload) -> Array:
    """Mean prompt of every range, at least one token, shape (1, ranges)."""
    return np.array([[max(1.0, r.mean_input_tokens) for r in workload.ranges]], dtype=float)


def mean_answers(workload: Workload) -> Array:
    """Mean answer to the prompts of every range, at least one token, shape (1, ranges)."""
    means = (r.mean_output_tokens for r in workload.ranges)
    return np.array([[max(1.0, workload.mean_output_tokens if a is None else a) for a in means]], dtype=float)


def longest_prompts(workload: Workload) -> Array:
    """Longest prompt of every range, shape (1, ranges)."""
    return np.array([[r.longest_input_tokens for r in workload.ranges]], dtype=float)


def answer_points(tokens: Numbers, points: int) -> Array:
    """Where in answers of `tokens` tokens TPOT is sampled (offsets, one more axis); their mean stands for the whole."""
    return np.asarray((np.arange(points) + 0.5) * as_array(tokens)[..., None] / points - 0.5)
