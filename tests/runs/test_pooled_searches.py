"""A search among layouts of pools: cut short and resumed, it ends as if nothing had happened."""

import json
from pathlib import Path

import pytest

from planner.domain import Assignment, Evaluation, Layout
from planner.errors import EXIT_INTERRUPTED
from planner.evaluation import evaluator as evaluation
from planner.evaluation.buckets import judging
from planner.runs import Job, resume_job, run_job

SCENARIO = """\
name: s
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 32}
ranges: {width: 2048}
search: {method: random, iterations: 2, batch_size: 2, timings: false}
"""
INTERRUPTED_AT = 3


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("planner.report.plan.page.figures_of", lambda _plan: ())
    Path("s.yaml").write_text(SCENARIO)
    return Path("s.yaml")


@pytest.mark.parametrize("method", ["random", "divider"])
def test_a_search_of_pools_is_resumed(scenario: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """In its second round; what learns from its trials proposes again what it would have."""
    scenario.write_text(SCENARIO.replace("method: random", f"method: {method}"))
    judged = 0

    def interrupted(layout: Layout, assignment: Assignment, cpu_s: float = 0.0) -> Evaluation:
        nonlocal judged
        judged += 1
        if judged == INTERRUPTED_AT:
            raise KeyboardInterrupt
        return judging.pooled_evaluation(layout, assignment, cpu_s)

    with monkeypatch.context() as patched:
        patched.setattr(evaluation, "pooled_evaluation", interrupted)
        assert run_job(Job(scenario=scenario, folder=Path("cut"))).status == EXIT_INTERRUPTED
    assert resume_job(Job(scenario=None, folder=Path("cut"))).status == 0
    assert run_job(Job(scenario=scenario, folder=Path("whole"))).status == 0
    assert Path("cut/plan.json").read_bytes() == Path("whole/plan.json").read_bytes()
    assert json.loads(Path("cut/plan.json").read_text())["buckets"]["pools"]
