"""Whole plans under service levels: batches, goodput, mixtures, and verdicts on what cannot be had."""

from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_scenarios import shipped, small

from planner.cost import decode_time, time_band
from planner.domain import (
    PHASES,
    Assignment,
    CostMode,
    CostSettings,
    Duty,
    IslandClass,
    Layout,
    Phase,
    Question,
    RangeSlo,
    Scenario,
    SloSettings,
)
from planner.errors import InfeasibleError, InputError
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.goodput import at_goodput, capacity_rps, goodput_of
from planner.files.plan.plan_document import encode_plan
from planner.files.plan.plan_reader import decode_plan
from planner.pipeline import check, plan
from planner.report import summary
from planner.workload import divide

FLEET = small({"H200": 32, "H20": 64})
LOAD = divide(FLEET.workload, FLEET.ranges.width)
ANSWER = LOAD.mean_output_tokens
P99 = SloSettings(ttft_ms=4000, tpot_ms=50, percentile=99)
LAYOUT = Layout.of([IslandClass(gpu="H200", size=16)] * 2 + [IslandClass(gpu="H20", size=32)] * 2)


def under(slo: SloSettings, scenario: Scenario = FLEET) -> Scenario:
    return replace(scenario, slo=slo)


def rate(slo: SloSettings) -> float:
    return Evaluator(Question(scenario=under(slo), workload=LOAD)).evaluate(LAYOUT).throughput_rps


def test_a_plan_keeps_to_its_levels() -> None:
    found = plan(under(P99))
    assert found.throughput_rps > 0
    decoding = {i.id: i for i in found.islands if i.phase is Phase.DECODE}
    assert decoding
    longest = {r.start: r.longest_input_tokens for r in LOAD.ranges}
    for route in found.routing:
        if route.phase is Phase.DECODE:
            island = decoding[route.island]
            assert island.parallel is not None
            time = decode_time(
                island.gpu,
                longest[route.range_start] + ANSWER,
                tp=island.parallel.tp,
                batch_size=route.batch_size,
                devices=island.parallel.stage_devices,
                model=FLEET.model,
            )
            assert float(time.total_ms) <= 50 * (1 + 1e-9)


@pytest.mark.parametrize("slo", [P99, replace(P99, percentile=None)])
def test_times_of_ranges_have_the_ends_of_their_measurements(slo: SloSettings) -> None:
    """Of the time that the levels count; the page tells them of the worst range."""
    found = plan(under(slo))
    for row in found.service.ranges:
        spec = FLEET.inventory.item(row.island.gpu).gpu
        band = time_band(spec, FLEET.model, row.phase, found.scenario.cost)
        counted_ms = row.mean_ms if slo.percentile is None else row.percentile_ms
        assert (row.low_ms, row.high_ms) == pytest.approx((counted_ms * band.low, counted_ms * band.high))
    assert decode_plan(encode_plan(found), Path("plan.json")).service == found.service
    assert "| Worst percentile (ms) | In range | P10–P90 |" in summary(found)


@pytest.mark.parametrize("percentile", [None, 90.0, 99.0])
def test_every_range_keeps_to_its_bound_at_goodput(percentile: float | None) -> None:
    slo = replace(P99, percentile=percentile, ranges=(RangeSlo(start=0, end=2048, ttft_ms=1500),))
    evaluator = Evaluator(Question(scenario=under(slo), workload=LOAD))
    found = evaluator.evaluate(LAYOUT)
    service = goodput_of(found.assignment, evaluator.table(LAYOUT), slo, ANSWER)
    assert found.throughput_rps == pytest.approx(service.goodput_rps)
    assert found.throughput_rps == pytest.approx(min(found.assignment.prefill_rps, found.assignment.decode_rps))
    assert {(r.phase, r.start) for r in service.ranges} == {(p, r.start) for p in PHASES for r in LOAD.ranges}
    for row in service.ranges:
        reached = row.mean_ms if percentile is None else row.percentile_ms
        assert reached is not None
        assert row.bound_ms is not None
        assert reached <= row.bound_ms * (1 + 1e-6)
    assert [r.bound_ms for r in service.ranges if r.phase is Phase.PREFILL] == [1500, 4000, 4000, 4000]


def test_bounds_cost_throughput_and_tighter_ones_more() -> None:
    free, tpot, mean, late = (
        rate(SloSettings()),
        rate(SloSettings(tpot_ms=50)),
        rate(replace(P99, percentile=None)),
        rate(P99),
    )
    assert free >= tpot >= mean >= late > 0
    assert rate(SloSettings(ttft_ms=1e9, tpot_ms=1e6)) == pytest.approx(free, rel=0.02)


def test_long_prompts_on_the_same_island_cost_goodput() -> None:
    slo = SloSettings(ttft_ms=3000, tpot_ms=50, percentile=99, ranges=(RangeSlo(start=0, end=2048, ttft_ms=700),))
    evaluator = Evaluator(Question(scenario=under(slo), workload=LOAD))
    layout = Layout.of([IslandClass(gpu="H200", size=16)] * 2)
    table, island = evaluator.table(layout), layout.counts[0][0]
    row = table.row(island)

    def share(phase: Phase) -> tuple[float, ...]:
        need = [r.probability / alone for r, alone in zip(table.ranges, row.phase(phase).rates_rps, strict=True)]
        return tuple(n / sum(need) for n in need)

    duties = tuple(Duty(island=island, phase=phase, count=1, time_shares=share(phase)) for phase in PHASES)
    whole = Assignment(duties=duties, throughput_rps=1, prefill_rps=1, decode_rps=1, objective_rps=1)
    service = goodput_of(whole, table, slo, ANSWER)
    assert 0 < service.factor < 1
    assert (service.binding, service.binding_phase) == (island, Phase.PREFILL)
    assert service.goodput_rps == pytest.approx(service.factor * capacity_rps(whole, table))
    assert goodput_of(at_goodput(whole, service), table, slo, ANSWER) == service
    first = next(r for r in service.ranges if r.phase is Phase.PREFILL)
    assert first.percentile_ms == pytest.approx(700, rel=1e-3)


def test_without_a_bound_on_ttft_a_full_island_has_no_prediction() -> None:
    slo = SloSettings(tpot_ms=50)
    evaluator = Evaluator(Question(scenario=under(slo), workload=LOAD))
    found = evaluator.evaluate(LAYOUT)
    service = goodput_of(found.assignment, evaluator.table(LAYOUT), slo, ANSWER)
    assert (service.factor, service.binding) == (1.0, None)
    assert service.goodput_rps == pytest.approx(found.assignment.throughput_rps)
    assert all(r.bound_ms is None for r in service.ranges if r.phase is Phase.PREFILL)


@pytest.mark.parametrize(
    ("slo", "words"),
    [
        (
            SloSettings(tpot_ms=3),
            ("slo.tpot_ms: 3 ms (mean) is not reachable", "6144-", "best", "H20 (8 GPUs", "requests/s"),
        ),
        (
            SloSettings(ttft_ms=90, tpot_ms=30, percentile=99),
            ("slo.ttft_ms: 90 ms (P99) is not reachable", "prefill", "KV transfer", "first decode step 30 ms"),
        ),
        (SloSettings(ttft_ms=90, tpot_ms=3), ("slo.ttft_ms: 90 ms", "slo.tpot_ms: 3 ms")),
        (SloSettings(ttft_ms=400, tpot_ms=390), ("slo.ttft_ms: 400 ms", "conflicts with slo.tpot_ms")),
        (SloSettings(ranges=(RangeSlo(start=2048, end=4096, tpot_ms=2),)), ("slo.ranges: tpot_ms: 2 ms", "2048-4095")),
    ],
)
def test_what_cannot_be_reached_is_named_with_the_closest(slo: SloSettings, words: tuple[str, ...]) -> None:
    with pytest.raises(InfeasibleError) as caught:
        check(under(slo))
    missing = [word for word in words if word not in caught.value.message]
    assert not missing, caught.value.message


def test_the_closest_value_is_reachable() -> None:
    with pytest.raises(InfeasibleError) as caught:
        check(under(SloSettings(tpot_ms=3, percentile=99)))
    best = float(caught.value.message.split("best ")[1].split(" ms")[0])
    check(under(SloSettings(tpot_ms=best + 0.1, percentile=99)))


def test_bounds_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(InputError, match=r"slo\.ttft_ms must exceed slo\.tpot_ms"):
        check(under(SloSettings(ttft_ms=40, tpot_ms=50)))
    with pytest.raises(InputError, match="from 4096 tokens"):
        check(under(SloSettings(ttft_ms=400, ranges=(RangeSlo(start=4096, end=5000, tpot_ms=500),))))


def test_reference_mode_knows_no_levels() -> None:
    scenario = replace(shipped("quickstart"), cost=CostSettings(mode=CostMode.REFERENCE), slo=SloSettings(tpot_ms=50))
    with pytest.raises(InputError, match="reference"):
        check(scenario)
