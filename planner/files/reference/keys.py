"""The keys of every document that users write, as rows: read off the documents' own readers (see `recording`)."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from planner.domain import (
    AssignmentSettings,
    CostSettings,
    CurrentIsland,
    DeploySettings,
    LengthProfile,
    NetworkSettings,
    NumaNode,
    ObjectiveSettings,
    PlacementSettings,
    PlacementWeights,
    Pod,
    RangeHits,
    RangeSettings,
    RangeSlo,
    RequestTrace,
    RoutingSettings,
    SearchSettings,
    SloSettings,
    SurvivalSettings,
    Taint,
)
from planner.domain.changes import ChangeLimits, ChangePolicy, ChangeSettings
from planner.domain.serving.caches.tiers import RemoteStore, TierSettings
from planner.errors import InputError
from planner.files.cluster.cluster_sections import cluster_from_section
from planner.files.disk.names import shipped_folder
from planner.files.models.gpu_specs import gpu_spec_from_section, price_from_section
from planner.files.plan.batches.jobs_files import jobs_from_section
from planner.files.reference.recording import KeyLog, KeyReading, RecordingSection
from planner.files.scenario.offers import offer_from_section
from planner.files.scenario.scenarios import scenario_from_section
from planner.files.sections import Section
from planner.files.tables.calibrations import calibration_from_document
from planner.files.tables.measurements import OPTIONAL, REQUIRED
from planner.files.tables.workloads import workload_from_document

_FOLDER = Path(__file__).parent
_NOWHERE = Path("sample")
_SAMPLE_GPU = "H200"
_ELSEWHERE = {
    "scenario": re.compile(r"^(cluster|workload|model|cost\.calibration)\."),  # documents of their own
    "jobs": re.compile(r"^defaults\."),  # the keys of a job
}
_RENAMED = {
    "scenario": (
        (re.compile(rf"\b{_SAMPLE_GPU}\b"), "GPU"),
        (re.compile(r"\blabel\b"), "LABEL"),
        (re.compile(r"^(deploy\.images)\..*"), r"\1.VENDOR"),
        (re.compile(r"^(deploy\.image_digests)\..*"), r"\1.IMAGE"),
        (re.compile(r"^(deploy\.pod_resources)\..*"), r"\1.RESOURCE"),
        (re.compile(r"^(deploy\.topology)\..*"), r"\1.LEVEL"),
        (re.compile(r"^(deploy\.hours_rps)\..*"), r"\1.HOUR"),
        (re.compile(r"^(deploy\.sbatch)\..*"), r"\1.OPTION"),
    ),
    "offer": ((re.compile(rf"\b{_SAMPLE_GPU}\b"), "GPU"),),
    "workload": ((re.compile(r"^(where)\..*"), r"\1.COLUMN"),),
    "gpu": (
        (re.compile(r"^\w+\.(unit|source)$"), r"FIGURE.\1"),
        (re.compile(r"^(\w+)\.value$"), r"\1"),
        (re.compile(r"^(node_selector)\..*"), r"\1.LABEL"),
    ),
}

_RECORDS: Mapping[str, Mapping[str, type]] = {
    "scenario": {
        "ranges": RangeSettings,
        "cost": CostSettings,
        "cost.kv_cache_rate[]": RangeHits,
        "slo": SloSettings,
        "slo.ranges[]": RangeSlo,
        "objective": ObjectiveSettings,
        "objective.current[]": CurrentIsland,
        "assignment": AssignmentSettings,
        "search": SearchSettings,
        "network": NetworkSettings,
        "tiers": TierSettings,
        "tiers.remote": RemoteStore,
        "placement": PlacementSettings,
        "placement.weights": PlacementWeights,
        "placement.tolerations[]": Taint,
        "routing": RoutingSettings,
        "survive": SurvivalSettings,
        "deploy": DeploySettings,
        "changes": ChangePolicy,
        "changes.times": ChangeSettings,
        "changes.limits": ChangeLimits,
    },
    "cluster": {"shapes.SHAPE.numa_nodes[]": NumaNode, "shapes.SHAPE.taints[]": Taint, "pods[]": Pod},
}
"""Whose fields a section's keys become; where readers name no default, theirs counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """One key: its path in the document (`[]` an item of a list, capitals a name of the user's), what it may hold, its
    default (None: there is none to name), whether it must be there, and what it means."""

    path: str
    kind: str
    default: object
    required: bool
    meaning: str


def _no_profile(trace: RequestTrace) -> LengthProfile:
    raise InputError(f"samples.yaml: workload {trace.name}: must hold its lengths, got a trace.", hint="List them.")


READERS: Mapping[str, Callable[[Section], object]] = {
    "scenario": lambda section: scenario_from_section(section, _NOWHERE, _no_profile),
    "cluster": cluster_from_section,
    "gpu": lambda section: gpu_spec_from_section(section, section.name("name")),
    "price": price_from_section,
    "offer": offer_from_section,
    "workload": lambda section: workload_from_document(section, _NOWHERE),
    "calibration": calibration_from_document,
    "jobs": lambda section: jobs_from_section(section, _NOWHERE),
}
DOCUMENTS: Mapping[str, str] = {
    "scenario": "Scenario (`planner plan SCENARIO.yaml`)",
    "cluster": "Cluster (`cluster:` of a scenario, `planner place --cluster`)",
    "gpu": "GPU type (`gpu_specs/NAME.yaml`)",
    "price": "Price of a GPU type (`gpu_specs/prices.yaml`, one under each name)",
    "offer": "Offer of GPUs for rent (`planner cheapest --offer`, `planner buy --offer`)",
    "workload": "Workload (`workloads/NAME.yaml`, `workload:` of a scenario)",
    "measurement": "Measurements (columns of a CSV: `planner cost calibrate`, `cost.profile`)",
    "calibration": "Calibration (`planner cost calibrate --out`, `cost.calibration`)",
    "jobs": "Jobs file (`planner batch JOBS.yaml`)",
}
"""Titles of the documents, in the order of the reference."""


@cache
def key_rows(document: str) -> tuple[KeyRow, ...]:
    """The keys of a document of `DOCUMENTS`, those of a section behind its own key."""
    meanings = _meanings()[document]
    if document == "measurement":
        return tuple(_column(name, meanings) for name in (*REQUIRED, *OPTIONAL))
    return tuple(_row(document, path, reading, meanings) for path, reading in _readings(document).items())


def _readings(document: str) -> dict[str, KeyReading]:
    """By the path under which a key is told."""
    readings: dict[str, KeyReading] = {}
    for path, reading in _in_order(_read(document), ""):
        name = _renamed(document, path)
        if name in readings:
            readings[name].kinds = reading.kinds  # what a figure's value may be stands for its mapping
        elif not _is_elsewhere(document, path):
            readings[name] = reading
    return readings


def _meanings() -> Mapping[str, Mapping[str, str]]:
    meanings: Mapping[str, Mapping[str, str]] = _yaml("meanings.yaml")
    return meanings


def _yaml(name: str) -> Any:
    return yaml.safe_load((_FOLDER / name).read_text(encoding="utf-8"))


def _read(document: str) -> KeyLog:
    """What the reader asked of the samples."""
    log, samples, read = KeyLog(), _yaml("samples.yaml"), READERS[document]
    if document == "gpu":
        samples["gpu"] = [yaml.safe_load((shipped_folder("gpu_specs") / f"{_SAMPLE_GPU}.yaml").read_text("utf-8"))]
    for sample in samples[document]:
        read(RecordingSection(sample, log))
    for sample in samples["cut_short"].get(document, ()):
        with suppress(InputError):
            read(RecordingSection(sample, log))
    return log


def _in_order(log: KeyLog, section: str) -> Iterator[tuple[str, KeyReading]]:
    """Every key of a section, what stands below it right behind it."""
    for key, reading in log.get(section, {}).items():
        path = f"{section}.{key}" if section else key
        yield path, reading
        yield from _in_order(log, path)
        yield from _in_order(log, f"{path}[]")


def _is_elsewhere(document: str, path: str) -> bool:
    pattern = _ELSEWHERE.get(document)
    return pattern is not None and bool(pattern.search(path))


def _renamed(document: str, path: str) -> str:
    for pattern, name in _RENAMED.get(document, ()):
        path = pattern.sub(name, path)
    return path


def _row(document: str, path: str, reading: KeyReading, meanings: Mapping[str, str]) -> KeyRow:
    return KeyRow(
        path=path,
        kind=" or ".join(kind for kind in reading.kinds if kind != "a number" or len(reading.kinds) == 1) or "anything",
        default=_default(document, path, reading),
        required=bool(reading.kinds) and not reading.optional,
        meaning=meanings.get(path, ""),
    )


def _default(document: str, path: str, reading: KeyReading) -> object:
    """The reader's, else that of the field that the key becomes; None where there is none that could be written."""
    default = _record_default(document, path) if reading.default is None else reading.default
    forbidden = default == 0 and any("more than 0" in kind for kind in reading.kinds)  # then 0 stands for nothing
    return None if forbidden else default


def _record_default(document: str, path: str) -> object:
    section, _, key = path.rpartition(".")
    record = _RECORDS.get(document, {}).get(section)
    default = next((field.default for field in fields(record) if field.name == key), None) if record else None
    plain = default.value if isinstance(default, StrEnum) else default
    return plain if isinstance(plain, bool | int | float | str) else None


def _column(name: str, meanings: Mapping[str, str]) -> KeyRow:
    return KeyRow(path=name, kind="a column", default=None, required=name in REQUIRED, meaning=meanings.get(name, ""))
