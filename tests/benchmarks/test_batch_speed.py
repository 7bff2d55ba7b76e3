"""What a batch costs over a plain loop, in CPU-seconds of one run; and a thousand small jobs."""

import csv
import json
import resource
import sys
import time
from pathlib import Path

import pytest

from planner import files, pipeline
from planner.files.scenario.settings import Setting
from planner.runs import publication
from planner.runs.batches.batches import BatchRequest, run_batch
from planner.runs.batches.jobs import Executor
from planner.runs.batches.local import LocalExecutor, SerialExecutor
from planner.runs.comparisons import write_batch_files
from planner.workload import summarize

SCENARIO = """\
name: fleet
model: deepseek-v3
workload: azure-code-2023
inventory: {H200: 32, H20: 64}
slo: {ttft_ms: 4000, tpot_ms: 60}
search: {method: auto}
"""
SMALL = "name: small\nmodel: deepseek-v3\nworkload: normal-500-2000\ninventory: {H200: 16}\nranges: {width: 4096}\n"
MOST_OVERHEAD = 0.10
FLEETS = (32, 48, 64)
TURNS = 4  # the least of so many is told: what else the machine does adds a tenth to a turn


def _cpu_s() -> float:
    """CPU-seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def plain_loop(folder: Path) -> float:
    """CPU-seconds of the same plans one after the other: read, planned, published, written."""
    began_s = _cpu_s()
    for gpus in FLEETS:
        scenario = files.load_scenario(folder / "fleet.yaml", summarize, (Setting("inventory.H20", gpus),))
        published = publication.publish(pipeline.plan(scenario, odds=True), engine="vllm")
        files.write_run(folder / f"plain-{gpus}", published.files)
    return _cpu_s() - began_s


def as_batch(folder: Path, name: str, executor: Executor) -> float:
    """CPU-seconds of the batch, all its files among it."""
    began_s = _cpu_s()
    result = run_batch(BatchRequest(source=folder / "jobs.yaml", folder=folder / name), executor)
    write_batch_files(folder / name, result)
    assert all(job.state.value == "planned" for job in result.batch.jobs)
    return _cpu_s() - began_s


@pytest.mark.bench
def test_a_batch_costs_little_over_a_plain_loop(tmp_path: Path) -> None:
    """One process each; what a worker process takes to start is told beside it."""
    (tmp_path / "fleet.yaml").write_text(SCENARIO)
    fleets = ", ".join(map(str, FLEETS))
    (tmp_path / "jobs.yaml").write_text(f"jobs: [{{scenario: fleet.yaml, grid: {{inventory.H20: [{fleets}]}}}}]")
    files.load_scenario(tmp_path / "fleet.yaml", summarize)
    loops, batches = [], []
    for turn in range(TURNS):
        place = tmp_path / f"turn-{turn}"
        place.mkdir()
        for name in ("fleet.yaml", "jobs.yaml"):
            (place / name).write_text((tmp_path / name).read_text())
        loops.append(plain_loop(place))
        batches.append(as_batch(place, "batch", SerialExecutor()))
    overhead = min(batches) / min(loops) - 1
    sys.stderr.write(f"plain {min(loops):.2f} CPU-s, batch {min(batches):.2f} CPU-s: {overhead:+.1%}\n")
    assert overhead <= MOST_OVERHEAD


def small_jobs(folder: Path, count: int) -> dict[str, float]:
    """So many small jobs on two workers, each of its own content; what they took."""
    (folder / "small.yaml").write_text(SMALL)
    (folder / "jobs.yaml").write_text(f"jobs: [{{name: s, scenario: small.yaml, seeds: 1..{count}:1}}]")
    request = BatchRequest(source=folder / "jobs.yaml", folder=folder / "out", figures=False)
    wall_s, cpu_s = time.monotonic(), _cpu_s()
    result = run_batch(request, LocalExecutor(workers=2))
    write_batch_files(folder / "out", result)
    took = {"jobs": count, "wall_s": time.monotonic() - wall_s, "cpu_s": _cpu_s() - cpu_s}
    rows = list(csv.DictReader((folder / "out/results.csv").read_text().splitlines()))
    assert [row["job"] for row in rows] == [f"s-s{seed}" for seed in range(1, count + 1)]
    assert {row["state"] for row in rows} == {"planned"}
    assert len({row["run"] for row in rows}) == count == len(list((folder / "out/runs").glob("*/plan.json")))
    assert len({row["rate_rps"] for row in rows}) == 1  # the seed decides nothing of a plan that is solved for
    return took


@pytest.mark.study
def test_a_thousand_small_jobs_run_through(tmp_path: Path) -> None:
    sys.stderr.write(f"{json.dumps(small_jobs(tmp_path, 1000))}\n")


def test_some_small_jobs_run_through(tmp_path: Path) -> None:
    """The small form: each planned once on two workers, none lost or doubled."""
    small_jobs(tmp_path, 4)
