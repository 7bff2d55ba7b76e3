"""One layout's worth: cost and assignment, joined. What the search calls, many times.

A class of islands is tabulated once per evaluator, all sizes of a GPU type that a batch asks for at once; a layout is
assigned once per evaluator. Processes take over the assigning, with the table at hand: tabulating is the cheap part.
"""

import multiprocessing
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import repeat

from planner.assignment import assign
from planner.cost import tabulate_sizes
from planner.domain import (
    Assignment,
    AssignmentSettings,
    ClassPerformance,
    Evaluation,
    IslandClass,
    KvTraffic,
    Layout,
    NetworkSettings,
    PerformanceTable,
    Scenario,
    SloSettings,
    Workload,
)
from planner.errors import InfeasibleError, SolverError
from planner.goodput import at_goodput, bounds_ttft, goodput_of, kept_apart
from planner.processes import deaf_to_interrupts, end_with_parent

NEITHER_BOTH = "layout: its islands cannot be parted so that every range is served in both phases."

TOO_SLOW = (
    "layout: slo.ttft_ms: the first decode step on its islands takes what prefill leaves of the bound; "
    "a bound slo.tpot_ms sets it apart."
)

WORTH_PARTING = 0.9  # of what could be served: less is worth parting ranges for


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
        return self([layout])[0]

    def __call__(self, layouts: Sequence[Layout], /) -> list[Evaluation]:
        """Rates of a batch, in order; over several processes where there is a pool."""
        fresh = [layout for layout in dict.fromkeys(layouts) if layout not in self._known]
        self.tabulate(island for layout in fresh for island, _ in layout.counts)
        self._known.update(zip(fresh, self._judge(fresh), strict=True))
        return [self._known[layout] for layout in layouts]

    def _judge(self, fresh: Sequence[Layout]) -> Iterable[Evaluation]:
        tables = [self.table(layout) for layout in fresh]
        settings, slo, tokens = self.scenario.assignment, self.scenario.slo, self.workload.mean_output_tokens
        network = self.scenario.network
        kv = KvTraffic.of(self.scenario.model, self.scenario.inventory, self.workload.ranges)
        if self._pool is None:
            return [
                _judge(table, layout, settings, slo, tokens, network, kv)
                for table, layout in zip(tables, fresh, strict=True)
            ]
        with deaf_to_interrupts():  # the pool starts its processes when it is first asked
            shared = (repeat(settings), repeat(slo), repeat(tokens), repeat(network), repeat(kv))
            return self._pool.map(_judge, tables, fresh, *shared)


def _judge(
    table: PerformanceTable,
    layout: Layout,
    settings: AssignmentSettings,
    slo: SloSettings,
    mean_output_tokens: float,
    network: NetworkSettings | None,
    kv: KvTraffic,
) -> Evaluation:
    """Under a bound on TTFT the rates are those that keep to it in every island's own mixture of ranges."""
    try:
        assignment = assign(table, layout, settings, network, kv)
    except (InfeasibleError, SolverError) as error:  # one layout that fails must not end the search
        failed = isinstance(error, SolverError)
        return Evaluation(layout=layout, throughput_rps=0.0, assignment=None, error=error.message, failed=failed)
    if not assignment.throughput_rps > 0:
        return Evaluation(layout=layout, throughput_rps=0.0, assignment=None, error=NEITHER_BOTH)
    if bounds_ttft(slo):
        assignment = _with_patience(table, assignment, layout, settings, slo, mean_output_tokens, network, kv)
        if not assignment.throughput_rps > 0:
            return Evaluation(layout=layout, throughput_rps=0.0, assignment=None, error=TOO_SLOW)
    return Evaluation(layout=layout, throughput_rps=assignment.throughput_rps, assignment=assignment)


def _with_patience(
    table: PerformanceTable,
    assignment: Assignment,
    layout: Layout,
    settings: AssignmentSettings,
    slo: SloSettings,
    mean_output_tokens: float,
    network: NetworkSettings | None,
    kv: KvTraffic,
) -> Assignment:
    """The assignment at its goodput; where queues cost much, ranges that cannot wait for each other are parted."""
    best, service = assignment, goodput_of(assignment, table, slo, mean_output_tokens)
    if service.factor >= WORTH_PARTING:
        return at_goodput(best, service)
    for parted in kept_apart(table, slo):
        try:
            other = assign(parted, layout, settings, network, kv)
        except (InfeasibleError, SolverError):
            continue
        judged = goodput_of(other, table, slo, mean_output_tokens)
        if judged.goodput_rps > service.goodput_rps:
            best, service = other, judged
    return at_goodput(best, service)


@contextmanager
def open_evaluator(scenario: Scenario, workload: Workload) -> Iterator[Evaluator]:
    """An evaluator with `search.processes` processes behind it; they end with the block."""
    if scenario.search.processes == 1:
        yield Evaluator(scenario, workload)
        return
    with ProcessPoolExecutor(
        max_workers=scenario.search.processes,
        mp_context=multiprocessing.get_context("spawn"),  # a forked torch may hang on its own threads
        initializer=end_with_parent,
    ) as pool:
        yield Evaluator(scenario, workload, pool)
