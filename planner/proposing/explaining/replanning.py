"""A plan of buckets planned again with one key of its scenario changed, within a budget of CPU time.

A change of servers is sought between a value where they are as in the plan and one further off: that is tried first,
and where it changes them the values between are halved, on a scale of ratios, until the two sides are `CLOSE`.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planner.domain import BucketPool, Phase, Plan, Scenario, ServerConfig
from planner.domain.explanations import WhatIf
from planner.errors import InfeasibleError, InputError, SolverError
from planner.evaluation.buckets.service import PricedPools
from planner.evaluation.evaluator import open_evaluator
from planner.proposing.buckets.pools import solve_buckets
from planner.proposing.buckets.ties import best_of_ties
from planner.proposing.certificate import is_exact
from planner.proposing.feasibility import posed

CLOSE = 1.02
"""Ratio of the two values between which a change is told."""
DIGITS = 4
NOTHING = "nothing serves"
NEAR, FAR = 2.0, 4.0

Change = Callable[[Scenario, float], Scenario]


@dataclass(frozen=True, slots=True)
class Replanned:
    """The pools of a phase, or who serves which phase, in words, with their kinds; `rate_rps` None: nothing serves."""

    kinds: frozenset[tuple[object, ...]]
    words: str
    rate_rps: float | None


class Replanner:
    """Plans again while `seconds` of CPU time last; what it costs is what the plan itself took."""

    def __init__(self, plan: Plan, seconds: float) -> None:
        self.plan = plan
        self._left_s = seconds
        rounds = [row.generation_cpu_s for row in plan.search.rounds]
        self.price_s = sum(spent for spent in rounds if spent is not None)
        replays = plan.scenario.objective.kind.row.replayed
        self.comparable = plan.form.row.pooled and is_exact(plan.scenario) and not replays

    @property
    def affords(self) -> bool:
        """Whether there is time for another plan."""
        return self.comparable and self.price_s <= self._left_s

    def phase(self, scenario: Scenario, phase: Phase | None) -> Replanned | None:
        """The plan's phase under another scenario (None: which GPU types serve which phase); None where time is out, or
        the solver's was."""
        if not self.affords:
            return None
        began_s = time.process_time()
        try:
            priced = pools_of(scenario)
        except (InfeasibleError, InputError):
            return Replanned(frozenset(), NOTHING, None)
        except SolverError:
            return None
        finally:
            spent_s = time.process_time() - began_s
            self._left_s -= spent_s
            # the dearest so far is what the next one is expected to cost, so that none overdraws by much
            self.price_s = max(self.price_s, spent_s)
        return replanned(priced.pools, phase, priced.rate_rps)


def pools_of(scenario: Scenario) -> PricedPools:
    """The pools that are planned for a scenario. Raises as `solve_buckets` does."""
    with open_evaluator(posed(scenario)) as evaluator:
        return best_of_ties(evaluator, solve_buckets(evaluator)).priced


def replanned(pools: Sequence[BucketPool], phase: Phase | None, rate_rps: float | None) -> Replanned:
    """The pools that are of a phase; without one which GPU types serve which."""
    if phase is None:
        types = {each: sorted({pool.gpu for pool in pools if pool.phase is each}) for each in Phase}
        words = "; ".join(f"{each.value}: {' and '.join(gpus)}" for each, gpus in types.items() if gpus)
        return Replanned(frozenset((pool.phase, pool.gpu) for pool in pools), words or NOTHING, rate_rps)
    of_phase = sorted((pool for pool in pools if pool.phase is phase), key=lambda pool: (pool.start, pool.gpu))
    # batches follow from the load: by themselves they make no other server
    kinds = frozenset((pool.gpu, replace(pool.server, batch_size=0)) for pool in of_phase)
    return Replanned(kinds, "; ".join(map(pool_words, of_phase)) or f"no {phase.value} servers", rate_rps)


def pool_words(pool: BucketPool) -> str:
    """`6 × 16 H20 TP4 DP4, 8,192 tokens a step`."""
    parallel = pool.server.parallel
    stages = f" PP{parallel.pp}" if parallel.pp > 1 else ""
    words = f"{pool.count} × {parallel.devices} {pool.gpu} TP{parallel.tp} DP{parallel.dp}{stages}"
    return f"{words}, {started_words(pool.server)}"


def started_words(server: ServerConfig) -> str:
    """`8,192 tokens a step, overlapped`."""
    size = f"{server.tokens_per_step:,} tokens a step" if server.tokens_per_step else f"batch {server.batch_size}"
    return f"{size}, overlapped" if server.overlapped else size


def as_it_is(plan: Plan, phase: Phase | None) -> Replanned:
    """The plan's own pools of a phase."""
    return replanned(plan.outlook.pools, phase, plan.throughput_rps)


def first_change(
    replanner: Replanner, phase: Phase | None, key: str, change: Change, near: float, far: float
) -> WhatIf | None:
    """Where between `near`, at which the plan was made, and `far` a phase is first made of other servers (None: other
    GPU types serve a phase); at `far` where it never is. None where there is no time to tell."""
    scenario, here = replanner.plan.scenario, as_it_is(replanner.plan, phase)
    far = rounded(far)
    outcome = replanner.phase(change(scenario, far), phase)
    if outcome is None:
        return None
    if outcome.kinds == here.kinds:
        return what_if(key, far, None, outcome, changes=False)
    same, other = near, far
    while max(same, other) / min(same, other) > CLOSE:
        middle = rounded(math.sqrt(same * other))
        # no value that one types lies between them
        if middle in (same, other):
            break
        between = replanner.phase(change(scenario, middle), phase)
        if between is None:
            break
        if between.kinds == here.kinds:
            same = middle
        else:
            other, outcome = middle, between
    return what_if(key, other, same, outcome, changes=True)


def once(replanner: Replanner, phase: Phase, key: str, scenario: Scenario, value: float) -> WhatIf | None:
    """A phase with one key at one other value. None where there is no time to tell."""
    outcome = replanner.phase(scenario, phase)
    if outcome is None:
        return None
    return what_if(key, value, None, outcome, changes=outcome.kinds != as_it_is(replanner.plan, phase).kinds)


def what_if(key: str, value: float, same_at: float | None, outcome: Replanned, *, changes: bool) -> WhatIf:
    """A key at another value, where the plan was made again."""
    return WhatIf(
        key=key,
        value=value,
        same_at=same_at,
        changes=changes,
        becomes=outcome.words,
        rate_rps=outcome.rate_rps,
        planned=True,
    )


def rounded(value: float) -> float:
    """To as many digits as one types."""
    return float(f"{value:.{DIGITS}g}")
