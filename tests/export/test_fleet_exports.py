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

from planner import export, files
from planner.domain.fleets import FleetPlan
from planner.errors import ExportError, InputError
from planner.export import Entry, front_config, read_manifests, service_routes
from planner.files import load_engine
from planner.runs import exports
from planner.runs.deployments import SHARED, RenderedFleet, render_fleet, render_plan
from planner.runs.rehearsal.rehearsing import rehearse
from planner.runs.rehearsal.settings import RehearsalSettings

NAMES = {"chat": "chat-and-agents", "agents": "chat-and-agents", "code": "code", "nightly": "nightly"}
TARGETS = ("lws", "kubernetes", "llm-d", "kserve", "dynamo")
QWEN, GPT = "Qwen/Qwen3-30B-A3B-FP8", "openai/gpt-oss-20b"
_SHARED_LINES = re.compile(
    r"(?m)^ *(?:(kueue.x-k8s.io/queue-name|priorityClassName): .*|- --served-model-name\n(?: *- [A-Za-z].*\n?)*)\n"
)
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


def test_a_deployments_folder_is_its_own_export_but_for_its_names_class_and_queue() -> None:
    for part in sharing_fleet().parts:
        alone = render_plan(part.plan, target="lws").files
        together = rendered("lws").deployments[part.name].files
        assert together.keys() == alone.keys()
        cleaned = {name: _SHARED_LINES.sub("", text) for name, text in together.items()}
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
    matches = [[m["headers"] for m in route["spec"]["rules"][0]["matches"]] for route in routes]
    named = [[headers[0]["value"] for headers in row if len(headers) == 1] for row in matches]
    assert named == [["chat", QWEN], ["agents", QWEN], ["code", GPT], ["nightly"]]  # what waits has another's model
    assert matches[3][0] == [
        {"type": "Exact", "name": "X-Gateway-Model-Name", "value": GPT},
        {"type": "Exact", "name": "x-service", "value": "nightly"},
    ]


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
def front(fleet: FleetPlan, ports: dict[str, int], folder: Path, *, named: bool = True) -> Iterator[str]:
    """The fleet's real front on the loopback: its URL. `named`: engines answer to the names of services."""
    entries = {
        part.name: Entry(
            deployment=part.name,
            model=part.plan.scenario.model.uri.removeprefix("hf://"),
            names=tuple(name for name, _ in part.deployment.parts) if named else (),
            host="127.0.0.1",
            port=ports[part.name],
        )
        for part in fleet.plans
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
        for name, deployment in NAMES.items():
            assert ask(url, {"model": name}) == ask(url, {"model": name}, x_service=name) == (200, deployment)
        assert ask(url, {"model": GPT}, x_service="nightly") == (200, "nightly")
        refused = [
            ask(url, {"model": "gpt-4"}),
            ask(url, {"prompt": "a"}),
            ask(url, {"model": QWEN}, x_service="code"),
            ask(url, {"model": "chat"}, x_service="agents"),
            ask(url, {"model": "Chat"}),
            ask(url, {"model": f"{QWEN}x"}),
            ask(url, b"no json"),
            ask(url, {"model": 7}),
        ]
        assert {status for status, _ in refused} == {404}
        assert all(json.loads(text)["error"]["code"] == 404 for _, text in refused)
        assert ask(url, {"model": QWEN, "prompt": 4 * long})[0] == 413
        with urllib.request.urlopen(f"{url}/v1/models", timeout=5) as answer:
            assert [row["id"] for row in json.load(answer)["data"]] == [QWEN, *sorted(NAMES), GPT]


def test_engines_with_one_name_are_told_apart_by_the_header(tmp_path: Path) -> None:
    fleet = sharing_fleet()
    with toys(["code", "chat-and-agents", "nightly"]) as ports, front(fleet, ports, tmp_path, named=False) as url:
        assert ask(url, {"model": GPT}) == (200, "code")
        assert ask(url, {"model": GPT}, x_service="nightly") == (200, "nightly")
        assert ask(url, {"model": "nightly"})[0] == ask(url, {"model": "nightly"}, x_service="nightly")[0] == 404


def split_fleet() -> FleetPlan:
    """Chat has pools of its own, that promise it three times what those that it shares with agents do."""
    fleet = sharing_fleet()
    shared = next(part for part in fleet.parts if part.name == "chat-and-agents")
    scenario = replace(shared.deployment.scenario, name="chat")
    promised = 3 * shared.plan.throughput_rps * dict(shared.deployment.parts)["chat"]
    alone = replace(
        shared,
        deployment=replace(shared.deployment, scenario=scenario, parts=(("chat", 1.0),)),
        plan=replace(shared.plan, throughput_rps=promised),
    )
    return replace(fleet, parts=(shared, alone), batches=())


def test_a_service_with_two_deployments_is_split_by_what_they_promise(tmp_path: Path) -> None:
    with toys(["chat-and-agents", "chat"]) as ports, front(split_fleet(), ports, tmp_path) as url:
        for document, header in (({"model": "chat"}, {}), ({"model": QWEN}, {"x_service": "chat"})):
            answers = Counter(ask(url, document, **header)[1] for _ in range(160))
            assert abs(answers["chat"] - 120) <= 2  # weights are whole numbers
            assert answers.total() == 160
        assert ask(url, {"model": "agents"}) == (200, "chat-and-agents")
        assert ask(url, {"model": QWEN}, x_service="agents") == (200, "chat-and-agents")
        assert ask(url, {"model": QWEN})[0] == 404  # whose it is decides who may serve it


NVFP4 = "nvidia/Qwen3-30B-A3B-NVFP4"


def checkpoints_fleet() -> FleetPlan:
    """Chat runs another checkpoint in the pools of its own."""
    fleet = split_fleet()
    shared, alone = fleet.parts
    scenario = alone.plan.scenario
    other = replace(scenario, model=replace(scenario.model, name="qwen3-nvfp4", uri=f"hf://{NVFP4}"))
    return replace(fleet, parts=(shared, replace(alone, plan=replace(alone.plan, scenario=other))))


def test_checkpoints_of_one_service_are_one_name(tmp_path: Path) -> None:
    with toys(["chat-and-agents", "chat"]) as ports, front(checkpoints_fleet(), ports, tmp_path) as url:
        answers = Counter(ask(url, {"model": "chat"})[1] for _ in range(160))
        assert abs(answers["chat"] - 120) <= 2
        assert answers.total() == 160
        assert {ask(url, {"model": NVFP4})[1] for _ in range(8)} == {"chat"}
        assert {ask(url, {"model": QWEN})[1] for _ in range(8)} == {"chat-and-agents"}
        assert {ask(url, {"model": NVFP4}, x_service="chat")[1] for _ in range(8)} == {"chat"}
        assert ask(url, {"model": NVFP4}, x_service="agents")[0] == 404


@pytest.mark.parametrize("target", TARGETS)
def test_engines_answer_to_the_names_that_the_page_tells(target: str) -> None:
    page, served = rendered(target).page, target != "dynamo"
    assert ("nightly | `model` nightly |" in page) is served
    assert (f"`model` {GPT} with the header x-service: nightly" in page) is not served
    assert rendered(target).folder[f"{SHARED}/README.md"] == page.encode()
    for part in sharing_fleet().plans:
        names = [name for name, _ in part.deployment.parts]
        model = part.plan.scenario.model
        known = model.name if target == "kserve" else model.uri.removeprefix("hf://")
        workloads = [
            pod.arguments or ()
            for m, kind in read_manifests(rendered(target).deployments[part.name].files).sound
            if kind and kind.workloads
            for workload in kind.workloads(m)
            for pod in workload.pods
            if pod.count
        ]
        assert workloads
        for words in workloads:
            at = words.index("--served-model-name") if served else -1
            assert not served or list(words[at + 1 : at + 2 + len(names)]) == [known, *names], words


def test_sglang_shows_a_name_and_takes_any() -> None:
    (part,) = (part for part in sharing_fleet().parts if part.name == "chat-and-agents")
    scenario = replace(part.plan.scenario, engine=load_engine("sglang"))
    alone = replace(sharing_fleet(), parts=(replace(part, plan=replace(part.plan, scenario=scenario)),), batches=())
    fleet = render_fleet(alone, target="lws", engine="sglang")
    assert "--served-model-name=chat\n" in "".join(fleet.deployments[part.name].files.values())
    assert "agents: `model` agents or" in fleet.page.replace("| agents |", "agents:")


def test_a_deployments_folder_is_held_against_its_plan(tmp_path: Path) -> None:
    fleet = sharing_fleet()
    alike = replace(fleet.fleet, services=tuple(replace(service, priority=1) for service in fleet.fleet.services))
    together = render_fleet(replace(fleet, fleet=alike, batches=()), target="lws")
    for part in fleet.parts:
        folder = tmp_path / part.name
        files.write_folder(folder, together.deployments[part.name].folder)
        checked = exports.check_export(folder, part.plan)
        assert (checked.compared.faults, checked.record.options.served_names) == (
            (),
            tuple(name for name, _ in part.deployment.parts),
        )
        path = next(folder.glob("01-*.yaml"))
        path.write_text(
            path.read_text().replace("          - chat\n", "          - chats\n").replace("- code\n", "- c\n")
        )
        assert exports.check_export(folder, part.plan).compared.faults


def test_a_service_is_not_called_as_anothers_model() -> None:
    fleet = sharing_fleet()
    (code,) = (part for part in fleet.parts if part.name == "code")
    renamed = replace(code.plan.scenario, model=replace(code.plan.scenario.model, name="chat"))
    parts = tuple(replace(p, plan=replace(p.plan, scenario=renamed)) if p is code else p for p in fleet.parts)
    with pytest.raises(InputError, match="Service chat: must not be called as the model of deployment code is"):
        render_fleet(replace(fleet, parts=parts, batches=()), target="kserve")


@pytest.mark.parametrize("name", ["", "-x", "a b", "$(id)", "{{x}}", "a:b", "x" * 129])
def test_names_that_no_flag_can_carry_are_refused(name: str) -> None:
    plan = sharing_fleet().parts[0].plan
    with pytest.raises(InputError, match=r"deploy\.served_names: must be letters, digits"):
        render_plan(plan, options=replace(plan.scenario.deploy, served_names=(name,)))


def test_a_router_that_goes_by_one_name_is_refused_others() -> None:
    plan = sharing_fleet().parts[0].plan
    with pytest.raises(ExportError, match="Router aibrix: engines must serve the one name"):
        render_plan(plan, target="lws", router="aibrix", options=replace(plan.scenario.deploy, served_names=("a",)))


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
