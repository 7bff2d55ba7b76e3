"""A real plan behind Dynamo's routers: the trace is sent through the exported files alone, by the rule of the
GlobalRouter's README."""

import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
import yaml
from pipeline_scenarios import seconds_alone

from planner.domain import PHASES, CostMode, Phase, Plan
from planner.errors import InputError
from planner.export import TARGETS, find_faults, render
from planner.plans.exact_lengths import evaluate_exactly
from planner.plans.router_grid import RouterGrid
from planner.runs import deployments
from planner.runs.deployments import Rendered, render_plan, routed_plan
from planner.runs.replays import router_losses


@pytest.fixture(scope="module")
def rendered(example: Plan, grid: RouterGrid) -> Rendered:
    """The export by default, on the grid that these tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deployments, "grid_of", lambda _plan, _cells: grid)
        return render_plan(example, target="dynamo")


def pools_of(files: dict[str, str], phase: Phase) -> dict[str, set[str]]:
    """Dynamo namespace -> ids of the islands whose workers register there."""
    found: dict[str, set[str]] = defaultdict(set)
    for graph in (d for text in files.values() for d in yaml.safe_load_all(text) if "components" in d.get("spec", {})):
        for component in graph["spec"]["components"]:
            arguments = component["podTemplate"]["spec"]["containers"][0]["args"]
            if component.get("type") == phase:
                told = graph["metadata"]["annotations"][f"planner/island.{component['name']}"]
                island = json.loads(told)["planner/island-id"]
                found[arguments[arguments.index("--namespace") + 1]].add(island)
    return found


def choice_of(files: dict[str, str], phase: Phase) -> Any:
    """Tokens -> Dynamo namespace, as the README tells it."""
    texts = [d["data"] for text in files.values() for d in yaml.safe_load_all(text) if d["kind"] == "ConfigMap"]
    config = next(json.loads(data["global-router.json"]) for data in texts if "global-router.json" in data)
    name = {Phase.PREFILL: "isl", Phase.DECODE: "context_length"}[phase]
    rows = config[f"{phase}_pool_selection_strategy"]
    low, high, count = (rows[f"{name}_{part}"] for part in ("min", "max", "resolution"))

    def choose(tokens: int) -> str:
        index = max(0, min(int((tokens - low) / ((high - low) / count)), count - 1))
        namespace: str = config[f"{phase}_pool_dynamo_namespaces"][rows[f"{phase}_pool_mapping"][index][0]]
        return namespace

    return choose


def test_the_trace_through_the_files_costs_little(example: Plan, rendered: Rendered) -> None:
    profile = example.scenario.workload
    slowest = 0.0
    for phase in PHASES:
        choose, pools = choice_of(rendered.files, phase), pools_of(rendered.files, phase)
        times = {name: seconds_alone(example, name) for pool in pools.values() for name in pool}
        busy: dict[str, float] = defaultdict(float)
        for tokens, probability in zip(profile.input_tokens, profile.probabilities, strict=True):
            for name in pools[choose(tokens)]:  # KeyError: an island that cannot serve the prompt
                busy[name] += probability * times[name][tokens]
        slowest = max(slowest, *(1 / sum(1 / busy[name] for name in pool) for pool in pools.values()))
    assert (
        rendered.grid.grid_rps <= (1 + 1e-9) / slowest
    )  # alone, an island may batch short prompts better than the plan
    assert rendered.grid.grid_rps >= 0.97 * example.throughput_rps
    assert 1 - 1 / slowest / example.throughput_rps <= 0.03


def test_every_serving_island_is_in_the_files_once(example: Plan, rendered: Rendered) -> None:
    for phase in PHASES:
        found = sorted(name for pool in pools_of(rendered.files, phase).values() for name in pool)
        assert found == sorted(island.id for island in example.islands if island.phase is phase)


def test_what_the_grid_costs_is_told(rendered: Rendered) -> None:
    assert len(rendered.warnings) == 1
    assert f"routed by 32 cells of {rendered.grid.prefill.width} tokens" in rendered.warnings[0]
    assert f"{rendered.grid.cost:.1%} less, " in rendered.warnings[0]
    assert f"# What the grid does to the rate: {rendered.grid.cost_text}.\n" in rendered.files["00-frontend.yaml"]
    assert "plan with ranges" not in rendered.warnings[0]


def test_the_grid_is_held_against_the_plans_own_table_replayed_alike(example: Plan, rendered: Rendered) -> None:
    """Both tables with the batches that they deploy, over the same lengths; and the plan's rate as the plan has it."""
    own, its = evaluate_exactly(example).throughput_rps, evaluate_exactly(rendered.plan).throughput_rps
    assert rendered.grid.cost == pytest.approx(1 - its / own, rel=1e-9)
    rates = f"{its:.4g} of the {own:.4g} requests/s of the plan's own table at exact lengths"
    assert f"{rates}; the plan tells {example.throughput_rps:.4g}" in rendered.warnings[0]


def test_what_gives_up_less_is_told_only_where_it_does(example: Plan) -> None:
    coarse = render_plan(example, target="dynamo", cells=1)
    assert coarse.grid.cost > 0.03
    finer = render_plan(example, target="dynamo", cells=4)
    assert f"4 cells give up {finer.grid.cost:.1%}, or plan with ranges on the grid" in coarse.warnings[0]
    there = replace(example.scenario.ranges, width=finer.grid.prefill.width)
    planned_so = replace(example, scenario=replace(example.scenario, ranges=there))
    (told,) = render_plan(planned_so, target="dynamo", cells=1).warnings
    assert "4 cells give up" in told
    assert "plan with ranges" not in told


def test_the_files_are_those_of_the_routed_plan(
    example: Plan, rendered: Rendered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grid of 32 cells is asked for where nobody says how many; it is made once, for all of these tests."""
    asked: list[int] = []
    for user in (deployments, router_losses):
        monkeypatch.setattr(user, "grid_of", lambda _plan, cells: asked.append(cells) or rendered.grid)
    there, grid = routed_plan(example, target="dynamo")
    assert (there, grid, asked) == (rendered.plan, rendered.grid, [32])
    assert find_faults(rendered.files, there) == ()
    assert find_faults(rendered.files) == ()
    assert find_faults(rendered.files, example) != ()
    assert render_plan(example, target="dynamo").files == rendered.files


@pytest.mark.parametrize("target", [name for name, target in TARGETS.items() if not target.by_grid])
def test_other_targets_get_the_plan_as_it_is(example: Plan, target: str) -> None:
    assert routed_plan(example, target=target) == (example, None)


def test_without_a_grid_the_files_are_the_exports_own(example: Plan) -> None:
    files = render(example, target="lws")
    rendered = render_plan(example, target="lws")
    names = ("options", "cells", "topology_objects", "router", "images")
    decided = {name: getattr(rendered, name) for name in names} | {"engine": "vllm", "target": "lws"}
    expected = Rendered(files=files, plan=example, planned=example, **decided)
    assert replace(rendered, warnings=(), page="") == expected
    told = {
        line.removeprefix("# WARNING: ") for text in files.values() for line in text.splitlines() if "# WARN" in line
    }
    assert {warning.partition(": ")[2] for warning in rendered.warnings} == told


def test_few_cells_cost_more_and_say_so(example: Plan) -> None:
    coarse = render_plan(example, target="dynamo", cells=1)
    assert coarse.grid is not None
    assert list(coarse.files) == [
        "00-frontend.yaml",
        "routing.yaml",
        "network-policies.yaml",
        "disruption-budgets.yaml",
    ]  # one pool a phase: no GlobalRouter
    model = example.scenario.model
    assert model.experts is not None
    # without a shared expert, which SGLang could not split over islands of any size
    dense, routed = model.groups
    model = replace(model, groups=(dense, replace(routed, ffn=replace(model.experts, shared=0))))
    runs = replace(example, scenario=replace(example.scenario, model=model))
    sglang = render_plan(runs, target="dynamo", engine="sglang", cells=1)
    assert list(sglang.files) == list(coarse.files)


def test_what_cannot_be_brought_onto_a_grid(example: Plan) -> None:
    with pytest.raises(InputError, match="cells must be 1 to 4096"):
        render_plan(example, target="dynamo", cells=0)
    cost = replace(example.scenario.cost, mode=CostMode.REFERENCE)
    reference = replace(example, scenario=replace(example.scenario, cost=cost))
    with pytest.raises(InputError, match="mode must be default"):
        render_plan(reference, target="dynamo")
    with pytest.raises(InputError, match="'helm': must be one of"):
        render_plan(example, target="helm")
    with pytest.raises(InputError, match="'trt': must be one of"):
        render_plan(example, target="dynamo", engine="trt", cells=1)
