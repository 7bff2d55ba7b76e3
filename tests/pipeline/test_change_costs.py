"""What a change costs, as a goal of searches: by hand, against every pairing of servers, and in plans."""

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipeline_scenarios import small

from planner.cost import CostContext
from planner.cost.serving.loading import change_usd, most_change_usd, node_weights_gb
from planner.domain import IslandClass, Layout, ParallelConfig, Phase, Plan, Scenario
from planner.domain.changes import ChangePolicy, ChangeSettings
from planner.domain.objective import ServerKind
from planner.errors import InconsistentPlanError, InputError
from planner.evaluation.goals import reference_values
from planner.files import encode_plan, scenario_document, scenario_from_document
from planner.files.scenario.scenario_documents import scenario_hash
from planner.pipeline import plan
from planner.plans.audit import audit
from planner.report import summary
from planner.workload import question_of, summarize

FEW = {"H200": 32, "H20": 32}
PRICES = {"H200": 4.0, "H20": 1.5}
GOALS = ("rate", "change_cost")
SIXTEEN = {"gpu": "H20", "size": 16, "phase": "decode", "tp": 1, "dp": 8}
SERVERS: tuple[ServerKind, ...] = (
    ("H20", Phase.PREFILL, ParallelConfig(tp=8, dp=1)),
    ("H20", Phase.DECODE, ParallelConfig(tp=8, dp=1)),
    ("H200", Phase.DECODE, ParallelConfig(tp=1, dp=16)),
)


def priced(**changes: Any) -> Scenario:
    times = ChangeSettings(storage_gb_s=4.0, start_s=100.0, drain_s=50.0)
    scenario = small(FEW, prices_usd_per_gpu_hour=PRICES, **changes)
    return replace(scenario, changes=ChangePolicy(times=times))


def weights_gb(scenario: Scenario, kind: ServerKind) -> float:
    gpu, _, shape = kind
    context = CostContext(gpu=scenario.inventory.item(gpu).gpu, model=scenario.model, settings=scenario.cost)
    return node_weights_gb(context, shape)


def test_stops_drain_and_starts_load() -> None:
    """Of three prefill servers of H20 two stop; two decode servers on 16 H200 start."""
    scenario = priced()
    first, _, last = SERVERS
    usd = change_usd(scenario, {first: 3}, {first: 1, last: 2})
    drained, loaded = 2 * 8 * 50.0 * 1.5, 2 * 16 * (weights_gb(scenario, last) / 4.0 + 100.0) * 4.0
    assert usd == pytest.approx((drained + loaded) / 3600)
    assert change_usd(scenario, {first: 3}, {first: 3}) == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_no_pairing_of_servers_is_cheaper(seed: int) -> None:
    """Each old server becomes a new one, or none: the same engine costs nothing, any other drains and loads."""
    rng, scenario = np.random.default_rng(seed), priced()

    def drawn() -> list[ServerKind | None]:
        return [SERVERS[rng.integers(3)] if rng.random() < 0.8 else None for _ in range(3)]

    @cache
    def usd(old: ServerKind | None, new: ServerKind | None) -> float:
        if old == new:
            return 0.0
        stops, starts = ({} if kind is None else {kind: 1} for kind in (old, new))
        return change_usd(scenario, stops, {}) + change_usd(scenario, {}, starts)

    before, after = drawn() + [None] * 3, drawn() + [None] * 3
    cheapest = min(
        sum(usd(old, new) for old, new in zip(before, order, strict=True)) for order in set(permutations(after))
    )
    counts = [Counter(kind for kind in servers if kind is not None) for servers in (before, after)]
    assert change_usd(scenario, *counts) == pytest.approx(cheapest)
    assert change_usd(scenario, *counts) <= most_change_usd(scenario, counts[0])


def searched(current: object, inventory: dict[str, int], goals: tuple[str, ...] = GOALS, **search: Any) -> Plan:
    objective = {"kind": "pareto", "goals": list(goals), "current": current, "pick": "within", "within": 0.0}
    settings = {"method": "random", "iterations": 2, "batch_size": 8, "min_island_size": 4, "timings": False}
    return plan(small(inventory, prices_usd_per_gpu_hour=PRICES, objective=objective, search={**settings, **search}))


@pytest.fixture(scope="module")
def deployed() -> Plan:
    """The fastest of a few layouts on half of the H200."""
    return searched([], {"H200": 16, "H20": 32}, goals=("rate", "changes"))


@pytest.fixture(scope="module")
def run(deployed: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployed")
    (folder / "plan.json").write_bytes(encode_plan(deployed))
    return folder


@pytest.fixture(scope="module")
def changed(run: Path) -> Plan:
    return searched(str(run), FEW)


def servers_of(plan: Plan) -> Counter[ServerKind]:
    servers: Counter[ServerKind] = Counter()
    for island in plan.islands:
        if island.phase is not None and island.parallel is not None:
            servers[island.gpu, island.phase, replace(island.parallel, replicas=1)] += island.parallel.replicas
    return servers


def test_what_runs_is_tried_first_and_costs_nothing(deployed: Plan, changed: Plan) -> None:
    tried = changed.search.trials[0]
    serving = [IslandClass(gpu=island.gpu, size=island.size) for island in deployed.islands if island.phase is not None]
    assert tried.layout == Layout.of(serving)
    assert dict(tried.goals) == {"rate": deployed.throughput_rps, "change_cost": 0.0}
    assert 0 in changed.search.frontier


def test_the_frontier_is_of_rate_against_the_cost(deployed: Plan, changed: Plan) -> None:
    served = [(trial.index, *dict(trial.goals).values()) for trial in changed.search.trials if trial.goals]
    due = [
        index
        for index, rate, usd in served
        if not any(other >= rate and less <= usd and (other, less) != (rate, usd) for _, other, less in served)
    ]
    assert len(due) > 1
    assert list(changed.search.frontier) == due
    best = dict(changed.search.trials[changed.search.best_trial].goals)
    assert best["rate"] == max(rate for _, rate, _ in served) == changed.throughput_rps
    assert best["change_cost"] == pytest.approx(change_usd(changed.scenario, servers_of(deployed), servers_of(changed)))
    assert max(usd for *_, usd in served) < reference_values(changed.scenario)[1]


def test_an_edited_cost_is_found(changed: Plan) -> None:
    workload = question_of(changed.scenario).workload
    audit(changed, workload)
    at = changed.search.best_trial
    trials = list(changed.search.trials)
    trials[at] = replace(trials[at], goals=(trials[at].goals[0], ("change_cost", 0.5)))
    with pytest.raises(InconsistentPlanError, match="its change_cost is"):
        audit(replace(changed, search=replace(changed.search, trials=tuple(trials))), workload)


def test_slower_storage_makes_a_change_dearer_and_is_another_search(run: Path) -> None:
    scenario = read(current=str(run))
    slow = read(current=str(run), changes={"times": {"storage_gb_s": 1}})
    servers = Counter({SERVERS[0]: 1})
    assert change_usd(slow, {}, servers) > change_usd(scenario, {}, servers)
    assert scenario_hash(slow) != scenario_hash(scenario)
    assert scenario_hash(read(current=str(run), changes={"least_share": 0.5})) == scenario_hash(scenario)


def read(changes: Any = None, **objective: Any) -> Scenario:
    sections = {} if changes is None else {"changes": changes}
    inventory = objective.pop("inventory", FEW)
    model = objective.pop("model", "deepseek-v3")
    document = {
        "name": "goals",
        "model": model,
        "workload": "normal-500-2000",
        "inventory": inventory,
        "prices_usd_per_gpu_hour": objective.pop("prices", {gpu: PRICES[gpu] for gpu in inventory}),
        "search": {"method": "random"},
        "objective": {"kind": "pareto", "goals": list(GOALS), **objective},
        **sections,
    }
    return scenario_from_document(document, origin="notebook", base=Path(), summarize=summarize)


def test_what_runs_survives_the_way_through_a_document(run: Path, deployed: Plan) -> None:
    scenario = read(current=str(run))
    assert scenario.objective.running_servers == servers_of(deployed)
    written = json.loads(json.dumps(scenario_document(scenario)))
    again = scenario_from_document(written, origin="saved", base=Path(), summarize=summarize)
    assert again.objective == scenario.objective
    objective = read(current=[SIXTEEN]).objective
    assert objective.running_servers == {("H20", Phase.DECODE, ParallelConfig(tp=1, dp=8)): 2}


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "objective.current must be given where change_cost is among objective.goals"),
    ({"current": "runs/none"}, "objective.current: .*no such file"),
    ({"current": [{"gpu": "H20", "size": 16, "phase": "decode"}]}, r"objective.current\[0\].tp"),
    ({"current": [{**SIXTEEN, "dp": 3}]}, r"objective.current\[0\].size must be a multiple of tp \* dp \* pp, 3"),
    ({"current": [SIXTEEN], "inventory": {"H200": 32}}, "objective.current must be of GPU types of the inventory"),
    ({"current": [SIXTEEN], "goals": ["rate", "price"]}, "objective.current must be left out unless"),
)


@pytest.mark.parametrize(("objective", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_a_cost_without_a_deployed_plan_is_refused(objective: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(**objective)


def test_a_run_of_another_model_runs_nothing_on(run: Path) -> None:
    with pytest.raises(InputError, match="model must be that of the scenario, qwen3-30b-a3b"):
        read(current=str(run), model="qwen3-30b-a3b")


def test_reports_have_the_goal(changed: Plan) -> None:
    page = summary(changed)
    assert "Change, USD" in page
    assert "the rent of GPUs while their servers drain" in page
