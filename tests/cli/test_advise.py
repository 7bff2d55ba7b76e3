"""`planner advise`: engines without a plan, their metrics from replays on slower GPUs, and what is told of them."""

import csv
import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from command_line import Command
from foreign_metrics import CHAT, FOLDER, LEVELS, WORKLOAD, found, rows_of, service_of, terms
from observed_answers import answer, on_other_gpus, series, write

import planner
from planner import files
from planner.domain.advice import AdviceKind, ServiceAdvice
from planner.domain.serving.observed import ISLAND, PLAN, ObservedSeries, Quantity
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE
from planner.export import island_labels
from planner.report.advice import advice_verdict
from planner.runs.live.advice.advising import AdvisedFolder, advise, judged
from planner.runs.live.advice.asking import label_of
from planner.runs.live.advice.changes import changes_of, fewer_copies
from planner.runs.live.advice.commands import copies_steps, flags_steps
from planner.runs.live.advice.finding import Hints, RunningService, find_engines, objects_of_folder
from planner.runs.live.advice.rebuilding import Measured, rebuilt
from planner.runs.live.advice.states import Pooled

SLOW = 0.8
SLO = [word for key, value in LEVELS.items() for word in ("--slo", f"{key}={value:g}")]
ASKED = ("--manifests", str(FOLDER), "--workload", WORKLOAD, *SLO)


def chat() -> RunningService:
    return next(service for service in found().services if service.name == CHAT)


def told_of(rate_rps: float, pace: float, without: tuple[Quantity, ...] = (), ranks: float = 4) -> list[ObservedSeries]:
    rows = [row for row in rows_of(CHAT, pace, rate_rps) if Quantity(row[0]["__name__"]) not in without]
    rows = [(row, ranks if row["__name__"] == Quantity.RANKS.value else value) for row, value in rows]
    return list(files.load_answers([write(Path("answer.json"), answer(rows))], sparse=True))


def advised(rate_rps: float, pace: float = SLOW) -> AdvisedFolder:
    only = replace(found(), services=(chat(),), gaps=())
    return advise(only, terms(), told_of(rate_rps, pace), source="test", out=Path("advised"))


def judged_at(
    rate_rps: float, pace: float = SLOW, *, without: tuple[Quantity, ...] = (), ranks: float = 4
) -> ServiceAdvice:
    return judged(chat(), terms(), told_of(rate_rps, pace, without, ranks))[0]


@pytest.mark.parametrize("rate_rps", [5.0, 11.0, 16.0])
def test_engines_a_fifth_slower_are_found(here: Path, rate_rps: float) -> None:
    """Their pace within 3 %, and the promise that they can keep within 3 % of that of servers known to be so slow."""
    assert here
    service = judged_at(rate_rps)
    ((gpu, pace),) = service.paces
    assert (gpu, pace) == ("H100", pytest.approx(SLOW, rel=0.03))
    slow = on_other_gpus(service_of(CHAT).plan, SLOW).scenario.cost.calibration
    truth = rebuilt(service_of(CHAT).service, terms(), Measured(rate_rps=rate_rps, calibration=slow)).plan
    assert service.promise_rps == pytest.approx(truth.outlook.promise_rps, rel=0.03)
    assert service.predicted_rps > 1.15 * service.promise_rps
    assert service.rate_rps == pytest.approx(rate_rps, rel=0.1)


def test_engines_that_idle_tell_no_pace(here: Path) -> None:
    assert here
    service = judged_at(0.4)
    assert service.paces == ()
    assert any("It idles" in note for note in service.notes)


def test_engines_as_predicted_keep_their_pace(here: Path) -> None:
    assert here
    ((_, pace),) = judged_at(11.0, 1.0).paces
    assert pace == pytest.approx(1.0, rel=0.03)


def test_what_is_wasted_is_what_fewer_copies_save(here: Path) -> None:
    """At a third of the promise half of the servers suffice, headroom included, and one fewer does not."""
    assert here
    result = advised(5.0)
    (service,) = result.advice.services
    (change,) = result.advice.changes
    assert "1 deployment rents 63.84 USD/h. The first change saves 31.92 USD/h (50%)." in advice_verdict(result.advice)
    assert "The first 2 changes save" in advice_verdict(replace(result.advice, changes=(change, change)))
    assert (change.kind, change.saved_usd_per_hour) == (AdviceKind.COPIES, pytest.approx(2 * 4 * 3.99))
    assert service.wasted_usd_per_hour == change.saved_usd_per_hour
    assert service.rent_usd_per_hour == pytest.approx(16 * 3.99)
    assert change.promise_rps >= (service.needed_rps or 0) > 0.6 * change.promise_rps
    assert change.steps == ("kubectl -n serving scale deployment/chat-llama70b-deployment-vllm --replicas=2",)


def test_the_fewest_copies_are_the_fewest() -> None:
    """One fewer promises too little, for any rate; however little comes, two are left."""
    for rate in (0.1, 6.0, 9.0, 12.0, 16.0):
        service = replace(service_of(CHAT), measured=Measured(rate_rps=rate))
        fewest = fewer_copies(service, terms())
        assert fewest is not None
        assert fewest.promise_rps >= terms().needed_rps(rate)
        (pool,) = fewest.pools
        if pool.count > 2:
            assert fewest.with_counts({pool.island: pool.count - 1}).promise_rps < terms().needed_rps(rate)
        assert pool.count >= 2
    assert fewer_copies(replace(service, measured=Measured(rate_rps=30.0)), terms()) is None
    grown = fewer_copies(replace(service, measured=Measured(rate_rps=30.0)), terms(free={"H100": 48}))
    assert grown is not None
    assert grown.promise_rps >= terms().needed_rps(30.0)
    assert grown.with_counts(
        {pool.island: sum(pool.count for pool in grown.pools) - 1}
    ).promise_rps < terms().needed_rps(30.0)


def test_free_gpus_are_given_once() -> None:
    """Two services that lack GPUs of the same type: one has the four that are free, the other is told what it lacks."""
    names, free = (CHAT, "qwen3-32b"), {"H100": 4}
    only = replace(found(), services=tuple(s for s in found().services if s.name in names), gaps=())
    rates = {CHAT: 18.0, "qwen3-32b": 13.0}
    advice = advise(only, terms(free=free, rates=rates), (), source="test", out=Path("advised")).advice
    running = {service.name: sum(d.claimed_gpus for d in service.deployments) for service in only.services}
    grown = dict.fromkeys(names, 0)
    for change in advice.changes:
        grown[change.service] = max(grown[change.service], change.plan.fleet["H100"] - running[change.service])
    assert 0 < sum(grown.values()) <= free["H100"]
    assert any("which are not free" in line for service in advice.services for line in service.breaks)


def test_what_is_broken_is_told(here: Path) -> None:
    assert here
    service = judged_at(26.0)
    told = " ".join(service.breaks)
    assert "More requests come" in told
    assert "which are not free" in told
    assert "requests wait" in told
    assert "TTFT P90 is" in told


def test_steps_begin_where_the_change_before_ends() -> None:
    """Two of four copies are gone: the next change scales nothing up again, and touches those alone that are left."""
    service = replace(service_of(CHAT), measured=Measured(rate_rps=5.0))
    copies, servers = changes_of(service, terms())
    assert (copies.kind, servers.kind) == (AdviceKind.COPIES, AdviceKind.SERVERS)
    scale = "kubectl -n serving scale deployment/chat-llama70b-deployment-vllm --replicas="
    assert copies.steps == (f"{scale}2",)
    assert [step for step in servers.steps if "scale" in step] == [f"{scale}1"]
    (start,) = [step for step in servers.steps if step.startswith("Start")]
    assert start == (
        "Start 1 server of island h100-2g-mixed-1, with replicas: 1 in its file: "
        "kubectl -n serving apply -f manifests/*-h100-2g-mixed-1.yaml"
    )
    assert servers.servers_touched == 2


def test_without_the_time_per_token_there_is_no_pace(here: Path) -> None:
    assert here
    service = judged_at(5.0, without=(Quantity.TPOT, Quantity.TPOT_SUM))
    assert service.paces == ()
    assert service.promise_rps == pytest.approx(service.predicted_rps)
    assert any("no pace" in note for note in service.notes)


def test_a_rate_that_is_known_in_part_is_not_taken_for_all(here: Path) -> None:
    """Of two of four servers: nothing is said to be idle, but how fast they are is known."""
    assert here
    service = judged_at(5.0, ranks=2)
    assert (service.rate_rps, service.wasted_usd_per_hour) == (None, None)
    assert any("2 of its 4 servers are scraped" in note for note in service.notes)
    given, _ = judged(chat(), terms(rates={"": 7.0}), told_of(5.0, SLOW, ranks=2))
    assert (given.rate_rps, given.paces) == (7.0, service.paces)
    assert service.paces[0][1] == pytest.approx(SLOW, rel=0.03)


SPLIT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: sgl-{role}, namespace: pd}}
spec:
  replicas: {copies}
  template:
    spec:
      nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
      containers:
        - name: s
          image: lmsysorg/sglang:v0.5.23
          command: [python3, -m, sglang.launch_server]
          args: [--model-path, meta-llama/Llama-3.1-70B-Instruct, --tp, "{tp}", --disaggregation-mode, {role},
                 --max-running-requests, "64", --chunked-prefill-size, "8192"]
          resources: {{limits: {{nvidia.com/gpu: "{tp}"}}}}
"""


def test_servers_of_one_phase_each(here: Path) -> None:
    """Decode tells its steps; prefill for which nobody waits is taken to be as slow. Half of it alone is a gap."""
    (here / "pd").mkdir()
    for role, copies, tp in (("prefill", 4, 4), ("decode", 3, 8)):
        (here / f"pd/{role}.yaml").write_text(SPLIT.format(role=role, copies=copies, tp=tp))
    engines = find_engines(objects_of_folder(here / "pd"), Hints(), "pd")
    (service,) = engines.services
    plain = rebuilt(service, terms())
    slow = on_other_gpus(plain.plan, SLOW)
    labels = {label: label_of(service, plain.islands[island]) for label, island in island_labels(slow).items()}
    rows = [
        ({**row, PLAN: service.name, ISLAND: labels[row[ISLAND]]}, value)
        for row, value in series(slow, slow.scenario.workload, 0.5 * slow.throughput_rps)
    ]
    told = files.load_answers([write(here / "answer.json", answer(rows))], sparse=True)
    advice, _ = judged(service, terms(), told)
    assert advice.paces == (("H100", pytest.approx(SLOW, rel=0.03)),)
    truth = rebuilt(service, terms(), Measured(calibration=slow.scenario.cost.calibration)).plan
    assert advice.promise_rps == pytest.approx(truth.outlook.promise_rps, rel=0.03)
    assert any("as decode servers do" in note for note in advice.notes)
    (here / "pd/decode.yaml").unlink()
    half = find_engines(objects_of_folder(here / "pd"), Hints(), "pd")
    ((_, reasons),) = advise(half, terms(), (), source="pd", out=Path("advised")).advice.gaps
    assert "must have servers of both phases, has none of decode" in reasons[0]


def test_notebooks_ask_for_it_too(here: Path) -> None:
    write(here / "answer.json", answer(list(rows_of(CHAT, SLOW, 5.0))))
    (here / "one").mkdir()
    shutil.copy(FOLDER / "chat.yaml", here / "one" / "chat.yaml")
    advice = planner.advise("answer.json", manifests="one", workload=WORKLOAD, slo=LEVELS, out="advised")
    assert set(advice.frame["name"]) == {"chat-llama70b-deployment-vllm"}
    assert advice.changes[0].summary == "serving/chat-llama70b-deployment-vllm from 4 to 2 copies"
    assert "save" in repr(advice)
    assert "What runs" in advice.summary()
    assert advice._repr_html_().startswith("<")
    assert Path("advised/changes/1/plan.json").exists()
    with pytest.raises(planner.InputError, match="in one way"):
        planner.advise(workload=WORKLOAD)


def test_a_folder_that_everything_else_reads(planner: Command, here: Path) -> None:
    """Answers of one service of three; its run is verified, replayed, explained and exported as any. No secret of the
    manifests is in it."""
    write(here / "answer.json", answer(list(rows_of(CHAT, SLOW, 5.0))))
    done = planner("advise", "answer.json", *ASKED, "--out", "advised", "--quiet")
    assert done.status == EXIT_DONE, done.err
    run = Path("advised/services") / CHAT
    assert planner("verify", run).status == EXIT_DONE
    assert planner("replay", run, "--requests", "200", "--seeds", "1", "--quiet").status == EXIT_DONE
    assert planner("explain", run, "--seconds", "0").status == EXIT_DONE
    assert planner("export", run, "--out", "manifests").status == EXIT_DONE
    assert planner("export", "--check", "manifests", run).status == EXIT_DONE
    assert (
        planner("replan", run, "--no-replay", "--set", "slo.tpot_ms=80", "--least-share", "0", "--out", "new").status
        == EXIT_DONE
    )
    assert planner("verify", "advised/changes/1").status == EXIT_DONE
    document = json.loads(Path("advised/advise.json").read_text())
    assert len(document["changes"]) == len(list(Path("advised/changes").iterdir()))
    rows = list(csv.DictReader(Path("advised/advise.csv").read_text().splitlines()))
    assert {row["name"] for row in rows} == {deployment.name for deployment in found().deployments}
    written = [path.read_bytes().decode(errors="replace") for path in Path("advised").rglob("*") if path.is_file()]
    for secret in ("hf_SECRETSECRETSECRET", "sk-PLAINLYWRITTEN", "hidden-value"):
        assert secret in "".join(path.read_text() for path in FOLDER.glob("*.yaml"))
        assert not any(secret in text for text in (*written, done.out, done.err))
    again = planner("advise", "answer.json", *ASKED, "--out", "advised", "--quiet")
    assert again.status == EXIT_BAD_INPUT
    assert "--force" in again.err


def test_one_command_plans_anew_with_what_was_measured(planner: Command, here: Path) -> None:
    write(here / "answer.json", answer(list(rows_of(CHAT, SLOW, 5.0))))
    (here / "two").mkdir()
    for name in ("chat.yaml", "sglang.yaml"):
        shutil.copy(FOLDER / name, here / "two" / name)
    words = ("--manifests", "two", "--workload", WORKLOAD, "--rps", "qwen3-30b-a3b=6", "--out", "advised", "--json")
    document = planner("advise", "answer.json", *words, *SLO).json
    assert document["next"] == "planner plan advised/fleet.yaml --out advised-planned"
    scenario = yaml.safe_load(Path(f"advised/scenarios/{CHAT}.yaml").read_text())
    assert scenario["cost"]["calibration"] == f"../calibrations/{CHAT}.yaml"
    fleet = yaml.safe_load(Path("advised/fleet.yaml").read_text())
    assert fleet["services"][0]["cost"]["calibration"] == f"calibrations/{CHAT}.yaml"
    assert planner("check", f"advised/scenarios/{CHAT}.yaml").status == EXIT_DONE
    planned = planner(*document["next"].split()[1:])
    assert planned.status == EXIT_DONE, planned.err
    calibration = files.load_calibration(Path(f"advised/calibrations/{CHAT}.yaml"))
    assert calibration == files.load_run(Path(f"advised/services/{CHAT}")).scenario.cost.calibration


def test_what_the_planner_wrote_is_read_back_as_the_same_pools(planner: Command, here: Path) -> None:
    """Its own manifests, the labels aside: the pools that it exported."""
    scenario = {"name": "own", "model": "llama-3.1-70b", "workload": WORKLOAD, "inventory": {"H100": 16},
                "slo": LEVELS, "serving": "aggregated", "routing": {"most": 1}}  # fmt: skip
    (here / "own.yaml").write_text(yaml.safe_dump(scenario))
    assert planner("plan", "own.yaml", "--out", "own", "--quiet").status == EXIT_DONE
    before = files.load_run(Path("own"))
    engines = find_engines(objects_of_folder(Path("own/manifests")), Hints(), "own")
    (service,) = engines.services
    after = rebuilt(service, terms(policy="least_work")).plan
    pools = [[(pool.gpu, pool.count, pool.server) for pool in plan.outlook.pools] for plan in (before, after)]
    assert pools[0] == pools[1]
    assert after.outlook.promise_rps == pytest.approx(before.outlook.promise_rps, rel=1e-3)


def test_a_better_router_and_other_flags_are_told_before_other_servers() -> None:
    """In order of simplicity, each worth more than the one before it."""
    service = replace(service_of("qwen3-30b-a3b"), measured=Measured())
    changes = changes_of(service, terms())
    kinds, order = [change.kind for change in changes], list(AdviceKind)
    assert kinds == sorted(kinds, key=order.index)
    for before, after in pairwise(changes):
        assert before.promise_rps == after.promise_before_rps
    assert all(change.promise_rps > change.promise_before_rps * 1.01 for change in changes)
    state = Pooled.of(service)
    assert state.promise_rps == pytest.approx(service.plan.outlook.promise_rps)


@pytest.mark.parametrize(
    ("kind", "scale", "restart"),
    [
        (
            "Deployment",
            "kubectl -n serving scale deployment/",
            ("kubectl -n serving edit", "rollout status deployment/"),
        ),
        ("LeaderWorkerSet", "kubectl -n serving scale leaderworkerset/", ("kubectl -n serving edit", "serve again.")),
        ("DynamoGraphDeployment", "Set the copies of ", ("in the arguments of", "serve again.")),
        ("Pod", "kubectl -n serving delete pod/", ("in the arguments of", "serve again.")),
    ],
)
def test_commands_are_those_that_a_kind_has(kind: str, scale: str, restart: tuple[str, ...]) -> None:
    """What holds several servers is never deleted for one of them."""
    ((island, deployment),) = service_of(CHAT).islands.items()
    service = replace(service_of(CHAT), islands={island: replace(deployment, kind=kind)})
    state = Pooled.of(service)
    (step,) = copies_steps(service, state, state.with_counts({island: 0}))[1]
    assert step.startswith(scale)
    fuller = replace(state.pools[0], server=replace(state.pools[0].server, batch_size=8))
    steps = flags_steps(service, replace(state, pools=(fuller,)), ("", (), 0))[1]
    assert all(word in words for word, words in zip(restart, steps, strict=True))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "must be told where engines run"),
        (("--manifests", "nowhere"), "must be a folder of manifests"),
        (("--manifests", "empty"), "must hold an engine that runs, holds none"),
        (("--manifests", "broken"), "broken/a.yaml: must be YAML or JSON"),
        (("--manifests", str(FOLDER)), "its workload must be known"),
        (("--manifests", str(FOLDER), "--workload", "nothing-known"), "There is no workload"),
        ((*ASKED, "--slo", "speed=3"), "--slo: must set one of"),
        ((*ASKED, "--slo", "nobody:tpot_ms=3"), "must name a service that runs"),
        ((*ASKED, "--rps", "many"), "--rps: must be a number above 0"),
        ((*ASKED, "--gpu", "chat"), "--gpu: must be a name, '='"),
        ((*ASKED, "--gpu", "nobody=H100"), "must name an engine that runs"),
        ((*ASKED, "--gpu", "large=H9000"), "There is no GPU type"),
        ((*ASKED, "--inventory", "H100=4"), "must be at least the 20 GPUs that run"),
        ((*ASKED, "--router", "psychic"), "--router: must be one of"),
        ((*ASKED, "--headroom", "-1"), "--headroom"),
        ((*ASKED, "--window", "soon"), "--window: must be a time"),
        ((*ASKED, "--token-file", "token"), "go with --prometheus alone"),
        ((*ASKED, "--kubernetes", "current"), "goes without --kubernetes"),
        ((*ASKED, "answer.json"), "there is no such file"),
    ],
)
def test_bad_input_is_told(planner: Command, here: Path, words: tuple[str, ...], told: str) -> None:
    (here / "empty").mkdir()
    (here / "broken").mkdir()
    (here / "empty/a.yaml").write_text("kind: Service\nmetadata: {name: s}\n")
    (here / "broken/a.yaml").write_text("a: [")
    refused = planner("advise", *words)
    assert refused.status == EXIT_BAD_INPUT
    assert told in " ".join(refused.err.split())


def test_what_cannot_be_judged_is_a_gap_and_no_error(planner: Command, here: Path) -> None:
    shutil.copy(FOLDER / "others.yaml", here / "others.yaml")
    (here / "folder").mkdir()
    shutil.copy(FOLDER / "others.yaml", here / "folder/others.yaml")
    done = planner("advise", "--manifests", "folder", "--json")
    assert done.status == EXIT_DONE
    reasons = {row["name"]: " ".join(row["reasons"]) for row in done.json["not_judged"]}
    assert "planner model add somebody/Finetune-7B" in reasons["odd"]
    assert "--gpu odd=TYPE" in reasons["odd"]
    assert done.json["services"] == done.json["changes"] == []


def test_hints_of_the_user_settle_gaps(planner: Command, here: Path) -> None:
    (here / "two").mkdir()
    for name in ("large.yaml", "others.yaml"):
        shutil.copy(FOLDER / name, here / "two" / name)
    hints = ("--gpu", "large=H100", "--gpu", "odd=H100", "--model", "odd=qwen3-8b")
    done = planner("advise", "--manifests", "two", *hints, "--json")
    reasons = {row["name"]: " ".join(row["reasons"]) for row in done.json["not_judged"]}
    assert reasons["odd"] == "its degrees take 8 GPUs a copy, and its pods claim 4"
    assert "pipeline" in reasons["large"]


def node(name: str, product: str, *, ready: str = "True", **spec: object) -> dict[str, object]:
    status = {"allocatable": {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1Ti"},
              "conditions": [{"type": "Ready", "status": ready}]}  # fmt: skip
    metadata = {"name": name, "labels": {"nvidia.com/gpu.product": product}}
    return {"kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def pod(name: str, on: str, gpus: int, phase: str = "Running") -> dict[str, object]:
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    owned = {"name": name, "namespace": "serving", "ownerReferences": [{"kind": "ReplicaSet"}]}
    spec = {"nodeName": on, "containers": [container]}
    return {"kind": "Pod", "metadata": owned, "spec": spec, "status": {"phase": phase}}


def test_nodes_tell_gpu_types_and_what_is_free(here: Path) -> None:
    """Of pods by their nodes; of a deployment whose pods are not listed by all nodes, where these are of one type."""
    (here / "folder").mkdir()
    text = (FOLDER / "summarise.yaml").read_text()
    deployment = text[: text.index("      affinity:")] + text[text.index("      containers:") :]

    def found_with(*objects: dict[str, object]) -> tuple[str, str, object]:
        (here / "folder/a.yaml").write_text(f"{deployment}---\n{yaml.safe_dump_all(objects)}")
        engines = find_engines(objects_of_folder(here / "folder"), Hints(), "x")
        (running,) = engines.deployments
        return running.gpu, running.gpu_source, engines.free

    h100, h200 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200"
    mine, other = pod("summarise-5f-aa", "n2", 2), pod("else", "n2", 4)
    assert found_with(node("n1", h100), node("n2", h200), mine, other) == (
        "H200", "the nodes that its pods are on", {"H100": 8, "H200": 2},
    )  # fmt: skip
    assert found_with(node("n1", h100), node("n2", h100, unschedulable=True)) == (
        "H100", "all GPU nodes, which are of one type", {"H100": 4},
    )  # fmt: skip
    ended = pod("done", "n1", 8, "Succeeded")
    gone = (node("n1", h100), node("n2", h100, ready="Unknown"), ended, pod("summarise-5f-aa", "n2", 2))
    assert found_with(*gone)[2] == {"H100": 6}, "of two copies one is listed, on a node that has nothing free"
    assert found_with(node("n1", h100), node("n2", h200))[0] == ""
    assert found_with(node("n1", h100), node("n2", "strange"))[0] == ""
    assert found_with() == ("", "", None)


def test_queries_are_printed(planner: Command, here: Path) -> None:
    assert here
    done = planner("advise", "--manifests", str(FOLDER), "--queries", "--window", "30m")
    assert done.status == EXIT_DONE
    assert 'namespace="serving",pod=~"chat-llama70b-deployment-vllm-[a-z0-9]+-[a-z0-9]+"' in done.out
    assert "planner advise ... *.json" in done.out
