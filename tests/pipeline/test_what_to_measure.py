"""What to measure next: the run that a choice between two types hangs on, and none where nothing hangs on any."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost import BUILT_IN
from planner.domain import Calibration, MeasuringAdvice, Origin, Phase, Scenario
from planner.errors import InputError
from planner.files import scenario_from_document
from planner.proposing.measuring import what_to_measure
from planner.workload import summarize


def rivals(**changes: Any) -> Scenario:
    """A rent for half of the GPUs offered: one type or the other. MI300X are far less well known than H100."""
    document: dict[str, Any] = {
        "name": "rivals",
        "model": "llama-3.1-70b",
        "workload": "azure-conv-2023",
        "inventory": {"H100": 8, "MI300X": 8},
        "prices_usd_per_gpu_hour": {"H100": 2.0, "MI300X": 2.0},
        "objective": {"kind": "budget", "budget_usd_per_hour": 16},
        "search": {"method": "exact"},
        "ranges": {"width": 4096},
        "routing": {"most": 1},
    }
    return scenario_from_document({**document, **changes}, origin="test", base=Path(), summarize=summarize)


def one_type() -> Scenario:
    return rivals(inventory={"H100": 16}, prices_usd_per_gpu_hour={"H100": 2.0})


@pytest.fixture(scope="module")
def advice() -> MeasuringAdvice:
    return what_to_measure(rivals(), draws=12)


def test_the_type_that_the_choice_hangs_on_is_measured_first(advice: MeasuringAdvice) -> None:
    first = advice.runs[0]
    assert (first.gpu, first.phase) == ("MI300X", Phase.PREFILL)
    assert first.spread > 0.2
    assert advice.share(first.reduction_rps) > 0.5
    assert advice.layouts > 1


def test_savings_are_never_negative_nor_more_than_the_loss(advice: MeasuringAdvice) -> None:
    assert all(run.reduction_rps > 0 for run in advice.runs)
    assert 0 < advice.reduction_rps <= advice.regret_rps * (1 + 1e-9)
    assert advice.share(advice.reduction_rps) <= 1 + 1e-9


def test_a_run_about_prefill_answers_one_token(advice: MeasuringAdvice) -> None:
    run = advice.runs[0]
    assert run.output_tokens == 1
    assert run.parallel.replicas == 1
    assert run.concurrency == 2 * run.batch_size * run.parallel.dp
    assert run.requests > run.concurrency
    assert run.predicted_tokens_per_s > 0


def test_a_run_about_decode_has_the_workloads_mean_context() -> None:
    """With bounds on both phases A100 may decode or prefill, and their decode is what the plan hangs on."""
    slo = {"ttft_ms": 2000, "tpot_ms": 60}
    fleet = {"H100": 8, "A100": 16}
    scenario = rivals(inventory=fleet, prices_usd_per_gpu_hour={}, objective={"kind": "rate"}, slo=slo)
    decodes = [run for run in what_to_measure(scenario, draws=12, runs=8).runs if run.phase is Phase.DECODE]
    assert decodes
    for run in decodes:
        assert run.output_tokens > 10 * run.input_tokens
        mean = scenario.workload.mean_input_tokens + scenario.workload.mean_output_tokens / 2
        assert run.input_tokens + run.output_tokens / 2 == pytest.approx(mean, rel=0.4)
        assert run.concurrency == run.batch_size * run.parallel.dp


def test_a_seed_gives_the_same_advice(advice: MeasuringAdvice) -> None:
    assert what_to_measure(rivals(), draws=12) == advice
    assert what_to_measure(rivals(), draws=12, seed=1) != advice


def test_fewer_runs_are_the_first_of_more(advice: MeasuringAdvice) -> None:
    assert what_to_measure(rivals(), draws=12, runs=1).runs == advice.runs[:1]


def test_what_was_measured_is_worth_less_to_measure_again(advice: MeasuringAdvice) -> None:
    """With a user's own factors of MI300X, the structure's error is all that is left of that type."""
    measured = tuple(
        replace(BUILT_IN.factor(name, "cdna3"), value=0.546, origin=Origin.USER)
        for name in ("kernels_prefill", "kernels_decode")
    )
    scenario = rivals()
    cost = replace(scenario.cost, calibration=Calibration(name="mine", factors=measured))
    known = what_to_measure(replace(scenario, cost=cost), draws=12)
    assert known.regret_rps / known.expected_rps < 0.6 * advice.regret_rps / advice.expected_rps


def test_only_what_can_run_is_proposed() -> None:
    without = what_to_measure(rivals(), draws=12, can_run=lambda run: run.gpu != "MI300X")
    assert without.considered
    assert {run.gpu for run in without.runs} <= {"H100"}
    nothing = what_to_measure(rivals(), draws=12, can_run=lambda _: False)
    assert (nothing.considered, nothing.runs) == (0, ())


def test_where_there_is_no_choice_nothing_is_worth_measuring() -> None:
    known = what_to_measure(one_type(), draws=12)
    assert known.runs == ()
    assert known.regret_rps < 0.01 * known.expected_rps
    assert known.share(0.0) == 0.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cost": {"mode": "reference"}, "model": "deepseek-v3"}, "cost.mode: must be default"),
        ({"objective": {"kind": "target", "target_rps": 2}}, "objective.kind: must be one whose value is a rate"),
        ({"objective": {"kind": "per_dollar"}}, "got per_dollar"),
    ],
)
def test_scenarios_whose_rates_no_factor_decides_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        what_to_measure(rivals(**changes), draws=12)
    assert "scenario rivals: " in refused.value.message


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"runs": 0}, "runs: must be from 1 to 8, got 0"),
        ({"runs": 9}, "got 9"),
        ({"draws": 11}, "draws: must be from 12 to 1000, got 11"),
        ({"draws": 1001}, "got 1001"),
    ],
)
def test_numbers_out_of_bounds_are_refused(numbers: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        what_to_measure(rivals(), **numbers)
