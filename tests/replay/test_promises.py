"""What plans promise by formula against what their replay reaches: fresh seeds, plans for other hours than those that
the formula was corrected on (the first half hours of the traces)."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from reference_data import reference_path

from planner import pipeline
from planner.domain import Plan, RequestTrace, RouterPolicy
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, ReplaySettings
from planner.files import scenario_from_document
from planner.files.tables.traces.reader import read_trace
from planner.workload import summarize

SLO = {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}
FLEETS: dict[str, tuple[str, Mapping[str, int]]] = {
    "mixed": ("deepseek-v3", {"H200": 64, "H800": 64, "H20": 128}),
    "H200": ("deepseek-v3", {"H200": 64}),
    "Llama": ("llama-3.1-70b", {"H100": 32, "A100": 64}),
    "small": ("llama-3.1-70b", {"H100": 16}),
}
SEEDS = (11, 12, 13)


def second_half(name: str) -> RequestTrace:
    trace = read_trace(reference_path(f"azure_llm_2023/{name}.csv"))
    rows = [row for row, arrival in enumerate(trace.arrival_s) if arrival >= 1800]
    return replace(
        trace,
        name=f"{name}-b",
        arrival_s=[trace.arrival_s[row] - 1800 for row in rows],
        input_tokens=[trace.input_tokens[row] for row in rows],
        output_tokens=[trace.output_tokens[row] for row in rows],
    )


def planned(trace: RequestTrace, fleet: str, policy: RouterPolicy, serving: str = "split") -> Plan:
    """A plan for the lengths of the trace."""
    model, inventory = FLEETS[fleet]
    document = {
        "name": f"{trace.name}-{fleet}",
        "model": model,
        "workload": "azure-code-2023",
        "inventory": dict(inventory),
        "engine": {"name": "vllm", "version": "0.33.0"},
        "slo": SLO,
        "serving": serving,
        "routing": {"policy": policy.value},
    }
    scenario = scenario_from_document(document, origin="a test", base=Path(), summarize=summarize)
    return pipeline.plan(replace(scenario, workload=summarize(trace)))


def holds(plan: Plan, trace: RequestTrace, rate_rps: float, process: ArrivalProcess, requests: int) -> bool:
    settings = ReplaySettings(
        router=plan.scenario.router,
        arrivals=ArrivalSettings(process=process),
        seeds=SEEDS,
        requests=requests,
    )
    return pipeline.replay(plan, trace, settings, rate_rps).holds


@pytest.mark.parametrize("policy", [RouterPolicy.LEAST_WORK, RouterPolicy.RANDOM])
def test_a_small_fleet_reaches_what_it_is_said_to(policy: RouterPolicy) -> None:
    trace = second_half("conv")
    plan = planned(trace, "small", policy)
    assert holds(plan, trace, 0.92 * plan.throughput_rps, ArrivalProcess.POISSON, 4_000)
    assert not holds(plan, trace, 1.1 * plan.throughput_rps, ArrivalProcess.POISSON, 4_000)


@pytest.mark.study
@pytest.mark.parametrize("policy", [RouterPolicy.LEAST_WORK, RouterPolicy.RANDOM])
@pytest.mark.parametrize("fleet", ["mixed", "H200", "Llama"])
@pytest.mark.parametrize("workload", ["code", "conv"])
def test_capacities_are_replayed_to_a_tenth(workload: str, fleet: str, policy: RouterPolicy) -> None:
    trace = second_half(workload)
    plan = planned(trace, fleet, policy)
    assert holds(plan, trace, 0.91 * plan.throughput_rps, ArrivalProcess.POISSON, 20_000)
    assert not holds(plan, trace, 1.1 * plan.throughput_rps, ArrivalProcess.POISSON, 20_000)
