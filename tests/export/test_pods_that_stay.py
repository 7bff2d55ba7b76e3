"""What replaces pods and what does not: a controller starts pods anew where their template changes, and only there."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml
from contract_plans import single_node_plan

from planner.domain import Plan
from planner.export import TARGETS, render

TEMPLATES = ("template", "podTemplate", "leaderWorkerTemplate", "podAnnotations")
"""Keys of what a controller makes pods of, in Deployments, LeaderWorkerSets, Dynamo's graphs and KServe's services."""
CLUSTER = [
    name for name, target in TARGETS.items() if name != "script" and any(kind.workloads for kind in target.kinds)
]
PAIRS = [(name, engine) for name in CLUSTER for engine in TARGETS[name].engines]


def pod_parts(files: dict[str, str]) -> list[Any]:
    """Templates, wherever they lie; the labels and annotations that KServe puts on a role's pods; what the chart makes
    pods of."""
    documents = [d for name, text in files.items() if name.endswith(".yaml") for d in yaml.safe_load_all(text)]
    found = list(_below(documents))
    for spec in (d["spec"] for d in documents if d.get("kind") == "LLMInferenceService"):
        found += [role.get(key) for role in (spec, spec["prefill"]) for key in ("labels", "annotations")]
    for values in (d for d in documents if "fullnameOverride" in d):
        roles = (values[role] for role in ("prefill", "decode"))
        found += [{k: v for k, v in role.items() if k not in ("replicas", "annotations")} for role in roles]
    return found


def _below(value: Any) -> Iterator[Any]:
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in rows:
        if key in TEMPLATES:
            yield inner
        else:
            yield from _below(inner)


def dearer() -> Plan:
    """The plan at other prices, rates and loads."""
    plan = single_node_plan()
    islands = tuple(
        replace(i, rate_rps=i.rate_rps * 1.1, utilisation=i.utilisation * 0.9, price_usd_per_hour=77.5)
        for i in plan.islands
    )
    return replace(plan, islands=islands)


def scaled() -> Plan:
    """The plan with a copy more of the island that has three."""
    plan = single_node_plan()
    islands = tuple(
        replace(i, size=i.size // 3 * 4, parallel=replace(i.parallel, replicas=4))
        if i.parallel and i.parallel.replicas == 3
        else i
        for i in plan.islands
    )
    return replace(plan, islands=islands)


@pytest.mark.parametrize("changed", [dearer, scaled])
@pytest.mark.parametrize(("target", "engine"), PAIRS)
def test_prices_rates_and_copies_replace_no_pod(target: str, engine: str, changed: Any) -> None:
    before, after = (render(plan, target=target, engine=engine) for plan in (single_node_plan(), changed()))
    assert before != after
    assert len(pod_parts(before)) >= 3
    assert pod_parts(after) == pod_parts(before)
