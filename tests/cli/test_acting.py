"""`planner watch --repository`: changes as commits, each once the one before stands; a controller applies them here."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from command_line import Command
from prometheus_servers import serving

from planner.domain.watching import Cause, Verdict, WatchSettings, WatchStep
from planner.errors import EXIT_BAD_INPUT, ExportError, InputError, PlannerError
from planner.runs.live.prometheus import prometheus_at
from planner.runs.replanning.stages import read_gate
from planner.runs.watching.acting import Acting
from planner.runs.watching.repository import Commit, Repository
from planner.runs.watching.watches import Clock, WatchJob, read_log, watch

SCENARIO = {
    "name": "chat",
    "model": "llama-3.1-8b",
    "workload": "normal-500-2000",
    "inventory": {"H100": 4},
    "prices_usd_per_gpu_hour": {"H100": 3.0},
    "serving": "split",
    "slo": {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99},
    "ranges": {"width": 4096},
    "changes": {"least_share": 0.9},
}
LOW_RPS, HIGH_RPS = 2.0, 40.0
EPOCH_S = 1.7e9


@dataclass
class Cluster:
    """What a controller has applied of a repository, as its Prometheus shows it. `broken`: islands that never come up;
    `ttft_s`: what every quantile is."""

    running: Counter[str] = field(default_factory=Counter)
    broken: set[str] = field(default_factory=set)
    ttft_s: float | None = None
    history: list[Counter[str]] = field(default_factory=list)

    def apply(self, repository: Path) -> None:
        """The folder's newest commit: copies of every island, by its number of attention groups."""
        root = repository / "chat"
        listed = yaml.safe_load(git(repository, "show", "HEAD:chat/kustomization.yaml"))["resources"]
        running = Counter[str]()
        for name in listed:
            for body in yaml.safe_load_all(git(repository, "show", f"HEAD:{root.name}/{name}")):
                if body and body["kind"] == "LeaderWorkerSet":
                    assert body["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"] == name[5]
                    text = json.dumps(body)
                    groups = re.search(r"--data-parallel-size[\"', =]+(\d+)", text)
                    copies = int(body["spec"]["replicas"]) * int(groups[1] if groups else 1)
                    running[body["metadata"]["labels"]["planner/island"]] += copies
        self.running = running
        self.history.append(running)

    def reply(self, handler: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        query = parse_qs(urlsplit(handler.path).query)["query"][0]
        value: float | None
        if one := re.search(r'planner_island="([^"]*)"', query):
            value = self.running[one[1]] if one[1] not in self.broken else 0
        elif others := re.search(r'planner_island!~"([^"]*)"', query):
            value = sum(count for name, count in self.running.items() if name not in others[1].split("|"))
        else:
            assert query.startswith("histogram_quantile(0.99, sum by (le) (rate(vllm:")
            value = self.ttft_s
        rows = [] if value is None else [{"metric": {}, "value": [EPOCH_S, str(value)]}]
        return 200, {}, json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}).encode()


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True).stdout


def commits(repository: Path) -> list[str]:
    return git(repository, "log", "--reverse", "--format=%s").splitlines()


@dataclass
class Scene:
    """A scenario, a repository, a cluster behind a Prometheus, and a clock."""

    place: Path
    cluster: Cluster
    url: str
    now_s: float = EPOCH_S

    @property
    def repository(self) -> Path:
        return self.place / "gitops"

    def job(self, ticks: int) -> WatchJob:
        return WatchJob(
            scenario=self.place / "chat.yaml",
            feeds=(self.place / "load.yaml",),
            out=self.place / "watched",
            ticks=ticks,
            settings=WatchSettings(smooth_s=60, dwell_s=60, least_gap_s=60, gap_per_change=0, retry_s=60, factor=1),
            acting=Acting(path=self.repository, prometheus=prometheus_at(self.url), window="90s"),
        )

    def load(self, rps: float) -> None:
        (self.place / "load.yaml").write_text(f"load_rps: {rps}\n")

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def look(self, *, applied: bool = True) -> WatchStep:
        """One observation, a minute after the one before; then the controller."""
        self.now_s += 60
        (step,) = watch(self.job(1), Clock(now=lambda: self.now_s, sleep=self._sleep))
        if applied:
            self.cluster.apply(self.repository)
        return step


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    cluster = Cluster()
    (tmp_path / "chat.yaml").write_text(yaml.safe_dump(SCENARIO))
    (tmp_path / "gitops").mkdir()
    git(tmp_path / "gitops", "init", "--quiet")
    with serving(cluster.reply) as url:
        yield Scene(place=tmp_path, cluster=cluster, url=url)


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A scene whose load fell: the first stage of a smaller plan is committed, and not applied."""
    place = tmp_path_factory.mktemp("lowered")
    (place / "chat.yaml").write_text(yaml.safe_dump(SCENARIO))
    (place / "gitops").mkdir()
    git(place / "gitops", "init", "--quiet")
    cluster = Cluster()
    with serving(cluster.reply) as url:
        scene = Scene(place=place, cluster=cluster, url=url)
        changed(scene)
    return scene


@pytest.fixture
def saving(lowered: Scene, tmp_path: Path) -> Iterator[Scene]:
    """The same, to go on with."""
    shutil.copytree(lowered.place, tmp_path / "scene")
    cluster = Cluster(running=Counter(lowered.cluster.running), history=list(lowered.cluster.history))
    with serving(cluster.reply) as url:
        yield Scene(place=tmp_path / "scene", cluster=cluster, url=url, now_s=lowered.now_s)


def stands(scene: Scene, rps: float) -> None:
    """The first plan, which promises so much, is applied and answers."""
    scene.load(rps)
    assert scene.look().decision.cause is Cause.START
    assert "times count from" in scene.look().observation.rolling
    assert scene.look().observation.rolling == ""


def changed(scene: Scene, cause: Cause = Cause.SAVING) -> WatchStep:
    """The first plan stands, and the load is far less than it promises, or more."""
    saves = cause is Cause.SAVING
    stands(scene, HIGH_RPS if saves else LOW_RPS)
    scene.load(LOW_RPS if saves else HIGH_RPS)
    for _ in range(4):
        step = scene.look(applied=False)
        if step.decision.verdict is Verdict.REPLAN:
            assert step.decision.cause is cause
            return step
    raise AssertionError(step.decision.reason)


def test_a_change_is_a_commit_a_stage_and_none_follows_before_the_last_one_stands(saving: Scene) -> None:
    assert commits(saving.repository)[0] == "plan 1 as a whole"
    stages = sorted(path.name for path in (saving.place / "watched/plans/0002/stages").iterdir())
    assert stages[0] == "00"
    count = len(stages) - 1
    assert commits(saving.repository)[1:] == [f"plan 2, stage 1 of {count}"]
    for _ in range(2):  # nothing was applied yet
        waiting = saving.look(applied=False)
        assert f"stage 1 of {count}, since" in waiting.observation.rolling
        assert waiting.decision.verdict is Verdict.KEEP
    assert len(commits(saving.repository)) == 2
    saving.cluster.apply(saving.repository)
    for _ in range(count):
        saving.look()
    assert commits(saving.repository)[1:] == [f"plan 2, stage {n} of {count}" for n in range(1, count + 1)]
    assert saving.look().observation.rolling == ""
    log = read_log(saving.place / "watched")
    planned = {pool.island: pool for pool in _plan(saving, 2).outlook.pools}
    assert {name for name, number in saving.cluster.running.items() if number} == set(planned)
    assert log.tally.changes


def _plan(scene: Scene, number: int) -> "object":
    from planner import files

    return files.load_run(scene.place / f"watched/plans/{number:04d}")


def test_engines_that_do_not_come_up_hold_the_rest_back(saving: Scene) -> None:
    saving.cluster.apply(saving.repository)
    before = set(saving.cluster.history[0])
    fresh = set(saving.cluster.running) | set(before)
    saving.cluster.broken = fresh
    seen = len(commits(saving.repository))
    saving.now_s += 60
    for _ in range(3):
        assert "answer: 0, must be at least" in saving.look(applied=False).observation.rolling
    assert len(commits(saving.repository)) == seen
    saving.cluster.broken = set()
    saving.look()
    done = saving.look().observation.rolling == ""
    assert done or len(commits(saving.repository)) > seen


def test_a_kill_between_files_and_commit_is_taken_up_again(saving: Scene, planner: Command) -> None:
    """A hook of git kills the whole process group while the first stage is committed."""
    hook = saving.repository / ".git/hooks/pre-commit"
    git(saving.repository, "reset", "--quiet", "--soft", "HEAD~1")  # as if the stage had been written, not committed
    hook.write_text("#!/bin/sh\nkill -9 0\n")
    hook.chmod(0o755)
    words = [sys.executable, "-c", _ONE_LOOK, str(saving.place), saving.url, str(saving.now_s + 60)]
    done = subprocess.run(
        words,
        start_new_session=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode in (-signal.SIGKILL, 1), done.stderr.decode()
    assert commits(saving.repository) == ["plan 1 as a whole"]
    hook.unlink()
    saving.look()
    assert commits(saving.repository)[1].startswith("plan 2, stage 1 of")
    assert git(saving.repository, "status", "--porcelain") == ""


_ONE_LOOK = """
import sys
from pathlib import Path
sys.path.insert(0, "tests/cli")
from test_acting import Cluster, Scene
scene = Scene(place=Path(sys.argv[1]), cluster=Cluster(), url=sys.argv[2], now_s=float(sys.argv[3]))
scene.look(applied=False)
"""


def test_what_somebody_else_did_to_the_folder_is_not_written_over(saving: Scene) -> None:
    edited = saving.repository / "chat/wave-0.yaml"
    edited.write_text(edited.read_text() + "# by hand\n")
    saving.cluster.apply(saving.repository)
    saving.now_s += 60
    with pytest.raises(InputError, match="was changed by hand"):
        saving.look(applied=False)
    assert edited.read_text().endswith("# by hand\n")
    git(saving.repository, "commit", "--all", "--quiet", "-m", "ours")
    with pytest.raises(InputError, match="last commit must be of this command, got 'ours'"):
        saving.look(applied=False)


def test_two_watches_of_one_folder_are_told_apart(saving: Scene) -> None:
    other = Repository.at(saving.repository, "chat")
    kept = {path.name: path.read_bytes() for path in (saving.repository / "chat").iterdir()}
    other.commit(kept, "of another watch", Commit(plan=7, stage=1, stages=3, at_s=saving.now_s))
    with pytest.raises(InputError, match=r"must be on the way to plan 2 .* is on that to plan 7"):
        saving.look(applied=False)


def test_gates_ask_for_times_where_nothing_forces_the_change(scene: Scene) -> None:
    """At the first plan times count; a change for load is not held up by the times that it is to mend."""
    changed(scene, Cause.LOAD)
    plans = scene.place / "watched/plans"
    first = read_gate((plans / "0001/stages/00/gate.yaml").read_text(), "gate")
    second = read_gate((plans / "0002/stages/01/gate.yaml").read_text(), "gate")
    assert [q.at_most for q in first if q.name.startswith("TTFT")] == [4.0]
    assert [q.at_most for q in first if q.name.startswith("TPOT")] == [0.06]
    assert not any(q.name.startswith("T") for q in second)
    late = next(q for q in first if q.name.startswith("TTFT"))
    assert late.fault((4.1,)) == f"{late.name}: 4.1, must be at most 4"
    assert late.fault(()) == late.fault((3.9,)) == ""
    answering = next(q for q in first if q.counts and q.at_least)
    assert answering.fault(()) == f"{answering.name}: 0, must be at least {answering.at_least:g}"
    assert answering.fault((answering.at_least + 1,))


def test_prometheus_must_answer_before_it_goes_on(saving: Scene) -> None:
    saving.cluster.apply(saving.repository)
    away = Scene(place=saving.place, cluster=saving.cluster, url="http://127.0.0.1:9", now_s=saving.now_s + 60)
    assert "must answer within" in away.look(applied=False).observation.rolling


def test_what_cannot_be_committed_is_refused(scene: Scene, planner: Command) -> None:
    bare = scene.place / "plain"
    bare.mkdir()
    common = ["watch", scene.place / "chat.yaml", "--feed", scene.place / "load.yaml", "--out", scene.place / "w"]
    refused = planner(*common, "--repository", bare, "--prometheus", scene.url)
    assert refused.status == EXIT_BAD_INPUT
    assert "must be a folder of a git work tree, is in none" in refused.err
    refused = planner(*common, "--repository", scene.repository)
    assert "goes with --prometheus" in refused.err
    refused = planner(*common, "--repository", scene.repository, "--prometheus", scene.url, "--simulate")
    assert "repository: is of what runs now" in refused.err
    hook = scene.repository / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho no >&2\nexit 1\n")
    hook.chmod(0o755)
    scene.load(LOW_RPS)
    with pytest.raises(PlannerError, match=r"git commit in .*: no"):
        scene.look()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A work tree with a commit."""
    git(tmp_path, "init", "--quiet")
    commit_one(tmp_path, 0)
    return tmp_path


def commit_one(tree: Path, stage: int) -> None:
    reached = Commit(plan=1, stage=stage, stages=9, at_s=EPOCH_S)
    Repository.at(tree, "chat").commit({"a.yaml": f"a: {stage}\n".encode()}, f"stage {stage}", reached)


def test_a_folder_that_would_be_lost_or_lies_elsewhere_is_refused(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nobody pushes commits of no branch; what a link points to is not in the repository."""
    (tree / "link").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    (tree / "file").touch()
    for label in ("link", "file"):
        with pytest.raises(InputError, match=f"{label}: must be a folder, is none"):
            Repository.at(tree, label)
    git(tree, "checkout", "--quiet", "--detach")
    with pytest.raises(InputError, match="must have a branch checked out, HEAD is detached"):
        Repository.at(tree, "chat")


def test_hooks_may_add_to_a_commit_and_alter_nothing_of_it(tree: Path) -> None:
    def hook(name: str, line: str) -> Path:
        path = tree / ".git/hooks" / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
        return path

    adds = hook("commit-msg", 'echo "Change-Id: I1" >> "$1"')
    commit_one(tree, 1)
    assert "Change-Id: I1" in git(tree, "log", "-1", "--format=%B")
    adds.unlink()
    drops = hook("commit-msg", 'echo stage > "$1"')
    with pytest.raises(PlannerError, match="must take chat/ as it is written, a hook altered it"):
        commit_one(tree, 2)
    drops.unlink()
    commit_one(tree, 3)
    hook("pre-commit", "echo '# neat' >> chat/a.yaml; git add chat")
    with pytest.raises(PlannerError, match="a hook altered it"):
        commit_one(tree, 4)


def test_what_git_says_names_the_file(tree: Path) -> None:
    """Of several lines, as of a lock that a kill has left, the one that says what is wrong."""
    (tree / ".git/index.lock").touch()
    with pytest.raises(PlannerError, match=r"fatal: Unable to create .*index\.lock': File exists"):
        commit_one(tree, 1)


def test_a_target_without_steps_is_refused_before_anything_stands(scene: Scene) -> None:
    scenario = {**SCENARIO, "deploy": {"target": "llm-d"}}
    (scene.place / "chat.yaml").write_text(yaml.safe_dump(scenario))
    scene.load(LOW_RPS)
    with pytest.raises(ExportError, match="is no object of Kubernetes, so it cannot be changed") as refused:
        scene.look(applied=False)
    assert "Export for lws or kubernetes" in refused.value.hint
    assert not (scene.repository / "chat").exists()
    assert not (scene.place / "watched/plans").exists()
