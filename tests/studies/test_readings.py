"""Readings of table 5.1: ours is reference mode, the thesis's is what its own runs report, the traces are the published
ones."""

import numpy as np
import pytest

from planner.assignment import assign
from planner.cost import tabulate
from planner.domain import CostMode, GpuSpec, IslandClass, Layout, PerformanceTable, Phase, Scenario
from planner.errors import InputError
from planner.proposing.search.divider import divide
from planner.studies.chapter5.experiments import CODE, CONVERSATION, setup_of
from planner.studies.chapter5.readings.records import OURS, THESIS, Point
from planner.studies.chapter5.readings.study import CODE_SETTINGS, given_layouts, phase_rps, reader_of, readings
from planner.studies.chapter5.study import scenario_reader
from planner.workload import question_of

# tokens, by share below: `describe()` of both traces in the thesis's notebooks/traces.ipynb, and P90 and P99 of the
# same files as others publish them
QUANTILES = {
    CODE: {0.25: 938, 0.5: 1930, 0.75: 3348, 0.9: 6251, 0.99: 7685},
    CONVERSATION: {0.25: 546, 0.5: 928, 0.75: 2357, 0.9: 3830, 0.99: 6683},
}
MEANS = {CODE: 2511, CONVERSATION: 1632}

# islands, skew, and 1 / rho_max (requests/s): the first two layouts of the thesis's first search on 128 H200 and code,
# whose noise has a deviation of 1e-4 in rho_max (data/outer/het-azure-code of its repository)
PUBLISHED_LAYOUTS = [(12, -4.620645528135356, 1 / 0.030844530516213643), (4, -0.24913600685182047, 1 / 0.09493006558)]


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return scenario_reader(CostMode.REFERENCE)(setup_of({"H200": 128, "H20": 16}, CODE))


def spec(scenario: Scenario, name: str) -> GpuSpec:
    (gpu,) = [item.gpu for item in scenario.inventory.items if item.gpu.name == name]
    return gpu


@pytest.mark.parametrize("size", [2, 6, 8, 24])
@pytest.mark.parametrize("gpu", ["H200", "H20"])
def test_our_reading_is_reference_mode(scenario: Scenario, gpu: str, size: int) -> None:
    workload = question_of(scenario).workload
    core = tabulate(spec(scenario, gpu), size, model=scenario.model, workload=workload, settings=scenario.cost)
    read = reader_of(OURS, scenario).row(spec(scenario, gpu), size)
    for phase in (Phase.PREFILL, Phase.DECODE):
        assert read.phase(phase).rates_rps == pytest.approx(core.phase(phase).rates_rps, rel=1e-9)


@pytest.mark.parametrize("trace", [CODE, CONVERSATION])
def test_the_week_is_the_published_one(trace: str) -> None:
    scenario = scenario_reader(CostMode.REFERENCE)(setup_of({"H200": 8}, trace))
    ranges = reader_of(THESIS, scenario).workload.ranges
    masses = np.array([span.probability for span in ranges])
    assert masses.sum() == pytest.approx(1)
    assert masses @ [span.midpoint for span in ranges] == pytest.approx(MEANS[trace], rel=0.01)
    ends, below = [0, *(span.end for span in ranges)], [0, *np.cumsum(masses)]
    found = {share: np.interp(share, below, ends) for share in QUANTILES[trace]}
    assert found == pytest.approx(QUANTILES[trace], rel=0.03, abs=50)  # half a range


@pytest.mark.parametrize(("islands", "skew", "reported_rps"), PUBLISHED_LAYOUTS)
def test_the_thesis_reading_gives_what_its_own_search_reports(
    scenario: Scenario, islands: int, skew: float, reported_rps: float
) -> None:
    reader, gpu = reader_of(THESIS, scenario), spec(scenario, "H200")
    layout = Layout.of(IslandClass(gpu="H200", size=size) for size in divide(128, islands, skew, 2))
    table = PerformanceTable(
        ranges=reader.workload.ranges, classes=tuple(reader.row(gpu, island.size) for island, _ in layout.counts)
    )
    assignment = assign(table, layout, CODE_SETTINGS)
    rates = [phase_rps(table, assignment, phase) for phase in (Phase.PREFILL, Phase.DECODE)]
    assert min(rates) == pytest.approx(reported_rps, rel=0.02)
    assert all(sum(duty.time_shares) == pytest.approx(1) for duty in assignment.duties)


@pytest.mark.parametrize("point", list(Point))
def test_every_point_changes_some_rate(scenario: Scenario, point: Point) -> None:
    """Of the island sizes here at least one, alone or where all others are the thesis's."""
    gpu = spec(scenario, "H200")
    pairs = [(OURS, frozenset({point})), (THESIS - {point}, THESIS)]
    rates = [[_rates(scenario, reading, gpu, size) for size in (8, 16, 24, 26)] for pair in pairs for reading in pair]
    assert rates[0] != rates[1] or rates[2] != rates[3]


def _rates(scenario: Scenario, reading: frozenset[Point], gpu: object, size: int) -> list[tuple[float, ...]]:
    row = reader_of(reading, scenario).row(gpu, size)
    return [row.phase(phase).rates_rps for phase in (Phase.PREFILL, Phase.DECODE)]


def test_the_worst_configuration_serves_least_of_all(scenario: Scenario) -> None:
    """Of prefill, where every configuration serves every range."""
    gpu, mean = spec(scenario, "H200"), frozenset({Point.MEAN})
    best, worst = (
        np.array(reader_of(reading, scenario).row(gpu, 24).prefill.rates_rps)
        for reading in (mean, mean | {Point.WORST})
    )
    assert (worst <= best).all()
    assert worst.sum() < 0.9 * best.sum()


def test_readings_are_each_point_alone_and_left_out() -> None:
    sizes = [len(reading) for reading in readings()]
    assert sizes == [0, *([1] * len(Point)), *([len(Point) - 1] * len(Point)), len(Point)]
    assert len(set(readings())) == len(readings())


def test_runs_that_are_not_there_are_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="het_azure_code_H200-64_H800-64_H20-128"):
        next(given_layouts(tmp_path))
