"""Autoscalers: bounds that hold what demand and losses need and what the inventory has; edits that are caught."""

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from export_plans import example_plan
from hypothesis import given
from hypothesis import strategies as st
from quick_yaml import load_documents

from planner.domain import BucketPlan, NodeLoss, Plan
from planner.domain.serving.routing import SurvivalSettings
from planner.errors import ExportError, InputError
from planner.export import ExportOptions, find_faults, render
from planner.export.islands import serving_islands
from planner.export.objects.operating.autoscaling import FILE, copy_bounds

sys.path.insert(0, str(Path(__file__).parents[1] / "replay"))

from small_plans import small_plan

FORMS = ("hpa", "keda")
KUBERNETES = kubernetes_validate.latest_version()
# annotations and trigger of the samples of llm-d/llm-d-workload-variant-autoscaler (2026-07)
MANAGED = {"llm-d.ai/managed", "llm-d.ai/model-id", "llm-d.ai/variant-cost"}


def bucket_plan() -> Plan:
    return small_plan("one node type, no levels")


def with_demand(plan: Plan, demand: float, nodes: int = 1, share: float = 0.0, more_gpus: int = 0) -> Plan:
    """The plan under another demand, with what must survive, and more GPUs of each type than it uses."""
    scenario = plan.scenario
    items = tuple(replace(item, count=item.count + more_gpus) for item in scenario.inventory.items)
    return replace(
        plan,
        scenario=replace(
            scenario,
            objective=replace(scenario.objective, demand_rps=demand),
            survive=SurvivalSettings(nodes=nodes, share=share),
            inventory=replace(scenario.inventory, items=items),
        ),
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", ["lws", "kubernetes"])
def test_every_island_has_one(target: str, form: str) -> None:
    plan = with_demand(bucket_plan(), 10.0, more_gpus=20) if target == "kubernetes" else example_plan()
    files = render(plan, target=target, options=ExportOptions(autoscaling=form), router="none")
    scalers = list(load_documents(files[FILE]))
    workloads = [
        body
        for name, text in files.items()
        if name != FILE
        for body in load_documents(text)
        if body["kind"] in ("Deployment", "LeaderWorkerSet")
    ]
    assert len(scalers) == len(workloads) > 1
    for scaler, workload in zip(scalers, workloads, strict=True):
        spec = scaler["spec"]
        assert spec["scaleTargetRef"] == {
            "apiVersion": workload["apiVersion"],
            "kind": workload["kind"],
            "name": workload["metadata"]["name"],
        }
        low, high = ("minReplicas", "maxReplicas") if form == "hpa" else ("minReplicaCount", "maxReplicaCount")
        assert 1 <= spec[low] <= workload["spec"]["replicas"] <= spec[high]
        assert set(scaler["metadata"]["annotations"]) == MANAGED
        assert workload["metadata"]["name"] in yaml.safe_dump(spec.get("metrics") or spec["triggers"])
        if form == "hpa":
            kubernetes_validate.validate(scaler, KUBERNETES, strict=True)
    assert find_faults(files, plan) == ()
    assert find_faults(files) == ()


def test_none_is_the_default() -> None:
    assert FILE not in render(example_plan(), target="lws")


@pytest.mark.parametrize("target", ["disaggregatedset", "llm-d", "kserve", "dynamo", "kueue", "script"])
def test_targets_that_cannot_scale_islands_refuse_by_name(target: str) -> None:
    with pytest.raises(ExportError, match=r"nothing in its files can carry autoscaling"):
        render(bucket_plan(), target=target, options=ExportOptions(autoscaling="hpa"))


def served_rps(plan: Plan, copies: dict[str, int]) -> float:
    """By brute force: what so many copies serve of the whole mix, each half by the pools that do it."""
    halves: dict[str, float] = {}
    for pool in plan.buckets.pools:
        of_bucket = next(i for i in plan.islands if i.id == pool.island).rate_rps / plan.throughput_rps
        rate = copies[pool.island] * pool.capacity_rps / of_bucket
        halves[pool.phase.value] = min(halves.get(pool.phase.value, rate), rate)
    return min(halves.values())


@given(demand=st.floats(1, 65), share=st.sampled_from([0.0, 0.5, 0.9]), servers=st.integers(1, 2))
def test_the_least_copies_serve_what_is_asked_and_survive(demand: float, share: float, servers: int) -> None:
    plan = with_demand(bucket_plan(), demand, share=share)
    buckets = plan.buckets
    assert isinstance(buckets, BucketPlan)
    losses = tuple(
        NodeLoss(island=p.island, nodes=1, servers=min(servers, p.count), rate_rps=0.0) for p in buckets.pools
    )
    plan = replace(plan, buckets=replace(buckets, losses=losses))
    islands = serving_islands(plan, "plan")
    bounds = {island.id: copy_bounds(plan, island) for island in islands}
    least = {island: bound.least for island, bound in bounds.items()}
    planned = {island: bound.planned for island, bound in bounds.items()}
    possible = min(demand, served_rps(plan, planned))
    assert served_rps(plan, least) >= possible * (1 - 1e-6)
    lost = {loss.island: loss.servers for loss in losses}
    for island in least:
        left, most_left = (
            {name: max(0, count - (lost[name] if name == island else 0)) for name, count in copies.items()}
            for copies in (least, planned)
        )
        survivable = min(share * demand, served_rps(plan, most_left))
        assert served_rps(plan, left) >= survivable * (1 - 1e-6)
    # no fewer would do, copy by copy, where nothing must survive
    for island, count in least.items():
        if not share and count > 1:
            assert served_rps(plan, {**planned, island: count - 1}) < demand


@pytest.mark.parametrize(("more", "pinned"), list(product([0, 7, 8, 20], [False, True])))
def test_the_most_copies_have_gpus(more: int, pinned: bool) -> None:
    plan = with_demand(bucket_plan(), 10.0, more_gpus=more)
    used = sum(island.size for island in plan.islands if island.phase is not None)
    for island in serving_islands(plan, "plan"):
        bound = copy_bounds(plan, island, pinned=pinned)
        others = used - island.size
        assert others + bound.most * island.parallel.devices <= plan.scenario.inventory.items[0].count
        if not pinned:
            assert others + (bound.most + 1) * island.parallel.devices > plan.scenario.inventory.items[0].count
        else:
            assert bound.most == bound.planned


def test_spare_gpus_that_several_islands_could_take_are_told() -> None:
    options = ExportOptions(autoscaling="hpa")
    text = render(with_demand(bucket_plan(), 10.0, more_gpus=20), target="kubernetes", options=options)[FILE]
    assert "20 spare H200 are in the bounds of several islands: not all fit at once." in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (ExportOptions(autoscaling="vpa"), "must be one of none, hpa, keda"),
        (ExportOptions(autoscaling="keda", prometheus="prometheus:9090"), "must be an address"),
        (ExportOptions(autoscaling="keda", prometheus='http://a"b'), "must be an address"),
        (ExportOptions(autoscaling="keda", prometheus="http://user:secret@host"), "must be an address"),
    ],
)
def test_options_that_are_none(options: ExportOptions, words: str) -> None:
    with pytest.raises(InputError, match=words):
        render(example_plan(), target="lws", options=options)
