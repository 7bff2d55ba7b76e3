"""One layout judged, in whatever process: assigned, and slowed down to its goodput where queues count."""

import time
from dataclasses import dataclass, replace

from planner.assignment import assign
from planner.domain import (
    Assignment,
    AssignmentSettings,
    Evaluation,
    KvTraffic,
    Layout,
    NetworkSettings,
    PerformanceTable,
    SloSettings,
)
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.goals import GoalTerms, goal_values
from planner.evaluation.goodput import bounds_ttft, duties_at_work
from planner.evaluation.patience import Patience, with_patience

NEITHER_BOTH = "layout: its islands cannot be parted so that every range is served in both phases."

TOO_SLOW = (
    "layout: slo.ttft_ms: the first decode step on its islands takes what prefill leaves of the bound; "
    "a bound slo.tpot_ms sets it apart."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What every layout of a scenario is judged by. `goals` is None where the rate is the only one."""

    settings: AssignmentSettings
    slo: SloSettings
    mean_output_tokens: float
    network: NetworkSettings | None
    kv: KvTraffic
    goals: GoalTerms | None = None

    @property
    def patience(self) -> Patience:
        """What counts under bounds on TTFT."""
        return Patience(
            settings=self.settings,
            slo=self.slo,
            mean_output_tokens=self.mean_output_tokens,
            network=self.network,
            kv=self.kv,
        )


def judge(table: PerformanceTable, layout: Layout, terms: Terms) -> Evaluation:
    """The rate of a layout; one that serves nothing says why, one whose evaluation broke off is `failed`.

    Where GPUs are rented, islands that would serve nothing are left out: `Evaluation.layout` is what remains.
    """
    start = time.process_time()
    try:
        found = _judged(table, layout, terms)
        if terms.goals is not None and terms.goals.rents:
            found = _without_idle(table, found, terms)
    except InfeasibleError as error:
        found = _nothing(layout, error.message)
    except SolverError as error:
        found = replace(_nothing(layout, error.message), failed=True)
    except Exception as error:  # noqa: BLE001  (one layout must not end the search; the reason is recorded)
        found = broken_off(layout, error)
    return replace(found, cpu_s=time.process_time() - start)


def broken_off(layout: Layout, error: BaseException) -> Evaluation:
    """The evaluation of a layout that ended in a defect, or took its process with it."""
    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return replace(_nothing(layout, told), failed=True)


def _nothing(layout: Layout, error: str) -> Evaluation:
    return Evaluation(layout=layout, throughput_rps=0.0, assignment=None, error=error)


def _judged(table: PerformanceTable, layout: Layout, terms: Terms) -> Evaluation:
    """Under a bound on TTFT the rates are those that keep to it in every island's own mixture of ranges."""
    queues = bounds_ttft(terms.slo)
    if queues:
        assignment = with_patience(table, layout, terms.patience)
    else:
        assignment = assign(table, layout, terms.settings, terms.network, terms.kv)
    if assignment is None or not assignment.throughput_rps > 0:
        return _nothing(layout, TOO_SLOW if queues and assignment is not None else NEITHER_BOTH)
    return Evaluation(
        layout=layout,
        throughput_rps=assignment.throughput_rps,
        assignment=assignment,
        goals=_goals(table, assignment, layout, terms),
    )


def _without_idle(table: PerformanceTable, found: Evaluation, terms: Terms) -> Evaluation:
    """Judged again until no island is idle, so that what remains is judged as if it had been asked for."""
    while found.assignment is not None:
        kept = _at_work(found.assignment, table)
        if kept == found.layout:
            break
        held = {island for island, _ in kept.counts}
        table = replace(table, classes=tuple(row for row in table.classes if row.island in held))
        found = _judged(table, kept, terms)
    return found


def _at_work(assignment: Assignment, table: PerformanceTable) -> Layout:
    return Layout.of(duty.island.plain for duty in duties_at_work(assignment, table) for _ in range(duty.count))


def _goals(
    table: PerformanceTable, assignment: Assignment, layout: Layout, terms: Terms
) -> tuple[tuple[str, float], ...]:
    if terms.goals is None:
        return ()
    return goal_values(terms.goals, layout, assignment, table, terms.slo, terms.mean_output_tokens)
