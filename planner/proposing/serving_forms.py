"""Rate against the bound on TPOT: what split pools, aggregated ones and a free choice reach, and where the better form
changes.

Every point is one exact plan; between two bounds with different better forms the change is halved to `CLOSE`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from planner.domain import (
    PURE_FORMS,
    FormChange,
    FormComparison,
    FormPoint,
    KvTransfer,
    ObjectiveSettings,
    Scenario,
    ServingForm,
    SloSettings,
    better_form,
    require_buckets,
)
from planner.errors import InfeasibleError, InputError, PlannerError, SolverError
from planner.evaluation.buckets.transfer import transfer_of
from planner.evaluation.evaluator import open_evaluator
from planner.processes.interrupts import check, deferred
from planner.proposing.buckets.pools import solve_buckets
from planner.proposing.feasibility import posed, require_context

FEWEST_BOUNDS, MOST_BOUNDS = 2, 100
LEAST_MS, MOST_MS = 0.1, 1e9
USUAL_MS = (10.0, 15.0, 20.0, 30.0, 50.0, 75.0, 100.0, 200.0)
"""Bounds that are tried where the scenario has none of its own."""

STEP = 1.5
STEPS_BELOW, STEPS_ABOVE = 4, 3
"""Bounds around the scenario's own, each so many times the one before."""

CLOSE = 1.05
"""Ratio of the two bounds between which a change is told."""

ReportBound = Callable[[int, int, tuple[FormPoint, ...]], None]
"""Heard after each bound: done, total (more where changes are looked for), what each form reaches there."""


def compare_forms(
    scenario: Scenario, bounds_ms: Sequence[float] = (), progress: ReportBound = lambda *_: None
) -> FormComparison:
    """What each form of serving reaches under each bound on the general `slo.tpot_ms`; those of `slo.ranges` stay.

    `bounds_ms`: none stand for eight around the scenario's own bound. The objective is the rate, whatever the
    scenario's; servers are not put on nodes. Raises InputError for fewer than 2 different bounds or more than 100, one
    outside 0.1..1e9 ms or not below a bound on TTFT, and for a scenario without buckets; InfeasibleError where no form
    serves under any of them, SolverError where that is not known within the work limit. An interrupt ends it with the
    bounds done so far; KeyboardInterrupt where there are none.
    """
    asked_ms = _checked(scenario, bounds_ms or usual_bounds(scenario))
    posed_scenario = replace(scenario, objective=ObjectiveSettings(), cluster=None)
    run = _Comparison(posed_scenario, asked_ms, progress)
    with suppress(KeyboardInterrupt), deferred():
        run.solve()
    done_ms = tuple(tpot_ms for tpot_ms in asked_ms if tpot_ms in run.solved)
    if not done_ms:
        raise KeyboardInterrupt
    points = tuple(point for tpot_ms in sorted(run.solved) for point in run.solved[tpot_ms])
    if not any(point.rate_rps for point in points):
        raise _nothing(scenario, points)
    return FormComparison(
        bounds_ms=done_ms,
        points=points,
        changes=tuple(run.changes(done_ms)),
        own_ms=scenario.slo.tpot_ms,
        transfer=run.transfer,
        unasked=asked_ms[len(done_ms) :],
        interrupted=not run.finished,
    )


def usual_bounds(scenario: Scenario) -> tuple[float, ...]:
    """Bounds on TPOT that are tried where none are given (ms): below every bound on TTFT."""
    slo = scenario.slo
    tried: tuple[float, ...] = USUAL_MS
    if slo.tpot_ms is not None:
        around = (_rounded(slo.tpot_ms * STEP**k) for k in range(-STEPS_BELOW, STEPS_ABOVE + 1) if k)
        tried = tuple(sorted({slo.tpot_ms, *around}))
    return tuple(tpot_ms for tpot_ms in tried if LEAST_MS <= tpot_ms < _least_ttft_ms(slo))


def _rounded(value: float) -> float:
    """Two digits."""
    return round(value, 1 - math.floor(math.log10(value)))


def _least_ttft_ms(slo: SloSettings) -> float:
    bounds = (slo.ttft_ms, *(limits.ttft_ms for limits in slo.ranges))
    return min((bound for bound in bounds if bound is not None), default=math.inf)


def _checked(scenario: Scenario, bounds_ms: Sequence[float]) -> tuple[float, ...]:
    """The bounds, ascending, each once. Raises InputError as `compare_forms` does."""
    require_buckets(scenario, "where forms of serving are compared")
    for tpot_ms in bounds_ms:
        if not LEAST_MS <= tpot_ms <= MOST_MS:
            raise InputError(
                f"bounds on TPOT: must lie in {LEAST_MS:g}..{MOST_MS:g} ms, got {tpot_ms:g}.",
                hint="Decode steps of today's servers take 5 to 200 ms.",
            )
    ordered = tuple(sorted(set(bounds_ms)))
    if not FEWEST_BOUNDS <= len(ordered) <= MOST_BOUNDS:
        raise InputError(
            f"bounds on TPOT: must be {FEWEST_BOUNDS} to {MOST_BOUNDS} different ones, got {len(ordered)}.",
            hint="8 make a good figure.",
        )
    for tpot_ms in ordered:
        require_context(_under(scenario, tpot_ms))
    return ordered


def _under(scenario: Scenario, tpot_ms: float | None) -> Scenario:
    return replace(scenario, slo=replace(scenario.slo, tpot_ms=tpot_ms))


class _Comparison:
    """The bounds that are solved so far, in order: those that are asked for, then between those that differ."""

    def __init__(self, scenario: Scenario, asked_ms: tuple[float, ...], progress: ReportBound) -> None:
        self._scenario = scenario
        self._asked_ms = asked_ms
        self._progress = progress
        self.solved: dict[float, tuple[FormPoint, ...]] = {}
        self.transfer: KvTransfer | None = None
        self.finished = False

    def solve(self) -> None:
        """Everything; an interrupt leaves what is done."""
        for tpot_ms in self._asked_ms:
            self._solve_bound(tpot_ms, len(self._asked_ms))
        self.transfer = self._own_transfer()
        pairs = [(a, b) for a, b in pairwise(self._asked_ms) if self._best(a) is not self._best(b)]
        total = len(self._asked_ms) + sum(_halvings(a, b) for a, b in pairs)
        for below_ms, above_ms in pairs:
            self._halve(below_ms, above_ms, total)
        self.finished = True

    def _halve(self, below_ms: float, above_ms: float, total: int) -> None:
        """Narrow down a change between two bounds; of several the first."""
        for _ in range(_halvings(below_ms, above_ms)):
            middle_ms = round(math.sqrt(below_ms * above_ms), 4)
            self._solve_bound(middle_ms, total)
            unchanged = self._best(middle_ms) is self._best(below_ms)
            below_ms, above_ms = (middle_ms, above_ms) if unchanged else (below_ms, middle_ms)

    def changes(self, bounds_ms: Sequence[float]) -> Iterator[FormChange]:
        """Where the better form changes, of the bounds up to the last of `bounds_ms`."""
        for below_ms, above_ms in pairwise(sorted(b for b in self.solved if b <= bounds_ms[-1])):
            before, after = self._best(below_ms), self._best(above_ms)
            if before is not after:
                yield FormChange(below_ms=below_ms, above_ms=above_ms, before=before, after=after)

    def _best(self, tpot_ms: float) -> ServingForm | None:
        return better_form([point for point in self.solved[tpot_ms] if point.form in PURE_FORMS])

    def _solve_bound(self, tpot_ms: float, total: int) -> None:
        points = []
        for form in ServingForm:
            points.append(_solved(self._scenario, tpot_ms, form))
            check()  # a form that was solved while an interrupt came may not be at its best
        self.solved[tpot_ms] = tuple(points)
        self._progress(len(self.solved), total, self.solved[tpot_ms])

    def _own_transfer(self) -> KvTransfer | None:
        """Of split pools under the scenario's own bound."""
        split = replace(self._scenario, serving=ServingForm.SPLIT)
        own_ms = split.slo.tpot_ms
        solved_points = () if own_ms is None else self.solved.get(own_ms, ())
        point = next((point for point in solved_points if point.form is ServingForm.SPLIT), None)
        point = point or _solved(split, own_ms, ServingForm.SPLIT)
        check()
        return transfer_of(posed(split), point.pools, point.rate_rps * split.routing.margin) if point.pools else None


def _halvings(below_ms: float, above_ms: float) -> int:
    """How often the ratio of two bounds is halved until it is close."""
    return max(0, math.ceil(math.log2(math.log(above_ms / below_ms) / math.log(CLOSE))))


def _solved(scenario: Scenario, tpot_ms: float | None, form: ServingForm) -> FormPoint:
    """The best pools of a form under a bound, as `plan` would have them."""
    level = math.inf if tpot_ms is None else tpot_ms
    try:
        with open_evaluator(posed(replace(_under(scenario, tpot_ms), serving=form))) as evaluator:
            choice = solve_buckets(evaluator)
    except (InfeasibleError, SolverError) as error:
        late = isinstance(error, SolverError)
        return FormPoint(tpot_ms=level, form=form, rate_rps=0.0, bound_rps=0.0, why=error.message, late=late)
    rate = choice.priced.rate_rps
    return FormPoint(
        tpot_ms=level, form=form, rate_rps=rate, bound_rps=max(choice.bound, rate), pools=choice.priced.pools
    )


def _nothing(scenario: Scenario, points: Sequence[FormPoint]) -> PlannerError:
    """No form serves under any bound: why, under the loosest, where the choice is free."""
    loosest = max(point.tpot_ms for point in points)
    point = next(p for p in points if p.tpot_ms == loosest and p.form is ServingForm.AUTO)
    reason = point.why.removeprefix(f"scenario {scenario.name}: ")
    message = (
        f"scenario {scenario.name}: no form of serving reaches anything up to {loosest:g} ms TPOT. There: {reason}"
    )
    if any(p.late for p in points):
        return SolverError(message, hint="Raise search.work_limit.")
    return InfeasibleError(message, hint="Add GPUs, choose a smaller model, or loosen the service levels.")
