"""Outside judges asked about the files of an export, one function each: how many things it looked at, and what it has
against them.

judge          looks at
kubernetes     core objects and the PodSpecs of all workloads, by the schemas of Kubernetes (kubernetes-validate)
crds           custom objects, by their upstream CRD (llm-d values: by the chart's schema)
cel            the rules of those CRDs (x-kubernetes-validations), as at an object's creation
kustomize      `kubectl kustomize` over all objects together: what it reads, and no object twice
helm           `helm lint` and `helm template` over the llm-d values, and what comes out by CRD and core schemas
shellcheck     launch scripts, jobs, scripts of evictions, scripts in commands
global_router  configurations of Dynamo's GlobalRouter, by its own loader
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import kubernetes_validate
import kubernetes_validate.utils
import yaml
from crd_schema import upstream_crds
from reference_data import reference_names, reference_text

from planner.export import CrdSchemas, read_manifests
from planner.export.checking.crds import given_validator, with_defaults
from planner.export.found import Kind, Manifest
from tools.locations import folder, program

_HERE = Path(__file__).resolve().parent
_CORE = frozenset(
    {"v1", "apps/v1", "autoscaling/v2", "batch/v1", "networking.k8s.io/v1", "policy/v1", "scheduling.k8s.io/v1"}
    | {"rbac.authorization.k8s.io/v1", "resource.k8s.io/v1"}
)
_KUBERNETES = kubernetes_validate.latest_version()
_CHART = _HERE / "chart"
_VALUES = "crds/llm-d-modelservice_values"
_CONFIG = "global-router.json"
_ADDED_BY_SHELLS = "SC1090,SC1091"  # files that are not there to follow
_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How many things a judge looked at, and one line for each that it refuses."""

    count: int
    refused: tuple[str, ...] = ()


Files = Mapping[str, str]
Judge = Callable[[Files], Judged]


@cache
def upstream() -> CrdSchemas:
    """Every upstream schema, read once."""
    return upstream_crds()


_read_once = cache(kubernetes_validate.utils.schema_contents)  # it would read a megabyte for each object


def _sound(files: Files) -> list[tuple[Manifest, Kind | None]]:
    return list(read_manifests(files).sound)


def _objects(files: Files) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every Kubernetes object of the files as it is written, sound or not; file and body."""
    for name, text in files.items():
        if name.endswith(".yaml") and not name.endswith(".values.yaml"):
            for body in yaml.load_all(text, Loader=yaml.CSafeLoader):
                if isinstance(body, dict) and "apiVersion" in body:
                    yield name, body


def kubernetes(files: Files) -> Judged:
    """Core objects, and every pod of every workload."""
    bodies = [(name, body) for name, body in _objects(files) if body["apiVersion"] in _CORE]
    for manifest, kind in _sound(files):
        for workload in kind.workloads(manifest) if kind and kind.workloads and manifest.api_version else ():
            for pod in workload.pods:
                bodies.append((manifest.file, _pod(pod.spec)))
    return Judged(count=len(bodies), refused=tuple(_core_faults(bodies)))


def _core_faults(bodies: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    with patch.object(kubernetes_validate.utils, "schema_contents", _read_once):
        for name, body in bodies:
            try:
                kubernetes_validate.validate(body, _KUBERNETES, strict=True)
            except kubernetes_validate.ValidationError as error:
                yield f"{name}, {body['kind']}: {error.message:.200}"


def crds(files: Files) -> Judged:
    """Custom objects and the chart's values, by the schemas of their projects."""
    with_schema = [m for m, kind in _sound(files) if upstream().schema_of(m, kind) is not None]
    unheard = [
        f"{name}, {body['apiVersion']} {body.get('kind')}: no schema of its project is among the tests' data"
        for name, body in _objects(files)
        if body["apiVersion"] not in _CORE and not upstream().knows(body["apiVersion"], str(body.get("kind")))
    ]
    return Judged(count=len(with_schema), refused=(*map(str, read_manifests(files, upstream()).faults), *unheard))


@cache
def _rules() -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """The schemas with their rules by apiVersion and kind."""
    schemas = {}
    for name in reference_names("crds/*"):
        for crd in yaml.load_all(reference_text(name), Loader=yaml.CSafeLoader):
            if isinstance(crd, dict) and crd.get("kind") == "CustomResourceDefinition":
                spec = crd["spec"]
                for version in spec["versions"]:
                    key = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
                    schemas[key] = version["schema"]["openAPIV3Schema"]
    return schemas


def cel(files: Files) -> Judged:
    """Every rule at every place of an object where one stands; rules about changes are no matter of a creation."""
    asked: list[tuple[str, str, Any]] = []
    for name, body in _objects(files):
        schema = _rules().get((body["apiVersion"], str(body.get("kind"))))
        if schema is not None:
            where = f"{name}, {body['kind']}"
            asked += [(f"{where}{path}", rule, value) for path, rule, value in _at(schema, with_defaults(body, schema))]
    answers = _asked_cel([(rule, value) for _, rule, value in asked])
    refused = (f"{where}: {rule} {answer}" for (where, rule, _), answer in zip(asked, answers, strict=True) if answer)
    return Judged(count=len(asked), refused=tuple(refused))


def _at(schema: Mapping[str, Any], value: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Path, rule and the value that it is about."""
    for row in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" not in row["rule"]:
            yield path, row["rule"], value
    if isinstance(value, dict):
        extra = schema.get("additionalProperties")
        below = extra if isinstance(extra, dict) else {}
        for key, inner in value.items():
            yield from _at(schema.get("properties", {}).get(key, below), inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _at(schema.get("items", {}), inner, f"{path}.{index}")


def _asked_cel(rows: Sequence[tuple[str, Any]]) -> list[str]:
    return _answers("judge_cel.py", "cel", rows) if rows else []


def _answers(judge: str, tool: str, rows: Sequence[Any]) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(_HERE / judge), str(folder(tool))],
        input=json.dumps(rows),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=True,
    )
    answers: list[str] = json.loads(done.stdout)
    return answers


def global_router(files: Files) -> Judged:
    """The configurations in ConfigMaps."""
    configs = [
        (name, body["data"][_CONFIG])
        for name, body in _objects(files)
        if body.get("kind") == "ConfigMap" and _CONFIG in body.get("data", {})
    ]
    answers = _answers("judge_global_router.py", "dynamo", [text for _, text in configs]) if configs else []
    refused = (f"{name}: {answer}" for (name, _), answer in zip(configs, answers, strict=True) if answer)
    return Judged(count=len(configs), refused=tuple(refused))


def kustomize(files: Files) -> Judged:
    """All objects in one kustomization, as `kubectl apply -k` would take them."""
    names = sorted({name for name, _ in _objects(files)})
    if not names:
        return Judged(count=0)
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            Path(scratch, name).write_text(files[name], encoding="utf-8")
        Path(scratch, "kustomization.yaml").write_text(yaml.safe_dump({"resources": names}), encoding="utf-8")
        done = _run(program("kubectl"), "kustomize", scratch)
    count = len(list(_objects(files)))
    if done.returncode:
        return Judged(count=count, refused=(done.stderr.strip()[-300:],))
    built = len(list(_objects({"built.yaml": done.stdout})))
    return Judged(count=count, refused=() if built == count else (f"{built} of {count} objects come out",))


def _run(*words: object) -> "subprocess.CompletedProcess[str]":
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)


def helm(files: Files) -> Judged:
    """Each release's values; see chart/README.md for what the templates are and are not."""
    values = {name: text for name, text in files.items() if name.endswith(".values.yaml")}
    if not values:
        return Judged(count=0)
    refused: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        chart = _chart(Path(scratch))
        for name, text in values.items():
            path = Path(scratch, name)
            path.write_text(text, encoding="utf-8")
            refused += (f"{name}: {fault}" for fault in _release_faults(chart, path))
    return Judged(count=len(values), refused=tuple(refused))


def release_objects(values: str) -> str:
    """What Helm makes of a release's values, as text."""
    with tempfile.TemporaryDirectory() as scratch:
        chart, path = _chart(Path(scratch)), Path(scratch, "values.yaml")
        path.write_text(values, encoding="utf-8")
        return _run(program("helm"), "template", "release", chart, "--values", path).stdout


def _chart(scratch: Path) -> Path:
    """Our templates beside the chart's own schema and default values."""
    chart = scratch / "llm-d-modelservice"
    for path in _CHART.rglob("*"):
        if path.is_file():
            target = chart / path.relative_to(_CHART)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    (chart / "values.schema.json").write_text(reference_text(f"{_VALUES}.schema.json"), encoding="utf-8")
    (chart / "values.yaml").write_text(reference_text(f"{_VALUES}.yaml"), encoding="utf-8")
    return chart


def _release_faults(chart: Path, values: Path) -> Iterator[str]:
    for command in (("lint", "--strict", chart), ("template", "release", chart)):
        done = _run(program("helm"), *command, "--values", values)
        if done.returncode:
            yield f"helm {command[0]}: {(done.stdout + done.stderr).strip()[-600:]}"
            return
    bodies = [body for body in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if body]
    groups = [body for body in bodies if body["kind"] == "LeaderWorkerSet"]
    for body in groups:
        schema = upstream().schemas[body["apiVersion"], body["kind"]]
        for error in given_validator(schema).iter_errors(with_defaults(body, schema)):
            yield f"{body['kind']}, {error.json_path}: {error.message:.200}"
    pods = [_pod(body["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]) for body in groups]
    yield from _core_faults([("rendered", body) for body in (*bodies, *pods) if body["apiVersion"] in _CORE])


def _pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": dict(spec)}


def shellcheck(files: Files) -> Judged:
    """Scripts that are files, and those behind `sh -c` in containers."""
    scripts = [(name, text) for name, text in files.items() if name.endswith((".sh", ".sbatch"))]
    scripts += [(name, f"#!/bin/sh\n{text}\n") for name, text in _scripts_in(files)]
    with tempfile.TemporaryDirectory() as scratch:
        for index, (_, text) in enumerate(scripts):
            Path(scratch, f"{index}.sh").write_text(text, encoding="utf-8")
        paths = sorted(Path(scratch).glob("*.sh"))
        if not paths:
            return Judged(count=0)
        done = _run(program("shellcheck"), "--format=json", f"--exclude={_ADDED_BY_SHELLS}", *paths)
        notes = json.loads(done.stdout)
    refused = (
        f"{scripts[int(Path(note['file']).stem)][0]}, line {note['line']}: SC{note['code']} {note['message']}"
        for note in notes
    )
    return Judged(count=len(scripts), refused=tuple(refused))


def _scripts_in(files: Files) -> list[tuple[str, str]]:
    """File and script of every `sh -c` or `bash -c` in a list of words, each once a file."""
    found: dict[tuple[str, str], None] = {}
    for name, text in files.items():
        if name.endswith(".yaml"):
            for body in yaml.load_all(text, Loader=yaml.CSafeLoader):
                found |= dict.fromkeys((name, script) for script in _behind_c(body))
    return list(found)


def _behind_c(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _behind_c(inner)
    elif isinstance(value, list):
        words = [str(word) for word in value]
        if len(words) > 2 and words[0].rpartition("/")[2] in ("sh", "bash") and words[1] == "-c":
            yield words[2]
        for inner in value:
            yield from _behind_c(inner)


JUDGES: Mapping[str, Judge] = MappingProxyType(
    {
        "kubernetes": kubernetes,
        "crds": crds,
        "cel": cel,
        "kustomize": kustomize,
        "helm": helm,
        "shellcheck": shellcheck,
        "global_router": global_router,
    }
)
TOOLS: Mapping[str, str] = MappingProxyType(
    {"cel": "cel", "kustomize": "kubectl", "helm": "kubectl", "shellcheck": "shellcheck", "global_router": "dynamo"}
)
"""What has to be installed for a judge; the others need nothing."""
