"""Many scenarios: each ends for itself, whatever becomes of the others."""

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from plain_pictures import unpainted

from planner.errors import InfeasibleError, InputError
from planner.files import load_run
from planner.plans.comparing import plan_figures
from planner.runs import Job, Outcome, run_job, run_scenarios
from planner.runs.batches.local import PATIENCE_S

TINY = """\
name: {name}
model: deepseek-v3
workload: normal-500-2000
inventory: {inventory}
ranges: {{width: 2048}}
routing: {{form: table}}
search: {{method: random, iterations: {iterations}, batch_size: 4, min_island_size: {least}}}
"""
MakeJob = Callable[..., Job]


@pytest.fixture(autouse=True)
def _unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started here write runs without pictures."""
    monkeypatch.setenv("PYTHONPATH", unpainted(os.environ)["PYTHONPATH"])


@pytest.fixture
def job(tmp_path: Path) -> MakeJob:
    """A job of that name with a scenario of its own."""

    def make(name: str, *, gpus: int = 32, least: int = 12, iterations: int = 2, **changes: object) -> Job:
        path = tmp_path / f"{name}.yaml"
        inventory = f"{{H200: {gpus}, H20: {gpus}}}"
        path.write_text(TINY.format(name=name, inventory=inventory, iterations=iterations, least=least))
        return Job(scenario=path, folder=tmp_path / "runs" / name, **changes)  # type: ignore[arg-type]  # as in Job

    return make


def _runs(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "runs").iterdir()}


def _searches(tmp_path: Path) -> set[str]:
    """Folders that hold an unfinished search."""
    return {path.parents[1].name for path in (tmp_path / "runs").glob("*/search/journal.jsonl")}


def test_a_job_writes_its_run_and_tells_its_figures(job: MakeJob) -> None:
    heard: list[tuple[int, int, float]] = []
    outcome = run_job(job("one"), lambda done, total, best: heard.append((done, total, best)))
    plan = load_run(Path(outcome.folder))
    assert plan.rate_band is not None
    assert outcome == Outcome(
        scenario="one",
        folder=outcome.folder,
        status=0,
        throughput_rps=plan.throughput_rps,
        low_rps=plan.rate_band.low_rps,
        high_rps=plan.rate_band.high_rps,
        prefill_rps=plan.prefill_rps,
        decode_rps=plan.decode_rps,
        price_usd_per_hour=160.0,
        price_usd_per_million_tokens=plan.price_usd_per_million_tokens,
        figures=plan_figures(plan, "one"),
    )
    assert heard == [(4 * (i + 1), 8, best) for i, best in enumerate(plan.search.best_by_iteration())]


def test_a_job_of_buckets_is_the_same_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text("name: pools\nmodel: deepseek-v3\nworkload: normal-500-2000\ninventory: {H200: 16}\n")
    (outcome,) = run_scenarios([Job(scenario=path, folder=tmp_path / "runs" / "pools")], 1)
    assert outcome.status == 0
    assert load_run(tmp_path / "runs" / "pools").buckets is not None
    assert outcome == run_job(Job(scenario=path, folder=tmp_path / "runs" / "pools", force=True))


def test_a_job_may_change_seed_and_processes(job: MakeJob) -> None:
    plan = load_run(Path(run_job(job("one", seed=11, processes=2)).folder))
    assert (plan.scenario.search.seed, plan.scenario.search.processes) == (11, 2)
    assert plan.provenance.seed == 11


@pytest.mark.parametrize(("engine", "command"), [("vllm", "vllm"), ("sglang", "sglang")])
def test_a_job_chooses_the_engine(job: MakeJob, engine: str, command: str) -> None:
    folder = Path(run_job(job("one", engine=engine, least=16)).folder)  # 16 or 32 GPUs, which SGLang can run
    manifests = [path.read_text() for path in (folder / "manifests").glob("0*.yaml")]
    assert manifests
    assert all(command in text for text in manifests)


def test_a_failed_job_raises_and_leaves_nothing(job: MakeJob, tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError):
        run_job(job("poor", gpus=2, least=1))
    with pytest.raises(InputError):
        run_job(job("bad", gpus=-1))
    assert not (tmp_path / "runs").exists()
    made = run_job(job("one"))
    with pytest.raises(InputError, match="already holds"):
        run_job(job("one", seed=1))
    assert load_run(Path(made.folder)).provenance.seed == 0


def test_a_killed_worker_is_a_failure_of_its_own(job: MakeJob, tmp_path: Path) -> None:
    jobs = [job("endless", iterations=100_000), job("one"), job("two")]
    running = run_scenarios(jobs, 2)
    first = next(running)
    while _searches(tmp_path) != {"endless"}:  # on a laden machine it may not have begun
        time.sleep(0.05)
    # the first worker is still at the endless search, the other waits for the next scenario
    endless, _ = sorted(multiprocessing.active_children(), key=lambda child: child.pid or 0)
    assert endless.pid is not None
    os.kill(endless.pid, signal.SIGKILL)
    rest = {outcome.scenario: outcome for outcome in running}
    assert (first.scenario, first.status) == ("one", 0)
    assert (rest["endless"].status, rest["two"].status) == (1, 0)
    assert rest["endless"].message == "its process ended without an answer (exit code -9)"
    assert _runs(tmp_path) == {"endless", "one", "two"}
    assert _searches(tmp_path) == {"endless"}


def test_who_stops_listening_stops_the_work(job: MakeJob, tmp_path: Path) -> None:
    running = run_scenarios([job("one"), job("endless", iterations=100_000)], 2)
    assert next(running).scenario == "one"
    started = time.monotonic()
    running.close()
    assert time.monotonic() - started < PATIENCE_S + 10
    assert [child for child in multiprocessing.active_children() if child.is_alive()] == []
    assert _runs(tmp_path) <= {"endless", "one"}  # stopped early, the other search has not begun
    assert _runs(tmp_path) - _searches(tmp_path) == {"one"}


def test_no_jobs_no_outcomes() -> None:
    assert list(run_scenarios([], 2)) == []


def test_outcomes_are_json(job: MakeJob) -> None:
    from dataclasses import asdict

    outcome = run_job(job("one"))
    assert json.loads(json.dumps(asdict(outcome), allow_nan=False))["status"] == 0
