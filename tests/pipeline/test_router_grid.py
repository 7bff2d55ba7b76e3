"""A plan's routing table on a router's grid: the trace replayed through it, length by length."""

import math
from collections import defaultdict
from dataclasses import replace

import pytest
from pipeline_scenarios import seconds_alone, small

from planner import pipeline
from planner.domain import PHASES, CostMode, Phase, Plan
from planner.errors import InputError
from planner.plans.exact_lengths import evaluate_exactly
from planner.plans.router_grid import RouterGrid, grid_of, on_grid
from planner.workload import divide


@pytest.mark.parametrize("phase", PHASES)
def test_replaying_the_trace_through_the_grid_gives_its_rate(example: Plan, grid: RouterGrid, phase: Phase) -> None:
    cells = grid.phase(phase)
    profile = example.scenario.workload
    times = {name: seconds_alone(example, name) for pool in cells.pools for name in pool}
    busy: dict[str, float] = defaultdict(float)  # an island's time, had it its pool's requests to itself
    for tokens, probability in zip(profile.input_tokens, profile.probabilities, strict=True):
        for name in cells.pools[cells.pool_of(tokens)]:
            busy[name] += probability * times[name][tokens]
    slowest = max(1 / sum(1 / busy[name] for name in pool) for pool in cells.pools)
    with_its_batches = evaluate_exactly(on_grid(example, grid)).per_phase
    (reached,) = (one.throughput_rps for one in with_its_batches if one.phase is phase)
    assert cells.grid_rps == pytest.approx(min(1 / slowest, reached), rel=1e-9)
    assert cells.grid_rps == pytest.approx(1 / slowest, rel=0.02)  # batches of cells, not of single lengths


def test_batches_of_coarse_cells_cost_what_they_cost(example: Plan) -> None:
    """The batch of a cell is that of its longest prompt: short prompts of a wide one decode in small batches."""
    wide, narrow = grid_of(example, 2), grid_of(example, 64)
    assert wide.decode.grid_rps < 0.97 * narrow.decode.grid_rps


def test_the_grid_costs_little(example: Plan, grid: RouterGrid) -> None:
    assert grid.plan_rps == pytest.approx(example.throughput_rps, rel=0.01)  # at exact lengths
    assert grid.cost <= 0.03
    assert len(grid.prefill.cells) == len(grid.decode.cells) == 32
    assert grid.prefill.end > max(example.scenario.workload.input_tokens) >= grid.prefill.end - grid.prefill.width * 32
    serving = {phase: {i.id for i in example.islands if i.phase is phase} for phase in PHASES}
    for phase in PHASES:
        assert {name for pool in grid.phase(phase).pools for name in pool} == serving[phase]


def test_a_plan_on_the_grid_has_the_grids_table(example: Plan, grid: RouterGrid) -> None:
    there = on_grid(example, grid)
    assert there.throughput_rps == grid.grid_rps
    shares: dict[tuple[Phase, int], float] = defaultdict(float)
    for route in there.routing:
        cell = grid.phase(route.phase)
        assert route.range_start % cell.width == 0
        assert route.island in cell.pools[cell.pool_of(route.range_start)]
        shares[route.phase, route.range_start] += route.share
    ranges = divide(example.scenario.workload, grid.prefill.width).ranges
    assert set(shares) == {(phase, span.start) for phase in PHASES for span in ranges}
    assert all(math.isclose(share, 1.0, rel_tol=1e-9) for share in shares.values())
    for island in there.islands:
        if island.phase is not None:
            mine = [route for route in there.routing if route.island == island.id]
            assert island.rate_rps == pytest.approx(sum(route.rate_rps for route in mine))
            assert island.longest_prompt < max(route.range_end for route in mine)
            assert 0 < island.utilisation <= 1.0
    assert [(i.id, i.parallel, i.size) for i in there.islands] == [(i.id, i.parallel, i.size) for i in example.islands]


def test_ranges_on_the_grid_from_the_start() -> None:
    scenario = small({"H200": 32}, ranges={"cells": 8})
    longest = max(scenario.workload.input_tokens)
    assert scenario.ranges.width == math.ceil((longest + 1) / 8)
    plan = pipeline.plan(scenario)
    assert grid_of(plan, 8).prefill.width == scenario.ranges.width
    assert {route.range_start % scenario.ranges.width for route in plan.routing} == {0}


def test_ranges_have_a_width_or_a_number() -> None:
    with pytest.raises(InputError, match="must have width or cells, got both"):
        small({"H200": 32}, ranges={"cells": 8, "width": 256})
    with pytest.raises(InputError, match=r"ranges.*cells"):
        small({"H200": 32}, ranges={"cells": 0})


def test_what_has_no_grid(example: Plan) -> None:
    for cells in (0, 4097):
        with pytest.raises(InputError, match="cells must be 1 to 4096"):
            grid_of(example, cells)
    reference = replace(
        example, scenario=replace(example.scenario, cost=replace(example.scenario.cost, mode=CostMode.REFERENCE))
    )
    with pytest.raises(InputError, match="mode must be default"):
        grid_of(reference)
