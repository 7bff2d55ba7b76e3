"""Scenarios for whole runs: the shipped ones with a short search, and small ones from a mapping."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.cost import tabulate_placed
from planner.domain import AssignmentSettings, Formulation, Plan, RoutingForm, Scenario, SearchMethod, SearchSettings
from planner.files import encode_plan, load_run, load_scenario, scenario_from_document, shipped_scenarios
from planner.pipeline import recheck
from planner.report import summary
from planner.workload import divide, summarize


def shipped(name: str) -> Scenario:
    """A shipped scenario as it is."""
    return load_scenario(shipped_scenarios()[name], summarize)


def short(scenario: Scenario, method: SearchMethod = SearchMethod.RANDOM, processes: int = 1) -> Scenario:
    """The scenario with two rounds of four layouts; CPU-seconds, which differ from run to run, are left out."""
    settings = SearchSettings(method=method, iterations=2, batch_size=4, processes=processes, timings=False)
    return replace(scenario, search=settings)


def in_table(scenario: Scenario) -> Scenario:
    """The scenario with shares of its own for every range of lengths."""
    return replace(scenario, routing=replace(scenario.routing, form=RoutingForm.TABLE))


def by_deviation(scenario: Scenario) -> Scenario:
    """The scenario with the paper's inner problem."""
    return replace(scenario, assignment=AssignmentSettings(formulation=Formulation.DEVIATION, gap=1e-3))


def small(inventory: Mapping[str, int], **changes: Any) -> Scenario:
    """DeepSeek-V3 on few GPUs under the synthetic workload, in wide ranges, with a routing table after a search."""
    search = {"method": "random", "iterations": 2, "batch_size": 4, "timings": False}
    own = {"ranges": {"width": 2048}, "routing": {"form": "table"}, "search": search}
    return _read(inventory, {**own, **changes})


def bucketed(inventory: Mapping[str, int], **changes: Any) -> Scenario:
    """The same by buckets of prompt length, in ranges that they can part; solved for where no search is named. Pools
    are split where no form of serving is named."""
    own = {"ranges": {"width": 512}, "search": {"timings": False}, "serving": "split"}
    return _read(inventory, {**own, **changes})


def _read(inventory: Mapping[str, int], sections: Mapping[str, Any]) -> Scenario:
    document: dict[str, Any] = {
        "name": "small",
        "model": "deepseek-v3",
        "workload": "normal-500-2000",
        "inventory": dict(inventory),
        "prices_usd_per_gpu_hour": dict.fromkeys(inventory, 2.5),
    }
    return scenario_from_document({**document, **sections}, origin="test", base=Path(), summarize=summarize)


def require_whole(made: Plan, folder: Path) -> None:
    """Served as both phases and its best trial say, and read back, checked anew and told as it is."""
    assert made.throughput_rps == min(made.prefill_rps, made.decode_rps) > 0
    if made.placement is None:  # a trial knows of no nodes
        assert made.throughput_rps == made.search.trials[made.search.best_trial].throughput_rps
    (folder / "plan.json").write_bytes(encode_plan(made))
    again = load_run(folder)
    assert recheck(again, "plan.json") == made
    assert summary(again) == summary(made)


def seconds_alone(plan: Plan, name: str) -> dict[int, float]:
    """Seconds of one request of each length on an island that does nothing else."""
    island, scenario = next(i for i in plan.islands if i.id == name), plan.scenario
    assert island.parallel is not None
    assert island.phase is not None
    exact = divide(scenario.workload, 1)
    rates = tabulate_placed(
        scenario.inventory.item(island.gpu).gpu,
        island.phase,
        island.parallel,
        model=scenario.model,
        workload=exact,
        settings=scenario.cost,
    ).rates_rps
    return {span.start: 1 / rate for span, rate in zip(exact.ranges, rates, strict=True)}
