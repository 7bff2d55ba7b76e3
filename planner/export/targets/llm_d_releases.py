"""Values of llm-d-modelservice releases as they are found in files: their workloads, and what is wrong with them."""

from collections.abc import Iterator, Mapping
from typing import Any

from planner.export.found import FoundPod, FoundWorkload, Manifest
from planner.export.objects.documents import whole_number, yaml_documents
from planner.export.seams import Step
from planner.export.targets.lws import INDEX_LABEL, RENDEZVOUS

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


def install_steps(files: Mapping[str, str], /) -> tuple[Step, ...]:
    """Helm takes every release of `releases.yaml`."""
    releases = [release for document in parse_yaml(files["releases.yaml"]) for release in document["releases"]]  # type: ignore[index]
    names = [str(release["name"]) for release in releases]
    return (
        Step(
            title="Engines",
            why=f"Helm must know the chart's repository under the name {CHART}; helmfile installs every release.",
            commands=(f"helm repo list | grep {CHART}", "helmfile --namespace NAMESPACE -f releases.yaml apply"),
            looks=tuple(f"helm status {name} --namespace NAMESPACE" for name in names),
            undo=tuple(f"helm uninstall {name} --namespace NAMESPACE" for name in reversed(names)),
        ),
    )
