"""Values of llm-d-modelservice releases as they are found in files: their workloads, and what is wrong with them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import DeployedPlan, Phase
from planner.export.found import Fault, FoundPod, FoundWorkload, Manifest
from planner.export.objects.documents import whole_number, yaml_documents
from planner.export.objects.names import MAX_WORKLOAD_NAME
from planner.export.objects.pods import GPU_RESOURCES
from planner.export.options import image_is_pinned
from planner.export.targets.lws import INDEX_LABEL, RENDEZVOUS
from planner.export.targets.pairs import templates_in

CHART = "llm-d-modelservice"
CHART_VERSION = "v0.4.12"
VALUES_KIND = "release values"
RELEASES_KIND = "release list"
RELEASE_LABEL = "planner/release"
ROLE_LABEL = "llm-d.ai/role"
SERVICE_PORT = 8000
# $1: how many words the leader's command has; then those words, then the workers'. Nothing is written into the script.
GROUP_SCRIPT = (
    'n=$1; shift; if [ "$LWS_WORKER_INDEX" != 0 ]; then shift "$n"; exec "$@"; fi; '
    'all=$#; i=0; while [ "$i" -lt "$n" ]; do set -- "$@" "$1"; shift; i=$((i + 1)); done; '
    'shift "$((all - n))"; exec "$@"'
)
GROUP_COMMAND = ("sh", "-c", GROUP_SCRIPT, "group")
_ROLES = ("prefill", "decode")
_LONGEST_NAME = MAX_WORKLOAD_NAME - len("-prefill")  # the chart names the group NAME-prefill


def parse_yaml(text: str) -> Iterator[object]:
    """The documents of a file that holds no Kubernetes objects."""
    yield from yaml_documents(text)


def release_workloads(manifest: Manifest) -> Iterator[FoundWorkload]:
    """The islands that a release runs."""
    for role in _ROLES:
        block = manifest.body[role]
        if block["create"] and "containers" in block:
            yield FoundWorkload(
                manifest=manifest,
                labels=block["annotations"],
                annotations=block["annotations"],
                labels_path=f"{role}.annotations",
                annotations_path=f"{role}.annotations",
                replicas=block["replicas"],
                replicas_path=f"{role}.replicas",
                size_path=f"{role}.parallelism.workers",
                pods=tuple(_pods(manifest.body, role, block)),
                leader_address=RENDEZVOUS.leader_address,
                pod_index=RENDEZVOUS.pod_index,
                template=_template(manifest.body, block),
            )


def _template(values: Mapping[str, Any], block: Mapping[str, Any]) -> dict[str, Any]:
    """What the chart makes the role's pods of: the role but its copies and its object's annotations, and what both
    roles share."""
    shared = {key: value for key, value in values.items() if key not in _ROLES}
    return {**shared, **{key: value for key, value in block.items() if key not in ("replicas", "annotations")}}


def _pods(values: Mapping[str, Any], role: str, block: Mapping[str, Any]) -> Iterator[FoundPod]:
    labels = {**values["modelArtifacts"]["labels"], ROLE_LABEL: role}
    first = {**labels, INDEX_LABEL: "0"} if values["multinode"] else labels
    workers, container = block["parallelism"]["workers"], block["containers"][0]
    command, words = tuple(container["command"]), tuple(container.get("args", ()))
    grouped = command[:3] == GROUP_COMMAND[:3]
    leader, worker = _split(words) if grouped else (command + words, command + words)
    routing = values["routing"]
    spec = _pod_spec(block, routing["servicePort"])
    for count, pod_labels, arguments in ((1, first, leader), (workers - 1, labels, worker)):
        if count:
            yield FoundPod(
                path=role,
                count=count,
                spec=spec,
                labels=pod_labels,
                arguments=arguments,
                arguments_path=f"{role}.containers.0.args",
                command_path=f"{role}.containers.0.{'args' if grouped else 'command'}",
                answers_at=routing["servicePort"],
                engine_port=routing["proxy"]["targetPort"]
                if role == "decode" and routing["proxy"]["enabled"]
                else routing["servicePort"],
            )


def _split(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The leader's words and the workers', as `GROUP_SCRIPT` tells them apart."""
    count = whole_number(words[0]) if words else 0
    return words[1 : 1 + count], words[1 + count :]


def _pod_spec(block: Mapping[str, Any], service_port: int) -> dict[str, Any]:
    """What the chart makes a PodSpec of; the sidecar's port is a port of the pod too."""
    first, *others = block["containers"]
    ports = list(first.get("ports", ()))
    if service_port not in {port["containerPort"] for port in ports}:
        ports.append({"containerPort": service_port})
    first = {**first, "ports": ports}
    return {**block, "containers": [first, *others]}


def release_faults(manifests: Sequence[Manifest], plan: DeployedPlan | None) -> Iterator[Fault]:  # noqa: ARG001  # the seam's
    """What the chart would turn into something else than the plan's islands."""
    values = [manifest for manifest in manifests if manifest.kind == VALUES_KIND]
    for release in values:
        yield from _values_faults(release)
        for role in _ROLES:
            yield from _role_faults(release, role)
    for listing in (release for release in manifests if release.kind == RELEASES_KIND):
        yield from _listing_faults(listing, {release.file: release for release in values})


def _values_faults(manifest: Manifest) -> Iterator[Fault]:
    for path, text in templates_in(manifest.body):
        yield manifest.fault(path, "must not hold {{, which Helm expands", repr(text))
    traced = manifest.body.get("tracing", {}).get("enabled", False)
    proxy = manifest.body["routing"]["proxy"]
    if manifest.body["multinode"] and manifest.body["decode"]["create"] and proxy["enabled"] and not traced:
        rule = (
            f"must be true beside multinode: else chart {CHART_VERSION} gives the decode sidecar an env without entries"
        )
        yield manifest.fault("tracing.enabled", rule, "false")
    name = manifest.body["fullnameOverride"]
    if proxy["enabled"] and proxy["targetPort"] == manifest.body["routing"]["servicePort"]:
        rule = "must be another than routing.servicePort, where the sidecar listens"
        yield manifest.fault("routing.proxy.targetPort", rule, manifest.body["routing"]["servicePort"])
    if len(name) > _LONGEST_NAME:
        yield manifest.fault("fullnameOverride", f"must have at most {_LONGEST_NAME} characters", name)
    if proxy["enabled"] and not image_is_pinned(proxy["image"]):
        yield manifest.fault("routing.proxy.image", "must name a fixed version", proxy["image"])


def _role_faults(manifest: Manifest, role: str) -> Iterator[Fault]:
    block = manifest.body[role]
    if not block["create"]:
        if block["replicas"]:
            yield manifest.fault(f"{role}.replicas", "must be 0 where create is false", block["replicas"])
        return
    if "containers" not in block or "parallelism" not in block:
        yield manifest.fault(f"{role}.create", "must be false without containers and parallelism", "true")
        return
    degrees = block["parallelism"]
    limits = block["containers"][0]["resources"]["limits"]
    gpus = sum(whole_number(limits.get(name, 0)) for name in GPU_RESOURCES.values())
    if degrees["tensor"] * degrees["dataLocal"] != gpus:
        got = f"{degrees['tensor']} x {degrees['dataLocal']}"
        yield manifest.fault(f"{role}.parallelism", f"tensor x dataLocal must be the {gpus} GPUs of a pod", got)
    if degrees["dataLocal"] * degrees["workers"] != degrees["data"]:
        got = f"{degrees['dataLocal']} x {degrees['workers']}"
        yield manifest.fault(f"{role}.parallelism", f"dataLocal x workers must be data, {degrees['data']}", got)
    if degrees["workers"] > 1 and not manifest.body["multinode"]:
        yield manifest.fault("multinode", f"must be true where {role} has several workers", "false")
    proxied = manifest.body["routing"]["proxy"]["enabled"]
    phase = Phase.DECODE if proxied else Phase.MIXED  # without a sidecar nobody fetches the cache of a prefill
    wanted = phase.value if role == "decode" else role
    if block["annotations"].get("planner/phase") != wanted:
        yield manifest.fault(
            f"{role}.annotations.planner/phase", f"must be {wanted}", block["annotations"].get("planner/phase")
        )


def _listing_faults(listing: Manifest, values: Mapping[str, Manifest]) -> Iterator[Fault]:
    missing = set(values)
    names: set[str] = set()
    for index, release in enumerate(listing.body["releases"]):
        if release["name"] in names:
            yield listing.fault(f"releases.{index}.name", "must be unique", release["name"])
        names.add(release["name"])
        file = release["values"][0]
        if file not in missing:
            yield listing.fault(f"releases.{index}.values.0", "must name a values file, each once", file)
            continue
        missing.discard(file)
        override = values[file].body["fullnameOverride"]
        if override != release["name"]:
            yield listing.fault(f"releases.{index}.name", f"must be the fullnameOverride {override}", release["name"])
    for file in sorted(missing):
        yield listing.fault("releases", "must list every values file", f"no {file}")
