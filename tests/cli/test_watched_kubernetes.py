"""`planner watch --kubernetes`: what a cluster's nodes say, node by node and by GPU type, and plans that follow it."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_server import KINDS, ApiServer, kubeconfig
from command_line import Command
from five_nodes import CLUSTER

import planner as front
from planner import files
from planner.domain import Scenario, Taint
from planner.domain.watching import Cause, Feed, FeedKind
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, InputError
from planner.files.cluster.clusters import write_cluster
from planner.files.plan.watch_folders import load_watch
from planner.runs.live.kubernetes import kubernetes_at
from planner.runs.live.nodes import NodeFeed
from planner.runs.watching.watches import Clock, WatchJob, watch
from planner.workload import summarize

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
SCENARIO = {
    "name": "five-nodes",
    "model": "deepseek-v3",
    "workload": "normal-500-2000",
    "inventory": {"H200": 40},
    "prices_usd_per_gpu_hour": {"H200": 4.0},
    "ranges": {"width": 4096},
}
READY = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}]}


def not_ready(seconds: float, status: str = "False") -> dict[str, Any]:
    since = (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    return {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]}


def node(
    name: str, gpus: int = 8, usable: int | None = None, product: str = "NVIDIA-H200", **status: Any
) -> dict[str, Any]:
    amounts = {"cpu": "96", "memory": "1000Gi", "nvidia.com/gpu": str(gpus)}
    labels = {"nvidia.com/gpu.product": product} if product else {}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts | {"nvidia.com/gpu": str(gpus if usable is None else usable)},
            **(status or READY),
        },
    }


def cordoned(name: str) -> dict[str, Any]:
    return node(name) | {"spec": {"unschedulable": True}}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """The five nodes, ready; a kubeconfig `config` leads there."""
    with ApiServer(kinds=KINDS, now=NOW).serving() as served:
        served.apply(*(node(f"n-{k}") for k in range(5)))
        kubeconfig(Path("config"), served.url)
        yield served


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    path = tmp_path_factory.mktemp("scenario") / "scenario.yaml"
    path.write_text(yaml.safe_dump(SCENARIO))
    return files.load_scenario(path, summarize)


def read(scenario: Scenario, now: datetime = NOW) -> Feed:
    return NodeFeed(kubernetes=kubernetes_at("test", Path("config"))).read(scenario, now.timestamp())


def values(feed: Feed, kind: FeedKind) -> dict[str, float]:
    return {value.name: value.value for value in feed.values if value.kind is kind}


@pytest.mark.parametrize(
    ("changed", "is_lost", "unhealthy", "note"),
    [
        (node("n-0"), False, 0, ""),
        (None, True, 0, "node n-0: gone: lost."),
        (cordoned("n-0"), True, 0, "node n-0: cordoned: lost."),
        (node("n-0", **not_ready(61)), True, 0, "node n-0: not ready: lost."),
        (node("n-0", **not_ready(61, "Unknown")), True, 0, "node n-0: not ready: lost."),
        (node("n-0", **not_ready(59)), False, 0, ""),
        (node("n-0", usable=6), False, 2, ""),
        (node("n-0", gpus=7), False, 1, ""),
        (node("n-0", usable=0), True, 0, "node n-0: without a healthy GPU: lost."),
        (node("n-0", gpus=9), False, 0, ""),
        (node("n-0", product=""), False, 0, ""),  # which GPUs it has the scenario's cluster says
    ],
)
def test_each_node_of_the_scenarios_cluster(
    server: ApiServer, scenario: Scenario, changed: dict[str, Any] | None, is_lost: bool, unhealthy: int, note: str
) -> None:
    server.delete("Node", "n-0")
    server.apply(*[changed] * (changed is not None))
    feed = read(replace(scenario, cluster=CLUSTER))
    assert values(feed, FeedKind.LOST_NODE) == {f"n-{k}": float(is_lost and k == 0) for k in range(5)}
    assert values(feed, FeedKind.LOST) == {"H200": float(unhealthy)}
    assert values(feed, FeedKind.INVENTORY) == {}
    assert feed.notes == ((f"--kubernetes test: {note}",) if note else ())


def test_what_was_out_of_service_before_is_not_lost_anew(server: ApiServer, scenario: Scenario) -> None:
    """Plans never used it: its GPUs were not counted."""
    first = replace(CLUSTER.nodes[0], taints=(Taint(key="node.kubernetes.io/unschedulable"),))
    server.apply(cordoned("n-0"))
    feed = read(replace(scenario, cluster=replace(CLUSTER, nodes=(first, *CLUSTER.nodes[1:]))))
    assert values(feed, FeedKind.LOST_NODE) == {f"n-{k}": 0.0 for k in range(1, 5)}


def test_nodes_that_nobody_can_tell_stay_as_they_were(server: ApiServer, scenario: Scenario) -> None:
    broken, new = node("n-0"), node("n-9")
    broken["status"]["allocatable"]["nvidia.com/gpu"] = "9"
    server.apply(broken, new)
    feed = read(replace(scenario, cluster=CLUSTER))
    assert values(feed, FeedKind.LOST_NODE) == {f"n-{k}": 0.0 for k in range(1, 5)}
    assert [note.removeprefix("--kubernetes test: ") for note in feed.notes] == [
        "node n-0: cannot be read: taken as it was before.",
        "node n-9: not in the scenario's cluster: not counted.",
    ]


def devices(node_name: str, count: int, tainted: int, *, basic: bool) -> dict[str, Any]:
    """GPUs that NVIDIA's driver lists, some with a taint, as v1beta1 and as v1 have them."""
    rows = []
    for k in range(count):
        facts: dict[str, Any] = {"attributes": {"productName": {"string": "NVIDIA H200"}}}
        facts |= {"taints": [{"key": "unhealthy", "effect": "NoExecute"}]} if k < tainted else {}
        rows.append({"name": f"gpu-{k}", **({"basic": facts} if basic else facts)})
    spec = {"driver": "gpu.nvidia.com", "nodeName": node_name, "devices": rows}
    return {"kind": "ResourceSlice", "metadata": {"name": f"{node_name}-gpus"}, "spec": spec}


@pytest.mark.parametrize("basic", [True, False])
def test_devices_that_a_driver_taints_are_lost(server: ApiServer, scenario: Scenario, basic: bool) -> None:
    """Where claims hand GPUs out, and no device plugin counts them."""
    for k in range(5):
        server.apply(node(f"n-{k}", gpus=0, product=""), devices(f"n-{k}", 8, 3 if k == 1 else 0, basic=basic))
    assert values(read(replace(scenario, cluster=CLUSTER)), FeedKind.LOST) == {"H200": 3.0}
    by_type = read(scenario)
    assert (values(by_type, FeedKind.INVENTORY), values(by_type, FeedKind.LOST)) == ({"H200": 40.0}, {"H200": 3.0})


@pytest.mark.parametrize(
    ("nodes", "present", "lost", "note"),
    [
        ([], 40, 0, ""),
        ([None], 32, 0, ""),
        ([cordoned("n-0")], 40, 8, ""),
        ([node("n-0", **not_ready(3600)), node("n-1", usable=5)], 40, 11, ""),
        # eight more than the scenario has: what is lost hides behind them
        ([node("n-9")], 40, 0, "it has more than the scenario's 40"),
        ([node("n-9"), cordoned("n-0"), node("n-1", usable=5)], 40, 3, "it has more than the scenario's 40"),
        ([node("n-9", product="NVIDIA-H20"), None], 32, 0, ""),
        ([node("n-9", product="Tesla-T4"), None], 32, 0, ""),
    ],
)
def test_by_type_where_the_scenario_has_no_cluster(
    server: ApiServer, scenario: Scenario, nodes: list[dict[str, Any] | None], present: int, lost: int, note: str
) -> None:
    """None: node n-4 is gone."""
    for changed in nodes:
        if changed is None:
            server.delete("Node", "n-4")
        else:
            server.apply(changed)
    feed = read(scenario)
    assert values(feed, FeedKind.INVENTORY) == {"H200": present}
    assert values(feed, FeedKind.LOST) == {"H200": lost}
    assert values(feed, FeedKind.LOST_NODE) == {}
    assert len(feed.notes) == bool(note)
    assert note in "".join(feed.notes)


def test_labels_that_are_gone_for_a_while_lose_nothing(server: ApiServer, scenario: Scenario) -> None:
    """A node's GPUs are of no known type while feature discovery restarts."""
    server.apply(node("n-0", product=""))
    feed = read(scenario)
    assert feed.values == ()
    assert "1 nodes with GPUs cannot be told (n-0): taken as before" in feed.notes[0]


def test_another_cluster_is_refused(server: ApiServer, scenario: Scenario) -> None:
    for k in range(5):
        server.delete("Node", f"n-{k}")
    server.apply(node("m-0", product="NVIDIA-H20"))
    with pytest.raises(InputError, match="has none of its 5: is it another cluster"):
        read(replace(scenario, cluster=CLUSTER))
    with pytest.raises(InputError, match="must have nodes with H200, has none"):
        read(scenario)


def test_clocks_that_differ_are_told(server: ApiServer, scenario: Scenario) -> None:
    """How long a node has been away the server's clock says, whatever this machine's does."""
    server.apply(node("n-0", **not_ready(59)))
    for seconds, words in ((61, "behind"), (-61, "ahead of"), (59, "")):
        feed = read(replace(scenario, cluster=CLUSTER), NOW + timedelta(seconds=seconds))
        assert values(feed, FeedKind.LOST_NODE)["n-0"] == 0.0
        told_of = f"its clock is more than a minute {words} this machine's, which dates the observations: set both."
        expected = f"--kubernetes test: {told_of}"
        assert feed.notes == ((expected,) if words else ())


def test_what_may_not_be_listed_is_told(server: ApiServer, scenario: Scenario) -> None:
    server.forbidden = {"resourceslices"}
    assert "resourceslices of resource.k8s.io: could not be listed" in read(scenario).notes[0]
    server.forbidden = {"nodes"}
    with pytest.raises(InputError, match="must be allowed to list nodes"):
        read(scenario)


def watched_scenario() -> None:
    """A scenario with its cluster, and a load."""
    write_cluster(CLUSTER, Path("five.yaml"))
    Path("scenario.yaml").write_text(yaml.safe_dump(SCENARIO | {"cluster": "five.yaml"}))
    Path("load.yaml").write_text("load_rps: 6\n")


def test_a_watch_leaves_a_node_that_is_not_ready(server: ApiServer) -> None:
    """A minute an observation: a node goes after the first; from the eighth on the server lets nobody in, and what it
    said before stands."""
    watched_scenario()
    now, name = [NOW.timestamp()], ""

    def sleep(seconds: float) -> None:
        now[0] += seconds
        server.now = datetime.fromtimestamp(now[0], UTC)

    feed = NodeFeed(kubernetes=kubernetes_at("test", Path("config")))
    job = WatchJob(scenario=Path("scenario.yaml"), feeds=(Path("load.yaml"),), live=(feed,), out=Path("out"), ticks=10)
    steps = []
    for step in watch(job, Clock(now=lambda: now[0], sleep=sleep)):
        steps.append(step)
        if len(steps) == 1:
            assert step.decision.fleet is not None
            name = step.decision.fleet.nodes[0]
            server.apply(node(name, **not_ready(0, "Unknown")))
        server.token = "another" if len(steps) == 7 else server.token
    lost = [step.observation.lost_nodes for step in steps]
    assert lost == [(), *[(name,)] * 9]  # sixty seconds are over at the second, as its clock says
    assert {dict(step.observation.available)["H200"] for step in steps[1:]} == {32}
    (change,) = [step.decision for step in steps if step.decision.cause is Cause.LOST]
    assert change.fleet is not None
    assert name not in change.fleet.nodes
    notes = [note for step in steps for note in step.observation.notes]
    assert [note.partition(": ")[2].partition(",")[0] for note in notes] == [
        f"node {name}: not ready: lost.",
        "must let the credentials in",
    ]
    assert notes[1].endswith("What was read before stands.")


def test_one_look_by_the_command(planner: Command, server: ApiServer) -> None:
    """It goes on by the context's name; where the server lets nobody in at the start, nothing begins."""
    server.now = None
    server.apply(cordoned("n-3"))
    watched_scenario()
    words = ("watch", "scenario.yaml", "--feed", "load.yaml", "--once", "--out", "out")
    live = ("--kubernetes", "test", "--kubeconfig", "config")
    for _ in range(2):
        told = planner(*words, *live)
        assert told.status == EXIT_DONE, told.err
        assert "node n-3: cordoned: lost" in told.err
    _, steps = load_watch(Path("out"))
    assert [step.observation.lost_nodes for step in steps] == [("n-3",)] * 2
    log = Path("out/watch.jsonl").read_text()
    assert "kubernetes test" in log
    assert server.url not in log
    (again,) = front.watch("scenario.yaml", "load.yaml", "anew", ticks=1, kubernetes="test", kubeconfig="config")
    assert again.observation.lost_nodes == ("n-3",)
    server.token = "another"
    refused = planner(*words, *live)
    assert refused.status == EXIT_BAD_INPUT
    assert "got HTTP 401" in refused.err
    assert Path("out/watch.jsonl").read_text() == log


def test_a_history_is_not_of_now(planner: Command, server: ApiServer) -> None:
    Path("scenario.yaml").write_text(yaml.safe_dump(deepcopy(SCENARIO)))
    Path("load.csv").write_text("time,requests_per_s\n0,6\n600,6\n")
    words = ("watch", "scenario.yaml", "--feed", "load.csv", "--simulate", "--out", "out")
    refused = planner(*words, "--kubernetes", "test", "--kubeconfig", "config")
    assert refused.status == EXIT_BAD_INPUT
    assert "kubernetes test: tells what is now, got a simulation" in refused.err
