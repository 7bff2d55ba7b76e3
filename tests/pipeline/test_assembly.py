"""Routes from duties by hand: shares follow what each island would serve, and slivers are left out."""

import pytest
from pipeline_scenarios import small

from planner.cost import tabulate
from planner.domain import Assignment, Duty, IslandClass, Layout, PerformanceTable, Phase, PlannedIsland, Route
from planner.evaluation.assembly import assemble
from planner.workload import divide

SIZES = (8, 16, 2)  # two that serve, and one that cannot hold the model
RATE_RPS = 3.0


def assembled(
    prefill: dict[int, float], decode: dict[int, float]
) -> tuple[tuple[PlannedIsland, ...], tuple[Route, ...]]:
    """Islands and routes of H200 islands, each giving its share of time evenly to all ranges."""
    scenario = small({"H200": 64})
    load, gpu = divide(scenario.workload, scenario.ranges.width), scenario.inventory.items[0].gpu
    rows = tuple(
        tabulate(gpu, size, model=scenario.model, workload=load, settings=scenario.cost) for size in sorted(SIZES)
    )
    duties = tuple(
        Duty(
            island=IslandClass(gpu="H200", size=size),
            phase=phase,
            count=1,
            time_shares=(share / len(load.ranges),) * len(load.ranges),
        )
        for phase, shares in ((Phase.PREFILL, prefill), (Phase.DECODE, decode))
        for size, share in shares.items()
    )
    layout = Layout.of([*(duty.island for duty in duties), IslandClass(gpu="H200", size=2)])
    found = Assignment(
        duties=duties, throughput_rps=RATE_RPS, prefill_rps=RATE_RPS, decode_rps=RATE_RPS, objective_rps=RATE_RPS
    )
    return assemble(scenario.inventory, layout, PerformanceTable(ranges=load.ranges, classes=rows), found)


def test_shares_follow_what_each_island_would_serve() -> None:
    _, routes = assembled({8: 0.9, 16: 0.3}, {8: 1.0})
    starts = sorted({route.range_start for route in routes})
    for start in starts:
        eight, sixteen = (r for r in routes if r.phase is Phase.PREFILL and r.range_start == start)
        expected = 0.9 * eight.capacity_rps / (0.9 * eight.capacity_rps + 0.3 * sixteen.capacity_rps)
        assert eight.share == pytest.approx(expected)
        assert eight.rate_rps == pytest.approx(expected * eight.probability * RATE_RPS)


def test_slivers_are_left_out_and_the_rest_is_whole() -> None:
    islands, routes = assembled({8: 0.9, 16: 1e-7}, {8: 1.0})
    prefill = [route for route in routes if route.phase is Phase.PREFILL]
    assert {route.island for route in prefill} == {"h200-8g-prefill-1"}
    assert [route.share for route in prefill] == [1.0] * len(prefill)
    spare = next(island for island in islands if island.id == "h200-16g-prefill-1")
    assert (spare.phase, spare.parallel, spare.rate_rps) == (None, None, 0.0)
    assert "spare" in spare.note


def test_islands_without_a_duty_come_last_with_the_reason() -> None:
    islands, _ = assembled({8: 1.0}, {8: 1.0})
    assert [island.phase for island in islands] == [Phase.PREFILL, Phase.DECODE, None]
    assert islands[-1].size == 2
    assert "GB of weights on each GPU" in islands[-1].note
    assert islands[-1].price_usd_per_hour == 2 * 2.5
    assert len({island.id for island in islands}) == 3


def test_names_tell_type_size_phase_and_number() -> None:
    islands, _ = assembled({8: 1.0}, {16: 1.0})
    assert [island.id for island in islands] == ["h200-8g-prefill-1", "h200-16g-decode-1", "h200-2g-idle-1"]
