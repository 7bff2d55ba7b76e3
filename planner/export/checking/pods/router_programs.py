"""Programs of routers as objects: what they name is there, their Services and budgets select them, images are pinned,
and nobody else's pods answer for them."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from planner.export.checking.pods.containers import pod_faults
from planner.export.checking.pods.ports import container_ports, resolved
from planner.export.checking.references import mount_faults
from planner.export.found import Fault, FoundPod, Manifest
from planner.export.objects.pods import found_pod
from planner.export.objects.programs.fields import is_program, of_router


def program_faults(manifests: Sequence[Manifest]) -> Iterator[Fault]:
    """What is wrong with the objects of a router's programs."""
    programs = [manifest for manifest in manifests if is_program(manifest)]
    there = {(manifest.kind, manifest.name) for manifest in manifests}
    pods = {program.name: found_pod(program.body["spec"]["template"], "spec.template", 1) for program in programs}
    for program in programs:
        yield from pod_faults(program, pods[program.name])
        yield from mount_faults(program, pods[program.name])
        yield from _probe_faults(program, pods[program.name])
        yield from _missing(program, _references(pods[program.name].spec), there)
    for manifest in manifests:
        if not of_router(manifest):
            continue
        if manifest.kind in ("Service", "PodDisruptionBudget"):
            yield from _selection_faults(manifest, pods)
        elif manifest.kind == "RoleBinding":
            subjects = [("ServiceAccount", row["name"]) for row in manifest.body["subjects"]]
            yield from _missing(manifest, [("Role", manifest.body["roleRef"]["name"]), *subjects], there)


def _references(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for volume in spec.get("volumes", ()):
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"]
    if "serviceAccountName" in spec:
        yield "ServiceAccount", spec["serviceAccountName"]


def _missing(
    manifest: Manifest, names: Iterable[tuple[str, str]], there: Container[tuple[str, str]]
) -> Iterator[Fault]:
    for kind, name in names:
        if (kind, name) not in there:
            yield manifest.fault(f"{kind} {name}", "must be among these files", "none")


def _probe_faults(program: Manifest, pod: FoundPod) -> Iterator[Fault]:
    ports = container_ports(pod)
    for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
        port = pod.spec["containers"][0].get(probe, {}).get("httpGet", {}).get("port")
        if port is not None and resolved(port, pod) not in ports.values():
            where = f"{pod.path}.containers.0.{probe}.httpGet.port"
            yield program.fault(where, "must be a port of the container", port)


def _selection_faults(manifest: Manifest, pods: Mapping[str, FoundPod]) -> Iterator[Fault]:
    selector = manifest.body["spec"]["selector"]
    labels = selector if manifest.kind == "Service" else selector["matchLabels"]
    selected = [pod for pod in pods.values() if labels.items() <= pod.labels.items()]
    if len(selected) != 1:
        yield manifest.fault("spec.selector", "must select the pods of one program of the router", len(selected))
        return
    ports = container_ports(selected[0])
    for index, port in enumerate(manifest.body["spec"].get("ports", ())):
        target = port.get("targetPort", port["port"])
        if resolved(target, selected[0]) not in ports.values():
            yield manifest.fault(f"spec.ports.{index}.targetPort", "must be a port of the pods", target)
