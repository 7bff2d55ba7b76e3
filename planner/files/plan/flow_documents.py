"""KV flows in plan.json: `flows` and `network_bottleneck`, both empty where the scenario has no network."""

from dataclasses import asdict
from typing import Any

from planner.domain import KvFlow, Plan


def flows_document(plan: Plan) -> dict[str, Any]:
    """The two keys of a plan."""
    return {"network_bottleneck": plan.network_bottleneck, "flows": [asdict(flow) for flow in plan.flows]}


def read_flows(document: dict[str, Any]) -> tuple[KvFlow, ...]:
    """Flows of a document that keeps to the schema; plans of before have none."""
    return tuple(KvFlow(**row) for row in document.get("flows", ()))
