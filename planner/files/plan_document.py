"""plan.json: a plan as a document of the schema in `plan_schema.json`, and back.

The document stands alone: models and workloads that the planner does not ship are in it in full.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema

from planner.domain import (
    IslandClass,
    Layout,
    LengthProfile,
    ParallelConfig,
    Phase,
    Plan,
    PlannedIsland,
    Provenance,
    RequestTrace,
    Route,
    Scenario,
    SearchRecord,
    Trial,
)
from planner.errors import InputError
from planner.files.scenario_documents import scenario_document
from planner.files.scenarios import scenario_from_document

SCHEMA_VERSION = 1
Document = dict[str, Any]


def plan_document(plan: Plan) -> Document:
    """The plan as plain values, in the order a reader wants them."""
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
        "assignment": {
            "objective_rps": plan.objective_rps,
            "deviation_rps": plan.deviation_rps,
            "optimal": plan.optimal,
        },
        "islands": [_island(island) for island in plan.islands],
        "routing": [_route(route) for route in plan.routing],
        "search": {
            "best_trial": plan.search.best_trial,
            "best_by_iteration_rps": list(plan.search.best_by_iteration()),
            "trials": [_trial(trial) for trial in plan.search.trials],
        },
        "scenario": scenario_document(plan.scenario),
        "provenance": _provenance(plan.provenance),
    }


def _island(island: PlannedIsland) -> Document:
    degrees = island.parallel
    return {
        "id": island.id,
        "gpu": island.gpu,
        "size": island.size,
        "phase": island.phase.value if island.phase else None,
        "tp": degrees.tp if degrees else None,
        "dp": degrees.dp if degrees else None,
        "replicas": degrees.replicas if degrees else None,
        "batch_size": island.batch_size,
        "longest_prompt": island.longest_prompt,
        "rate_rps": island.rate_rps,
        "utilisation": island.utilisation,
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


def _trial(trial: Trial) -> Document:
    return {
        "index": trial.index,
        "iteration": trial.iteration,
        "parameters": dict(trial.parameters),
        "layout": [[island.gpu, island.size, count] for island, count in trial.layout.counts],
        "throughput_rps": trial.throughput_rps,
        "generator": trial.generator,
        "error": trial.error,
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
    }


def encode_plan(plan: Plan) -> bytes:
    """plan.json: one line an island, a route, a trial; equal plans give equal bytes."""
    return (_pretty(plan_document(plan), "") + "\n").encode()


def _pretty(value: object, indent: str) -> str:
    """JSON with the two outer levels laid out and everything below on one line."""
    if len(indent) < 4 and isinstance(value, dict):
        rows = [f"{indent}  {json.dumps(key)}: {_pretty(item, indent + '  ')}" for key, item in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}" if rows else "{}"
    if len(indent) <= 4 and isinstance(value, list) and value and isinstance(value[0], dict):
        rows = [f"{indent}  {_line(item)}" for item in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    return _line(value)


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


@cache
def plan_schema() -> Mapping[str, Any]:
    """The published JSON Schema of plan.json."""
    text = resources.files("planner.files").joinpath("plan_schema.json").read_text(encoding="utf-8")
    schema: Mapping[str, Any] = json.loads(text)
    return schema


def decode_plan(text: bytes, origin: Path) -> Plan:
    """The plan of a plan.json. Raises InputError naming the file and the key that breaks the schema."""
    document = _checked(text, origin)
    scenario = scenario_from_document(
        document["scenario"], origin=f"{origin}: scenario", base=origin.parent, summarize=_no_trace
    )
    return Plan(
        scenario=scenario,
        throughput_rps=document["throughput_rps"],
        prefill_rps=document["prefill_rps"],
        decode_rps=document["decode_rps"],
        objective_rps=document["assignment"]["objective_rps"],
        deviation_rps=document["assignment"]["deviation_rps"],
        optimal=document["assignment"]["optimal"],
        islands=tuple(_read_island(row) for row in document["islands"]),
        routing=tuple(_read_route(row) for row in document["routing"]),
        search=SearchRecord(
            trials=tuple(_read_trial(row) for row in document["search"]["trials"]),
            best_trial=document["search"]["best_trial"],
        ),
        provenance=_read_provenance(document["provenance"], scenario),
    )


def _checked(text: bytes, origin: Path) -> Document:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InputError(f"{origin}: must be JSON: {error}.", hint="Plan again, or restore the file.") from None
    found = document.get("schema_version") if isinstance(document, dict) else None
    if found != SCHEMA_VERSION:
        raise InputError(
            f"{origin}: schema_version: must be {SCHEMA_VERSION}, came {found!r}.",
            hint="Open it with the planner version that wrote it, or plan again.",
        )
    errors = sorted(jsonschema.Draft202012Validator(plan_schema()).iter_errors(document), key=lambda e: e.path)
    for broken in errors:
        where = ".".join(str(part) for part in broken.absolute_path) or "top level"
        raise InputError(f"{origin}: {where}: {broken.message}.", hint="Plan again, or restore the file.")
    return dict(document)


def _no_trace(trace: RequestTrace) -> LengthProfile:
    raise InputError(
        f"workload {trace.name}: a plan must hold its workload in full, came the path of a trace.",
        hint="Plan again from the scenario.",
    )


def _read_island(row: Document) -> PlannedIsland:
    degrees = None
    if row["phase"] is not None:
        degrees = ParallelConfig(tp=row["tp"], dp=row["dp"], replicas=row["replicas"])
    return PlannedIsland(
        id=row["id"],
        gpu=row["gpu"],
        size=row["size"],
        phase=Phase(row["phase"]) if row["phase"] is not None else None,
        parallel=degrees,
        batch_size=row["batch_size"],
        longest_prompt=row["longest_prompt"],
        rate_rps=row["rate_rps"],
        utilisation=row["utilisation"],
        price_usd_per_hour=row["price_usd_per_hour"],
        note=row["note"],
    )


def _read_route(row: Document) -> Route:
    return Route(**{**row, "phase": Phase(row["phase"])})


def _read_trial(row: Document) -> Trial:
    counts = tuple((IslandClass(gpu=gpu, size=size), count) for gpu, size, count in row["layout"])
    return Trial(**{**row, "layout": Layout(counts=counts), "parameters": tuple(sorted(row["parameters"].items()))})


def _read_provenance(row: Document, scenario: Scenario) -> Provenance:
    return Provenance(
        planner_version=row["planner"],
        python_version=row["python"],
        libraries=tuple(row["libraries"].items()),
        solver=row["solver"],
        seed=row["seed"],
        cost_mode=scenario.cost.mode.value,
        input_hashes=tuple((name, digest) for name, digest in row["inputs_sha256"]),
    )
