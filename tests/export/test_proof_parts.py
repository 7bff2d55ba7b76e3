"""What a proof is made of: texts that caches find no more of than the plan counts on, requests as they were sent, where
times may lie by the bands, and a calibration that makes the plan's own steps as long as those that were measured."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from contract_plans import MIXED, two_range_plan
from export_plans import plan_of
from test_routers_rehearsed import aggregated, with_levels

from planner.domain import Band, Calibration, CostMode, Phase, Plan
from planner.domain.arrivals import Requests
from planner.domain.efficiency import Origin
from planner.domain.fleet import ReplayFleet
from planner.domain.plan import Estimate
from planner.domain.serving.observed import Verdict
from planner.domain.workload import PromptBlocks
from planner.evaluation.replay.paces import half_of, slowed
from planner.evaluation.replay.replaying import PlanReplay
from planner.files.benchmarks.aiperf_records import AiperfRequest
from planner.plans.observed.paced import paced_calibration
from planner.proposing.feasibility import posed
from planner.runs.live.proving.generator import Sent
from planner.runs.live.proving.measuring import Measured, proved_requests
from planner.runs.live.proving.records import ProvedRequest
from planner.runs.live.proving.settings import DRAIN_S, ProofSettings, within_bounds
from planner.runs.live.proving.texts import engine_bodies
from planner.runs.rehearsal.prompts import Sender
from planner.runs.replays.replay_settings import replay_settings

SENDER = Sender(model="m", bytes_per_token=4.0)
COUNT = 60


def replay_of(plan: Plan, count: int = COUNT) -> PlanReplay:
    settings = replay_settings(plan, requests=count, seeds=(0,), warm_up=0.0, length_spread=0.0)
    return PlanReplay(plan, posed(plan.scenario).workload, plan.scenario.workload, settings)


@pytest.fixture(scope="module")
def fleet() -> ReplayFleet:
    return replay_of(two_range_plan()).fleet


def requests_of(*prompts: int, blocks: PromptBlocks | None = None) -> Requests:
    count = len(prompts)
    arrivals = [1000.0 * number for number in range(count)]
    return Requests(name="some", arrival_ms=arrivals, prompt_tokens=prompts, answer_tokens=[7] * count, blocks=blocks)


def prompts_of(requests: Requests, fleet: ReplayFleet, run: str = "run") -> list[str]:
    bodies: list[dict[str, Any]] = [json.loads(body) for body in engine_bodies(requests, SENDER, fleet, run)]
    assert {(body["model"], body["max_tokens"], body["stream"], body["ignore_eos"]) for body in bodies} == {
        ("m", 7, True, True)
    }
    return [body["messages"][0]["content"] for body in bodies]


def alike(first: str, other: str) -> int:
    """Characters with which both begin."""
    return next((place for place, pair in enumerate(zip(first, other, strict=False)) if pair[0] != pair[1]), len(first))


def test_texts_have_their_size_their_number_and_a_beginning_of_their_own(fleet: ReplayFleet) -> None:
    texts = prompts_of(requests_of(*[500] * 40, 30_000), fleet)
    assert {len(text) for text in texts} == {2000, 120_000}
    assert [text.rpartition(" #")[2] for text in texts] == [str(number) for number in range(41)]
    begun = max(alike(first, other) for first in texts for other in texts if first is not other)
    assert begun < 8  # of 2000: less than a block of any cache
    again = prompts_of(requests_of(500), fleet, run="later")[0]
    assert alike(texts[0], again) == 0
    assert prompts_of(requests_of(500), fleet)[0] == texts[0]


def test_what_the_plan_counts_on_that_caches_find_is_alike(fleet: ReplayFleet) -> None:
    pools = [replace(pool, hit_shares=(0.4,) * len(fleet.lengths)) for pool in fleet.pools]
    long, short = prompts_of(requests_of(1000, 200), replace(fleet, pools=tuple(pools)))
    assert alike(long, short) == pytest.approx(0.4 * 800, abs=4)
    assert (len(long), len(short)) == (4000, 800)


def test_blocks_that_are_alike_in_the_trace_are_alike_in_the_texts(fleet: ReplayFleet) -> None:
    blocks = PromptBlocks(block_tokens=100, ids=[1, 2, 3, 1, 2, 4, 9, 2, 3], ends=[3, 6, 9])
    first, other, third = prompts_of(requests_of(300, 300, 300, blocks=blocks), fleet)
    assert alike(first, other) == pytest.approx(800, abs=12)
    assert alike(first, third) < 15


def test_a_load_is_cut_to_its_bounds() -> None:
    blocks = PromptBlocks(block_tokens=100, ids=[1, 2, 3, 1], ends=[1, 2, 3, 4])
    requests = requests_of(100, 100, 100, 100, blocks=blocks)
    settings = ProofSettings(url="http://localhost", rate_rps=1.0, requests=3, minutes=1.0)
    by_number = within_bounds(requests, settings)
    assert (len(by_number), by_number.blocks and list(by_number.blocks.ids)) == (3, [1, 2, 3])
    by_time = within_bounds(requests, replace(settings, requests=9, minutes=(15 + 30 + 1.5) / 60))
    assert list(by_time.arrival_ms) == [0.0, 1000.0]


def answered(number: int, start_ms: float, **changes: Any) -> AiperfRequest:
    usual = AiperfRequest(
        name=f"r{number}",
        start_ms=start_ms,
        ttft_ms=100.0,
        latency_ms=300.0,
        input_tokens=101,
        output_tokens=7,
        failure="",
    )
    return replace(usual, **changes)


def test_requests_are_told_as_they_were_sent_and_counted() -> None:
    requests = requests_of(100, 100, 100, 100)
    records = {
        1: answered(1, 51_010.0, input_tokens=None, output_tokens=None),
        0: answered(0, 50_000.0),
        2: answered(2, 52_000.0, failure="503: busy"),
    }
    rows = proved_requests(requests, Sent(records=records, ended_ms=math.inf))
    assert [(row.number, row.arrival_ms, row.failure) for row in rows] == [
        (0, 0.0, ""),
        (1, 1010.0, ""),
        (2, 2000.0, "503: busy"),
        (3, 3000.0, "not answered in time"),
    ]
    assert [(row.prompt_tokens, row.answer_tokens) for row in rows] == [(101, 7), (100, 7), (100, 7), (100, 7)]
    assert [(row.first_ms, row.ended_ms) for row in rows] == [
        (100.0, 300.0),
        (1110.0, 1310.0),
        (None, None),
        (None, None),
    ]


def test_whom_no_time_was_left_is_not_counted_as_failed() -> None:
    requests, records = requests_of(100, 100, 100), {0: answered(0, 50_000.0)}
    enough = Sent(records=records, ended_ms=50_000.0 + 1000.0 + 1000 * DRAIN_S)
    assert [row.number for row in proved_requests(requests, enough)] == [0, 1]


def test_an_answer_without_tokens_is_none() -> None:
    records = {0: answered(0, 50_000.0, ttft_ms=None)}
    (row,) = proved_requests(requests_of(100), Sent(records=records, ended_ms=math.inf))
    assert (row.failure, row.first_ms) == ("no tokens came", None)


def as_replayed(plan: Plan, factor: float) -> Measured:
    """What servers with steps so many times as long would show."""
    replay = replay_of(plan)
    drawn = replay.requests(5.0, 0)
    rows = [
        ProvedRequest(number=n, arrival_ms=arrival, prompt_tokens=prompt, answer_tokens=answer)
        for n, (arrival, prompt, answer) in enumerate(
            zip(drawn.arrival_ms, drawn.prompt_tokens, drawn.answer_tokens, strict=True)
        )
    ]
    columns = Measured(plan, replay, 5.0, rows)._played(slowed(replay.fleet, lambda _pool: factor)).columns
    moments = zip(columns.ttft.tolist(), columns.end_to_end.tolist(), strict=True)
    told = [
        replace(row, first_ms=row.arrival_ms + ttft, ended_ms=row.arrival_ms + whole)
        for row, (ttft, whole) in zip(rows, moments, strict=True)
    ]
    return Measured(plan, replay, 5.0, told)


def with_bands(plan: Plan, low: float, high: float) -> Plan:
    """All speeds P10 and P90 of which are these shares of the planned ones."""
    estimates = tuple(
        Estimate(gpu=gpu, phase=phase, origin=Origin.DEFAULT, source="made up", band=Band(low=low, high=high))
        for gpu in ("H200", "H20")
        for phase in (Phase.PREFILL, Phase.DECODE, Phase.MIXED)
    )
    return replace(plan, provenance=replace(plan.provenance, estimates=estimates))


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.0, Verdict.AS_PLANNED), (1.15, Verdict.AS_PLANNED), (1.5, Verdict.WORSE), (0.7, Verdict.BETTER)],
)
def test_times_are_held_against_the_bands_of_the_speeds(factor: float, verdict: Verdict) -> None:
    plan = with_bands(with_levels(two_range_plan()), 0.75, 1.2)
    figures = as_replayed(plan, factor).figures()
    assert {figure.verdict for figure in figures} == {verdict}
    assert all(f.low is not None and f.promised is not None and f.high is not None for f in figures)
    tokens = [figure for figure in figures if figure.name == "TPOT P50"]
    assert [(f.low or 0) / (f.promised or 1) for f in tokens] == pytest.approx([1 / 1.2] * 3, rel=0.02)
    assert [(f.high or 0) / (f.promised or 1) for f in tokens] == pytest.approx([1 / 0.75] * 3, rel=0.02)


def test_without_bands_a_tenth_is_allowed() -> None:
    figures = as_replayed(with_levels(two_range_plan()), 1.2).figures()
    assert {figure.verdict for figure in figures if figure.name.startswith("TPOT")} == {Verdict.WORSE}
    assert all("give or take 10%" in figure.basis for figure in figures)


def test_few_requests_of_a_bucket_tell_no_late_times() -> None:
    names = [figure.name for figure in as_replayed(with_levels(two_range_plan()), 1.0).figures()]
    assert "TTFT P50" in names
    assert not [name for name in names if name.endswith("P99")]  # 60 requests have none beyond it


@pytest.mark.parametrize("plan", [two_range_plan(), aggregated(2)], ids=["split", "both phases"])
def test_a_calibration_makes_the_plans_steps_as_long(plan: Plan) -> None:
    factors = {half_of(pool): 1.25 for pool in replay_of(plan).fleet.pools}
    fit = paced_calibration(plan, factors, "proved", "a proof")
    assert fit is not None
    slower = replace(
        plan, scenario=replace(plan.scenario, cost=replace(plan.scenario.cost, calibration=fit.calibration))
    )
    twice = paced_calibration(slower, factors, "proved again", "a proof")
    assert twice is not None
    assert all(factor.value == pytest.approx(0.64) for factor in twice.calibration.factors)
    made, expected = replay_of(slower).fleet, slowed(replay_of(plan).fleet, lambda _pool: 1.25)
    for pool, other in zip(made.pools, expected.pools, strict=True):
        for name, times in (("prompts", "step_ms"), ("answers", "pass_ms"), ("chunks", "added_ms")):
            curve, wanted = getattr(pool, name), getattr(other, name)
            assert (curve is None) == (wanted is None)
            if curve is not None:
                assert flat(getattr(curve, times)) == pytest.approx(flat(getattr(wanted, times)), rel=0.02)


def flat(rows: Any) -> list[float]:
    return [rows] if isinstance(rows, float) else [value for row in rows for value in flat(row)]


def test_times_of_no_formula_are_not_calibrated() -> None:
    plan = plan_of((MIXED,), name="one")
    reference = replace(plan.scenario.cost, mode=CostMode.REFERENCE)
    told = replace(plan, scenario=replace(plan.scenario, cost=reference))
    assert paced_calibration(told, {Phase.DECODE: 1.2}, "x", "y") is None
    assert paced_calibration(plan, {}, "x", "y") is None
    fit = paced_calibration(plan, {Phase.PREFILL: 2.0, Phase.DECODE: 1.2}, "x", "y")
    assert isinstance(fit and fit.calibration, Calibration)
    assert [factor.name for factor in fit.calibration.factors if fit] == ["pace_decode"]  # type: ignore[union-attr]
