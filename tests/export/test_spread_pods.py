"""Copies that a plan keeps apart: what Kubernetes' scheduler makes of the constraint, in every target that has it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import kubernetes_validate
import numpy as np
import pytest
from crd_schema import upstream_crds
from export_plans import island, plan_of
from quick_yaml import load_documents

from planner.domain import BucketPlan, BucketPool, ParallelConfig, Phase, Plan, ServerConfig
from planner.export import ExportOptions, find_faults, render
from planner.export.checking import read_manifests
from planner.export.found import FoundWorkload

KEY = "topologySpreadConstraints"
OBJECTS = ("lws", "kubernetes", "disaggregatedset", "kserve", "dynamo", "llm-d")
SMALL, WIDE, FULL = "H20-0", "H20-1", "H200-0"
ISLANDS = (
    island(FULL, "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1, replicas=2), batch_size=2),
    island(SMALL, "H20", Phase.DECODE, ParallelConfig(tp=2, dp=1, replicas=5), batch_size=16),
    island(WIDE, "H20", Phase.DECODE, ParallelConfig(tp=4, dp=1, replicas=2), batch_size=16),
)


@cache
def spread_plan(per_node: int) -> Plan:
    """Servers of two GPUs, `per_node` at most on a node; those of four lie as they like, those of eight fill one."""
    plan = plan_of(ISLANDS, name="spread")
    pools = tuple(
        BucketPool(
            gpu=one.gpu,
            phase=one.phase or Phase.DECODE,
            server=ServerConfig(parallel=replace(one.parallel or ParallelConfig(tp=1, dp=1), replicas=1)),
            count=one.parallel.replicas if one.parallel else 1,
            start=0,
            end=4096,
            capacity_rps=1.0,
            full_rps=1.0,
            island=one.id,
            per_node={SMALL: per_node, FULL: 1}.get(one.id, 0),
        )
        for one in ISLANDS
    )
    buckets = BucketPlan(
        promise_rps=1.0,
        burst_rps=None,
        unrestricted_rps=None,
        survival_cost_rps=None,
        levels_set=False,
        pools=pools,
        latencies=(),
        simpler=(),
        losses=(),
    )
    return replace(plan, buckets=buckets)


def workloads(files: Mapping[str, str]) -> dict[str, FoundWorkload]:
    """By the island that they run."""
    sound = read_manifests(files).sound
    found = [w for manifest, kind in sound if kind and kind.workloads for w in kind.workloads(manifest)]
    return {name: next(w for w in found if w.labels["planner/island"] == name.lower()) for name in (SMALL, WIDE, FULL)}


def rules_of(workload: FoundWorkload) -> list[Mapping[str, Any]]:
    spec = workload.pods[0].spec
    return list(spec.get("extraConfig", {}).get(KEY, spec.get(KEY, ())))


def scheduled(rule: Mapping[str, Any], nodes: int, pods: int, rng: np.random.Generator) -> int:
    """The most pods that any node comes to have by Kubernetes' filter: a pod may come where the node's count, with it,
    less the least of all nodes' (0 where these are fewer than minDomains), is at most maxSkew. Which of those it takes
    is anybody's guess, and some pods leave."""
    counts, worst = [0] * nodes, 0
    for _ in range(4 * pods):
        if sum(counts) == pods or (sum(counts) and rng.random() < 0.2):
            counts[int(rng.choice([node for node, count in enumerate(counts) if count]))] -= 1
        least = 0 if nodes < rule.get("minDomains", 1) else min(counts)
        able = [node for node, count in enumerate(counts) if count + 1 - least <= rule["maxSkew"]]
        if able:
            counts[int(rng.choice(able))] += 1
        worst = max(worst, *counts)
    return worst


@pytest.mark.parametrize("target", OBJECTS)
@pytest.mark.parametrize("per_node", [1, 2])
def test_every_target_keeps_copies_apart(target: str, per_node: int) -> None:
    """Of the pool that is to be spread alone, whose own pods the rule counts; Kubernetes' schemas take it."""
    plan = spread_plan(per_node)
    files = render(plan, target=target)
    found = workloads(files)
    assert [len(rules_of(found[name])) for name in (SMALL, WIDE, FULL)] == [1, 0, 0]
    (rule,) = rules_of(found[SMALL])
    assert (rule["topologyKey"], rule["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "DoNotSchedule")
    mine = rule["labelSelector"]["matchLabels"].items()
    assert [mine <= found[name].pods[0].labels.items() for name in (SMALL, WIDE, FULL)] == [True, False, False]
    rng = np.random.default_rng(0)
    assert all(scheduled(rule, nodes, pods, rng) == per_node for nodes, pods in ((2, 2), (3, 9), (8, 40), (40, 9)))
    loose = {key: value for key, value in rule.items() if key != "minDomains"}
    assert scheduled(loose, 3, 9, rng) > per_node, "maxSkew alone bounds nothing"
    assert find_faults(files, plan, upstream_crds()) == ()
    bodies = [body for name in sorted(files) if name.endswith(".yaml") for body in load_documents(files[name])]
    for body in (body for body in bodies if body.get("apiVersion") == "apps/v1"):
        kubernetes_validate.validate(body, kubernetes_validate.latest_version(), strict=True)


def edited(files: Mapping[str, str], change: Mapping[str, object]) -> dict[str, str]:
    """The files as JSON, which is YAML, with other values in every constraint; None takes a key away."""

    def go(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: _changed(below, change) if key == KEY else go(below) for key, below in value.items()}
        return [go(below) for below in value] if isinstance(value, list) else value

    return {
        name: "---\n".join(json.dumps(go(body)) + "\n" for body in load_documents(text))
        if name.endswith(".yaml")
        else text
        for name, text in files.items()
    }


def _changed(rules: list[dict[str, object]], change: Mapping[str, object]) -> list[dict[str, object]]:
    return [{key: value for key, value in (rule | change).items() if value is not None} for rule in rules]


def test_no_more_domains_are_needed_than_copies() -> None:
    """An edit that keeps the promise is none: of five copies some node of five is free of them, or there are fewer."""
    plan = spread_plan(2)
    assert find_faults(edited(render(plan, target="lws"), {"minDomains": 5, "maxSkew": 1}), plan) == ()


def test_scripts_say_what_the_operator_has_to_keep() -> None:
    """Nobody schedules processes: the comments say how many copies a host may have."""
    text = "\n".join(render(spread_plan(2), target="script").values())
    assert "at most 2 of the copies may share a node" in text.lower()


def test_kueue_chooses_nodes_without_looking() -> None:
    options = ExportOptions(queue="serving", topology_labels=(("asw", "example.com/rack"),))
    text = "\n".join(render(spread_plan(2), target="lws", options=options).values())
    assert "WARNING: Kueue's topologies choose nodes" in text
