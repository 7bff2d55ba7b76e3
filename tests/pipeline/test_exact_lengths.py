"""A plan at exact lengths: equal to its ranges where they hold midpoints alone, and to a plain loop where not."""

import time
from dataclasses import replace

import pytest
from pipeline_scenarios import by_deviation, shipped, short, small

from planner.cost import decode_time, prefill_time
from planner.domain import (
    Calibration,
    CostMode,
    CostSettings,
    Factor,
    LengthProfile,
    Origin,
    Phase,
    Plan,
    PlannedIsland,
    RangeSettings,
    Scenario,
)
from planner.errors import InputError
from planner.pipeline import plan
from planner.plans.exact_lengths import evaluate_exactly

MIDPOINTS = (512, 1536, 2560, 3584)
MODES = tuple(CostMode)
POOL_SHARE = 0.625  # of its steps' rate, in a prefill pool
POOLED = Calibration(
    name="a share of their own",
    factors=(
        Factor(
            name="prefill_pool", family="any", value=POOL_SHARE, unit="1", origin=Origin.DEFAULT, source="these tests"
        ),
    ),
)


def over(lengths: tuple[int, ...], mode: CostMode, *, width: int = 1024, answer: float = 28.0) -> Scenario:
    """H200 and H20 under evenly likely lengths."""
    profile = LengthProfile(
        name="some lengths",
        input_tokens=lengths,
        probabilities=(1 / len(lengths),) * len(lengths),
        output_tokens=(),
        mean_output_tokens=answer,
        max_output_tokens=1000,
    )
    scenario = small(
        {"H200": 32, "H20": 16}, search={"method": "random", "iterations": 1, "batch_size": 4, "timings": False}
    )
    cost = CostSettings(mode=mode, calibration=POOLED if mode is CostMode.DEFAULT else None)
    return replace(scenario, workload=profile, ranges=RangeSettings(width=width), cost=cost)


@pytest.mark.parametrize("answer", [1.0, 211.0])
@pytest.mark.parametrize("mode", MODES)
def test_prompts_of_midpoint_length_take_what_the_ranges_say(mode: CostMode, answer: float) -> None:
    made = plan(over(MIDPOINTS, mode, answer=answer))
    found = evaluate_exactly(made)
    assert found.binned_rps == pytest.approx(made.throughput_rps, rel=1e-5)
    for one in found.per_phase:
        assert one.throughput_rps == pytest.approx(one.binned_rps, rel=1e-4)
        assert one.difference == pytest.approx(0, abs=1e-4)


def _seconds(made: Plan, island: PlannedIsland) -> float:
    """Time that one request of the mix takes of an island, length by length and token by token (default mode)."""
    scenario, degrees = made.scenario, island.parallel
    assert degrees is not None
    gpu = scenario.inventory.item(island.gpu).gpu
    total = 0.0
    for route in made.routing:
        if route.island != island.id:
            continue
        for s, q in zip(scenario.workload.input_tokens, scenario.workload.probabilities, strict=True):
            if not route.range_start <= s < route.range_end:
                continue
            if route.phase is Phase.PREFILL:
                n = min(route.batch_size, max(1, scenario.cost.max_tokens_per_step // s))
                step = prefill_time(gpu, s, tp=degrees.tp, dp=degrees.dp, prompts_per_rank=n, model=scenario.model)
                rate = POOL_SHARE * degrees.dp * n * 1000 / float(step.total_ms)
            else:
                answer = int(scenario.workload.mean_output_tokens)
                each = decode_time(
                    gpu,
                    [s + i for i in range(answer)],
                    tp=degrees.tp,
                    batch_size=route.batch_size,
                    devices=degrees.devices,
                    model=scenario.model,
                )
                rate = degrees.dp * route.batch_size * 1000 / float(each.total_ms.sum())
            total += route.share * q / (rate * degrees.replicas)
    return total


def test_equal_to_a_loop_over_lengths_and_tokens() -> None:
    made = plan(over((3, 100, 700, 1023, 1024, 2000, 2900, 4095, 4096), CostMode.DEFAULT))
    found = evaluate_exactly(made)
    busy = {island.id: _seconds(made, island) for island in made.islands if island.phase is not None}
    assert found.throughput_rps == pytest.approx(1 / max(busy.values()), rel=1e-4)
    assert found.worst_island == max(busy, key=lambda name: busy[name])
    shares = {name: seconds * made.throughput_rps for name, seconds in busy.items()}
    assert dict(found.busy) == pytest.approx(shares, rel=1e-4)


def test_default_mode_looks_at_the_mean_prompt_of_a_range() -> None:
    for off in (400, 0, -400):
        found = evaluate_exactly(plan(over(tuple(m + off for m in MIDPOINTS), CostMode.DEFAULT)))
        assert found.difference == pytest.approx(0, abs=2e-3)


def test_lengths_above_every_midpoint_serve_less_and_below_more() -> None:
    mode = CostMode.REFERENCE
    longer, shorter = (evaluate_exactly(plan(over(tuple(m + off for m in MIDPOINTS), mode))) for off in (400, -400))
    assert longer.difference < -0.02
    assert longer.worst_range in {(m - 512, m + 512) for m in MIDPOINTS}
    assert shorter.difference > 0.02
    assert all(one.worst_range_difference < 0 for one in shorter.per_phase)


@pytest.mark.parametrize("mode", MODES)
def test_narrow_ranges_leave_little_difference(mode: CostMode) -> None:
    lengths = tuple(range(10, 2000, 7))
    wide, narrow = (abs(evaluate_exactly(plan(over(lengths, mode, width=width))).difference) for width in (1024, 64))
    assert narrow < 0.002
    assert narrow < wide


def test_half_the_usable_time_serves_half(example: Plan) -> None:
    whole = evaluate_exactly(example)
    half = evaluate_exactly(example, {(r.island, r.range_start): 0.5 for r in example.routing})
    assert half.throughput_rps == pytest.approx(whole.throughput_rps / 2)
    assert half.binned_rps == pytest.approx(whole.binned_rps / 2)
    one = example.routing[0]
    tight = evaluate_exactly(example, {(one.island, one.range_start): 1e-3})
    assert tight.per_phase[0].worst_island == one.island


@pytest.mark.parametrize("mode", MODES)
def test_the_shipped_fleet_loses_little_to_its_ranges_and_is_judged_at_once(mode: CostMode) -> None:
    scenario = short(shipped("azure-code-512usd"))
    made = plan(replace(scenario, cost=replace(scenario.cost, mode=mode)))
    start = time.perf_counter()
    found = evaluate_exactly(made)
    assert time.perf_counter() - start < 1.0
    assert found.binned_rps == pytest.approx(made.throughput_rps, rel=1e-4)
    assert abs(found.difference) < 0.02


def test_a_plan_by_deviation_may_leave_room() -> None:
    """Over the synthetic workload, which starts at prompts without a token."""
    made = plan(by_deviation(small({"H200": 48})))
    found = evaluate_exactly(made)
    assert found.binned_rps >= made.throughput_rps * (1 - 1e-6)
    assert found.throughput_rps == min(one.throughput_rps for one in found.per_phase)
    assert abs(found.difference) < 0.1


@pytest.mark.parametrize("mode", MODES)
def test_answers_of_each_length_load_their_own_range(mode: CostMode) -> None:
    scenario = over(MIDPOINTS, mode)
    made = plan(scenario)
    even = replace(scenario.workload, output_tokens=(28.0,) * 4)
    same = evaluate_exactly(replace(made, scenario=replace(scenario, workload=even)), own_answers=True)
    assert same == evaluate_exactly(made)
    longer = replace(scenario.workload, output_tokens=(4.0, 24.0, 28.0, 56.0))
    found = evaluate_exactly(replace(made, scenario=replace(scenario, workload=longer)), own_answers=True)
    prefill, decode = found.per_phase
    assert prefill == same.per_phase[0]
    assert decode.throughput_rps < same.per_phase[1].throughput_rps
    assert decode.worst_range == (3072, 4096)
    assert decode.worst_range_difference == pytest.approx(1, abs=0.05)


def test_unknown_answers_are_an_error_with_a_remedy() -> None:
    with pytest.raises(InputError) as caught:
        evaluate_exactly(plan(over(MIDPOINTS, CostMode.DEFAULT)), own_answers=True)
    assert "some lengths" in caught.value.message
    assert "trace" in caught.value.hint


def test_a_length_that_is_not_served_leaves_no_rate() -> None:
    """A route whose cell has no batch; a plan never has one."""
    made = plan(over(MIDPOINTS, CostMode.DEFAULT))
    first = next(r for r in made.routing if r.phase is Phase.DECODE)
    routing = tuple(replace(r, batch_size=0) if r is first else r for r in made.routing)
    found = evaluate_exactly(replace(made, routing=routing))
    assert found.throughput_rps == 0
    assert found.slowest.phase is Phase.DECODE
    assert found.worst_range == (first.range_start, first.range_end)
