"""One layout's worth: cost and assignment, joined, and placement where it counts. What the search calls, many times.

A class of islands is tabulated once per evaluator, all sizes of a GPU type that a batch asks for at once; a layout is
assigned once per evaluator. Processes take over the assigning, with the table at hand: tabulating is the cheap part.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from planner.cost import tabulate_sizes
from planner.domain import (
    ClassPerformance,
    Evaluation,
    IslandClass,
    KvTraffic,
    Layout,
    ObjectiveKind,
    PerformanceTable,
    Scenario,
    Workload,
)
from planner.evaluation.goals import GoalTerms
from planner.evaluation.judging import Terms, broken_off, judge
from planner.evaluation.placing import PlacingTerms, judge_placed
from planner.processes import Workers

_Terms = TypeVar("_Terms")


class Evaluator:
    """Judges layouts of one scenario by the rate at which they serve the workload."""

    def __init__(self, scenario: Scenario, workload: Workload, workers: Workers | None = None) -> None:
        self._workers = workers
        self.scenario = scenario
        self.workload = workload
        self.terms = Terms(
            settings=scenario.assignment,
            slo=scenario.slo,
            mean_output_tokens=workload.mean_output_tokens,
            network=scenario.network,
            kv=KvTraffic.of(scenario.model, scenario.inventory, workload.ranges),
            goals=GoalTerms.of(scenario),
        )
        self.placing = PlacingTerms.of(scenario, workload, self.terms)
        self._gpus = {item.gpu.name: item.gpu for item in scenario.inventory.items}
        self._rows: dict[IslandClass, ClassPerformance] = {}
        self._known: dict[Layout, Evaluation] = {}

    def row(self, island: IslandClass) -> ClassPerformance:
        """The performance of one island class, computed at most once."""
        self.tabulate([island])
        return self._rows[island]

    def tabulate(self, islands: Iterable[IslandClass]) -> None:
        """Compute the rows of these classes that are not known yet, all sizes of a GPU type in one go."""
        missing: dict[str, list[int]] = defaultdict(list)
        for island in dict.fromkeys(islands):
            if island not in self._rows:
                missing[island.gpu].append(island.size)
        for gpu, sizes in missing.items():
            rows = tabulate_sizes(
                self._gpus[gpu],
                sizes,
                model=self.scenario.model,
                workload=self.workload,
                settings=self.scenario.cost,
                slo=self.scenario.slo,
            )
            self._rows.update((row.island, row) for row in rows)

    def table(self, layout: Layout) -> PerformanceTable:
        """Rows of every class in `layout`."""
        self.tabulate(island for island, _ in layout.counts)
        return PerformanceTable(
            ranges=self.workload.ranges, classes=tuple(self.row(island) for island, _ in layout.counts)
        )

    def evaluate(self, layout: Layout) -> Evaluation:
        """Rate of one layout; one that cannot serve the mix has rate 0 and says why."""
        (found,) = self([layout])
        return found

    def __call__(self, layouts: Sequence[Layout], /) -> Iterator[Evaluation]:
        """Rates of a batch, in order, each as soon as it is known; over several processes where there is a pool.

        An evaluation that breaks off is told as `failed` with its reason; the others go on.
        """
        start = time.process_time()
        fresh = [layout for layout in dict.fromkeys(layouts) if layout not in self._known]
        self.tabulate(island for layout in fresh for island, _ in layout.counts)
        shared_cpu_s = time.process_time() - start  # the table's price is the first layout's
        found = iter(self._judge(fresh))
        for layout in layouts:
            if layout not in self._known:
                judged = next(found)
                self._known[layout] = judged
                yield replace(judged, cpu_s=judged.cpu_s + shared_cpu_s)
                shared_cpu_s = 0.0
            else:
                yield replace(self._known[layout], cpu_s=0.0)

    def _judge(self, fresh: Sequence[Layout]) -> Iterator[Evaluation]:
        tables = (self.table(layout) for layout in fresh)
        pairs = zip(tables, fresh, strict=True)
        if self.placing is None or self.scenario.objective.kind is not ObjectiveKind.PLACED:
            yield from self._each(judge, [(table, layout, self.terms) for table, layout in pairs])
        else:
            yield from self._each(judge_placed, [(table, layout, self.placing) for table, layout in pairs])

    def _each(
        self,
        judged: Callable[[PerformanceTable, Layout, _Terms], Evaluation],
        tasks: list[tuple[PerformanceTable, Layout, _Terms]],
    ) -> Iterator[Evaluation]:
        if self._workers is None:
            yield from (judged(*task) for task in tasks)
            return
        for (_, layout, _), found in zip(tasks, self._workers.run(judged, tasks), strict=True):
            yield broken_off(layout, found) if isinstance(found, BaseException) else found


@contextmanager
def open_evaluator(scenario: Scenario, workload: Workload) -> Iterator[Evaluator]:
    """An evaluator with `search.processes` processes behind it; they end with the block."""
    if scenario.search.processes == 1:
        yield Evaluator(scenario, workload)
        return
    with Workers(scenario.search.processes) as workers:
        yield Evaluator(scenario, workload, workers)
