"""`planner plan` with the objective `replayed`."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from command_line import TRACE, Command, untimed

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INTERRUPTED
from planner.proposing.replayed.rounds import ReplayRounds

REPLAYED = """\
name: replayed
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 16}
ranges: {width: 2048}
slo: {ttft_ms: 4000, tpot_ms: 60, percentile: 99}
objective: {kind: replayed, requests: 1000, replays: 1}
search: {iterations: 2, batch_size: 2}
"""


@pytest.fixture
def scenario(here: Path) -> Path:
    (here / "replayed.yaml").write_text(REPLAYED)
    return here / "replayed.yaml"


def test_a_plan_is_made_and_told_and_an_interrupted_search_resumes_to_the_same(
    planner: Command, scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = planner("plan", scenario, "--out", "whole")
    assert answer.status == EXIT_DONE
    assert "Replayed, the plan holds the levels up to" in answer.out
    document = json.loads(Path("whole/plan.json").read_text())
    assert document["scenario"]["objective"]["kind"] == "replayed"
    assert document["buckets"]["replayed"]["solved"]["search_rps"] > 0
    assert document["search"]["trials"][0]["replayed_rps"] > 0
    judge = ReplayRounds._judge

    def interrupted(rounds: ReplayRounds, proposed: Any) -> None:
        if proposed.iteration:
            signal.raise_signal(signal.SIGINT)
        judge(rounds, proposed)

    with monkeypatch.context() as patched:
        patched.setattr(ReplayRounds, "_judge", interrupted)
        answer = planner("plan", scenario, "--out", "cut")
    assert answer.status == EXIT_INTERRUPTED
    assert "planner plan --resume cut" in answer.err
    assert planner("plan", "--resume", "cut").status == EXIT_DONE
    assert untimed(Path("cut"))["plan.json"] == untimed(Path("whole"))["plan.json"]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("routing: {form: table}", "routing.form must be buckets"),
        ("slo: {}", "slo must hold a bound"),
        ("search: {method: exact}", "search.method must be auto"),
    ],
)
def test_what_it_does_not_go_with_is_refused_with_a_remedy(
    planner: Command, scenario: Path, line: str, word: str
) -> None:
    key = line.partition(":")[0]
    kept = [row for row in REPLAYED.splitlines() if not row.startswith(f"{key}:")]
    scenario.write_text("\n".join([*kept, line]) + "\n")
    answer = planner("plan", scenario, "--out", "run")
    assert answer.status == EXIT_BAD_INPUT
    assert word in answer.err
    assert "objective.kind" in answer.err
    assert not Path("run").exists()


def test_a_trace_is_named_anew_where_its_search_resumes(
    planner: Command, scenario: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "mine.csv").write_text(TRACE)
    scenario.write_text(REPLAYED.replace("normal-500-2000", "mine.csv"))

    def cut(rounds: ReplayRounds, _proposed: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ReplayRounds, "_judge", cut)
        assert planner("plan", scenario, "--out", "run").status == EXIT_INTERRUPTED
    answer = planner("plan", "--resume", "run")
    assert answer.status == EXIT_BAD_INPUT
    assert "planner plan SCENARIO --resume" in answer.err
    assert planner("plan", scenario, "--resume", "run").status == EXIT_DONE
