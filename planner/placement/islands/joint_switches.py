"""Several jobs over the same switches: the least sum of entropies, as near as work allows.

| symbol | meaning | unit |
|---|---|---|
| G[j] | what job j asks for | 1 |
| x[j, s] | what job j takes of switch s; idle[s] what nobody takes | 1 |
| H[j] = ln G[j] - sum_s x ln x / G[j] | entropy of job j over its switches (`switches`) | nats |
| y[j, s, k] | 1 where job j takes k of switch s | 0/1 |

Largest job first is optimal for one job only (switches of 2, 2, 3 and jobs of 4, 3: 1.199 nats, not 0.693). Then:
* exchanges: j gives k of switch s to the holder of k of switch t, another job or nobody, where j has parts on both.
  Only such an exchange lowers H[j], and as H is concave in k, the largest k is the best one;
* pairs: two jobs give back what they hold and take it anew, each as the first once;
* where few columns are needed, min sum_j H[j] as a mixed-integer programme, min sum -(k/G) ln(k/G) y.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, log

import pulp

from planner.domain import AssignmentSettings
from planner.errors import InfeasibleError, OutOfWorkError
from planner.milp import solve
from planner.placement.islands.switches import SwitchPool, allocate, entropy

EXACT_CELLS = 400
TRIALS = 500
WORK_LIMIT = 10.0
GAIN = 1e-9

Parts = dict[int, int]
"""Switch -> what a job takes of it."""


def allocate_jointly(
    jobs: Sequence[int],
    capacities: Sequence[int],
    *,
    exact_cells: int = EXACT_CELLS,
    trials: int = TRIALS,
) -> tuple[tuple[int, ...] | None, ...]:
    """What each job takes of each switch, at the least sum of entropies found.

    Jobs are admitted largest first; None: too little is left for this one. `exact_cells`: most columns (job, switch,
    amount) of a programme that is solved exactly (0: never). `trials`: most pairs that are taken anew (0: no
    improvement at all). Equal inputs give equal answers.
    """
    parts_of = _in_order(sorted(range(len(jobs)), key=lambda j: (-jobs[j], j)), jobs, capacities)
    placed = [j for j, parts in enumerate(parts_of) if parts]
    sizes = [jobs[j] for j in placed]
    best = [parts_of[j] or {} for j in placed]
    for j, parts in zip(placed, _better(sizes, capacities, best, exact_cells, trials), strict=True):
        parts_of[j] = parts
    return tuple(None if p is None else tuple(p.get(s, 0) for s in range(len(capacities))) for p in parts_of)


def _better(
    jobs: Sequence[int],
    capacities: Sequence[int],
    start: list[Parts],
    exact_cells: int,
    trials: int,
) -> list[Parts]:
    """The best of `start`, what it improves to, and the optimum where that is small enough to ask for."""
    # No allocation is below every job as if it were alone: whoever reaches that floor is done.
    floor = sum(entropy(allocate(job, capacities) or ()) for job in jobs) if _total(start) > GAIN else 0.0
    best = start
    if trials and _total(best) > floor + GAIN:
        best = _improved(jobs, capacities, best, trials)
    if _total(best) > floor + GAIN and _cells(jobs, capacities) <= exact_cells:
        exact = _exact(jobs, capacities)
        if exact is not None and _total(exact) < _total(best) - GAIN:
            best = exact
    return best


def _in_order(order: Sequence[int], jobs: Sequence[int], capacities: Sequence[int]) -> list[Parts | None]:
    pool = SwitchPool(capacities)
    parts_of: list[Parts | None] = [None] * len(jobs)
    for j in order:
        parts_of[j] = pool.take(jobs[j])
    return parts_of


def _total(parts: Sequence[Parts]) -> float:
    return sum(entropy(list(amounts.values())) for amounts in parts)


def _improved(jobs: Sequence[int], capacities: Sequence[int], start: list[Parts], trials: int) -> list[Parts]:
    """The best of what the start and, as another one, smallest job first improve to."""
    rising = _in_order(sorted(range(len(jobs)), key=lambda j: (jobs[j], j)), jobs, capacities)
    best = start
    for allocation in (start, [parts or {} for parts in rising]):
        state = _State.of(jobs, capacities, allocation)
        state.improve(trials)
        if _total(state.parts) < _total(best) - GAIN:
            best = state.parts
    return best


@dataclass(slots=True)
class _State:
    """An allocation under improvement; `holders`: the jobs under each switch."""

    jobs: Sequence[int]
    parts: list[Parts]
    idle: list[int]
    holders: list[set[int]]

    @classmethod
    def of(cls, jobs: Sequence[int], capacities: Sequence[int], parts: Sequence[Parts]) -> "_State":
        """A copy that may change."""
        state = cls(jobs, [{} for _ in jobs], list(capacities), [set() for _ in capacities])
        for j, amounts in enumerate(parts):
            state.give(j, amounts)
        return state

    def give(self, job: int, parts: Parts) -> None:
        """Let a job that holds nothing take `parts`."""
        self.parts[job] = dict(parts)
        for s, amount in parts.items():
            self.idle[s] -= amount
            self.holders[s].add(job)

    def clear(self, job: int) -> Parts:
        """Take everything from a job; returns what it was."""
        parts = self.parts[job]
        for s, amount in parts.items():
            self.idle[s] += amount
            self.holders[s].discard(job)
        self.parts[job] = {}
        return parts

    def improve(self, trials: int) -> None:
        """Exchanges until none gains, then the first pair that gains, and again; at most `trials` pairs are tried."""
        tries = trials
        while True:
            # Exchanges are cheap; pairs, which are dear, only where none of these gains.
            while any(self._exchange(j) for j in self._split()):
                pass
            gained, tries = self._retake_some_pair(tries)
            if not gained:
                return

    def _split(self) -> list[int]:
        """Jobs under several switches, the most scattered first."""
        split = [j for j, parts in enumerate(self.parts) if len(parts) > 1]
        return sorted(split, key=lambda j: (-entropy(list(self.parts[j].values())), j))

    def _exchange(self, j: int) -> bool:
        """The best exchange of one job, if any gains."""
        best: tuple[float, int, int, int] | None = None
        for s in sorted(self.parts[j]):
            for t in sorted(self.parts[j]):
                if s == t:
                    continue
                for other in [-1, *sorted(self.holders[t] - {j})]:
                    gain = self._gain(j, other, s, t)
                    # More than rounding: of equal gains the first switches stay the answer.
                    if gain > GAIN and (best is None or gain > best[0] + GAIN):
                        best = gain, other, s, t
        if best is None:
            return False
        self._swap(j, best[1], best[2], best[3])
        return True

    def _moved(self, j: int, other: int, s: int, t: int) -> int:
        available = self.idle[t] if other < 0 else self.parts[other][t]
        return min(self.parts[j][s], available)

    def _gain(self, j: int, other: int, s: int, t: int) -> float:
        """What the sum of entropies falls by where j moves from s to t, and `other` (-1: nobody) from t to s."""
        amount = self._moved(j, other, s, t)
        if not amount:
            return 0.0
        gain = _shift(self.parts[j], s, t, amount) / self.jobs[j]
        return gain if other < 0 else gain + _shift(self.parts[other], t, s, amount) / self.jobs[other]

    def _swap(self, j: int, other: int, s: int, t: int) -> None:
        amount = self._moved(j, other, s, t)
        for job, source, target in ((j, s, t), (other, t, s)):
            if job >= 0:
                parts = dict(self.clear(job))
                parts[target] = parts.get(target, 0) + amount
                parts[source] -= amount
                self.give(job, {k: v for k, v in parts.items() if v})

    def _retake_some_pair(self, trials: int) -> tuple[bool, int]:
        """(whether a pair gained, trials left)."""
        for a in self._split():
            near = {b for s in self.parts[a] for b in self.holders[s]}
            others = [b for b in range(len(self.jobs)) if b != a and self.parts[b]]
            # Jobs under a common switch are most likely in each other's way; then large ones.
            for b in sorted(others, key=lambda b: (b not in near, -self.jobs[b], b)):
                if trials <= 0:
                    return False, 0
                trials -= 1
                if self._retake(a, b):
                    return True, trials
        return False, trials

    def _retake(self, a: int, b: int) -> bool:
        """Let both take anew, either first; keeps what is best."""
        old = {job: self.clear(job) for job in (a, b)}
        best, to_beat = old, _total(list(old.values())) - GAIN
        for first, second in ((a, b), (b, a)):
            amounts = allocate(self.jobs[first], self.idle) or ()
            remaining = [have - used for have, used in zip(self.idle, amounts, strict=True)]
            then = allocate(self.jobs[second], remaining) or ()
            if entropy(amounts) + entropy(then) < to_beat:
                to_beat = entropy(amounts) + entropy(then) - GAIN
                best = {first: _sparse(amounts), second: _sparse(then)}
        for job, parts in best.items():
            self.give(job, parts)
        return best is not old


def _sparse(amounts: Sequence[int]) -> Parts:
    return {s: amount for s, amount in enumerate(amounts) if amount}


def _shift(parts: Parts, source: int, target: int, amount: int) -> float:
    """What sum x ln x rises by where `amount` moves."""
    had, present = parts[source], parts.get(target, 0)
    return _x_ln_x(had - amount) + _x_ln_x(present + amount) - _x_ln_x(had) - _x_ln_x(present)


def _x_ln_x(x: int) -> float:
    return x * log(x) if x > 0 else 0.0


def _cells(jobs: Sequence[int], capacities: Sequence[int]) -> int:
    """Columns of the exact programme."""
    unit = gcd(*jobs, *capacities) or 1
    return sum(min(job, max(0, capacity)) // unit for job in jobs for capacity in capacities)


def _exact(jobs: Sequence[int], capacities: Sequence[int]) -> list[Parts] | None:
    """The optimum, or the best within the work limit; None where it finds nothing."""
    # In units of the common divisor: that many times fewer columns.
    unit = gcd(*jobs, *capacities)
    model, columns = _programme([job // unit for job in jobs], [capacity // unit for capacity in capacities])
    try:
        solve(model, AssignmentSettings(gap=0.0, work_limit=WORK_LIMIT))
    except (InfeasibleError, OutOfWorkError):
        return None
    parts_of: list[Parts] = [{} for _ in jobs]
    for (j, s, amount), column in columns.items():
        if (column.varValue or 0.0) > 0.5:
            parts_of[j][s] = amount * unit
    return parts_of


def _programme(
    jobs: Sequence[int], capacities: Sequence[int]
) -> tuple[pulp.LpProblem, dict[tuple[int, int, int], pulp.LpVariable]]:
    model = pulp.LpProblem("switches", pulp.LpMinimize)
    columns = {
        (j, s, k): pulp.LpVariable(f"take_{j}_{s}_{k}", cat=pulp.LpBinary)
        for j, job in enumerate(jobs)
        for s, capacity in enumerate(capacities)
        for k in range(1, min(job, capacity) + 1)
    }
    model += pulp.lpSum(-(k / jobs[j]) * log(k / jobs[j]) * column for (j, _, k), column in columns.items())
    by_job: dict[int, list[pulp.LpAffineExpression]] = {}
    by_switch: dict[int, list[pulp.LpAffineExpression]] = {}
    by_pair: dict[tuple[int, int], list[pulp.LpVariable]] = {}
    for (j, s, k), column in columns.items():
        by_job.setdefault(j, []).append(k * column)
        by_switch.setdefault(s, []).append(k * column)
        by_pair.setdefault((j, s), []).append(column)
    for j, terms in by_job.items():
        model += pulp.lpSum(terms) == jobs[j], f"job_{j}"
    for s, terms in by_switch.items():
        model += pulp.lpSum(terms) <= capacities[s], f"switch_{s}"
    for (j, s), takes in by_pair.items():
        model += pulp.lpSum(takes) <= 1, f"one_amount_{j}_{s}"
    return model, columns
