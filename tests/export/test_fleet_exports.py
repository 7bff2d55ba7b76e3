"""A fleet's exports: names apart, routes by model as HAProxy takes them, and quotas that are the inventory."""

import json
import os
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from typing import Any

import pytest
from crd_schema import upstream_crds
from quick_yaml import load_documents
from routers_run.programs_run import program_words
from sharing_fleets import sharing_fleet

from planner import export
from planner.domain.fleets import FleetPlan
from planner.errors import ExportError, InputError
from planner.export import Entry, front_config, read_manifests, service_routes
from planner.runs.deployments import SHARED, RenderedFleet, render_fleet, render_plan
from planner.runs.rehearsal.rehearsing import rehearse
from planner.runs.rehearsal.settings import RehearsalSettings

TARGETS = ("lws", "kubernetes", "llm-d", "kserve", "dynamo")
QWEN, GPT = "Qwen/Qwen3-30B-A3B-FP8", "openai/gpt-oss-20b"
_ADDRESS = re.compile(r' "?[a-z0-9.-]+(?:\.\$\{NAMESPACE\}[a-z.]+)?:(\d+)"? (weight|check)')


@cache
def rendered(target: str) -> RenderedFleet:
    """Of the small fleet; with queues where the target has them."""
    return render_fleet(sharing_fleet(), target=target, queues=target != "dynamo")


def objects(target: str, kind: str) -> list[dict[str, Any]]:
    """The shared objects of one kind."""
    return [d for text in rendered(target).shared.values() for d in load_documents(text) if d["kind"] == kind]


@pytest.mark.parametrize("target", TARGETS)
def test_every_object_is_sound_and_has_a_name_of_its_own(target: str) -> None:
    crds = upstream_crds()
    manifests = read_manifests(rendered(target).manifests, crds)
    assert (manifests.faults, manifests.foreign) == ((), ())
    names = Counter((m.kind, m.name) for m, _ in manifests.sound if m.api_version)
    assert max(names.values()) == 1
    assert {"code", "chat-and-agents", "nightly", SHARED} == {path.split("/")[0] for path in rendered(target).folder}


def test_a_deployments_folder_is_its_own_export_but_for_its_class_and_queue() -> None:
    for part in sharing_fleet().parts:
        alone = render_plan(part.plan, target="lws").files
        together = rendered("lws").deployments[part.name].files
        assert together.keys() == alone.keys()
        cleaned = {
            name: re.sub(r"(?m)^ *(kueue.x-k8s.io/queue-name|priorityClassName): .*\n", "", text)
            for name, text in together.items()
        }
        assert cleaned == alone


def test_two_deployments_with_one_name_are_refused() -> None:
    fleet = sharing_fleet()
    code, other = fleet.parts
    scenario = replace(other.deployment.scenario, name="code")
    plan = replace(other.plan, scenario=replace(other.plan.scenario, name="code"))
    twin = replace(other, deployment=replace(other.deployment, scenario=scenario), plan=plan)
    with pytest.raises(InputError, match="Deployment code: must differ in letters or digits from code"):
        render_fleet(replace(fleet, parts=(code, twin), batches=()), target="lws")
    beside = replace(fleet, parts=(code,), batches=(), fleet=replace(fleet.fleet, name="code"))
    files = render_fleet(beside, target="lws").manifests
    with pytest.raises(ExportError, match="must be unique, got code-front"):
        export.check_together({**files, "other.yaml": files[f"{SHARED}/front.yaml"]})


def test_names_and_volumes_of_all_services_are_told_apart() -> None:
    fleet = sharing_fleet()
    parts = []
    for part in fleet.parts:
        deploy = replace(part.plan.scenario.deploy, name="ours", model_volume="weights")
        plan = replace(part.plan, scenario=replace(part.plan.scenario, deploy=deploy))
        parts.append(replace(part, plan=plan))
    files = render_fleet(replace(fleet, parts=tuple(parts), batches=()), target="lws").manifests
    claims = [m.name for m, _ in read_manifests(files).sound if m.kind == "PersistentVolumeClaim"]
    assert claims == ["weights-code", "weights-chat-and-agents"]


def test_quotas_sum_to_the_inventory_and_only_what_waits_borrows() -> None:
    quotas, borrowing = Counter[str](), set()
    for queue in objects("lws", "ClusterQueue"):
        assert queue["spec"]["cohortName"] == "small-fleet"
        (group,) = queue["spec"]["resourceGroups"]
        rows = {f["name"]: {r["name"]: r for r in f["resources"]} for f in group["flavors"]}
        for flavor, resources in rows.items():
            quotas[flavor] += resources["nvidia.com/gpu"]["nominalQuota"]
        if not any("borrowingLimit" in r for resources in rows.values() for r in resources.values()):
            borrowing.add((queue["metadata"]["name"], queue["spec"]["preemption"]["reclaimWithinCohort"], len(rows)))
    assert quotas == {"small-fleet-h200": 16, "small-fleet-h20": 16}
    assert borrowing == {("small-fleet-nightly", "Never", 2)}
    names = {part.name for part in sharing_fleet().plans}
    assert {q["metadata"]["name"] for q in objects("lws", "LocalQueue")} == {f"small-fleet-{name}" for name in names}


def test_gpus_that_nobody_has_are_lent() -> None:
    fleet = replace(sharing_fleet(), batches=())
    shared = render_fleet(fleet, target="lws", queues=True).shared
    assert dict(fleet.idle) == {"H200": 16}
    (spare,) = [d for d in load_documents(shared["queues.yaml"]) if d["metadata"]["name"] == "small-fleet-nobodys"]
    assert spare["kind"] == "ClusterQueue"  # and no LocalQueue, so that nothing is admitted there
    assert "16" in json.dumps(spare["spec"]["resourceGroups"])


def test_workloads_name_their_queue_and_class() -> None:
    values = {c["metadata"]["name"]: c["value"] for c in objects("lws", "PriorityClass")}
    assert values == {"small-fleet-batch": 0, "small-fleet-priority-1": 100_000, "small-fleet-priority-3": 98_000}
    for name, place in (("nightly", "batch"), ("chat-and-agents", "priority-1"), ("code", "priority-3")):
        texts = rendered("lws").deployments[name].files
        sets = [d for t in texts.values() for d in load_documents(t) if d.get("kind") == "LeaderWorkerSet"]
        for workload in sets:
            assert workload["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == f"small-fleet-{name}"
            spec = workload["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
            assert spec["priorityClassName"] == f"small-fleet-{place}"


@pytest.mark.parametrize("target", ["lws", "kubernetes", "dynamo"])
def test_haproxy_takes_every_front(target: str, tmp_path: Path) -> None:
    (config,) = [d["data"]["haproxy.cfg"] for d in objects(target, "ConfigMap")]
    path = tmp_path / "haproxy.cfg"
    path.write_text(_ADDRESS.sub(r" 127.0.0.1:\1 \2", config))
    environment = os.environ | {"NAMESPACE": "default"}
    words = [*program_words("haproxy"), "-c", "-f", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr


def test_a_gateway_has_a_route_a_service_with_weights() -> None:
    routes = objects("llm-d", "HTTPRoute")
    backends = [route["spec"]["rules"][0]["backendRefs"] for route in routes]
    assert [[b["name"] for b in row] for row in backends] == [
        ["chat-and-agents-router"],
        ["chat-and-agents-router"],
        ["code-router"],
        ["nightly-router"],
    ]
    matches = [route["spec"]["rules"][0]["matches"] for route in routes]
    assert matches[0][1]["headers"] == [{"type": "Exact", "name": "X-Gateway-Model-Name", "value": QWEN}]
    assert len(matches[3]) == 1  # work that waits has a service's model, and has to say whose it is


class _Toy(BaseHTTPRequestHandler):
    """An engine that tells its name."""

    def do_GET(self) -> None:
        self._tell()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._tell()

    def _tell(self) -> None:
        body = str(getattr(self.server, "toy_name", "")).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def toys(names: list[str]) -> Iterator[dict[str, int]]:
    """Toy engines by name, on ports of the loopback."""
    servers = {name: ThreadingHTTPServer(("127.0.0.1", 0), _Toy) for name in names}
    for name, server in servers.items():
        server.toy_name = name  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {name: server.server_address[1] for name, server in servers.items()}
    finally:
        for server in servers.values():
            server.shutdown()
            server.server_close()


@contextmanager
def front(fleet: FleetPlan, ports: dict[str, int], folder: Path) -> Iterator[str]:
    """The fleet's real front on the loopback: its URL."""
    known_as = {part.name: GPT if part.name in ("code", "nightly") else QWEN for part in fleet.plans}
    entries = {
        name: Entry(deployment=name, model=known_as[name], host="127.0.0.1", port=port) for name, port in ports.items()
    }
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = front_config(fleet, service_routes(fleet, entries), cluster=False)
    path = folder / "haproxy.cfg"
    path.write_text(text.replace("bind :8080", f"bind 127.0.0.1:{port}").replace("maxconn 20000", "maxconn 200"))
    process = subprocess.Popen([*program_words("haproxy"), "-db", "-f", str(path)], stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        _await(url)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=10)


def _await(url: str) -> None:
    for _ in range(100):
        try:
            urllib.request.urlopen(f"{url}/health", timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the front does not answer")


def ask(url: str, document: object, **headers: str) -> tuple[int, str]:
    """Status and text of the answer."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    shown = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    request = urllib.request.Request(f"{url}/v1/completions", data=data, headers=shown)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_requests_find_their_deployment_by_the_model_they_name(tmp_path: Path) -> None:
    fleet = sharing_fleet()
    with toys(["code", "chat-and-agents", "nightly"]) as ports, front(fleet, ports, tmp_path) as url:
        long = "prompt " * 100_000
        assert ask(url, {"model": QWEN, "prompt": "a"}) == (200, "chat-and-agents")
        assert ask(url, {"prompt": long, "model": QWEN}) == (200, "chat-and-agents")  # a model behind 700 kB
        assert ask(url, {"model": QWEN}, x_service="agents") == (200, "chat-and-agents")
        assert ask(url, {"model": GPT}) == (200, "code")
        assert ask(url, {"model": GPT}, x_service="nightly") == (200, "nightly")
        refused = [
            ask(url, {"model": "gpt-4"}),
            ask(url, {"prompt": "a"}),
            ask(url, {"model": QWEN}, x_service="code"),
            ask(url, {"model": f"{QWEN}x"}),
            ask(url, b"no json"),
            ask(url, {"model": 7}),
        ]
        assert {status for status, _ in refused} == {404}
        assert all(json.loads(text)["error"]["code"] == 404 for _, text in refused)
        assert ask(url, {"model": QWEN, "prompt": 4 * long})[0] == 413
        with urllib.request.urlopen(f"{url}/v1/models", timeout=5) as answer:
            assert [row["id"] for row in json.load(answer)["data"]] == [QWEN, GPT]


def test_a_service_with_two_deployments_is_split_by_what_they_promise(tmp_path: Path) -> None:
    fleet = sharing_fleet()
    shared = next(part for part in fleet.parts if part.name == "chat-and-agents")
    scenario = replace(shared.deployment.scenario, name="chat")
    promised = 3 * shared.plan.throughput_rps * dict(shared.deployment.parts)["chat"]
    alone = replace(
        shared,
        deployment=replace(shared.deployment, scenario=scenario, parts=(("chat", 1.0),)),
        plan=replace(shared.plan, throughput_rps=promised),
    )
    split = replace(fleet, parts=(shared, alone), batches=())
    with toys(["chat-and-agents", "chat"]) as ports, front(split, ports, tmp_path) as url:
        answers = Counter(ask(url, {"model": QWEN}, x_service="chat")[1] for _ in range(160))
        assert abs(answers["chat"] - 120) <= 2  # weights are whole numbers
        assert answers.total() == 160
        assert ask(url, {"model": QWEN}, x_service="agents") == (200, "chat-and-agents")
        assert ask(url, {"model": QWEN})[0] == 404  # whose it is decides who may serve it


def test_a_deployment_is_rehearsed_behind_the_fleets_front(tmp_path: Path) -> None:
    fleet = sharing_fleet()
    part = next(part for part in fleet.parts if part.name == "code")
    settings = RehearsalSettings(
        rate_rps=part.promise_rps, requests=60, slower=1.0, programs={"haproxy": program_words("haproxy")}
    )
    with ExitStack() as stack:

        def through(url: str) -> str:
            port = int(url.rpartition(":")[2])
            return stack.enter_context(front(replace(fleet, parts=(part,), batches=()), {"code": port}, tmp_path))

        rehearsal = rehearse(part.plan, part.plan.scenario.workload, settings, through=through)
    assert rehearsal.failures == ()
    assert rehearsal.rehearsed.total.within_levels.mean > 0.9


def test_dynamo_with_queues_is_refused() -> None:
    with pytest.raises(ExportError, match="Kueue does not admit DynamoGraphDeployments"):
        render_fleet(sharing_fleet(), target="dynamo", queues=True)


def test_deployments_without_a_router_are_refused() -> None:
    with pytest.raises(ExportError, match="must have a router"):
        render_fleet(sharing_fleet(), target="lws", router=export.NO_ROUTER)
