"""What one server of a bucket serves, as a curve over what all servers of the bucket serve together.

| symbol | meaning | unit |
|---|---|---|
| X | what all servers of the bucket serve where nobody waits: sum of n_i f_i | requests/s |
| c_i(X) | what one of pool i serves within the levels, in the bucket's queue | requests/s |

Pricing one mix of servers takes a search for every pool; who prices thousands of mixes of the same pools reads c_i off
its curve instead, worked out at `POINTS` values of X at once, lines between them. c_i rises with X and flattens, so
the lines lie below it.
"""

from dataclasses import dataclass

import numpy as np

from planner.cost.serving import Arrivals, Buckets, Levels
from planner.domain import BucketPool, Question
from planner.evaluation.buckets.priced import capped_rates, full_rates, servers_of

POINTS = 48
CURVE_END = 2000.0
"""Times the rate of one server, up to which a curve goes; from there on it is taken to be flat, which is below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityCurve:
    """One server of a pool: `full_rps` where nobody waits, `capped_rps` at each of `together_rps` (ascending)."""

    full_rps: float
    together_rps: tuple[float, ...]
    capped_rps: tuple[float, ...]

    def at(self, together_rps: float) -> float:
        """What it serves among servers that serve so much together."""
        return float(np.interp(together_rps, self.together_rps, self.capped_rps))


def capacity_curve(question: Question, pool: BucketPool) -> CapacityCurve:
    """The curve from one such server to as much as `CURVE_END` of them serve."""
    workload, scenario = question.workload, question.scenario
    rows = [j for j, span in enumerate(workload.ranges) if pool.start <= span.start and span.end <= pool.end]
    buckets = Buckets.of(workload, [(rows[0], rows[-1] + 1)] * POINTS)
    arrivals = Arrivals.of(scenario.router.layers(pool.phase)).thinned(float(buckets.probabilities[0]))
    late = None if pool.late_share is None else np.full(POINTS, pool.late_share)
    levels = Levels.of(scenario.slo, workload, late)
    servers = servers_of(question, pool, buckets)
    full = float(full_rates(pool, servers, buckets, levels)[0])
    together = np.geomspace(1.0, CURVE_END, POINTS) * full
    capped = capped_rates(pool, servers, buckets, levels, together, arrivals) if full > 0 else np.zeros(POINTS)
    return CapacityCurve(full_rps=full, together_rps=tuple(together.tolist()), capped_rps=tuple(capped.tolist()))
