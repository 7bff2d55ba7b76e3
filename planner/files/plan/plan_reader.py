"""Reading plan.json: strictly by its schema, by its digests, and by what neither can say.

A plan of before digests (schema_version 1) is read, and said to be unverified wherever it is shown.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import jsonschema

from planner.domain import (
    BucketPlan,
    Certificate,
    InputHash,
    KvFlow,
    LengthProfile,
    ParallelConfig,
    Plan,
    PlannedIsland,
    Provenance,
    RateBand,
    RequestTrace,
    Route,
    Scenario,
    SearchRecord,
    Sensitivity,
    Service,
    contradictions,
)
from planner.errors import InputError
from planner.files.cluster.clusters import is_reference, read_stored_cluster, without_collection
from planner.files.disk.budget import require_json_shape
from planner.files.disk.schema_answers import Accepts, acceptance, keeps_to
from planner.files.plan.digests import KEY as DIGESTS
from planner.files.plan.digests import REMEDY, SCHEMA_VERSION, UNSEALED_VERSION, require_unedited
from planner.files.plan.plan_document import placement_misprints, plan_answers, read_placement
from planner.files.plan.plan_schemas import plan_schema
from planner.files.records import Document, load_record
from planner.files.scenario.scenarios import scenario_from_section
from planner.files.sections import Section, top_level

_DERIVED = 1e-9
_IDLE = {"phase": None, "parallel": None, "batch_size": 0, "longest_prompt": 0, "rate_rps": 0.0, "utilisation": 0.0}
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def decode_plan(text: bytes, origin: Path) -> Plan:
    """The plan of a plan.json. Raises InputError naming the file and the key that breaks the schema, or was edited."""
    document = _checked(text, origin)
    with without_collection():
        scenario = scenario_from_section(_question(document, origin), origin.parent, no_trace)
    for misprint in placement_misprints(document):
        raise InputError(f"{origin}: {misprint}.", hint=REMEDY)
    plan = _read_plan(document, scenario)
    for fault in chain(contradictions(plan), _unlike(document, plan)):
        raise InputError(f"{origin}: {fault}.", hint=REMEDY)
    return plan


def _question(document: Document, origin: Path) -> Section:
    """The scenario of a plan's document, with its cluster where that is kept beside it."""
    question = document["scenario"]
    if is_reference(question.get("cluster")):
        cluster = read_stored_cluster(question["cluster"], origin.parent, str(origin))
        question = {**question, "cluster": cluster}
    return top_level(question, f"{origin}: scenario")


def _unlike(document: Document, plan: Plan) -> Iterator[str]:
    """What the plan that was read would say otherwise: keys that follow from others. Earlier plans lack some keys."""
    for key, due in plan_answers(plan).items():
        if key in document and key not in ("schema_version", "scenario"):
            yield from differences(key, document[key], due)


def differences(path: str, actual: Any, due: Any) -> Iterator[str]:
    """What a document says otherwise than follows: keys that it lacks aside, numbers to 9 digits."""
    if isinstance(actual, dict) and isinstance(due, dict):
        for key, below in due.items():
            if key in actual:
                yield from differences(f"{path}.{key}", actual[key], below)
    elif isinstance(actual, list) and isinstance(due, list | tuple) and len(actual) == len(due):
        for row, (value, other) in enumerate(zip(actual, due, strict=True)):
            yield from differences(f"{path}.{row}", value, other)
    elif not _alike(actual, due):
        yield f"{path}: must follow from the plan, {_figure(due)}, got {_figure(actual)}"


def _alike(actual: Any, due: Any) -> bool:
    if isinstance(actual, int | float) and isinstance(due, int | float):
        return math.isclose(actual, due, rel_tol=_DERIVED)
    return bool(actual == due)


def _figure(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else f"{value!r}"


def _read_plan(document: Document, scenario: Scenario) -> Plan:
    provenance = _read_provenance(document, scenario)
    inputs = tuple(InputHash(name=name, sha256=digest) for name, digest in provenance.input_hashes)
    return Plan(
        scenario=replace(scenario, inputs=inputs),
        throughput_rps=document["throughput_rps"],
        rate_band=load_record(RateBand, document["rate_band"]) if document.get("rate_band") else None,
        prefill_rps=document["prefill_rps"],
        decode_rps=document["decode_rps"],
        objective_rps=document["assignment"]["objective_rps"],
        deviation_rps=document["assignment"]["deviation_rps"],
        optimal=document["assignment"]["optimal"],
        islands=(
            *(_read_island(row) for row in document["islands"]),
            *(load_record(PlannedIsland, _IDLE | row) for row in document["idle_islands"]),
        ),
        routing=tuple(load_record(Route, row) for row in document["routing"]),
        search=load_record(SearchRecord, document["search"]),
        provenance=provenance,
        certificate=_read_certificate(document),
        service=load_record(Service, document["service"]) if document.get("service") else None,
        exact_rps=document.get("exact_rps"),
        flows=tuple(load_record(KvFlow, row) for row in document.get("flows", ())),
        network_bottleneck=document.get("network_bottleneck", ""),
        sensitivity=load_record(Sensitivity, document["sensitivity"]) if "sensitivity" in document else None,
        placement=read_placement(document),
        buckets=load_record(BucketPlan, document["buckets"]) if document.get("buckets") else None,
    )


def _read_certificate(document: Document) -> Certificate | None:
    if "objective" not in document:
        return None
    objective = document["objective"]
    return Certificate(
        bound_rps=document["bound_rps"],
        gap=document["gap"],
        objective_value=objective["value"],
        objective_bound=objective["bound"],
        objective_gap=objective["gap"],
        note=objective["note"],
    )


def _checked(text: bytes, origin: Path) -> Document:
    document = _parsed(text, origin)
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version not in (SCHEMA_VERSION, UNSEALED_VERSION):
        raise InputError(
            f"{origin}: schema_version: must be {SCHEMA_VERSION} (or {UNSEALED_VERSION}, of before digests), got "
            f"{version!r}.",
            hint="Open it with the planner version that wrote it, or plan again.",
        )
    for broken in () if keeps_to(_accepted(), document) else _breaches(document):
        where = ".".join(str(part) for part in broken.absolute_path) or "top level"
        raise InputError(f"{origin}: {where}: {_shortened(broken.message)}.", hint=REMEDY)
    if DIGESTS in document:
        require_unedited(document, str(origin))
    return dict(document)


def _breaches(document: Any) -> list[jsonschema.ValidationError]:
    errors = jsonschema.Draft202012Validator(plan_schema()).iter_errors(document)
    return sorted(errors, key=lambda error: error.path)


@cache
def _accepted() -> Accepts | None:
    return acceptance(plan_schema())


def _parsed(text: bytes, origin: Path) -> Any:
    try:
        require_json_shape(text, str(origin))
        document = json.loads(text, parse_constant=_refuse_constant)
        if _SURROGATE.search(text):
            json.dumps(document, ensure_ascii=False).encode()  # a half of a pair can be read, but not written again
        return document
    except ValueError as error:
        raise InputError(f"{origin}: must be JSON: {error}.", hint=REMEDY) from None


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _shortened(message: str) -> str:
    """A validator quotes the whole value; its beginning and the rule at the end are enough."""
    return message if len(message) <= 200 else f"{message[:80]} ... {message[-100:]}"


def no_trace(trace: RequestTrace) -> LengthProfile:
    """Refuses a trace where a workload must stand in full. Raises InputError."""
    raise InputError(
        f"workload {trace.name}: a plan must hold its workload in full, got the path of a trace.",
        hint="Plan again from the scenario.",
    )


def _read_island(row: Document) -> PlannedIsland:
    return load_record(PlannedIsland, row, parallel=load_record(ParallelConfig, row), note="")


def _read_provenance(document: Document, scenario: Scenario) -> Provenance:
    row = document["provenance"]
    return load_record(
        Provenance,
        row,
        seed=scenario.search.seed,
        cost_mode=scenario.cost.mode.value,
        unverified=document["schema_version"] == UNSEALED_VERSION or row.get("unverified", False),
    )
