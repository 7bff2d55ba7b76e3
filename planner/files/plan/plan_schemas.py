"""The JSON Schema of plan.json, made from the records that stand in it; `plan_schema.json` is it, published."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from planner.domain import (
    BucketPlan,
    ObjectiveKind,
    ParallelConfig,
    Phase,
    Placement,
    Plan,
    PlannedIsland,
    Provenance,
    RateBand,
    SearchRecord,
)
from planner.domain.explanations import Sensitivity
from planner.domain.placement import Evictions, PlacedPart
from planner.domain.service import Service
from planner.files.plan.digests import SCHEMA_VERSION, UNSEALED_VERSION
from planner.files.records import Document, field_schemas, object_schema, record_schema

SERVING_KEYS = (
    *("id", "gpu", "size", "phase", "tp", "dp", "pp", "replicas", "batch_size", "longest_prompt"),
    *("rate_rps", "utilisation", "price_usd_per_hour", "reach", "tokens_per_step", "overlapped", "cached_share"),
    *("context", "drafted"),
)
IDLE_KEYS = ("id", "gpu", "size", "price_usd_per_hour", "note")
_AMOUNT: Document = {"type": "number", "minimum": 0}
_BOUND: Document = {"type": ["number", "null"], "minimum": 0}


@cache
def plan_schema() -> Mapping[str, Any]:
    """The published JSON Schema of plan.json."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A deployment plan",
        **object_schema(_properties()),
        "if": {"properties": {"schema_version": {"const": SCHEMA_VERSION}}},
        "then": {"required": ["digests"]},
        "dependentRequired": {
            "objective": ["bound_rps", "gap"],
            "placement": ["placement_report"],
            "placement_report": ["placement"],
        },
    }


def schema_text() -> str:
    """The schema as it is published."""
    return json.dumps(plan_schema(), indent=2, ensure_ascii=False) + "\n"


def _properties() -> Document:
    return {
        "schema_version": _noted(
            {"enum": [UNSEALED_VERSION, SCHEMA_VERSION]}, "2; plans of before digests have 1, and count as unverified"
        ),
        "name": {"type": "string"},
        **field_schemas(Plan, "throughput_rps"),
        "rate_band": _noted(
            _or_null(record_schema(RateBand)),
            "P10 and P90 of the rate, by measurements left out of the fit (null: its estimates have no band)",
            None,
        ),
        **field_schemas(Plan, "prefill_rps", "decode_rps"),
        "tokens_per_s": _noted(_AMOUNT, "input and output tokens"),
        "output_tokens_per_s": _AMOUNT,
        "price_usd_per_hour": _noted(_AMOUNT, "rent of the whole inventory"),
        "price_usd_per_million_tokens": _noted(_AMOUNT, "of input and output"),
        **_certificate(),
        **field_schemas(Plan, "exact_rps"),
        "service": _noted(_or_null(record_schema(Service)), "what the plan promises under its service levels", None),
        "buckets": _noted(
            _or_null(record_schema(BucketPlan)),
            "of a plan of buckets: its pools, latencies, promise, simpler plans, what remains after losses",
            None,
        ),
        "sensitivity": _noted(
            record_schema(Sensitivity),
            "what would change the rate, as changes of it (requests/s)",
            {},
        ),
        "assignment": object_schema(field_schemas(Plan, "objective_rps", "deviation_rps", "optimal")),
        "islands": {"type": "array", "minItems": 1, "items": _serving_island()},
        "idle_islands": _noted(
            {"type": "array", "items": object_schema(_some(field_schemas(PlannedIsland), IDLE_KEYS))},
            "cut from the inventory, serving nothing",
        ),
        **field_schemas(Plan, "routing", "network_bottleneck", "flows"),
        **_placement(),
        "search": record_schema(
            SearchRecord, best_by_iteration_rps={"type": "array", "items": {"type": "number", "minimum": 0}}
        ),
        "scenario": _noted(
            {"type": "object"},
            "the scenario with every default spelt out; read back as a scenario file is, but that cluster may be "
            "{file, sha256}: a file beside the plan and the digest of its unpacked text",
        ),
        "provenance": record_schema(Provenance),
        "digests": _digests(),
    }


def _certificate() -> Document:
    objective = {
        "kind": {"enum": [kind.value for kind in ObjectiveKind]},
        "value": _noted({"type": "number"}, "requests/s, USD/hour, requests/s per USD/hour, or W"),
        "bound": _BOUND,
        "gap": _BOUND,
        "note": {"type": "string"},
    }
    fleet = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
    return {
        "bound_rps": _noted(
            _BOUND,
            "no layout of the plan's own GPUs serves the mix faster, under this model (null: unknown)",
            None,
        ),
        "gap": _noted(
            _BOUND, "1 - throughput_rps / bound_rps, of the rate of the plan's own GPUs; see objective.gap", None
        ),
        "objective": _noted(
            object_schema(objective), "what the plan is to be best at, and how far it is from the best", {}
        ),
        "fleet": _noted(fleet, "GPUs that are paid for, by type", {}),
    }


def _serving_island() -> Document:
    """Its degrees stand among its other keys, and it has a phase."""
    properties = _some(field_schemas(PlannedIsland) | field_schemas(ParallelConfig), SERVING_KEYS)
    properties["id"] = _noted({"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"}, "unique; a DNS label")
    properties["phase"] = {"enum": [phase.value for phase in Phase]}
    properties["reach"] |= {"type": "object"}
    return object_schema(properties)


def _placement() -> Document:
    evictions = _noted(_or_null(record_schema(Evictions)), "sums over the victims (null: there are none)", None)
    return {
        "placement": _noted(
            {"type": "array", "items": record_schema(PlacedPart)},
            "what one replica of an island holds on one node",
            [],
        ),
        "placement_report": _noted(
            record_schema(Placement, evictions=evictions),
            "islands on the nodes of a cluster; plans that are on no nodes have none",
            {},
        ),
    }


def _digests() -> Document:
    words = {"type": "string", "pattern": "^([0-9a-f]+( [0-9a-f]+)*)?$"}
    return _noted(
        {"type": "object", "required": ["plan"], "additionalProperties": words},
        "SHA-256 over all but measured CPU-seconds (plan), and its beginning for each part, row by row",
        {},
    )


def _some(properties: Document, keys: tuple[str, ...]) -> Document:
    return {key: properties[key] for key in keys}


def _or_null(schema: Document) -> Document:
    return schema | {"type": [schema["type"], "null"]}


def _noted(schema: Document, description: str, *default: object) -> Document:
    """The schema with what it means, and what a missing key stands for."""
    return schema | ({"default": default[0]} if default else {}) | {"description": description}
