"""plan.json: a plan as a document of the schema that `plan_schemas` makes. `plan_reader` is the way back.

What is not there is not told: a search without goals, failures or measured times has no keys for them.

The document stands alone: models and workloads that the planner does not ship are in it in full. In a run folder its
cluster alone is kept beside it, packed (`stored_clusters`). Its digests show whether it has been edited; documents of
the first schema have none.
"""

import json
from collections.abc import Iterator
from math import isclose
from typing import TypeGuard

from planner.domain import (
    Judged,
    PlacedPart,
    Placement,
    Plan,
    PlannedIsland,
    SearchRecord,
    Trial,
)
from planner.domain.cluster import HIGHEST_CORE
from planner.files.cluster.clusters import cluster_reference, store_cluster
from planner.files.disk.folders import CLUSTER_FILE, PLAN_FILE
from planner.files.disk.values import read_ranges
from planner.files.plan.digests import KEY, SCHEMA_VERSION, WHOLE_PLAN, sealed
from planner.files.plan.plan_schemas import IDLE_KEYS, SERVING_KEYS
from planner.files.records import Document, load_record, record_document
from planner.files.scenario.scenario_documents import scenario_document


def placement_document(placement: Placement | None) -> Document:
    """The rows of a plan's `placement` and what there is to tell of them, each under its key; nothing for a plan that
    is on no nodes."""
    if placement is None:
        return {}
    report: Document = {}
    for key, value in record_document(placement).items():
        if key == "score" and placement.evictions is not None:
            report["evictions"] = record_document(placement.evictions)
        report[key] = value
    return {"placement": [record_document(part) for part in placement.parts], "placement_report": report}


def read_placement(plan: Document) -> Placement | None:
    """The placement of a plan's document that keeps to the schema and has no contradictions."""
    if "placement" not in plan:
        return None
    parts = tuple(load_record(PlacedPart, row) for row in plan["placement"])
    return load_record(Placement, plan["placement_report"], parts=parts)


def placement_misprints(plan: Document) -> Iterator[str]:
    """What is lost on the way to records: cores that are no ranges, sums that are not those of the victims."""
    for index, part in enumerate(plan.get("placement", ())):
        try:
            read_ranges(part["cores"], HIGHEST_CORE)
        except ValueError as error:
            yield f"placement.{index}.cores: must be ranges such as '0-7,16': {error}"
    if "placement" in plan and "evictions" in plan["placement_report"]:
        yield from _wrong_sums(plan["placement_report"]["evictions"], plan["placement_report"]["victims"])


def _wrong_sums(sums: Document, victims: list[Document]) -> Iterator[str]:
    due = {
        "victims": len(victims),
        "gpus": sum(row["gpus"] for row in victims),
        "unknown_lost_work": sum(row["lost_gpu_hours"] is None for row in victims),
    }
    for key, value in due.items():
        if sums[key] != value:
            yield f"placement_report.evictions.{key}: must be {value}, that of the victims, got {sums[key]}"
    lost = sum(row["lost_gpu_hours"] or 0.0 for row in victims)
    if not isclose(sums["lost_gpu_hours"], lost, rel_tol=1e-9, abs_tol=1e-9):
        actual = sums["lost_gpu_hours"]
        yield f"placement_report.evictions.lost_gpu_hours: must be {lost:g}, the victims' sum, got {actual:g}"


def search_document(record: SearchRecord) -> Document:
    """The section `search` of plan.json."""
    first = {"best_trial": record.best_trial, "best_by_iteration_rps": list(record.best_by_iteration())}
    return first | record_document(record)


def judged_document(judged: Judged) -> Document:
    """A trial with what judging it took."""
    return {**record_document(judged.trial), "cpu_s": judged.cpu_s}


def read_judged(row: Document) -> Judged:
    """The trial and its price of that mapping."""
    return Judged(trial=load_record(Trial, row), cpu_s=row["cpu_s"])


_LONG_TABLE = 20


def plan_document(plan: Plan) -> Document:
    """The plan as plain values, in the order a reader wants them, and their digests."""
    return sealed(_content(plan, scenario_document(plan.scenario)))


def plan_files(plan: Plan) -> dict[str, bytes]:
    """The plan as files of its run folder, name -> content: plan.json, and its cluster where it has one."""
    if plan.scenario.cluster is None:
        return {PLAN_FILE: encode_plan(plan)}
    reference, packed = store_cluster(plan.scenario.cluster)
    document = sealed(_content(plan, scenario_document(plan.scenario, reference)))
    return {PLAN_FILE: _encoded(document), CLUSTER_FILE: packed}


def plan_digest(plan: Plan) -> str:
    """The digest that stands in the plan.json of its run folder."""
    cluster = plan.scenario.cluster
    reference = None if cluster is None else cluster_reference(cluster)
    return str(sealed(_content(plan, scenario_document(plan.scenario, reference)))[KEY][WHOLE_PLAN])


def plan_answers(plan: Plan) -> Document:
    """The document without its digests and the question."""
    return _content(plan, {})


def _content(plan: Plan, scenario: Document) -> Document:
    return {
        "schema_version": SCHEMA_VERSION,
        "name": plan.scenario.name,
        "throughput_rps": plan.throughput_rps,
        "rate_band": None if plan.rate_band is None else record_document(plan.rate_band),
        "prefill_rps": plan.prefill_rps,
        "decode_rps": plan.decode_rps,
        "tokens_per_s": plan.tokens_per_s,
        "output_tokens_per_s": plan.output_tokens_per_s,
        "price_usd_per_hour": plan.price_usd_per_hour,
        "price_usd_per_million_tokens": plan.price_usd_per_million_tokens,
        **_certificate(plan),
        "exact_rps": plan.exact_rps,
        "service": None if plan.service is None else record_document(plan.service),
        **({"buckets": record_document(plan.buckets)} if plan.buckets else {}),
        **({"sensitivity": record_document(plan.sensitivity)} if plan.sensitivity else {}),
        "assignment": {
            "objective_rps": plan.objective_rps,
            "deviation_rps": plan.deviation_rps,
            "optimal": plan.optimal,
        },
        "islands": [_serving_island(island) for island in plan.islands if island.phase],
        "idle_islands": [_idle_island(island) for island in plan.islands if not island.phase],
        "routing": [record_document(route) for route in plan.routing],
        "network_bottleneck": plan.network_bottleneck,
        "flows": [record_document(flow) for flow in plan.flows],
        **placement_document(plan.placement),
        "search": search_document(plan.search),
        "scenario": scenario,
        "provenance": record_document(plan.provenance),
    }


def _certificate(plan: Plan) -> Document:
    """How far the plan is from the best possible; nothing is known of plans of before certificates."""
    certificate = plan.certificate
    if certificate is None:
        return {}
    return {
        "bound_rps": certificate.bound_rps,
        "gap": certificate.gap,
        "objective": {
            "kind": plan.scenario.objective.kind.value,
            "value": certificate.objective_value,
            "bound": certificate.objective_bound,
            "gap": certificate.objective_gap,
            "note": certificate.note,
        },
        "fleet": plan.fleet,
    }


def _serving_island(island: PlannedIsland) -> Document:
    row = record_document(island) | record_document(island.parallel)
    return {key: row[key] for key in SERVING_KEYS if key in row}


def _idle_island(island: PlannedIsland) -> Document:
    row = record_document(island)
    return {key: row[key] for key in IDLE_KEYS}


def encode_plan(plan: Plan) -> bytes:
    """plan.json that stands alone: one line an island, a route, a trial; equal plans give equal bytes."""
    return _encoded(plan_document(plan))


def _encoded(document: Document) -> bytes:
    return (_pretty(document, "") + "\n").encode()


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


_line = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
