"""From an empty folder to a changed cluster: what runs is found and calibrated, planned and exported; load shifts, a
node dies, and what `watch` commits a controller applies. Nothing is carried by hand, and the levels hold throughout."""

import json
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from api_server import CUSTOM_KINDS, KINDS, ApiServer, kubeconfig
from command_line import Command
from prometheus_servers import asked, scraping
from simulated_cluster import GPU, NAMESPACE, Engines, Nodes, Object, applied, gpus_of, of_counts

import planner as library
from planner import files
from planner.domain import BucketPool
from planner.domain.watching import Cause, Verdict, WatchStep
from planner.errors import EXIT_DONE
from planner.runs.live.advice.finding import Hints, find_engines, objects_of_documents
from planner.runs.live.advice.rebuilding import Terms, rebuilt

SLOWER = 0.8
LEVELS = {"ttft_ms": 3000.0, "tpot_ms": 60.0, "percentile": 90.0}
SLO = [word for key, value in LEVELS.items() for word in ("--slo", f"{key}={value:g}")]
H100, H200 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200"
CHAT, CODE = "llama-3-1-70b", "qwen3-30b-a3b"
CHAT_RPS, CODE_RPS = 18.0, 30.0
WINDOW = "15s"
RULES = {"smooth_s": 6, "dwell_s": 6, "headroom": 1.5, "retry_s": 5}
PATIENCE_S = 150.0


def deployment(name: str, model: str, product: str, tp: int, replicas: int) -> Object:
    """As a platform team writes one."""
    labels = {"app": name}
    words = ["vllm", "serve", model, "--served-model-name", name, "--tensor-parallel-size", str(tp), "--max-model-len",
             "16384", "--max-num-seqs", "64", "--max-num-batched-tokens", "8192"]  # fmt: skip
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.33.0",
        "command": words,
        "env": [{"name": "HF_TOKEN", "value": "hf_NEVERWRITTEN"}],
        "resources": {"limits": {GPU: str(tp)}, "requests": {GPU: str(tp)}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"nodeSelector": {f"{GPU}.product": product},
                                                         "containers": [container]}}  # fmt: skip
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


FOREIGN = {
    CHAT: deployment("chat", "meta-llama/Llama-3.1-70B-Instruct", H100, 4, 5),
    CODE: deployment("code", "Qwen/Qwen3-30B-A3B", H200, 1, 6),
}


@dataclass
class World:
    """24 nodes, two services, a Prometheus; a controller that applies what is committed."""

    place: Path
    server: ApiServer
    nodes: Nodes
    url: str = ""
    engines: dict[str, Engines] = field(default_factory=dict)
    running: dict[str, Counter[str]] = field(default_factory=dict)

    def begin(self) -> None:
        found = find_engines(objects_of_documents(list(FOREIGN.values()), "test"), Hints(), "test")
        terms = Terms(workloads={"": "azure-conv-2023"}, levels={"": LEVELS})
        for service in found.services:
            body = FOREIGN[service.name]
            self.server.apply(body)
            template, name = body["spec"]["template"], body["metadata"]["name"]
            product = template["spec"]["nodeSelector"][f"{GPU}.product"]
            owner = f"{name}-7c9f6d5b8"
            pods = self.nodes.scale(owner, template, product, body["spec"]["replicas"], gpus_of(template))
            rate = {CHAT: CHAT_RPS, CODE: CODE_RPS}[service.name]
            labels = {"namespace": NAMESPACE, "container": "vllm", "model_name": name}
            engines = self.engines[service.name] = Engines(labels=labels, pace=SLOWER, rate_rps=rate)
            plan = rebuilt(service, terms).plan
            engines.become(plan, {plan.outlook.pools[0].island: pods}, {})

    def exposition(self) -> bytes:
        lines = [line for engines in list(self.engines.values()) for line in engines.lines()]
        return ("\n".join(lines) + "\n").encode()

    def reconcile(self, service: str) -> None:
        """Apply the newest commit, start and stop pods, and let the engines that run serve."""
        bodies = list(applied(self.place / "gitops" / service))
        wanted = {body["metadata"]["name"]: body for body in bodies if body["kind"] == "LeaderWorkerSet"}
        owned = {name for kind, _, name in list(self.server.objects) if kind == "LeaderWorkerSet" and service in name}
        for name in owned - wanted.keys():
            self._scale(self.server.objects["LeaderWorkerSet", NAMESPACE, name], 0)
            self.server.delete("LeaderWorkerSet", name, NAMESPACE)
        pods: dict[str, list[str]] = {}
        for body in wanted.values():
            body["metadata"]["namespace"] = NAMESPACE
            self.server.apply(body)
            pods[body["metadata"]["labels"]["planner/island"]] = self._scale(body, int(body["spec"]["replicas"]))
        self._serve(service, pods)

    def _scale(self, body: Object, copies: int) -> list[str]:
        template = body["spec"]["leaderWorkerTemplate"]["workerTemplate"]
        selector = template["spec"].get("nodeSelector", {})
        product = selector.get(f"{GPU}.product", H100)
        return self.nodes.scale(body["metadata"]["name"], template, product, copies, gpus_of(template))

    def _serve(self, service: str, pods: dict[str, list[str]]) -> None:
        """The islands by the plans that the watch has written."""
        folders = sorted((self.place / f"watched-{service}" / "plans").iterdir())
        plans = [files.load_run(folder) for folder in folders]
        pools: dict[str, BucketPool] = {pool.island: pool for plan in plans for pool in plan.outlook.pools}
        counts = {island: len(names) for island, names in pods.items()}
        plan = of_counts(plans[-1], list(pools.values()), counts)
        islands = {island.id: island for each in plans for island in each.islands}
        if self.running.get(service) == Counter(counts) and not self._shifted(service):
            return
        self.running[service] = Counter(counts)
        assert plan is not None
        labels = {
            island: {"app_kubernetes_io_part_of": service, "planner_island": island,
                     "planner_phase": str(islands[island].phase)}
            for island in counts
        }  # fmt: skip
        self.engines[service].become(plan, {i: names for i, names in pods.items() if names}, labels)

    _rates: dict[str, float] = field(default_factory=dict)

    def _shifted(self, service: str) -> bool:
        rate = self.engines[service].rate_rps
        return self._rates.setdefault(service, rate) != rate

    def shift(self, service: str, rate_rps: float) -> None:
        self.engines[service].rate_rps = rate_rps
        self.reconcile(service)
        self._rates[service] = rate_rps

    def retire(self, service: str) -> None:
        """The deployment of before is taken away."""
        body = FOREIGN[service]
        self.server.delete("Deployment", body["metadata"]["name"], NAMESPACE)
        self.nodes.scale(f"{body['metadata']['name']}-7c9f6d5b8", {}, "", 0, 0)

    def look(self, service: str, run: Path) -> WatchStep:
        (step,) = library.watch(
            f"advised/scenarios/{service}.yaml",
            [],
            f"watched-{service}",
            prometheus=self.url,
            window=WINDOW,
            name=service,
            kubernetes="test",
            kubeconfig="config",
            repository="gitops",
            run=run,
            every_s=1,
            ticks=1,
            settings=INVENTORY[service],
            **RULES,
        )
        self.reconcile(service)
        return step

    def late(self, service: str) -> list[str]:
        """Levels that the engines' own metrics break now."""
        labels = f'model_name="{self.engines[service].labels["model_name"]}"'
        faults = []
        for metric, bound in (("time_to_first_token", 3.0), ("request_time_per_output_token", 0.06)):
            classes = f"sum by (le) (rate(vllm:{metric}_seconds_bucket{{{labels}}}[{WINDOW}]))"
            rows = asked(self.url, f"histogram_quantile(0.9, {classes})")
            values: list[Any] = [row["value"] for row in rows]
            faults += [f"{metric} {value}" for _, value in values if float(value) > bound]
        return faults


INVENTORY = {
    CHAT: {"inventory": {"H100": 48}, "changes.least_share": 0.75, "serving": "aggregated"},
    CODE: {"inventory": {"H200": 144}, "changes.least_share": 0.75, "serving": "aggregated"},
}


@pytest.fixture
def world(here: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    with ApiServer(kinds=(*KINDS, *CUSTOM_KINDS), token="t").serving() as server:
        kubeconfig(here / "config", server.url, token="t")
        nodes = Nodes(server)
        nodes.add("h100", H100, 6, 8)
        nodes.add("h200", H200, 18, 8)
        world = World(place=here, server=server, nodes=nodes)
        world.begin()
        scrapes = [0]

        def exposition() -> bytes:
            scrapes[0] += 1
            return world.exposition()

        with scraping(tmp_path_factory.mktemp("prometheus"), exposition, lambda _url: scrapes[0] > 22) as url:
            world.url = url
            yield world


def until(world: World, service: str, run: Path, cause: Cause | None) -> WatchStep:
    """Look until a change for that cause was decided, or, of none, until all is carried out; levels hold at each."""
    end = time.monotonic() + PATIENCE_S
    while True:
        time.sleep(2)
        step = world.look(service, run)
        assert [fault for name in world.engines for fault in world.late(name)] == []
        if cause is None and not step.observation.rolling:
            return step
        if cause is not None and step.decision.verdict is Verdict.REPLAN:
            assert step.decision.cause is cause, step.decision.reason
            return step
        assert time.monotonic() < end, (step.observation, step.decision.reason)


def planned(planner: Command, service: str) -> Path:
    settings = [f"--set={key}={json.dumps(value)}" for key, value in
                INVENTORY[service].items()]  # fmt: skip
    done = planner("plan", f"advised/scenarios/{service}.yaml", *settings, "--out", f"runs/{service}")
    assert done.status == EXIT_DONE, done.err
    return Path("runs") / service


@pytest.mark.timeout(600)
def test_the_loop_closes(planner: Command, world: World) -> None:
    done = planner("advise", "--kubernetes", "test", "--kubeconfig", "config", "--prometheus", world.url, "--window",
                   "20s", *SLO, "--out", "advised", "--json")  # fmt: skip
    assert done.status == EXIT_DONE, done.err
    services = {row["name"]: row for row in done.json["services"]}
    assert set(services) == {CHAT, CODE}
    for name, row in services.items():
        assert row["paces"][0]["pace"] == pytest.approx(SLOWER, rel=0.03)
        assert row["rate_rps"] == pytest.approx({CHAT: CHAT_RPS, CODE: CODE_RPS}[name], rel=0.1)
    Path("gitops").mkdir()
    subprocess.run(["git", "-C", "gitops", "init", "--quiet"], check=True)
    for name in services:
        run = planned(planner, name)
        assert planner("export", run, "--monitoring", "--out", f"manifests-{name}").status == EXIT_DONE
    runs = {name: Path("runs") / name for name in services}
    for name, run in runs.items():
        world.look(name, run)  # the plan is committed, and stands beside what ran before
        until(world, name, run, None)
        world.retire(name)
    run, first = runs[CHAT], files.load_run(runs[CHAT])
    more_rps = 0.98 * first.outlook.promise_rps  # less than the promise, and more than it is left at
    world.shift(CHAT, more_rps)
    until(world, CHAT, run, Cause.LOAD)
    until(world, CHAT, run, None)
    second = files.load_run(Path(f"watched-{CHAT}") / "plans/0002")
    assert second.outlook.promise_rps > 1.5 * more_rps
    died = next(node for pod, (node, _, _) in world.nodes.pods.items() if pod.startswith(CHAT))
    world.nodes.die(died)
    world.reconcile(CHAT)
    until(world, CHAT, run, Cause.LOST)
    until(world, CHAT, run, None)
    third = files.load_run(Path(f"watched-{CHAT}") / "plans/0003")
    assert sum(pool.gpus for pool in third.outlook.pools) <= 40 < sum(pool.gpus for pool in second.outlook.pools)
    assert world.running[CHAT] == Counter({pool.island: pool.count for pool in third.outlook.pools})
    log = subprocess.run(["git", "-C", "gitops", "log", "--format=%s"], check=True, capture_output=True, text=True)
    assert {line.partition(",")[0] for line in log.stdout.splitlines()} >= {"plan 2", "plan 3"}
    for path in Path().rglob("*"):
        if path.is_file():
            assert b"hf_NEVERWRITTEN" not in path.read_bytes(), path
