"""What to measure next: the run that a choice hangs on, what it is worth in money, and none where nothing hangs on any;
a calibration by it closes the loop."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner import pipeline
from planner.cost import fit_own_runs
from planner.cost.benchmarks.fit import Evidence
from planner.domain import (
    BenchmarkRun,
    BucketPool,
    Load,
    MeasuringAdvice,
    Metric,
    NamedRun,
    ParallelConfig,
    Phase,
    Pool,
    Precision,
    ProposedRun,
    Scenario,
    ServerConfig,
)
from planner.domain.serving.doubt import DoubtSettings
from planner.errors import InputError
from planner.files import scenario_from_document
from planner.proposing.measuring import _Worths, what_to_measure
from planner.workload import summarize

DRAWS = 64


def rivals(**changes: Any) -> Scenario:
    """A rent for either type, which serve about as much for it; of L40S nothing was measured, of H20 another model."""
    document: dict[str, Any] = {
        "name": "rivals",
        "model": "qwen3-30b-a3b-fp8",
        "workload": "azure-conv-2023",
        "inventory": {"H20": 16, "L40S": 16},
        "prices_usd_per_gpu_hour": {"H20": 1.0, "L40S": 0.375},
        "objective": {"kind": "budget", "budget_usd_per_hour": 8},
        "serving": "aggregated",
        "ranges": {"width": 4096},
        "routing": {"most": 1},
    }
    return scenario_from_document({**document, **changes}, origin="test", base=Path(), summarize=summarize)


@cache
def advice() -> MeasuringAdvice:
    return what_to_measure(rivals(), draws=DRAWS)


def test_the_type_that_is_least_known_is_measured_first() -> None:
    first = advice().runs[0]
    assert (first.gpu, first.phase) == ("L40S", Phase.MIXED)
    assert first.spread > 0.2
    assert advice().share(first.worth_rps) > 0.25
    assert advice().decisions > 1


def test_what_runs_save_is_never_more_than_the_loss() -> None:
    assert all(run.worth_rps > 0 for run in advice().runs)
    assert 0 < advice().worth_rps <= advice().regret_rps * (1 + 1e-9)


def test_money_is_the_rent_of_what_is_saved() -> None:
    """A day of the plan's rent by what is saved of its rate; a run pays its GPUs' hours."""
    run, rent = advice().runs[0], 8.0
    planned = pipeline.plan(rivals())
    per_day = advice().usd_per_day(run.worth_rps)
    assert per_day == pytest.approx(24 * rent * run.worth_rps / planned.throughput_rps, rel=0.02)
    assert run.cost_usd == pytest.approx(0.375 * run.parallel.devices * run.hours)
    taken_s = run.requests * run.output_tokens / run.predicted_tokens_per_s
    assert run.hours == pytest.approx(0.5 + taken_s / 3600)
    assert advice().days_to_pay(run) == pytest.approx(run.cost_usd / per_day)
    free = what_to_measure(rivals(objective={"kind": "rate"}, prices_usd_per_gpu_hour={"H20": 0, "L40S": 0}), draws=16)
    assert free.usd_per_day(1.0) is None


def test_a_longer_operation_ranks_by_worth_and_a_short_one_by_cost() -> None:
    """A month pays for any run here; of a minute's operation the cheapest run loses least."""
    changes = {"inventory": {"A100": 16, "L40S": 16}, "prices_usd_per_gpu_hour": {"A100": 1.0, "L40S": 0.72}}
    month, minute = (what_to_measure(rivals(**changes), draws=DRAWS, days=days, runs=1).runs[0] for days in (30, 1e-3))
    assert (month.gpu, minute.gpu) == ("L40S", "A100")
    assert month.worth_rps > minute.worth_rps
    assert month.cost_usd > minute.cost_usd


def fleet(gpu: str, servers: int, phases: tuple[Phase, ...] = (Phase.MIXED,)) -> tuple[BucketPool, ...]:
    server = ServerConfig(parallel=ParallelConfig(tp=1, dp=1), batch_size=8)
    pool = BucketPool(
        gpu=gpu, phase=Phase.MIXED, server=server, count=servers, start=0, end=8192, capacity_rps=1.0, full_rps=1.0
    )
    return tuple(replace(pool, phase=phase) for phase in phases)


def values(objective: dict[str, Any], **changes: Any) -> list[list[float]]:
    """Of 4 H20 for 4 USD an hour and 16 L40S for 6, in two draws."""
    fleets, rates = [fleet("H20", 4), fleet("L40S", 16)], [[20.0, 40.0], [30.0, 24.0]]
    return _Worths.of(rivals(objective=objective, **changes), fleets, rates, rate_rps=20.0).values


def test_values_are_rates_and_money_at_the_rent_of_the_plan() -> None:
    """At a target of 20 a request/s costs 4 / 20 USD an hour: 2 USD more are 10 requests/s less."""
    assert values({"kind": "budget", "budget_usd_per_hour": 8}) == [[20.0, 30.0], [40.0, 24.0]]
    assert values({"kind": "per_dollar"}) == [[20.0, pytest.approx(20.0)], [40.0, pytest.approx(16.0)]]
    served = values({"kind": "target", "target_rps": 20.0})
    assert served == [[20.0, pytest.approx(10.0)], [20.0, pytest.approx(10.0)]]


def test_split_fleets_win_by_more_than_the_models_bias_towards_them() -> None:
    fleets, rates = [fleet("H20", 4, (Phase.PREFILL, Phase.DECODE)), fleet("H20", 8)], [[11.0], [10.5]]
    free, split = (rivals(objective={"kind": "rate"}, serving=serving) for serving in ("auto", "split"))
    assert _Worths.of(free, fleets, rates, rate_rps=11.0).values == [[pytest.approx(10.0), 10.5]]
    assert _Worths.of(split, fleets[:1], rates[:1], rate_rps=11.0).values == [[11.0]]


@pytest.mark.parametrize("objective", [{"kind": "target", "target_rps": 30}, {"kind": "per_dollar"}])
def test_objectives_in_money_are_measured_for(objective: dict[str, Any]) -> None:
    asked = what_to_measure(rivals(objective=objective), draws=DRAWS)
    assert asked.runs[0].gpu == "L40S"
    assert 0 < asked.worth_rps <= asked.regret_rps


def test_runs_about_one_phase_are_of_that_phase() -> None:
    split = rivals(inventory={"H20": 4, "L40S": 4}, objective={"kind": "rate"}, serving="split")
    runs = {run.phase: run for run in what_to_measure(split, draws=16, runs=8).runs}
    workload = split.workload
    prefill, decode = runs[Phase.PREFILL], runs[Phase.DECODE]
    assert (prefill.input_tokens, prefill.output_tokens) == (round(workload.mean_input_tokens), 1)
    mean = workload.mean_input_tokens + workload.mean_output_tokens / 2
    assert decode.input_tokens + decode.output_tokens / 2 == pytest.approx(mean, rel=0.01)
    assert decode.output_tokens > 10 * decode.input_tokens
    assert decode.concurrency == decode.batch_size * decode.parallel.dp
    for run in (prefill, decode):
        assert run.parallel.replicas == run.parallel.pp == 1
        assert run.requests > run.concurrency > 0


def measured(run: ProposedRun, scenario: Scenario, factor: float, load: Load = Load.CLOSED_LOOP) -> Scenario:
    """The scenario with a calibration by the proposed run, whose servers were so many times as fast as predicted."""
    model, parallel = scenario.model, run.parallel
    made = BenchmarkRun(
        row=1,
        gpu=run.gpu,
        model=model.name,
        load=load,
        decode=Pool(tp=parallel.tp, dp=parallel.dp, ep=parallel.stage_devices),
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        measured=((Metric.OUTPUT_RATE, factor * _output_rate(run)),),
        concurrency=run.concurrency,
        engine=scenario.cost.engine,
        precision=Precision(weight_bytes=model.weight_bytes, expert_bytes=model.expert_bytes, kv_bytes=model.kv_bytes),
    )
    gpu = scenario.inventory.item(run.gpu).gpu
    evidence = Evidence(
        measurements=(),
        gpus={gpu.name: gpu},
        models={model.name: model},
        runs=(NamedRun(run=made, gpu=gpu, model=model),),
    )
    fit = fit_own_runs(evidence, name="mine")
    (after,) = fit.after
    assert abs(after.rate_error) < abs(fit.before[0].rate_error)  # what was fitted is the pace that predicts the run
    return replace(scenario, cost=replace(scenario.cost, calibration=fit.calibration))


def _output_rate(run: ProposedRun) -> float:
    """Tokens of answers per GPU."""
    answers = 1 / run.input_tokens if run.phase is Phase.PREFILL else 1.0
    return run.predicted_tokens_per_s * answers / run.parallel.devices


def test_the_proposed_run_narrows_the_band_of_a_plan_and_is_then_worth_less() -> None:
    known = measured(advice().runs[0], rivals(), 0.85)
    settings = DoubtSettings(draws=DRAWS)

    def width(scenario: Scenario) -> float:
        alone = replace(scenario, inventory=replace(scenario.inventory, items=scenario.inventory.items[1:]))
        doubt = pipeline.doubt(pipeline.plan(alone), settings)
        return doubt.sure_rps(0.1) / doubt.sure_rps(0.9)

    assert width(known) < 0.8 * width(rivals())
    again = what_to_measure(known, draws=DRAWS)
    assert not again.runs or again.runs[0].gpu == "H20"
    assert again.regret_rps / again.expected_rps < advice().regret_rps / advice().expected_rps


def test_a_run_of_prompts_alone_calibrates_prefill() -> None:
    split = rivals(inventory={"H20": 4, "L40S": 4}, objective={"kind": "rate"}, serving="split")
    run = next(run for run in what_to_measure(split, draws=16, runs=8).runs if run.phase is Phase.PREFILL)
    for load in (Load.CLOSED_LOOP, Load.SATURATED):
        calibration = measured(run, split, 0.7, load).cost.calibration
        assert calibration is not None
        assert [factor.name for factor in calibration.factors] == ["pace_prefill"]
        assert calibration.factors[0].value < 1


def test_a_seed_gives_the_same_advice_and_fewer_runs_are_the_first_of_more() -> None:
    assert what_to_measure(rivals(), draws=DRAWS) == advice()
    assert what_to_measure(rivals(), draws=DRAWS, runs=1).runs == advice().runs[:1]


def test_only_what_can_run_is_proposed() -> None:
    without = what_to_measure(rivals(), draws=16, can_run=lambda run: run.gpu != "L40S")
    assert {run.gpu for run in without.runs} <= {"H20"}
    nothing = what_to_measure(rivals(), draws=16, can_run=lambda _: False)
    assert (nothing.considered, nothing.runs) == (0, ())


def test_where_there_is_no_choice_nothing_is_worth_measuring() -> None:
    alone = what_to_measure(rivals(inventory={"H20": 8}), draws=DRAWS)
    assert alone.runs == ()
    assert alone.regret_rps < 0.01 * alone.expected_rps
    assert alone.share(0.0) == 0.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cost": {"mode": "reference"}, "model": "deepseek-v3", "serving": "split"}, "got cost.mode: reference"),
        ({"objective": {"kind": "watts", "target_rps": 2}}, "objective.kind: must be one of rate or money"),
        (
            {"routing": {"form": "table"}, "serving": "split"},
            "routing.form: must be buckets to ask what to measure, got table",
        ),
    ],
)
def test_scenarios_whose_rates_are_not_doubted_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        what_to_measure(rivals(**changes), draws=16)
    assert "scenario rivals: " in refused.value.message


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"runs": 0}, "runs: must be from 1 to 8, got 0"),
        ({"runs": 9}, "got 9"),
        ({"draws": 15}, "draws: must be from 16 to 1024, got 15"),
        ({"days": 0.0}, "days: must be above 0, got 0"),
    ],
)
def test_numbers_out_of_bounds_are_refused(numbers: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        what_to_measure(rivals(), **numbers)
