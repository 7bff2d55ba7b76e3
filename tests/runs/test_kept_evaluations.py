"""What was evaluated outlives every end of a search but a finished plan, and the error says how to go on."""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.domain import Evaluation, Layout, PerformanceTable, Question
from planner.errors import EXIT_INTERRUPTED, InconsistentPlanError, InfeasibleError, InputError, SolverError
from planner.evaluation import evaluator as evaluation
from planner.evaluation import judging
from planner.runs import Job, resume_job, run_job

SCENARIO = """\
name: {name}
model: deepseek-v3
workload: normal-500-2000
inventory: {{H200: {gpus}, H20: 32}}
ranges: {{width: 2048}}
assignment: {{work_limit: {work_limit}}}
routing: {{form: table}}
search: {{method: random, iterations: {iterations}, batch_size: 4, min_island_size: 12, timings: false, seed: {seed},
  failure_limit: {failure_limit}}}
"""
DEFAULTS: dict[str, Any] = {
    "name": "s", "gpus": 32, "work_limit": 20, "iterations": 4, "seed": 0, "failure_limit": 0.5,
}  # fmt: skip
Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.report.plan.page.figures_of", lambda _plan: ())


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the scenario, with these changes."""
    monkeypatch.chdir(tmp_path)

    def made(**changes: object) -> Path:
        Path("s.yaml").write_text(SCENARIO.format(**{**DEFAULTS, **changes}))
        return Path("s.yaml")

    return made


class Judge:
    """The planner's own, with what becomes of evaluations by their number in the order of being judged."""

    def __init__(self, broken: range = range(0), idle: range = range(0), interrupt: int = -1) -> None:
        self.broken, self.idle, self.interrupt, self.judged = broken, idle, interrupt, 0

    def __call__(self, table: PerformanceTable, layout: Layout, question: Question) -> Evaluation:
        number, self.judged = self.judged, self.judged + 1
        if number == self.interrupt:
            raise KeyboardInterrupt
        found = judging.judge(table, layout, question)
        if number in self.broken or number in self.idle:
            failed = number in self.broken
            return replace(found, throughput_rps=0.0, assignment=None, error="made up", failed=failed)
        return found


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Judge]:
    """Puts another judge in place."""

    def placed(**ends: Any) -> Judge:
        made = Judge(**ends)
        monkeypatch.setattr(evaluation, "judge", made)
        return made

    return placed


def _files(folder: str) -> dict[str, bytes]:
    paths = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _judged() -> list[int]:
    rows = [json.loads(line) for line in Path("cut/search/journal.jsonl").read_text().splitlines()]
    return [row["judged"]["index"] for row in rows if "judged" in row]


def _plan(folder: str, path: Path) -> dict[str, bytes]:
    assert run_job(Job(scenario=path, folder=Path(folder))).status == 0
    return _files(folder)


def _resume(path: Path | None, **changes: Any) -> dict[str, bytes]:
    assert resume_job(Job(scenario=path, folder=Path("cut"), **changes)).status == 0
    return _files("cut")


def _ended(error: type[Exception], path: Path, **changes: Any) -> Any:
    with pytest.raises(error) as caught:
        run_job(Job(scenario=path, folder=Path("cut"), **changes))
    assert [path.name for path in Path("cut").iterdir()] == ["search"]
    return caught.value


def _interrupted(path: Path) -> None:
    assert run_job(Job(scenario=path, folder=Path("cut"))).status == EXIT_INTERRUPTED


def test_a_search_that_gave_up_goes_on_with_a_higher_limit(write: Write, judge: Callable[..., Judge]) -> None:
    judge(broken=range(3, 14))
    error = _ended(SolverError, write())
    assert _judged() == list(range(12))
    assert "9 of 12 evaluations broke off" in error.message
    assert "Its 12 evaluations are kept" in error.hint
    assert shlex.split(error.hint.split("`")[1]) == ["planner", "plan", "s.yaml", "--resume", "cut"]
    raised = write(failure_limit=0.95)
    resumed = judge(broken=range(2))  # evaluations 12 and 13
    files = _resume(raised)
    assert resumed.judged <= 4 + 1  # the best layout may be judged once more, for its assignment
    judge(broken=range(3, 14))
    assert files == _plan("whole", raised)


def test_a_search_that_gave_up_and_is_unchanged_judges_again_what_broke_off(
    write: Write, judge: Callable[..., Judge]
) -> None:
    path = write()
    judge(broken=range(3, 14))
    _ended(SolverError, path)
    resumed = judge(interrupt=2)  # the cause is mended, and half-way the user changes his mind
    assert resume_job(Job(scenario=path, folder=Path("cut"))).status == EXIT_INTERRUPTED
    assert _judged() == [*range(12), 3, 4]
    resumed = judge()
    files = _resume(None)
    assert resumed.judged <= 7 + 4 + 1
    assert files == _plan("whole", path)


@pytest.mark.parametrize("work_limit", [20, 60])
def test_more_time_judges_again_what_broke_off(write: Write, judge: Callable[..., Judge], work_limit: float) -> None:
    judge(broken=range(2, 4), interrupt=9)
    _interrupted(write())
    resumed = judge()
    plan = json.loads(_resume(write(work_limit=work_limit))["plan.json"])
    failed = [trial["index"] for trial in plan["search"]["trials"] if trial.get("failed")]
    assert failed == ([2, 3] if work_limit == 20 else [])
    assert resumed.judged <= 7 + (0 if failed else 2) + 1


@pytest.mark.parametrize("iterations", [2, 3, 6])
def test_another_number_of_rounds_ends_as_if_it_had_been_asked_for(
    write: Write, judge: Callable[..., Judge], iterations: int
) -> None:
    judge(interrupt=10)
    _interrupted(write())
    judge()
    changed = write(iterations=iterations)
    assert _resume(changed) == _plan("whole", changed)


def test_a_resume_without_a_scenario_goes_on_with_the_last_that_was_given(
    write: Write, judge: Callable[..., Judge]
) -> None:
    judge(interrupt=5)
    _interrupted(write())
    judge(interrupt=9)
    longer = write(iterations=5, name="longer")
    assert resume_job(Job(scenario=longer, folder=Path("cut"))).status == EXIT_INTERRUPTED
    judge()
    assert _resume(None) == _plan("whole", longer)


def test_an_infeasible_end_keeps_what_was_evaluated(
    write: Write, judge: Callable[..., Judge], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_serves(*_arguments: object) -> None:
        raise InfeasibleError("made up")

    monkeypatch.setattr("planner.proposing.choice.solve_layout", none_serves)
    judge(idle=range(8))
    error = _ended(InfeasibleError, write(iterations=2), seed=3)
    assert _judged() == list(range(8))
    assert "raise search.iterations" in error.hint
    assert shlex.split(error.hint.split("`")[1]) == ["planner", "plan", "s.yaml", "--resume", "cut", "--seed", "3"]
    resumed = judge()
    plan = json.loads(_resume(write(iterations=3), seed=3)["plan.json"])
    assert len(plan["search"]["trials"]) == 12
    assert resumed.judged == 4


def test_a_defect_of_ours_keeps_them_too(
    write: Write, judge: Callable[..., Judge], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(iterations=2)

    def broken(*_arguments: object) -> None:
        raise InconsistentPlanError("made up", hint="Report it.")

    with monkeypatch.context() as patched:
        patched.setattr("planner.plans.finishing.audit", broken)
        assert _ended(InconsistentPlanError, path).hint.startswith("Report it. Its 8 evaluations are kept")
    resumed = judge()
    files = _resume(path)
    assert resumed.judged == 1
    assert files == _plan("whole", path)


def test_what_decides_the_search_is_refused_by_name(write: Write, judge: Callable[..., Judge]) -> None:
    judge(interrupt=5)
    _interrupted(write())
    before = _files("cut")
    with pytest.raises(
        InputError, match=r"cut: .* another scenario: inventory\.H200 32, got 16; search\.seed 0, got 4\."
    ):
        resume_job(Job(scenario=write(gpus=16, iterations=9), folder=Path("cut"), seed=4))
    assert _files("cut") == before


def test_a_finished_run_is_not_one_of_more_rounds(write: Write) -> None:
    files = _plan("cut", write(iterations=2))
    with pytest.raises(InputError, match=r"cut: is finished, .* search\.iterations 2, got 3\.") as caught:
        resume_job(Job(scenario=write(iterations=3), folder=Path("cut")))
    assert "search.warm_start: [cut]" in caught.value.hint
    assert _files("cut") == files


def test_what_evaluated_nothing_leaves_nothing(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> None:
        raise SolverError("made up", hint="Try again.")

    monkeypatch.setattr("planner.proposing.choice.require_room", broken)
    with pytest.raises(SolverError) as caught:
        run_job(Job(scenario=write(), folder=Path("cut")))
    assert caught.value.hint == "Try again."
    assert [path.name for path in Path().iterdir()] == ["s.yaml"]
