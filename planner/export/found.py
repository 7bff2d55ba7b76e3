"""What is found in finished manifests: objects, the workloads in them, and faults."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.export.objects.names import MAX_DNS_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong: `where` names file, object and field."""

    where: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.where}: {self.expected}, got {self.got}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object of one file. `api_version` is empty where the file is no Kubernetes object."""

    file: str
    api_version: str
    kind: str
    name: str
    body: Mapping[str, Any]

    @property
    def labels(self) -> Mapping[str, str]:
        """The object's own labels."""
        labels: Mapping[str, str] = self.body.get("metadata", {}).get("labels", {})
        return labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """The object's own annotations."""
        annotations: Mapping[str, str] = self.body.get("metadata", {}).get("annotations", {})
        return annotations

    def fault(self, where: str, expected: str, got: object) -> Fault:
        """A fault in the field `where` (dots between keys and positions)."""
        return Fault(where=f"{self.file}, {self.kind} {self.name}, {where}", expected=expected, got=str(got))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPod:
    """One of the kinds of pod that make a copy of the model: `count` such pods in each copy.

    `path` is the field of its PodSpec, `spec` the PodSpec (or what stands for one: containers with image and limits,
    nodeSelector). `labels`: what a Service can select it by, those that a controller adds included; its `annotations`.
    `arguments` of the engine, in the form that the engine's `read_shape` reads; None where the pod runs no engine.
    `command_path`: the field of the program; then `arguments` are all words that the pod starts with. Empty where an
    operator or a preset starts the engine.
    `answers_at`: port of what stands in front of the engine, None where nothing does. `engine_port`: the port at which
    the target looks for the engine, None where it takes the engine's own.
    """

    path: str
    count: int
    spec: Mapping[str, Any]
    labels: Mapping[str, str]
    arguments: tuple[str, ...] | None = None
    command_path: str = ""
    answers_at: int | None = None
    engine_port: int | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWorkload:
    """One island as an object, or a part of an object, runs it.

    `labels` and `annotations` are the island's (see `pods.labels`, `summary.island_annotations`). `replicas`: copies of
    the model, said by the field `replicas_path`; `size_path` is the field that the pods of a copy come from (for error
    texts). `pods`: the leader first. `more_copies`: the pods of further copies, where copies start differently.
    `endpoints`: host names under which it answers without a Service object of these files, at `endpoint_ports` (empty:
    where its leaders listen).
    `leader_address`, `pod_index`: words that stand for the leader's address and the pod's number in its copy.
    `leader_host`: host name of a copy's leader, `{}` in place of the copy's number; empty where the site names the
    leaders, None where nobody knows their names beforehand.
    `template`: what its pods are made of, so that they are replaced where it changes; the number of copies is none of
    it.
    """

    manifest: Manifest
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    labels_path: str = "metadata.labels"
    annotations_path: str = "metadata.annotations"
    replicas: int
    replicas_path: str
    size_path: str
    pods: tuple[FoundPod, ...]
    more_copies: tuple[tuple[FoundPod, ...], ...] = ()
    endpoints: tuple[str, ...] = ()
    endpoint_ports: tuple[int, ...] = ()
    leader_address: str = ""
    pod_index: str = ""
    leader_host: str | None = None
    template: Mapping[str, Any]

    @property
    def pods_per_copy(self) -> int:
        """Pods of one copy that run the engine."""
        return sum(pod.count for pod in self.pods if pod.arguments is not None)

    @property
    def copies(self) -> tuple[tuple[FoundPod, ...], ...]:
        """The pods of each copy that starts differently, those that there are none of left out."""
        return tuple(tuple(pod for pod in copy if pod.count) for copy in (self.pods, *self.more_copies))


ReadWorkloads = Callable[[Manifest], Iterable[FoundWorkload]]
ParseFile = Callable[[str], Iterable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of object that manifests may hold.

    `schema`: a file of `schemas/`. `workloads` reads the islands that such an object runs (None: it runs none).
    `longest_name`: characters that its name may have; `claims`: kinds whose names it takes too, as its controller makes
    such objects. A file that holds no Kubernetes objects is a kind as well: `files` is the pattern of its name
    (`*.sh`), `parse` turns its text into bodies; then `api_version` is empty.
    `upstream`: pattern of the name of a JSON schema that such files follow, to be found where the user's schemas are.
    `inventory`: such objects tell of the fleet and serve nobody; a folder of nothing else needs no workloads and no
    routing table. `of_node`: the object has the name of a node, which may hold dots.
    `labelled`: people have such objects of their own, so that only those with the planner's label are of the kind.
    """

    kind: str
    schema: str
    api_version: str = ""
    workloads: ReadWorkloads | None = None
    longest_name: int = MAX_DNS_LABEL
    claims: tuple[str, ...] = ()
    files: str = ""
    parse: ParseFile | None = field(default=None)
    upstream: str = ""
    inventory: bool = False
    of_node: bool = False
    labelled: bool = False
