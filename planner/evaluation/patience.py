"""Who serves which range where queues count: the assignment that keeps to the bounds on TTFT at the highest rate.

The inner problem knows each range alone, and an island's queue holds all of its ranges: the assignment that it likes
best may bear a fraction of its rate. Each of these is tried where it may pay, and the best is kept:
parted     ranges that cannot wait for each other go to different classes
in roles   islands of a class do different things: their phase, configuration and interval of lengths are solved for
balanced   each class gets no more work than its queue bore in the assignment before, until that rests
cut        the class whose queue holds all back gives up the ranges that can wait least
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from planner.assignment import Shares, assign, choose_roles
from planner.domain import (
    Assignment,
    ClassPerformance,
    Formulation,
    Layout,
    PerformanceTable,
    Phase,
    Question,
    SloSettings,
)
from planner.domain.service import Service, range_bounds
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.goodput import admitted, at_goodput, goodput_of
from planner.evaluation.roles import kinds_of

WORTH_PARTING = 0.9
"""Of what could be served: less is worth parting ranges for."""

NEARLY = 0.995
"""Of what could be served: more is not worth another assignment."""

WORTH_A_ROLE = 1.01
"""How much faster fractions of islands must be in roles for whole ones to be tried."""

MOST_ROUNDS = 4
MOST_CUTS = 6
MOST_LIMITS = 2
MOST_CLASSES = 8
MOST_PARTINGS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An assignment of the islands of `layout`, and its service."""

    layout: Layout
    assignment: Assignment
    service: Service

    @property
    def rate_rps(self) -> float:
        """Requests/s within the bounds."""
        return self.service.goodput_rps


def with_patience(table: PerformanceTable, layout: Layout, question: Question) -> Assignment | None:
    """The best assignment of the layout's islands that is found, at its goodput; None where none serves.

    Raises as `assign` does where it is that which finds none.
    """
    candidates = list(_as_it_is(table, layout, question))
    in_roles = _in_roles(table, layout, _best(candidates).rate_rps if candidates else 0.0, question)
    if in_roles is not None:
        candidates += [in_roles, *_balanced(table, in_roles, question)]
    if not candidates:
        scenario = question.scenario
        assign(table, layout, scenario.assignment, scenario.network, question.kv)  # it says why
        return None
    candidates += _balanced(table, _best(candidates), question)
    # queues still cost a tenth or more: ranges that can hardly wait are taken from whom they hold back
    if _best(candidates).service.factor < WORTH_PARTING:
        candidates += _cut(table, _best(candidates), question)
    best = _best(candidates)
    return at_goodput(best.assignment, best.service)


def _assigned(
    question: Question, table: PerformanceTable, layout: Layout, shares: Shares | None = None
) -> Assignment | None:
    """The inner problem's answer; None where it has none that serves."""
    scenario = question.scenario
    try:
        assignment = assign(table, layout, scenario.assignment, scenario.network, question.kv, shares)
    except (InfeasibleError, SolverError):
        return None
    return assignment if assignment.throughput_rps > 0 else None


def _judged(question: Question, assignment: Assignment, table: PerformanceTable, layout: Layout) -> Judged:
    """The assignment with what its queues bear."""
    service = goodput_of(assignment, table, question.scenario.slo, question.workload.mean_output_tokens)
    return Judged(layout=layout, assignment=assignment, service=service)


def _best(judged: list[Judged]) -> Judged:
    """The first of the fastest."""
    return max(judged, key=lambda candidate: candidate.rate_rps)


def _as_it_is(table: PerformanceTable, layout: Layout, question: Question) -> Iterator[Judged]:
    """The inner problem's answer; where queues cost much, also those with ranges parted."""
    assignment = _assigned(question, table, layout)
    if assignment is None:
        return
    judged = _judged(question, assignment, table, layout)
    yield judged
    if judged.service.factor < WORTH_PARTING:
        for parted in kept_apart(table, question.scenario.slo):
            other = _assigned(question, parted, layout)
            if other is not None:
                yield _judged(question, other, table, layout)


def _in_roles(table: PerformanceTable, layout: Layout, reached_rps: float, question: Question) -> Judged | None:
    """The islands in the roles that serve fastest, where that may pay; placed ones keep what they were placed for."""
    # a role fixes a phase and degrees, which a placed island has already
    placed = any(island.reach or island.phase for island, _ in layout.counts)
    if placed or question.scenario.assignment.formulation is not Formulation.MAX_RATE:
        return None
    rows = [table.row(island) for island, _ in layout.counts]
    kinds = kinds_of(rows, table.ranges, question.scenario.slo, question.workload.mean_output_tokens)
    probabilities, floor_rps = [span.probability for span in table.ranges], WORTH_A_ROLE * reached_rps
    try:
        roles = choose_roles(kinds, layout, probabilities, question.scenario.assignment, better_than_rps=floor_rps)
    except (InfeasibleError, SolverError):
        return None
    shares = {(kind.island, kind.phase): kind.share for kind in kinds}
    assignment = None if roles is None else _assigned(question, table, roles, shares)
    if roles is None or assignment is None:
        return None
    return _judged(question, assignment, table, roles)


def _balanced(table: PerformanceTable, judged: Judged, question: Question) -> Iterator[Judged]:
    """Assignments in which no class works more than its queue admitted in the one before."""
    for _ in range(MOST_ROUNDS):
        if judged.service.factor >= NEARLY:
            return
        shares = admitted(judged.assignment, table, question.scenario.slo, question.workload.mean_output_tokens)
        assignment = _assigned(question, table, judged.layout, shares)
        if assignment is None:
            return
        judged = _judged(question, assignment, table, judged.layout)
        yield judged


def _cut(table: PerformanceTable, judged: Judged, question: Question) -> Iterator[Judged]:
    """Assignments without the ranges that held back a class of the one before. It ends: each has fewer ranges, and
    none is made that could serve no more than the best."""
    best, layout = judged.rate_rps, judged.layout
    cut = replace(table, classes=tuple(table.row(island) for island, _ in layout.counts))
    for _ in range(MOST_CUTS):
        fewer = _without_hasty(cut, judged.service)
        assignment = None if fewer is None else _assigned(question, fewer, layout)
        if fewer is None or assignment is None or not assignment.throughput_rps > best:
            return
        judged, cut = _judged(question, assignment, table, layout), fewer
        yield judged
        best = max(best, judged.rate_rps)


def _without_hasty(table: PerformanceTable, service: Service) -> PerformanceTable | None:
    """The table in which the class that holds all back no longer prefills the half of its ranges that can wait least;
    None where no prefill does."""
    if service.binding is None or service.binding_phase is not Phase.PREFILL:
        return None
    row = next(row for row in table.classes if row.island == service.binding)
    limits = [row.prefill.utilisation_limit(j) for j, rate in enumerate(row.prefill.rates_rps) if rate > 0]
    # half of the span, not of the ranges: those that can wait least go at once, however many they are
    middle = (min(limits) + max(limits)) / 2
    prefill = row.prefill.among([row.prefill.utilisation_limit(j) > middle for j in range(len(table.ranges))])
    return replace(
        table, classes=tuple(replace(other, prefill=prefill) if other is row else other for other in table.classes)
    )


def kept_apart(table: PerformanceTable, slo: SloSettings) -> Iterator[PerformanceTable]:
    """Tables in which prefill classes serve either the ranges that must not wait, or the others; likeliest first.

    The ranges of the tightest bounds are parted from the rest, class by class; cells given up have rate 0. At most
    `MOST_PARTINGS` ways are tried, those whose capacity comes nearest to what the two groups need.
    """
    bounds = [range_bounds(slo, span)[0] for span in table.ranges]
    limits = sorted({bound for bound in bounds if bound is not None})
    classes = [row for row in table.classes if row.prefill.serves]
    for limit in limits[:MOST_LIMITS]:
        hasty = [bound is not None and bound <= limit for bound in bounds]
        # nothing to part, nobody to part it among, or more ways than are worth trying
        if all(hasty) or len(classes) < len((True, False)) or len(classes) > MOST_CLASSES:
            continue
        ways = sorted(
            (chosen for k in range(1, len(classes)) for chosen in combinations(range(len(classes)), k)),
            key=lambda chosen: _imbalance(table, classes, hasty, chosen),
        )
        for chosen in ways[:MOST_PARTINGS]:
            quick = {classes[k].island for k in chosen}
            yield replace(table, classes=tuple(_parted(row, hasty, row.island in quick) for row in table.classes))


def _parted(row: ClassPerformance, hasty: list[bool], quick: bool) -> ClassPerformance:
    """A class that prefills either the hasty ranges or the others."""
    rates = tuple(rate if urgent is quick else 0.0 for rate, urgent in zip(row.prefill.rates_rps, hasty, strict=True))
    return replace(row, prefill=replace(row.prefill, rates_rps=rates))


def _imbalance(
    table: PerformanceTable, classes: list[ClassPerformance], hasty: list[bool], chosen: tuple[int, ...]
) -> float:
    """How far the slower of the two groups is from what the mix needs: the inverse of the rate that both can carry."""
    slowest = 0.0
    for of in (True, False):
        served = 0.0
        for k, row in enumerate(classes):
            if (k in chosen) is of:
                work = sum(
                    span.probability / rate
                    for span, rate, urgent in zip(table.ranges, row.prefill.rates_rps, hasty, strict=True)
                    if urgent is of and rate > 0
                )
                served += 1 / work if work > 0 else 0.0
        slowest = max(slowest, 1 / served if served > 0 else float("inf"))
    return slowest
