"""One layout judged, in whatever process: assigned, and slowed down to its goodput where queues count."""

import time
from dataclasses import replace

from planner.assignment import assign
from planner.domain import Assignment, Evaluation, Layout, PerformanceTable, Question
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.goals import Standing, goal_values
from planner.evaluation.goodput import bounds_ttft, duties_at_work
from planner.evaluation.patience import with_patience

NEITHER_BOTH = "layout: its islands cannot be parted so that every range is served in both phases."

TOO_SLOW = (
    "layout: slo.ttft_ms: the first decode step on its islands takes what prefill leaves of the bound; "
    "a bound slo.tpot_ms sets it apart."
)


def judge(table: PerformanceTable, layout: Layout, question: Question) -> Evaluation:
    """The rate of a layout; one that serves nothing says why, one whose evaluation broke off is `failed`.

    Where GPUs are rented, islands that would serve nothing are left out, until none is idle: `Evaluation.layout` is
    what remains, judged as if it had been asked for. Under a bound on TTFT the rates are those that keep to it in every
    island's own mixture of ranges.
    """
    start, scenario, working = time.process_time(), question.scenario, layout
    try:
        # each round leaves islands out, so it ends; with fewer islands others may come to serve nothing
        while True:
            if bounds_ttft(scenario.slo):
                assignment = with_patience(table, working, question)
            else:
                assignment = assign(table, working, scenario.assignment, scenario.network, question.kv)
            evaluation = _evaluation(table, working, assignment, question)
            needed = _at_work(table, evaluation) if _rents(question) else working
            if needed == working:
                break
            table, working = _without(table, needed), needed
    except InfeasibleError as error:
        evaluation = _nothing(layout, error.message)
    except SolverError as error:
        evaluation = replace(_nothing(layout, error.message), failed=True)
    except Exception as error:  # noqa: BLE001  (one layout must not end the search; the reason is recorded)
        evaluation = broken_off(layout, error)
    return replace(evaluation, cpu_s=time.process_time() - start)


def broken_off(layout: Layout, error: BaseException) -> Evaluation:
    """The evaluation of a layout that ended in a defect, or took its process with it."""
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return replace(_nothing(layout, reason), failed=True)


def _nothing(layout: Layout, error: str) -> Evaluation:
    return Evaluation(layout=layout, throughput_rps=0.0, assignment=None, error=error)


def _evaluation(
    table: PerformanceTable, layout: Layout, assignment: Assignment | None, question: Question
) -> Evaluation:
    if assignment is None or not assignment.throughput_rps > 0:
        queues = bounds_ttft(question.scenario.slo)
        return _nothing(layout, TOO_SLOW if queues and assignment is not None else NEITHER_BOTH)
    several = question.scenario.objective.kind.row.several
    return Evaluation(
        layout=layout,
        throughput_rps=assignment.throughput_rps,
        assignment=assignment,
        goals=goal_values(question, layout, Standing.of_table(question, assignment, table)) if several else (),
    )


def _rents(question: Question) -> bool:
    """Whether GPUs that serve nothing cost a goal something, and are better left out."""
    objective = question.scenario.objective
    return objective.kind.row.several and objective.rents


def _at_work(table: PerformanceTable, evaluation: Evaluation) -> Layout:
    """The islands that serve something; where nothing does, all."""
    if evaluation.assignment is None:
        return evaluation.layout
    duties = duties_at_work(evaluation.assignment, table)
    return Layout.of(duty.island.plain for duty in duties for _ in range(duty.count))


def _without(table: PerformanceTable, needed: Layout) -> PerformanceTable:
    """The rows of the islands that are needed."""
    islands = {island for island, _ in needed.counts}
    return replace(table, classes=tuple(row for row in table.classes if row.island in islands))
