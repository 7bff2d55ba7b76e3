"""What the tests of run folders share: small plans from a shipped workload, by table and by buckets, and of a trace."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from plain_pictures import copied_pictures

from planner import pipeline
from planner.domain import Plan
from planner.files import load_scenario
from planner.runs.publication import publish
from planner.workload import summarize

SMALL = """\
name: small
model: deepseek-v3
workload: {workload}
inventory: {{H200: 32, H20: 32}}
prices_usd_per_gpu_hour: {{H200: 3.7}}
node_selectors: {{H20: {{pool: cheap}}}}
ranges: {{width: 1024}}
routing: {{form: table}}
search: {{method: random, iterations: 3, batch_size: 4, seed: 5}}
"""
BUCKETED = """\
name: pooled
model: deepseek-v3
workload: azure-code-2023
inventory: {H200: 32, H20: 32}
prices_usd_per_gpu_hour: {H200: 3.7}
slo: {ttft_ms: 4000, tpot_ms: 60, percentile: 99}
objective: {kind: rate, demand_rps: 50}
survive: {nodes: 1, share: 0.3}
ranges: {width: 2048}
search: {timings: false}
"""
TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"{i * 0.7:.1f},{400 + 37 * (i * i % 61)},{3 + 5 * i % 23}\n" for i in range(200)
)


@pytest.fixture
def painted() -> None:
    """For tests that look at what is painted."""


@pytest.fixture(autouse=True)
def _pictures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs are written again and again, without pictures."""
    with nullcontext() if "painted" in request.fixturenames else copied_pictures():
        yield


@pytest.fixture(scope="session")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    path = tmp_path_factory.mktemp("scenario") / "small.yaml"
    path.write_text(SMALL.format(workload="normal-500-2000"))
    return pipeline.plan(load_scenario(path, summarize))


@pytest.fixture(scope="session")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """The user's default way: pools behind buckets, with service levels."""
    path = tmp_path_factory.mktemp("scenario") / "pooled.yaml"
    path.write_text(BUCKETED)
    return pipeline.plan(load_scenario(path, summarize))


@pytest.fixture(scope="session")
def run_files(plan: Plan) -> dict[str, bytes]:
    """Every file of the small plan's run."""
    return publish(plan).files


@pytest.fixture
def plan_of_a_trace(tmp_path: Path) -> Plan:
    """A plan whose trace is gone by the time that the test sees it."""
    trace, path = tmp_path / "mine.csv", tmp_path / "small.yaml"
    trace.write_text(TRACE)
    path.write_text(SMALL.format(workload="mine.csv"))
    made = pipeline.plan(load_scenario(path, summarize))
    trace.unlink()
    path.unlink()
    return made
