"""Reading plan.json: strictly by its schema, by its digests, and by what neither can say.

A plan of before digests (schema_version 1) is read, and said to be unverified wherever it is shown.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import jsonschema

from planner.domain import (
    Certificate,
    Estimate,
    InputHash,
    LengthProfile,
    Origin,
    ParallelConfig,
    Phase,
    Plan,
    PlannedIsland,
    Provenance,
    Reach,
    RequestTrace,
    Route,
    Scenario,
    contradictions,
)
from planner.errors import InputError
from planner.files.plan.digests import KEY as DIGESTS
from planner.files.plan.digests import REMEDY, require_unedited
from planner.files.plan.flow_documents import read_flows
from planner.files.plan.placement_documents import placement_misprints, read_placement
from planner.files.plan.plan_document import Document, plan_content, plan_schema
from planner.files.plan.plan_versions import SCHEMA_VERSION, UNSEALED_VERSION
from planner.files.plan.search_documents import read_search
from planner.files.plan.sensitivity_documents import read_sensitivity
from planner.files.plan.service_documents import read_service
from planner.files.scenario.scenarios import scenario_from_document

_DERIVED = 1e-9
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def decode_plan(text: bytes, origin: Path) -> Plan:
    """The plan of a plan.json. Raises InputError naming the file and the key that breaks the schema, or was edited."""
    document = _checked(text, origin)
    scenario = scenario_from_document(
        document["scenario"], origin=f"{origin}: scenario", base=origin.parent, summarize=_no_trace
    )
    for misprint in placement_misprints(document):
        raise InputError(f"{origin}: {misprint}.", hint=REMEDY)
    plan = _read_plan(document, scenario)
    for fault in chain(contradictions(plan), _unlike(document, plan)):
        raise InputError(f"{origin}: {fault}.", hint=REMEDY)
    return plan


def _unlike(document: Document, plan: Plan) -> Iterator[str]:
    """What the plan that was read would say otherwise: keys that follow from others. Earlier plans lack some keys."""
    for key, due in plan_content(plan).items():
        if key in document and key not in ("schema_version", "scenario"):
            yield from _differences(key, document[key], due)


def _differences(path: str, came: Any, due: Any) -> Iterator[str]:
    if isinstance(came, dict) and isinstance(due, dict):
        for key, below in due.items():
            if key in came:
                yield from _differences(f"{path}.{key}", came[key], below)
    elif isinstance(came, list) and isinstance(due, list | tuple) and len(came) == len(due):
        for row, (one, other) in enumerate(zip(came, due, strict=True)):
            yield from _differences(f"{path}.{row}", one, other)
    elif not _alike(came, due):
        yield f"{path}: must follow from the plan, {_figure(due)}, got {_figure(came)}"


def _alike(came: Any, due: Any) -> bool:
    if isinstance(came, int | float) and isinstance(due, int | float):
        return math.isclose(came, due, rel_tol=_DERIVED)
    return bool(came == due)


def _figure(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else f"{value!r}"


def _read_plan(document: Document, scenario: Scenario) -> Plan:
    provenance = _read_provenance(document, scenario)
    inputs = tuple(InputHash(name=name, sha256=digest) for name, digest in provenance.input_hashes)
    return Plan(
        scenario=replace(scenario, inputs=inputs),
        throughput_rps=document["throughput_rps"],
        prefill_rps=document["prefill_rps"],
        decode_rps=document["decode_rps"],
        objective_rps=document["assignment"]["objective_rps"],
        deviation_rps=document["assignment"]["deviation_rps"],
        optimal=document["assignment"]["optimal"],
        islands=(
            *(_read_island(row) for row in document["islands"]),
            *(_read_idle_island(row) for row in document["idle_islands"]),
        ),
        routing=tuple(_read_route(row) for row in document["routing"]),
        search=read_search(document["search"]),
        provenance=provenance,
        certificate=_read_certificate(document),
        service=read_service(document),
        exact_rps=document.get("exact_rps"),
        flows=read_flows(document),
        network_bottleneck=document.get("network_bottleneck", ""),
        sensitivity=read_sensitivity(document["sensitivity"]) if "sensitivity" in document else None,
        placement=read_placement(document),
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
    for broken in sorted(jsonschema.Draft202012Validator(plan_schema()).iter_errors(document), key=lambda e: e.path):
        where = ".".join(str(part) for part in broken.absolute_path) or "top level"
        raise InputError(f"{origin}: {where}: {_shortened(broken.message)}.", hint=REMEDY)
    if DIGESTS in document:
        require_unedited(document, str(origin))
    return dict(document)


def _parsed(text: bytes, origin: Path) -> Any:
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
        if _SURROGATE.search(text):
            json.dumps(document, ensure_ascii=False).encode()  # a half of a pair can be read, but not written again
        return document
    except ValueError as error:
        raise InputError(f"{origin}: must be JSON: {error}.", hint=REMEDY) from None
    except RecursionError:
        raise InputError(f"{origin}: must be a plan, is nested too deeply.", hint=REMEDY) from None


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _shortened(message: str) -> str:
    """A validator quotes the whole value; its beginning and the rule at the end are enough."""
    return message if len(message) <= 200 else f"{message[:80]} ... {message[-100:]}"


def _no_trace(trace: RequestTrace) -> LengthProfile:
    raise InputError(
        f"workload {trace.name}: a plan must hold its workload in full, came the path of a trace.",
        hint="Plan again from the scenario.",
    )


def _read_island(row: Document) -> PlannedIsland:
    return PlannedIsland(
        id=row["id"],
        gpu=row["gpu"],
        size=row["size"],
        phase=Phase(row["phase"]),
        parallel=_read_degrees(row),
        batch_size=row["batch_size"],
        longest_prompt=row["longest_prompt"],
        rate_rps=row["rate_rps"],
        utilisation=row["utilisation"],
        price_usd_per_hour=row["price_usd_per_hour"],
        reach=Reach(**row["reach"]) if "reach" in row else None,
    )


def _read_degrees(row: Document) -> ParallelConfig:
    """Plans of before pipeline stages have no `pp`: one stage."""
    return ParallelConfig(tp=row["tp"], dp=row["dp"], pp=row.get("pp", 1), replicas=row["replicas"])


def _read_idle_island(row: Document) -> PlannedIsland:
    return PlannedIsland(
        phase=None, parallel=None, batch_size=0, longest_prompt=0, rate_rps=0.0, utilisation=0.0, **row
    )


def _read_route(row: Document) -> Route:
    return Route(**{**row, "phase": Phase(row["phase"])})


def _read_provenance(document: Document, scenario: Scenario) -> Provenance:
    row = document["provenance"]
    return Provenance(
        planner_version=row["planner"],
        python_version=row["python"],
        libraries=tuple(row["libraries"].items()),
        solver=row["solver"],
        seed=scenario.search.seed,
        cost_mode=scenario.cost.mode.value,
        input_hashes=tuple((name, digest) for name, digest in row["inputs_sha256"]),
        calibration=row.get("calibration", ""),
        estimates=tuple(_read_estimate(one) for one in row.get("estimates", ())),
        unverified=document["schema_version"] == UNSEALED_VERSION or row.get("unverified", False),
    )


def _read_estimate(row: Document) -> Estimate:
    return Estimate(gpu=row["gpu"], phase=Phase(row["phase"]), origin=Origin(row["origin"]), source=row["source"])
