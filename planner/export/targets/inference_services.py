"""LLMInferenceServices as they are found in files: their workloads, and what is wrong with them."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from planner.domain import Phase
from planner.export.engines.arguments import flags
from planner.export.found import FoundPod, FoundWorkload, Manifest
from planner.export.objects.names import MAX_WORKLOAD_NAME
from planner.export.objects.pods import ENGINE_LABEL
from planner.export.seams import Entry
from planner.export.summary import part_path, read_part

API_VERSION = "serving.kserve.io/v1alpha2"
KIND = "LLMInferenceService"
LONGEST_NAME = MAX_WORKLOAD_NAME - len("-kserve-mn-prefill")  # what the controller puts behind it for a group's name
NAME_LABEL = "app.kubernetes.io/name"
ROLE_LABEL = "llm-d.ai/role"
# the controller's words; `both` where the object has no prefill (workload_single_node.go)
ROLES = MappingProxyType({Phase.PREFILL: "prefill", Phase.DECODE: "decode", Phase.MIXED: "both"})
COMPONENT_LABELS = {"kserve.io/component": "workload"}  # on pods that answer requests, not on a group's workers
SERVICE_PORT = 8000
ARGUMENTS_VARIABLE = "VLLM_ADDITIONAL_ARGS"
_TEMPLATE = ("labels", "annotations", "parallelism", "template", "worker")  # of a role: what its pods are made of
# The preset's command without its check that the prefill pod is of the object's own pool; KServe expands the templates.
SIDECAR_COMMAND = (
    "/app/pd-sidecar",
    "--port=8000",
    "--vllm-port=8001",
    "--kv-connector=nixlv2",
    "{{ if .GlobalConfig.EnableTLS }}--secure-proxy=true{{else}}--secure-proxy=false{{- end }}",
    "{{ if .GlobalConfig.EnableTLS }}--cert-path=/var/run/kserve/tls{{- end }}",
    "{{ if .GlobalConfig.EnableTLS }}--decoder-use-tls=true{{- end }}",
    "{{ if .GlobalConfig.EnableTLS }}--prefiller-use-tls=true{{- end }}",
)
# What the presets of a group write from `parallelism` and of themselves
PRESET_FLAGS = frozenset(
    {
        "tensor-parallel-size",
        "data-parallel-size",
        "data-parallel-size-local",
        "data-parallel-address",
        "data-parallel-rpc-port",
        "data-parallel-start-rank",
        "enable-expert-parallel",
        "api-server-count",
    }
)


def inference_workloads(manifest: Manifest) -> Iterator[FoundWorkload]:
    """The islands that an object runs: decode is the object's own workload, prefill a part of it; without that part
    the object's own does both."""
    for phase, role, path in _roles(manifest):
        if "template" not in role:
            continue
        yield FoundWorkload(
            manifest=manifest,
            labels=role["labels"] | {ENGINE_LABEL: "vllm"},
            annotations=read_part(manifest.annotations, phase.value),
            labels_path=f"{path}.labels",
            annotations_path=part_path(phase.value),
            replicas=role["replicas"],
            replicas_path=f"{path}.replicas",
            size_path=f"{path}.parallelism.data / dataLocal",
            pods=tuple(_pods(manifest, phase, role, path)),
            template={"model": manifest.body["spec"]["model"], **{key: role[key] for key in _TEMPLATE if key in role}},
        )


def _roles(manifest: Manifest) -> Iterator[tuple[Phase, Mapping[str, Any], str]]:
    spec = manifest.body["spec"]
    if "prefill" in spec:
        yield Phase.PREFILL, spec["prefill"], "spec.prefill"
    yield Phase.DECODE if "prefill" in spec else Phase.MIXED, spec, "spec"


def group_size(degrees: Mapping[str, Any]) -> int:
    """Pods of a group with workers, as KServe counts them; rounded down, as it does."""
    return max(1, int(degrees.get("data", 1)) // int(degrees.get("dataLocal", 1)))


def _pods(manifest: Manifest, phase: Phase, role: Mapping[str, Any], path: str) -> Iterator[FoundPod]:
    answering = {NAME_LABEL: manifest.name, **COMPONENT_LABELS, ROLE_LABEL: ROLES[phase]}
    yield _pod(role, "template", path, 1, answering)
    if "worker" in role:
        yield _pod(role, "worker", path, group_size(role["parallelism"]) - 1, {NAME_LABEL: manifest.name})


def _pod(role: Mapping[str, Any], key: str, path: str, count: int, labels: Mapping[str, str]) -> FoundPod:
    spec = role[key]
    first, *others = spec["containers"]
    ports = [{"containerPort": SERVICE_PORT}]  # of the preset: the sidecar's in decode pods
    return FoundPod(
        path=f"{path}.{key}",
        count=count,
        spec={**spec, "containers": [{**first, "ports": ports}, *others]},
        labels={**role["labels"], **labels},
        answers_at=SERVICE_PORT,
        arguments=(*_preset_arguments(role), *additional_arguments(first)),
    )


def _preset_arguments(role: Mapping[str, Any]) -> tuple[str, ...]:
    """The degrees that the preset of a group writes; a single pod's writes none."""
    if "worker" not in role:
        return ()
    degrees = role["parallelism"]
    return flags(
        ("tensor-parallel-size", degrees.get("tensor", 1)),
        ("data-parallel-size", degrees.get("data", 1)),
        ("data-parallel-size-local", degrees.get("dataLocal", 1)),
        *((("enable-expert-parallel", None),) if degrees.get("expert") else ()),
    )


def picked_entry(entry: Entry, manifests: Sequence[Manifest], /) -> Entry | None:
    """The pool that the controller makes where it starts a picker (its LLMInferenceService controller)."""
    services = [m.name for m in manifests if m.kind == KIND and "router" in m.body["spec"]]
    return replace(entry, pool=f"{services[0]}-inference-pool") if services else None


def additional_arguments(container: Mapping[str, Any]) -> tuple[str, ...]:
    """The flags in the variable; one that says nothing readable where the shell could not read it."""
    values = [row.get("value", "") for row in container.get("env", ()) if row["name"] == ARGUMENTS_VARIABLE]
    try:
        return tuple(word for value in values for word in shlex.split(value))
    except ValueError:  # an open quotation
        return flags(("tensor-parallel-size", "unreadable"))
