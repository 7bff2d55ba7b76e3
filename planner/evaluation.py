"""One layout's worth: cost and assignment, joined. What the search calls, many times.

A class of islands is tabulated once per evaluator; a layout is assigned once per evaluator.
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

from planner.assignment import assign
from planner.cost import tabulate
from planner.domain import (
    ClassPerformance,
    Evaluation,
    IslandClass,
    Layout,
    PerformanceTable,
    Scenario,
    Workload,
)
from planner.errors import InfeasibleError, SolverError
from planner.processes import deaf_to_interrupts, end_with_parent

NEITHER_BOTH = "layout: its islands cannot be parted so that every range is served in both phases."


class Evaluator:
    """Judges layouts of one scenario by the rate at which they serve the workload."""

    def __init__(self, scenario: Scenario, workload: Workload, pool: Executor | None = None) -> None:
        self._pool = pool
        self.scenario = scenario
        self.workload = workload
        self._gpus = {item.gpu.name: item.gpu for item in scenario.inventory.items}
        self._rows: dict[IslandClass, ClassPerformance] = {}
        self._known: dict[Layout, Evaluation] = {}

    def row(self, island: IslandClass) -> ClassPerformance:
        """The performance of one island class, computed at most once."""
        if island not in self._rows:
            self._rows[island] = tabulate(
                self._gpus[island.gpu],
                island.size,
                model=self.scenario.model,
                workload=self.workload,
                settings=self.scenario.cost,
            )
        return self._rows[island]

    def table(self, layout: Layout) -> PerformanceTable:
        """Rows of every class in `layout`."""
        return PerformanceTable(
            ranges=self.workload.ranges, classes=tuple(self.row(island) for island, _ in layout.counts)
        )

    def evaluate(self, layout: Layout) -> Evaluation:
        """Rate of one layout; one that cannot serve the mix has rate 0 and says why."""
        if layout not in self._known:
            self._known[layout] = self._assign(layout)
        return self._known[layout]

    def _assign(self, layout: Layout) -> Evaluation:
        try:
            assignment = assign(self.table(layout), layout, self.scenario.assignment)
        except (InfeasibleError, SolverError) as error:  # one layout that fails must not end the search
            failed = isinstance(error, SolverError)
            return Evaluation(layout=layout, throughput_rps=0.0, assignment=None, error=error.message, failed=failed)
        if not assignment.throughput_rps > 0:
            return Evaluation(layout=layout, throughput_rps=0.0, assignment=None, error=NEITHER_BOTH)
        return Evaluation(layout=layout, throughput_rps=assignment.throughput_rps, assignment=assignment)

    def __call__(self, layouts: Sequence[Layout], /) -> list[Evaluation]:
        """Rates of a batch, in order; over several processes where there is a pool."""
        if self._pool is not None:
            fresh = [layout for layout in dict.fromkeys(layouts) if layout not in self._known]
            with deaf_to_interrupts():  # the pool starts its processes when it is first asked
                answers = self._pool.map(_evaluate_in_worker, fresh)
            self._known.update(zip(fresh, answers, strict=True))
        return [self.evaluate(layout) for layout in layouts]


@contextmanager
def open_evaluator(scenario: Scenario, workload: Workload) -> Iterator[Evaluator]:
    """An evaluator with `search.processes` processes behind it; they end with the block."""
    if scenario.search.processes == 1:
        yield Evaluator(scenario, workload)
        return
    with ProcessPoolExecutor(
        max_workers=scenario.search.processes,
        mp_context=multiprocessing.get_context("spawn"),  # a forked torch may hang on its own threads
        initializer=_start_worker,
        initargs=(scenario, workload),
    ) as pool:
        yield Evaluator(scenario, workload, pool)


_worker: list[Evaluator] = []  # a worker process's own evaluator, set once by its initializer


def _start_worker(scenario: Scenario, workload: Workload) -> None:
    end_with_parent()
    _worker[:] = [Evaluator(scenario, workload)]


def _evaluate_in_worker(layout: Layout) -> Evaluation:
    return _worker[0].evaluate(layout)
