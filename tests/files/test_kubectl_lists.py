"""Kubernetes' lists: quantities, what pods ask for, and what of a pod matters for placing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from planner.domain import PodClass
from planner.files.kubernetes.kubectl_lists import KubectlLists, read_kubectl
from planner.files.kubernetes.kubectl_pods import requests
from planner.files.kubernetes.kubernetes_objects import count, quantity, read_objects
from planner.files.kubernetes.node_resource_topologies import read_node_resource_topologies
from planner.files.sections import Section

Refused = Callable[..., None]


def section(**values: object) -> Section:
    return Section(values, file="f")


# values of the Kubernetes documentation on quantities, and of each suffix
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", 0.5), ("100m", 0.1), (2, 2.0), ("2", 2.0), ("64Gi", 64 * 2**30), ("128974848", 1.28974848e8),
        ("129e6", 129e6), ("129M", 129e6), ("128974848000m", 128974848), ("123Mi", 123 * 2**20), ("1k", 1000),
        ("1Ki", 1024), ("1E", 1e18), ("5n", 5e-9), (".5", 0.5), ("1.", 1.0), ("3u", 3e-6), ("1Ti", 2**40), (1.5, 1.5),
    ],
)  # fmt: skip
def test_quantities(text: object, value: float) -> None:
    assert quantity(section(q=text), "q") == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    "text", ["", "1 Gi", "1gi", "Gi", "-1", "1e", "0x10", "1KiB", None, True, "1e999", [], "1e5Gi"]
)
def test_other_texts_are_no_quantities(text: object, refused: Refused) -> None:
    refused(lambda: quantity(section(q=text), "q"), "f: q must be")


@given(st.integers(0, 10**6))
def test_pieces_are_whole(pieces: int) -> None:
    assert count(section(q=f"{pieces}"), "q") == pieces
    assert count(section(q=f"{pieces}000m"), "q") == pieces


def containers(*cpus: str) -> list[dict[str, Any]]:
    return [{"name": f"c{i}", "resources": {"requests": {"cpu": cpu}}} for i, cpu in enumerate(cpus)]


def sidecar(cpu: str) -> dict[str, Any]:
    return containers(cpu)[0] | {"restartPolicy": "Always"}


# the effective requests of the Kubernetes documentation on init and sidecar containers
@pytest.mark.parametrize(
    ("spec", "cpus"),
    [
        ({"containers": containers("1", "500m")}, 1.5),
        ({"containers": containers("1"), "initContainers": containers("4", "3")}, 4.0),
        ({"containers": containers("3"), "initContainers": containers("1")}, 3.0),
        ({"containers": containers("1"), "initContainers": [sidecar("2")]}, 3.0),
        ({"containers": containers("1"), "initContainers": [sidecar("2"), *containers("4")]}, 6.0),
        ({"containers": containers("1"), "initContainers": [*containers("4"), sidecar("2")]}, 4.0),
        ({"containers": containers("1"), "overhead": {"cpu": "250m"}}, 1.25),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2.0),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]}, 1.0),
        ({"containers": [{"name": "c"}]}, 0.0),
        ({"containers": containers("1"), "resources": {"requests": {"cpu": "5"}}}, 5.0),
    ],
)
def test_what_a_pod_asks_for(spec: dict[str, Any], cpus: float) -> None:
    assert requests(section(**spec)).get("cpu", 0.0) == pytest.approx(cpus)


def pod(**changes: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "ns"} | changes.pop("metadata", {})
    status = changes.pop("status", {"phase": "Running"})
    spec = {"nodeName": "n", "containers": containers("1")} | changes
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}


@pytest.fixture
def read(write: Callable[[str, str], Path]) -> Callable[..., KubectlLists]:
    def read_items(*items: dict[str, Any], **options: bool) -> KubectlLists:
        return read_kubectl((write("list.json", json.dumps({"kind": "List", "items": list(items)})),), **options)

    return read_items


def strictly(lists: KubectlLists) -> KubectlLists:
    """The lists, unless something in them cannot be read."""
    for _, fault in lists.unreadable:
        raise fault
    return lists


def annotated(**annotations: str) -> dict[str, Any]:
    return pod(
        metadata={"annotations": {key.replace("__", "/").replace("_", "-"): v for key, v in annotations.items()}}
    )


def test_a_plain_pod_is_online_and_stays(read: Callable[..., KubectlLists]) -> None:
    (found,) = read(pod()).pods
    assert (found.key, found.node, found.cpus, found.kind) == ("ns/p", "n", 1.0, PodClass.ONLINE)
    assert (found.preemptible, found.locked, found.checkpoint_age_s, found.anti_affinity) == (False, False, None, "")


@pytest.mark.parametrize(
    ("labels", "job"),
    [
        (
            {"leaderworkerset.sigs.k8s.io/name": "decode", "leaderworkerset.sigs.k8s.io/group-index": "3"},
            "ns/decode-3",
        ),
        ({"leaderworkerset.sigs.k8s.io/name": "decode"}, ""),
        ({"jobset.sigs.k8s.io/jobset-name": "train", "batch.kubernetes.io/job-name": "train-0"}, "ns/train"),
        ({"job-name": "old"}, "ns/old"),
        ({"app": "web"}, ""),
    ],
)
def test_the_job_of_a_pod(read: Callable[..., KubectlLists], labels: dict[str, str], job: str) -> None:
    """Pods that talk to each other: all of a JobSet, one group of a LeaderWorkerSet."""
    assert read(pod(metadata={"labels": labels})).pods[0].job == job


def test_what_labels_and_annotations_say(read: Callable[..., KubectlLists]) -> None:
    said = pod(
        metadata={
            "labels": {"planner/class": "spot"},
            "annotations": {
                "godel.bytedance.com/can-be-preempted": "true",
                "planner/checkpoint-age-s": "90.5",
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            },
        },
        priority=-5,
        nodeSelector={"b": "2", "a": "1"},
    )
    (found,) = read(said).pods
    assert (found.kind, found.preemptible, found.checkpoint_age_s, found.locked) == (PodClass.SPOT, True, 90.5, True)
    assert (found.priority, found.node_selector) == (-5, (("a", "1"), ("b", "2")))


@pytest.mark.parametrize(
    ("changes", "preemptible"),
    [
        ({"priority": 100, "priorityClassName": "batch"}, True),
        ({"priority": 100}, False),
        ({"priority": 2_000_001_000, "priorityClassName": "system-node-critical"}, False),
        (
            {
                "priorityClassName": "batch",
                "metadata": {"annotations": {"godel.bytedance.com/can-be-preempted": "false"}},
            },
            False,
        ),
    ],
)
def test_who_may_be_preempted(read: Callable[..., KubectlLists], changes: dict[str, Any], preemptible: bool) -> None:
    assert read(pod(**changes)).pods[0].preemptible is preemptible


@pytest.mark.parametrize(
    ("changes", "preemptible"),
    [
        ({}, True),
        ({"priority": 2_000_000_000}, False),
        ({"metadata": {"annotations": {"godel.bytedance.com/can-be-preempted": "false"}}}, False),
        ({"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "agent"}]}}, True),
    ],
)
def test_pods_without_a_class_may_go_where_that_is_said(
    read: Callable[..., KubectlLists], changes: dict[str, Any], preemptible: bool
) -> None:
    """At priority 0, where Kubernetes runs them; pods of a DaemonSet stay for another reason: they are locked."""
    (stays,) = read(pod(**changes)).pods
    (goes,) = read(pod(**changes), preempt_unclassed=True).pods
    assert (stays.preemptible, goes.preemptible) == (False, preemptible)
    assert goes.locked is ("ownerReferences" in changes.get("metadata", {}))


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_pods_that_belong_to_their_node_are_locked(read: Callable[..., KubectlLists], kind: str) -> None:
    assert read(pod(metadata={"ownerReferences": [{"kind": kind, "name": "x"}]})).pods[0].locked


def test_pods_that_are_over_or_waiting_hold_nothing(read: Callable[..., KubectlLists]) -> None:
    lists = read(
        pod(metadata={"name": "a"}, status={"phase": "Succeeded"}),
        pod(metadata={"name": "b"}, status={"phase": "Failed"}),
        pod(metadata={"name": "c"}, nodeName=None, status={"phase": "Pending"}),
        pod(metadata={"name": "d"}, status={"phase": "Pending"}),
    )
    assert [found.name for found in lists.pods] == ["d"]  # bound to its node: it holds its share already
    assert lists.ended == ("ns/a", "ns/b", "ns/c")


def anti(selector: dict[str, Any], key: str = "kubernetes.io/hostname") -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": selector}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@pytest.mark.parametrize(
    ("term", "group"),
    [
        (anti({"matchLabels": {"app": "x"}}), "ns: app In x"),
        (anti({"matchExpressions": [{"key": "app", "operator": "In", "values": ["y", "x"]}]}), "ns: app In x|y"),
        (anti({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), "ns: app Exists"),
        (anti({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}), ""),
        (anti({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}), ""),
        (anti({"matchLabels": {"app": "other"}}), ""),
        (anti({"matchLabels": {"app": "x"}}, "topology.kubernetes.io/zone"), ""),
    ],
)
def test_anti_affinity_groups(read: Callable[..., KubectlLists], term: dict[str, Any], group: str) -> None:
    lists = read(pod(metadata={"labels": {"app": "x"}}, **term))
    assert lists.pods[0].anti_affinity == group
    assert bool(lists.notes) is not bool(group)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (pod(metadata={"labels": {"planner/class": "batch"}}), ("Pod ns/p", "planner/class", "online", "'batch'")),
        (annotated(planner__checkpoint_age_s="old"), ("Pod ns/p", "planner/checkpoint-age-s", "seconds", "'old'")),
        (annotated(planner__checkpoint_age_s="nan"), ("planner/checkpoint-age-s",)),
        (pod(containers=containers("1x")), ("Pod ns/p", "spec.containers[0].resources.requests.cpu", "'1x'")),
        (pod(containers=None), ("Pod ns/p", "spec.containers", "list")),
        (pod(priority="high"), ("Pod ns/p", "spec.priority", "whole number")),
        ({"kind": "Node", "metadata": {"name": "n"}}, ("Node n", "status")),
        ({"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {}}}, ("Node n", "allocatable.cpu")),
        ({"kind": "Service", "metadata": {"name": "n"}}, ("at least one object of kind Node or Pod", "none")),
        ({"kind": "Pod", "metadata": {}}, ("metadata.name",)),
    ],
)
def test_malformed_objects_are_named(
    read: Callable[..., KubectlLists], refused: Refused, item: dict[str, Any], words: tuple[str, ...]
) -> None:
    refused(lambda: strictly(read(item)), "list.json", *words)


def test_what_cannot_be_read_is_told_with_its_node(read: Callable[..., KubectlLists]) -> None:
    """And everything else is read."""
    lists = read(pod(), pod(metadata={"name": "odd"}, nodeName="m", priority="high"))
    assert [found.name for found in lists.pods] == ["p"]
    ((node, fault),) = lists.unreadable
    assert (node, "spec.priority" in fault.message) == ("m", True)


def test_more_allocatable_gpus_than_there_are(read: Callable[..., KubectlLists], refused: Refused) -> None:
    status = {
        "capacity": {"nvidia.com/gpu": "7"},
        "allocatable": {"cpu": "8", "memory": "1Gi", "nvidia.com/gpu": "8"},
    }
    refused(
        lambda: strictly(read({"kind": "Node", "metadata": {"name": "n"}, "status": status})),
        "Node n",
        "allocatable",
        "7",
        "8",
    )


def test_lists_come_in_several_shapes(write: Callable[[str, str], Path]) -> None:
    typed = {"kind": "PodList", "apiVersion": "v1", "items": [{k: v for k, v in pod().items() if k != "kind"}]}
    documents = [pod(metadata={"name": "a"}), pod(metadata={"name": "b"})]
    path = write("pods.yaml", "# kept\n---\n" + "---\n".join(yaml.safe_dump(d) for d in documents))
    assert [found.name for found in read_objects(path, ("Pod",))] == ["a", "b"]
    assert [found.name for found in read_objects(write("l.json", json.dumps(typed)), ("Pod",))] == ["p"]


def test_the_line_of_a_later_document_is_right(write: Callable[[str, str], Path], refused: Refused) -> None:
    path = write("bad.yaml", "kind: Pod\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: [}\n")
    refused(lambda: read_objects(path, ("Pod",)), "bad.yaml: line 5")


def test_an_empty_list_is_refused(write: Callable[[str, str], Path], refused: Refused) -> None:
    refused(lambda: read_objects(write("e.json", '{"kind": "List", "items": []}'), ("Pod",)), "e.json", "none")


def zone(name: str, **resources: object) -> dict[str, Any]:
    listed = [{"name": k, "capacity": v, "allocatable": v, "available": v} for k, v in resources.items()]
    return {"name": name, "type": "Node", "resources": listed}


def topology(zones: list[dict[str, Any]], version: str = "v1alpha2") -> str:
    head = {"apiVersion": f"topology.node.k8s.io/{version}", "kind": "NodeResourceTopology"}
    return yaml.safe_dump(head | {"metadata": {"name": "n-1"}, "zones": zones})


# the example that NodeResourceTopology's own repository publishes: cores and cards, no GPUs, v1alpha1
PUBLISHED = """\
---
apiVersion: topology.node.k8s.io/v1alpha1
kind: NodeResourceTopology
metadata: {name: node1}
topologyPolicies: ["SingleNUMANode"]
zones:
  - {name: node-0, type: Node, resources: [{name: cpu, capacity: 20, allocatable: 15, available: 10}]}
  - name: node-1
    type: Node
    resources:
      - {name: cpu, capacity: 30, allocatable: 25, available: 15}
      - {name: vendor/nic2, capacity: 6, allocatable: 6, available: 6}
"""


def test_the_published_topology_says_nothing_of_gpus(write: Callable[[str, str], Path]) -> None:
    (found,) = read_node_resource_topologies(write("nrt.yaml", PUBLISHED))
    assert (found.node, found.gpu_count, found.cpus, found.memory_gb) == ("node1", None, 40.0, None)
    assert [numa.id for numa in found.numa_nodes] == [0, 1]


def test_a_zone_may_be_without_gpus(write: Callable[[str, str], Path]) -> None:
    path = write("nrt.yaml", topology([zone("node-0", **{"nvidia.com/gpu": 4}), zone("node-1", cpu=8)]))
    (found,) = read_node_resource_topologies(path)
    assert (found.gpu_count, found.gpus_per_numa) == (4, ((0, 4), (1, 0)))


@pytest.mark.parametrize(
    ("zones", "words"),
    [
        ([], ("zones", "at least one zone")),
        ([zone("numa0")], ("zones[0].name", "node-<NUMA id>", "'numa0'")),
        ([zone("node-0"), zone("node-0")], ("zones", "names must differ")),
        ([zone("node-0", cpu="many")], ("zones[0].resources[0].allocatable", "quantity")),
        ([zone("node-0") | {"costs": [{"name": "node-7", "value": 10}]}], ("zones[0].costs[0].name", "node-7")),
        ([zone("node-0") | {"parent": "node-0"}], ("zones[0].parent", "itself")),
        ([zone("node-0") | {"parent": "left"}], ("zones[0].parent", "'left'")),
        ([zone("node-0", **{"nvidia.com/gpu": "1.5"})], ("zones[0].resources[0].capacity", "whole")),
    ],
)
def test_malformed_zones_are_named(
    write: Callable[[str, str], Path], refused: Refused, zones: list[dict[str, Any]], words: tuple[str, ...]
) -> None:
    path = write("nrt.yaml", topology(zones))
    refused(lambda: read_node_resource_topologies(path), "nrt.yaml: NodeResourceTopology n-1", *words)


def test_more_available_than_there_is(write: Callable[[str, str], Path], refused: Refused) -> None:
    listed = zone("node-0", **{"nvidia.com/gpu": 4})
    listed["resources"][0]["available"] = 5
    refused(lambda: read_node_resource_topologies(write("n.yaml", topology([listed]))), "available", "capacity")
