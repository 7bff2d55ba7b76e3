"""One layout's worth: cost and assignment, joined, and placement where it counts. What the search calls, many times.

A class of islands is tabulated once per evaluator, all sizes of a GPU type that a batch asks for at once; a layout is
assigned once per evaluator. Processes take over the assigning, with the table at hand: tabulating is the cheap part.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import starmap
from typing import TYPE_CHECKING, Any

from planner.cost import tabulate_sizes
from planner.domain import (
    ClassPerformance,
    Cluster,
    Evaluation,
    IslandClass,
    Layout,
    PerformanceTable,
    Question,
)
from planner.domain.stocks import island_stocks
from planner.errors import InfeasibleError
from planner.evaluation.buckets.columns import classes_of
from planner.evaluation.buckets.judging import (
    layout_of,
    named_pools,
    pooled_assignment,
    pooled_evaluation,
    solve_pools,
)
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.service import PricedPools
from planner.evaluation.goals import Standing, goal_values
from planner.evaluation.judging import broken_off, judge
from planner.processes.workers import TaskPool, Workers

if TYPE_CHECKING:
    from planner.placement import Fleet

MOST_QUESTIONS = 12
"""Remembered at a time: two small fleets and the neighbours that each asks of. The largest have tens of MB."""


def prices_of(question: Question) -> BucketPrices:
    """The prices of a question, as `BucketPrices` works them out; of a cluster's nodes always anew."""
    scenario = question.scenario
    if scenario.cluster is not None:  # a hundred thousand nodes would be compared
        return BucketPrices(question)
    search = replace(scenario.search, seed=0, processes=1)
    return _remembered(replace(question, scenario=replace(scenario, search=search, inputs=())))


@lru_cache(maxsize=MOST_QUESTIONS)
def _remembered(question: Question) -> BucketPrices:
    return BucketPrices(question)


class Evaluator:
    """Judges layouts by the rate at which they serve the workload of a question."""

    def __init__(self, question: Question, pool: TaskPool | None = None) -> None:
        self._pool = pool
        self.question = question
        scenario = question.scenario
        self.fleet = None if scenario.cluster is None else _fleet_of(scenario.cluster)
        self._gpus = {item.gpu.name: item.gpu for item in scenario.inventory.items}
        self._rows: dict[IslandClass, ClassPerformance] = {}
        self._known: dict[Layout, Evaluation] = {}
        self._prices: BucketPrices | None = None

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
        scenario = self.question.scenario
        for gpu, sizes in missing.items():
            rows = tabulate_sizes(
                self._gpus[gpu],
                sizes,
                model=scenario.model,
                workload=self.question.workload,
                settings=scenario.cost,
                slo=scenario.slo,
            )
            self._rows.update((row.island, row) for row in rows)

    @property
    def prices(self) -> BucketPrices:
        """What servers do of buckets, computed at most once, also for questions alike that follow each other."""
        if self._prices is None:
            self._prices = prices_of(self.question)
        return self._prices

    def price_with(self, prices: BucketPrices) -> None:
        """Prices of the same question that know more, as of servers that run already."""
        self._prices = prices

    def remember_pools(self, layout: Layout, priced: PricedPools, solver: str, *, optimal: bool = True) -> None:
        """The pools that a layout was made of stand for it, judged as those of any other."""
        with_ids = replace(priced, pools=named_pools(priced.pools))
        self._known[layout] = self._placed(layout, with_ids, solver, optimal=optimal)

    def table(self, layout: Layout) -> PerformanceTable:
        """Rows of every class in `layout`."""
        self.tabulate(island for island, _ in layout.counts)
        return PerformanceTable(
            ranges=self.question.workload.ranges, classes=tuple(self.row(island) for island, _ in layout.counts)
        )

    def evaluate(self, layout: Layout) -> Evaluation:
        """Rate of one layout; one that cannot serve the mix has rate 0 and says why."""
        (evaluation,) = self([layout])
        return evaluation

    def __call__(self, layouts: Sequence[Layout], /) -> Iterator[Evaluation]:
        """Rates of a batch, in order, each as soon as it is known; over several processes where there is a pool.

        An evaluation that breaks off is told as `failed` with its reason; the others go on.
        """
        start = time.process_time()
        fresh = [layout for layout in dict.fromkeys(layouts) if layout not in self._known]
        evaluations = self._judged(fresh)
        shared_cpu_s = time.process_time() - start  # the table's price is the first layout's
        for layout in layouts:
            if layout not in self._known:
                judged = next(evaluations)
                self._known[layout] = judged
                yield replace(judged, cpu_s=judged.cpu_s + shared_cpu_s)
                shared_cpu_s = 0.0
            else:
                yield replace(self._known[layout], cpu_s=0.0)

    def _pooled(self, fresh: Sequence[Layout]) -> Iterator[Evaluation]:
        """Layouts in pools behind buckets, placed where that is asked for."""
        partitions, service = self.prices.shortlist, self.prices.service
        stocks = [island_stocks(layout) for layout in fresh]
        tasks = [
            (classes_of(self.prices.offers(stock, partitions)), layout, partitions, self.question.scenario.assignment)
            for stock, layout in zip(stocks, fresh, strict=True)
        ]
        for stock, layout, outcome in zip(stocks, fresh, self._each(solve_pools, tasks), strict=True):
            if isinstance(outcome, Evaluation):  # its process died
                yield outcome
            elif outcome.answer is None:
                yield Evaluation(
                    layout=layout,
                    throughput_rps=0.0,
                    assignment=None,
                    error=outcome.error,
                    failed=outcome.failed,
                    cpu_s=outcome.cpu_s,
                )
            else:
                pools = named_pools(self.prices.pools(outcome.answer, stock))
                yield self._placed(layout, service.priced(pools), outcome.answer.solver, cpu_s=outcome.cpu_s)

    def _placed(
        self, layout: Layout, priced: PricedPools, solver: str, *, optimal: bool = True, cpu_s: float = 0.0
    ) -> Evaluation:
        """The evaluation of pools; on nodes where the objective counts those. Where it counts GPUs that are rented,
        those that no pool has are left out."""
        evaluation = pooled_evaluation(layout, pooled_assignment(priced, solver, optimal=optimal), cpu_s)
        objective = self.question.scenario.objective
        if objective.kind.row.several and evaluation.assignment:
            # what is not rented costs nothing; of an inventory idle GPUs are paid for, too
            rented = layout_of(priced.pools) if objective.rents else layout
            goals = goal_values(self.question, rented, Standing.of_pools(self.question, priced))
            evaluation = replace(evaluation, layout=rented, goals=goals)
        if self.fleet is None or not objective.kind.row.placed or not evaluation.assignment:
            return evaluation
        from planner.evaluation.buckets.placing import place_pools  # noqa: PLC0415  (a plan on no nodes needs none of it)

        try:
            placed = place_pools(priced.pools, self.question, self.fleet)
        except InfeasibleError as error:
            return replace(evaluation, throughput_rps=0.0, assignment=None, error=error.message)
        judged = placed.placement.judged_rps
        rate = placed.priced.rate_rps if judged is None else judged
        return replace(evaluation, throughput_rps=max(0.0, rate))

    def _judged(self, fresh: Sequence[Layout]) -> Iterator[Evaluation]:
        if self.question.scenario.bucketed:
            return self._pooled(fresh)
        self.tabulate(island for layout in fresh for island, _ in layout.counts)
        pairs = [(self.table(layout), layout) for layout in fresh]
        if self.fleet is None or not self.question.scenario.objective.kind.row.placed:
            question = self.question.off_nodes
            return self._each(judge, [(table, layout, question) for table, layout in pairs])
        from planner.evaluation.placing import judge_placed  # noqa: PLC0415  (a plan on no nodes needs none of it)

        return self._each(judge_placed, [(table, layout, self.question, self.fleet) for table, layout in pairs])

    def _each(self, judged: Callable[..., Any], tasks: list[tuple[Any, ...]]) -> Iterator[Any]:
        return starmap(judged, tasks) if self._pool is None else _answers(self._pool, judged, tasks)


def _fleet_of(cluster: Cluster) -> "Fleet":
    from planner.placement import Fleet  # noqa: PLC0415  (a plan on no nodes needs none of it)

    return Fleet.of(cluster)


def _answers(pool: TaskPool, judged: Callable[..., Any], tasks: list[tuple[Any, ...]]) -> Iterator[Any]:
    """Each as soon as it is known; a process that died has broken off its layout."""
    for (_, layout, *_), outcome in zip(tasks, pool.run(judged, tasks), strict=True):
        yield broken_off(layout, outcome) if isinstance(outcome, BaseException) else outcome


@contextmanager
def open_evaluator(question: Question, pool: TaskPool | None = None) -> Iterator[Evaluator]:
    """An evaluator with `pool` behind it; None: with `search.processes` processes, which end with the block."""
    processes = question.scenario.search.processes
    if pool is not None or processes == 1:
        yield Evaluator(question, pool)
        return
    with Workers(processes) as workers:
        yield Evaluator(question, workers)
