"""Ages of pods and disruption budgets: in cluster files, and from what kubectl prints."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.domain import Cluster, ClusterNode, DisruptionBudget, NumaNode, Pod
from planner.errors import InputError
from planner.files import cluster_document
from planner.files.cluster.cluster_sections import cluster_from_section
from planner.files.kubernetes.kubectl_lists import KubectlLists, parse_time, read_kubectl
from planner.files.sections import Section

Refused = Callable[..., None]
NODE = ClusterNode(name="n", gpu="", gpus=(), numa_nodes=(NumaNode(id=0, socket=0),), cpus=8.0, memory_gb=64.0, asw="a")


def read_back(cluster: Cluster) -> Cluster:
    document = json.loads(json.dumps(cluster_document(cluster)))
    return cluster_from_section(Section(document, file="c.yaml"))


ages = st.none() | st.floats(0, 1e9)


@given(st.lists(st.tuples(ages, ages, st.sampled_from(["", "web", "batch"])), max_size=5), st.integers(0, 9))
def test_ages_and_budgets_survive_a_file(pods: list[tuple[float | None, float | None, str]], allowed: int) -> None:
    listed = tuple(
        Pod(name=f"p{k}", node="n", age_s=age, checkpoint_age_s=checkpoint, disruption_budget=budget)
        for k, (age, checkpoint, budget) in enumerate(pods)
    )
    budgets = (DisruptionBudget(name="web", allowed=allowed), DisruptionBudget(name="batch", allowed=0))
    cluster = Cluster(name="c", nodes=(NODE,), pods=listed, disruption_budgets=budgets)
    assert read_back(cluster) == cluster


def test_what_has_its_default_is_not_written() -> None:
    document = cluster_document(Cluster(name="c", nodes=(NODE,), pods=(Pod(name="p", node="n"),)))
    assert "disruption_budgets" not in document
    assert document["pods"] == [{"name": "p", "node": "n"}]


@pytest.mark.parametrize(
    ("pod", "budgets", "words"),
    [
        ({"age_s": -1}, [], ("pods[0].age_s", "at least 0")),
        ({"disruption_budget": "web"}, [], ("pod default/p: disruption_budget", "'web'")),
        ({"disruption_budget": "wep"}, [{"name": "web", "allowed": 1}], ("disruption_budgets", "'wep'")),
        ({}, [{"name": "web", "allowed": -1}], ("disruption_budgets[0].allowed", "at least 0")),
        ({}, [{"name": "web"}], ("disruption_budgets[0].allowed", "it is missing")),
        ({}, [{"name": "web", "allowed": 1, "most": 2}], ("disruption_budgets[0].most is not a known key",)),
        ({}, [{"name": "web", "allowed": 1}] * 2, ("disruption_budgets", "listed once", "web")),
    ],
)
def test_what_contradicts_is_refused(
    pod: dict[str, Any], budgets: list[dict[str, Any]], words: tuple[str, ...], refused: Refused
) -> None:
    document = cluster_document(Cluster(name="c", nodes=(NODE,), pods=(Pod(name="p", node="n"),)))
    document["pods"][0].update(pod)
    document["disruption_budgets"] = budgets
    refused(lambda: cluster_from_section(Section(document, file="c.yaml")), *words)


# ---- kubectl


def kube_pod(name: str, started: str | None = None, namespace: str = "ns", **labels: str) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": "Running"} | ({"startTime": started} if started else {})
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"nodeName": "n", "containers": containers},
        "status": status,
    }


def kube_budget(name: str, allowed: int | None, selector: object, namespace: str = "ns") -> dict[str, Any]:
    return {
        "kind": "PodDisruptionBudget",
        "apiVersion": "policy/v1",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": 1} | ({} if selector is None else {"selector": selector}),
        "status": {} if allowed is None else {"disruptionsAllowed": allowed},
    }


def kube_node(heartbeat: str) -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {},
        "status": {
            "capacity": {"cpu": "8", "memory": "64Gi"},
            "allocatable": {"cpu": "8", "memory": "64Gi"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}],
        },
    }


@pytest.fixture
def read(write: Callable[[str, str], Path]) -> Callable[..., KubectlLists]:
    def read_items(*items: dict[str, Any], taken: str = "") -> KubectlLists:
        path = write("list.json", json.dumps({"kind": "List", "items": list(items)}))
        return read_kubectl((path,), parse_time(taken) if taken else None)

    return read_items


def test_ages_are_counted_from_the_latest_time_in_the_list(read: Callable[..., KubectlLists]) -> None:
    items = (
        kube_node("2026-05-04T12:00:00Z"),
        kube_pod("a", "2026-05-04T11:00:00Z"),
        kube_pod("b", "2026-05-04T13:30:00+02:00"),
        kube_pod("c"),
    )
    assert [pod.age_s for pod in read(*items).pods] == [3600.0, 1800.0, None]
    assert [pod.age_s for pod in read(*items).pods] == [3600.0, 1800.0, None]
    assert [pod.age_s for pod in read(*items, taken="2026-05-04T12:30:00Z").pods] == [5400.0, 3600.0, None]


def test_times_that_are_none_are_refused(read: Callable[..., KubectlLists], refused: Refused) -> None:
    for text in ("yesterday", "2026-05-04T11:00:00", "2026-13-04T11:00:00Z"):
        ((_, fault),) = read(kube_pod("a", t := text)).unreadable
        assert all(word in fault.message for word in ("Pod ns/a", "status.startTime", "with its zone", t))
    items = (kube_pod("a", "2026-05-04T11:00:00Z"),)
    refused(lambda: read(*items, taken="2026-05-04T10:00:00Z"), "startTime must not lie after", hint="--taken-at")


def test_pods_count_in_the_budget_that_selects_them(read: Callable[..., KubectlLists]) -> None:
    found = read(
        kube_pod("a", app="web"),
        kube_pod("b", app="db"),
        kube_pod("c", namespace="other", app="web"),
        kube_budget("web", 2, {"matchLabels": {"app": "web"}}),
        kube_budget("fresh", None, {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]}),
        kube_budget("nobody", 5, None),
    )
    assert found.disruption_budgets == (
        DisruptionBudget(name="ns/web", allowed=2),
        DisruptionBudget(name="ns/fresh", allowed=0),
        DisruptionBudget(name="ns/nobody", allowed=5),
    )
    assert [(pod.name, pod.disruption_budget, pod.locked) for pod in found.pods] == [
        ("a", "ns/web", False),
        ("b", "ns/fresh", False),
        ("c", "", False),
    ]
    assert found.notes == ()


def test_a_pod_of_two_budgets_stays(read: Callable[..., KubectlLists]) -> None:
    found = read(
        kube_pod("a", app="web"), kube_budget("all", 1, {}), kube_budget("web", 1, {"matchLabels": {"app": "web"}})
    )
    (pod,) = found.pods
    assert (pod.disruption_budget, pod.locked) == ("", True)
    assert found.notes[0][0] == "pod ns/a"
    assert "several disruption budgets" in found.notes[0][1]


def test_a_budget_allows_no_less_than_nothing(read: Callable[..., KubectlLists], refused: Refused) -> None:
    refused(lambda: read(kube_pod("a"), kube_budget("b", -1, {})), "disruptionsAllowed", "at least 0")


def test_a_bad_time_on_the_command_line_is_input(tmp_path: Path) -> None:
    from planner.runs.cluster_import import ClusterSources, import_cluster

    path = tmp_path / "list.json"
    path.write_text(json.dumps({"kind": "List", "items": [kube_node("2026-05-04T12:00:00Z")]}))
    sources = ClusterSources(kubectl=(path,), levels=(("asw", "rack"),), taken_at="noon")
    with pytest.raises(InputError, match=r"--taken-at: must be a time with its zone.*'noon'"):
        import_cluster(sources)
