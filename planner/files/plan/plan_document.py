"""plan.json: a plan as a document of the schema in `plan_schema.json`. `plan_reader` is the way back.

The document stands alone: models and workloads that the planner does not ship are in it in full. Its digests show
whether it has been edited; documents of the first schema have none.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any, TypeGuard

from planner.domain import Plan, PlannedIsland, Provenance, Route
from planner.files.plan.digests import sealed
from planner.files.plan.flow_documents import flows_document
from planner.files.plan.placement_documents import placement_document
from planner.files.plan.plan_versions import SCHEMA_VERSION
from planner.files.plan.search_documents import search_document
from planner.files.plan.sensitivity_documents import sensitivity_document
from planner.files.plan.service_documents import service_document
from planner.files.scenario.scenario_documents import scenario_document

_LONG_TABLE = 20
Document = dict[str, Any]


def plan_document(plan: Plan) -> Document:
    """The plan as plain values, in the order a reader wants them, and their digests."""
    return sealed(plan_content(plan))


def plan_content(plan: Plan) -> Document:
    """The document without its digests."""
    return {
        "schema_version": SCHEMA_VERSION,
        "name": plan.scenario.name,
        "throughput_rps": plan.throughput_rps,
        "prefill_rps": plan.prefill_rps,
        "decode_rps": plan.decode_rps,
        "tokens_per_s": plan.tokens_per_s,
        "output_tokens_per_s": plan.output_tokens_per_s,
        "price_usd_per_hour": plan.price_usd_per_hour,
        "price_usd_per_million_tokens": plan.price_usd_per_million_tokens,
        **_certificate(plan),
        **service_document(plan),
        **({"sensitivity": sensitivity_document(plan.sensitivity)} if plan.sensitivity else {}),
        "assignment": {
            "objective_rps": plan.objective_rps,
            "deviation_rps": plan.deviation_rps,
            "optimal": plan.optimal,
        },
        "islands": [_island(island) for island in plan.islands if island.phase],
        "idle_islands": [_idle_island(island) for island in plan.islands if not island.phase],
        "routing": [_route(route) for route in plan.routing],
        **flows_document(plan),
        **placement_document(plan.placement),
        "search": search_document(plan.search),
        "scenario": scenario_document(plan.scenario),
        "provenance": _provenance(plan.provenance),
    }


def _certificate(plan: Plan) -> Document:
    """How far the plan is from the best possible; nothing is known of plans of before certificates."""
    found = plan.certificate
    if found is None:
        return {}
    return {
        "bound_rps": found.bound_rps,
        "gap": found.gap,
        "objective": {
            "kind": plan.scenario.objective.kind.value,
            "value": found.objective_value,
            "bound": found.objective_bound,
            "gap": found.objective_gap,
            "note": found.note,
        },
        "fleet": plan.fleet,
    }


def _island(island: PlannedIsland) -> Document:
    assert island.phase is not None
    assert island.parallel is not None
    return {
        "id": island.id,
        "gpu": island.gpu,
        "size": island.size,
        "phase": island.phase.value,
        "tp": island.parallel.tp,
        "dp": island.parallel.dp,
        "pp": island.parallel.pp,
        "replicas": island.parallel.replicas,
        "batch_size": island.batch_size,
        "longest_prompt": island.longest_prompt,
        "rate_rps": island.rate_rps,
        "utilisation": island.utilisation,
        "price_usd_per_hour": island.price_usd_per_hour,
        **({} if island.reach is None else {"reach": asdict(island.reach)}),
    }


def _idle_island(island: PlannedIsland) -> Document:
    return {
        "id": island.id,
        "gpu": island.gpu,
        "size": island.size,
        "price_usd_per_hour": island.price_usd_per_hour,
        "note": island.note,
    }


def _route(route: Route) -> Document:
    return {
        "phase": route.phase.value,
        "range_start": route.range_start,
        "range_end": route.range_end,
        "probability": route.probability,
        "island": route.island,
        "share": route.share,
        "rate_rps": route.rate_rps,
        "assigned_rps": route.assigned_rps,
        "capacity_rps": route.capacity_rps,
        "batch_size": route.batch_size,
        "step_ms": route.step_ms,
    }


def _provenance(provenance: Provenance) -> Document:
    return {
        "planner": provenance.planner_version,
        "python": provenance.python_version,
        "libraries": dict(provenance.libraries),
        "solver": provenance.solver,
        "seed": provenance.seed,
        "cost_mode": provenance.cost_mode,
        "inputs_sha256": [[name, digest] for name, digest in provenance.input_hashes],
        "calibration": provenance.calibration,
        "estimates": [
            {"gpu": one.gpu, "phase": one.phase.value, "origin": one.origin.value, "source": one.source}
            for one in provenance.estimates
        ],
        **({"unverified": True} if provenance.unverified else {}),
    }


def encode_plan(plan: Plan) -> bytes:
    """plan.json: one line an island, a route, a trial; equal plans give equal bytes."""
    return (_pretty(plan_document(plan), "") + "\n").encode()


def _pretty(value: object, indent: str) -> str:
    """JSON with the two outer levels and long tables laid out and everything below on one line."""
    if isinstance(value, dict) and (len(indent) < 4 or any(map(_is_long_table, value.values()))):
        rows = [f"{indent}  {json.dumps(key)}: {_pretty(item, indent + '  ')}" for key, item in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}" if rows else "{}"
    if _is_table(value) and (len(indent) <= 4 or _is_long_table(value)):
        rows = [f"{indent}  {_line(item)}" for item in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    return _line(value)


def _is_table(value: object) -> TypeGuard[list[Document]]:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _is_long_table(value: object) -> bool:
    """Whether it would be unreadable on one line: the nodes and pods of a cluster."""
    return _is_table(value) and len(value) > _LONG_TABLE


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


@cache
def plan_schema() -> Mapping[str, Any]:
    """The published JSON Schema of plan.json."""
    text = resources.files("planner.files").joinpath("plan_schema.json").read_text(encoding="utf-8")
    schema: Mapping[str, Any] = json.loads(text)
    return schema
