"""From one GPU: every type with room for the model and a cache gets a plan, the others are told what is short."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from pipeline_scenarios import bucketed

from planner.domain import Inventory, Phase, Question, Scenario, ServingForm
from planner.errors import InfeasibleError
from planner.evaluation.evaluator import open_evaluator
from planner.pipeline import plan
from planner.proposing.buckets.pools import BucketChoice, solve_buckets
from planner.proposing.feasibility import posed

TYPES = sorted(path.stem for path in (Path(__file__).parents[2] / "gpu_specs").glob("*.yaml") if path.stem != "prices")
MODELS = ("gpt-oss-20b", "llama-3.1-8b")
PATIENT = {"ttft_ms": 20_000, "tpot_ms": 400, "percentile": 99}
FEW = {"ranges": {"cells": 2}, "routing": {"most": 1}, "simplicity": 0}


@cache
def every_type(model: str) -> Scenario:
    return bucketed(
        dict.fromkeys(TYPES, 1), model=model, workload="azure-conv-2023", slo=PATIENT, serving="auto", **FEW
    )


def question_of(model: str, gpu: str) -> Question:
    scenario = every_type(model)
    return posed(replace(scenario, inventory=Inventory(items=(scenario.inventory.item(gpu),))))


def solved(question: Question) -> BucketChoice:
    with open_evaluator(question) as evaluator:
        return solve_buckets(evaluator)


@pytest.mark.parametrize("model", MODELS)
def test_one_gpu_of_every_type_that_holds_the_model_serves_it(model: str) -> None:
    planned = set()
    for gpu in TYPES:
        question = question_of(model, gpu)
        spec = question.scenario.inventory.item(gpu).gpu
        if question.scenario.model.weights_gb > spec.device_gb:  # a fact of both, whatever the planner thinks
            with pytest.raises(InfeasibleError, match=f"{gpu} .* prefill, decode, mixed: memory: .* 1 GPU of") as short:
                solved(question)
            assert "server each" not in str(short.value.hint)
            continue
        choice = solved(question)
        (pool,) = choice.priced.pools
        assert (pool.phase, pool.count, pool.server.parallel.devices) == (Phase.MIXED, 1, 1)
        assert 0 < choice.priced.rate_rps <= choice.bound
        assert choice.forms.chosen is ServingForm.AGGREGATED
        planned.add(gpu)
    assert {"H100", "H200", "MI300X", "A100"} <= planned


def test_bounds_that_no_single_gpu_reaches_are_named() -> None:
    scenario = question_of("llama-3.1-8b", "L4").scenario
    tight = replace(scenario, slo=replace(scenario.slo, tpot_ms=20))
    with pytest.raises(InfeasibleError, match=r"slo.tpot_ms: 20 ms .* is not reachable .* on L4"):
        plan(tight)


def test_the_commonest_question_of_the_year() -> None:
    """gpt-oss-120b on one H100, with no search section: what a search needs is no matter here."""
    answer = plan(bucketed({"H100": 1}, model="gpt-oss-120b", workload="azure-conv-2023", slo=PATIENT, serving="auto"))
    assert answer.throughput_rps > 0
    assert {island.phase for island in answer.islands} == {Phase.MIXED}


def test_a_share_that_cannot_survive_names_the_servers_that_one_node_takes_along() -> None:
    loss = {"survive": {"nodes": 1, "share": 0.5}, "serving": "auto", **FEW}
    with pytest.raises(InfeasibleError, match="take along: 1 server of 8 H200 for both phases") as short:
        plan(bucketed({"H200": 8}, workload="azure-conv-2023", slo=PATIENT, **loss))
    assert "on a further node" in str(short.value.hint)
