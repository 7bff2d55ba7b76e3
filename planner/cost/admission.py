"""What share of its time an island may work, in the one queue that all its ranges share.

| symbol | meaning | unit |
|---|---|---|
| w[j] | share of its busy time that goes to range j; 0: it does not serve it | 1 |
| slack | what the other parts of TTFT leave for the wait, the least of the ranges served | ms |

The answer is the largest utilisation at which the wait in the mixture keeps within the slack: the table's
`utilisation_limits` are the same for a range alone. Many mixtures are asked at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.cost.service_levels import ANSWERS_VARY
from planner.cost.waiting import Queue
from planner.domain import PHASES, Phase, PhasePerformance

_NEGLIGIBLE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """An island's work in one phase: `busy[j]`, shares of its busy time (of any sum), and its slack (ms)."""

    phase: Phase
    performance: PhasePerformance
    busy: tuple[float, ...]
    slack_ms: float


def admitted_shares(mixtures: Sequence[Mixture], mean_output_tokens: float, misses: float | None) -> list[float]:
    """The share of its time that an island of each mixture may work; 1 where it need not keep to anything.

    `misses`: the share of requests that may miss the bound in this queue; None: the bound holds for the mean.
    """
    shares = np.ones(len(mixtures))
    for phase in PHASES:
        members = [k for k, mixture in enumerate(mixtures) if mixture.phase is phase]
        if members:
            slack = np.array([mixtures[k].slack_ms for k in members])
            queue = _queue(phase, [mixtures[k] for k in members], max(1.0, mean_output_tokens))
            shares[members] = queue.largest_utilisation(slack, misses)
    return [float(share) for share in shares]


def _queue(phase: Phase, mixtures: Sequence[Mixture], tokens: float) -> Queue:
    """The queues of all mixtures of a phase, one a row."""
    busy = np.array([mixture.busy for mixture in mixtures])
    parallel = [mixture.performance.parallel for mixture in mixtures]
    groups = np.array([[float(config.dp if config else 1)] for config in parallel])
    stages = np.array([[float(config.pp if config and phase is Phase.PREFILL else 1)] for config in parallel])
    places = np.array([mixture.performance.batch_sizes for mixture in mixtures]) * groups
    times = np.array([mixture.performance.step_ms for mixture in mixtures]) / stages
    decode, served = phase is Phase.DECODE, busy > _NEGLIGIBLE
    return Queue(
        # Ranges that it does not serve have no times: any do, as their share is 0.
        places=np.where(served, places, 1.0),
        interval_ms=np.where(served, times, 1.0) * (tokens if decode else 1.0),
        shares=np.where(served, busy, 0.0) / busy.sum(axis=1, keepdims=True),
        in_steps=not decode,
        variation=ANSWERS_VARY if decode else 0.0,
    )
