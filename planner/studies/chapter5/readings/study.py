"""Table 5.1 under every reading: the best layout of each cell, and the layouts that the thesis's searches ended with.

A reading's best layout is solved for, so that no luck of a search is in it: of the highest rate at which the whole mix
is served. The thesis's code reports another figure, the slower phase's sum over ranges under its formulation (section
4.8.1, M = 100, tau = 0.1, no island ever idle), of the best layout that a search met; where somebody has its runs at
hand (`data/outer` of its repository), those layouts are evaluated as it does.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from planner.assignment import Offer, assign, best_layout
from planner.domain import (
    AssignmentSettings,
    CostMode,
    Formulation,
    IslandClass,
    Layout,
    ObjectiveSettings,
    PerformanceTable,
    Phase,
    Scenario,
    Workload,
)
from planner.domain.assignment import Assignment
from planner.errors import InfeasibleError, InputError
from planner.proposing.search.divider import divide as divided
from planner.studies.chapter5.experiments import CODE, CONVERSATION, FLEETS, setup_of
from planner.studies.chapter5.readings.rates import Reader
from planner.studies.chapter5.readings.records import OURS, THESIS, GivenLayout, Point, ReadCell, Reading
from planner.studies.chapter5.readings.traces import week_of
from planner.studies.chapter5.study import scenario_reader
from planner.workload import question_of
from planner.workload.summary import divide as in_ranges

SMALLEST = 2  # GPUs of an island, the caption of table 5.1
WIDTH = 100  # tokens, Point.WIDTH
GAP = 0.005
WORK_LIMIT = 60.0
CODE_SETTINGS = AssignmentSettings(
    formulation=Formulation.DEVIATION, tau=0.1, deviation_weight=100.0, idle=False, gap=1e-3, work_limit=60.0
)
"""Of the thesis's code; its text gives neither tau nor M."""

Listen = Callable[[ReadCell | GivenLayout], None]


def readings() -> tuple[Reading, ...]:
    """Ours, each point alone, all but each, and all."""
    alone = tuple(frozenset({point}) for point in Point)
    return (OURS, *alone, *(THESIS - {point} for point in Point), THESIS)


def read_cells(reading: Reading, listen: Listen = lambda _: None) -> Iterator[ReadCell]:
    """The six cells."""
    scenario_of = scenario_reader(CostMode.REFERENCE)
    for trace in (CODE, CONVERSATION):
        for fleet, gpus in FLEETS.items():
            cell = _solved(reading, fleet, trace, scenario_of(setup_of(gpus, trace)))
            listen(cell)
            yield cell


def _solved(reading: Reading, fleet: str, trace: str, scenario: Scenario) -> ReadCell:
    reader = reader_of(reading, scenario)
    items = scenario.inventory.items
    rows = [reader.row(item.gpu, size) for item in items for size in range(SMALLEST, item.count + 1)]
    offer = Offer.of(items, rows, [span.probability for span in reader.workload.ranges])
    settings = replace(scenario.assignment, gap=GAP, work_limit=WORK_LIMIT)
    try:
        answer = best_layout(offer, ObjectiveSettings(), settings)
        rate_rps, bound_rps = answer.rate_rps, answer.bound
    except InfeasibleError:  # no layout serves every range
        rate_rps = bound_rps = 0.0
    return ReadCell(reading=reading, fleet=fleet, trace=trace, rate_rps=rate_rps, bound_rps=bound_rps)


def reader_of(reading: Reading, scenario: Scenario) -> Reader:
    """Who prices the scenario's islands under a reading."""
    return Reader(reading=reading, model=scenario.model, workload=_workload(reading, scenario))


def _workload(reading: Reading, scenario: Scenario) -> Workload:
    width = WIDTH if Point.WIDTH in reading else scenario.ranges.width
    if Point.TRACE in reading:
        return week_of(question_of(scenario).workload, width)
    return in_ranges(scenario.workload, width)


# --- layouts of the thesis's own searches

FOLDERS = {CODE: ("het-azure-code", "het_azure_code"), CONVERSATION: ("het-azure-conv", "het_azure_conv")}
TRIALS = 5


def given_layouts(runs: Path, listen: Listen = lambda _: None) -> Iterator[GivenLayout]:
    """The best layout of each search below `runs`, `data/outer` of the thesis's repository. InputError where a file is
    missing, or is none of its tables."""
    scenario_of = scenario_reader(CostMode.REFERENCE)
    for trace, (folder, stem) in FOLDERS.items():
        for fleet, gpus in FLEETS.items():
            reader = reader_of(THESIS, scenario_of(setup_of(gpus, trace)))
            items = {item.gpu.name: item.gpu for item in scenario_of(setup_of(gpus, trace)).inventory.items}
            name = "_".join([stem, *(f"{gpu}-{count}" for gpu, count in gpus.items())])
            for trial in range(1, TRIALS + 1):
                searched_rps, layout = _best_of(runs / folder / name / f"trial_{trial}.csv", gpus)
                rows = tuple(reader.row(items[island.gpu], island.size) for island, _ in layout.counts)
                table = PerformanceTable(ranges=reader.workload.ranges, classes=rows)
                assignment = assign(table, layout, CODE_SETTINGS)
                rates = {phase: phase_rps(table, assignment, phase) for phase in (Phase.PREFILL, Phase.DECODE)}
                given = GivenLayout(
                    fleet=fleet,
                    trace=trace,
                    trial=trial,
                    prefill_rps=rates[Phase.PREFILL],
                    decode_rps=rates[Phase.DECODE],
                    deviation_rps=assignment.deviation_rps,
                    searched_rps=searched_rps,
                )
                listen(given)
                yield given


def phase_rps(table: PerformanceTable, assignment: Assignment, phase: Phase) -> float:
    """The thesis's R of a phase: the sum over ranges."""
    return sum(
        duty.count * share * rate
        for duty in assignment.duties
        if duty.phase is phase
        for share, rate in zip(duty.time_shares, table.row(duty.island).phase(phase).rates_rps, strict=True)
    )


def _best_of(path: Path, gpus: Mapping[str, int]) -> tuple[float, Layout]:
    """What the search of a file reports for its best layout (requests/s), and that layout."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        best = min(rows, key=lambda row: float(row["rho_max"]))
        islands = [
            IslandClass(gpu=gpu, size=size)
            for gpu, count in gpus.items()
            for size in divided(count, int(best[f"num_islands_{gpu}"]), float(best[f"skew_exponent_{gpu}"]), SMALLEST)
        ]
        return 1 / float(best["rho_max"]), Layout.of(islands)
    except (OSError, KeyError, ValueError) as error:
        raise InputError(
            f"{path}: must be a search of the thesis (rho_max, num_islands_GPU, skew_exponent_GPU), got {error}.",
            hint="Give --runs the folder data/outer of its repository.",
        ) from None
