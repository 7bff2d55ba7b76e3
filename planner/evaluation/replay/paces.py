"""How much slower servers are than a replay of the same requests takes them to be.

| symbol | meaning | unit |
|---|---|---|
| f | ln of the factor on the step times of a phase: prefill pools, or those that decode or do both | 1 |
| r(f) | middle mean of ln(measured / replayed TTFT or TPOT), replayed with steps exp(f) times as long | 1 |
| J | -dr/df | 1 |

f is where r(f) = 0 in every phase at once, so that a queue that grows behind slower servers is not taken for steps.
The middle mean leaves out a quarter at either end: requests that the real router sent elsewhere than the replay's.
Newton's step by Broyden's update: J starts as the unit matrix, the truth of servers without queues. Its interval is
that of r over blocks of requests in the order in which they came (Tukey's, of a trimmed mean by its winsorised values),
through J: chance alone. What the network, the router and the client add to TTFT counts as prefill.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.domain import Phase
from planner.domain.fleet import ReplayFleet, ReplayPool, Row
from planner.replay.measures.columns import Columns

FEWEST = 20
"""Requests that a factor is told of at least."""

_ROUNDS, _NEAR, _STRIDE = 12, 5e-4, 0.4
_TRIMMED = 0.25
_FARTHEST = 3.0  # ln: twenty times as fast or as slow
_BLOCKS, _T = 20, 2.093  # Student's t of 19 degrees, for 95 %

_Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedTime:
    """Step times of a phase over the replay's: 1.15 means 15 % slower; with the interval of 95 %, of `requests`."""

    phase: Phase
    factor: float
    low: float
    high: float
    requests: int


def slowed(fleet: ReplayFleet, factor_of: Callable[[ReplayPool], float]) -> ReplayFleet:
    """The fleet with every pool's step times multiplied."""
    return replace(fleet, pools=tuple(_slowed(pool, factor_of(pool)) for pool in fleet.pools))


def _slowed(pool: ReplayPool, factor: float) -> ReplayPool:
    def rows(times: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(tuple(factor * time for time in row) for row in times)

    prompts, answers, chunks = pool.prompts, pool.answers, pool.chunks
    return replace(
        pool,
        prompts=prompts and replace(prompts, step_ms=rows(prompts.step_ms)),
        answers=answers and replace(answers, pass_ms=rows(answers.pass_ms)),
        chunks=chunks and replace(chunks, added_ms=tuple(rows(of_length) for of_length in chunks.added_ms)),
        redo_ms=factor * pool.redo_ms,
    )


def half_of(pool: ReplayPool) -> Phase:
    """Whose factor a pool's step times have: servers of both phases step as those that decode."""
    return Phase.PREFILL if pool.phase is Phase.PREFILL else Phase.DECODE


def fit_times(
    fleet: ReplayFleet, replayed: Callable[[ReplayFleet], Columns], measured: Columns
) -> tuple[FittedTime, ...]:
    """The factors of the phases that are told apart; none where too few requests were answered, or no factors bring the
    replay to what was measured. `replayed`: the columns of the same requests before such a fleet."""
    phases = sorted({half_of(pool) for pool in fleet.pools}, key=lambda phase: phase is Phase.DECODE)

    def missed(logs: _Vector) -> list[_Vector]:
        factors = dict(zip(phases, np.exp(logs).tolist(), strict=True))
        columns = replayed(slowed(fleet, lambda pool: factors[half_of(pool)]))
        return [_log_ratios(phase, measured, columns) for phase in phases]

    logs, slopes = np.zeros(len(phases)), np.eye(len(phases))
    rows = missed(logs)
    if min(map(len, rows)) < FEWEST:
        return ()
    residual = _means(rows)
    for _ in range(_ROUNDS):
        if np.abs(residual).max() < _NEAR:
            break
        step = np.clip(np.linalg.solve(slopes, residual), -_STRIDE, _STRIDE)
        logs = logs + step
        rows = missed(logs)
        change, residual = residual - _means(rows), _means(rows)
        slopes = slopes + np.outer(change - slopes @ step, step) / float(step @ step)
    if np.abs(residual).max() > 20 * _NEAR or np.abs(logs).max() > _FARTHEST:
        return ()
    return tuple(_with_intervals(phases, logs, slopes, rows))


def _log_ratios(phase: Phase, measured: Columns, columns: Columns) -> _Vector:
    """ln(measured / replayed) of the requests that have both times, in the order in which they came."""
    name = "ttft" if phase is Phase.PREFILL else "tpot"
    times, others = getattr(measured, name), getattr(columns, name)
    both = np.isfinite(times) & np.isfinite(others) & (times > 0) & (others > 0)
    return np.asarray(np.log(times[both] / others[both]))


def _means(rows: Sequence[_Vector]) -> _Vector:
    return np.array([_middle_mean(row) for row in rows])


def _middle_mean(row: _Vector) -> float:
    out = int(_TRIMMED * len(row))
    return float(np.sort(row)[out : len(row) - out].mean()) if len(row) else 0.0


def _with_intervals(
    phases: Sequence[Phase], logs: _Vector, slopes: _Vector, rows: Sequence[_Vector]
) -> list[FittedTime]:
    """Factors with their intervals."""
    errors = np.diag([_squared_error(row) for row in rows])
    through = np.linalg.inv(slopes)
    widths = _T * np.sqrt(np.diag(through @ errors @ through.T))
    return [
        FittedTime(
            phase=phase,
            factor=float(np.exp(log)),
            low=float(np.exp(log - width)),
            high=float(np.exp(log + width)),
            requests=len(row),
        )
        for phase, log, width, row in zip(phases, logs, widths, rows, strict=True)
    ]


def _squared_error(row: _Vector) -> float:
    """Of the middle mean, over blocks in a row: neighbours wait in the same queue."""
    low, high = np.quantile(row, (_TRIMMED, 1 - _TRIMMED))
    means = [float(block.mean()) for block in np.array_split(np.clip(row, low, high), min(_BLOCKS, len(row)))]
    return float(np.var(means, ddof=1)) / len(means) / (1 - 2 * _TRIMMED) ** 2
