"""Worker processes that die: each task is answered, and the search goes on."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_scenarios import small
from worker_tasks import answer, answer_late, answer_the_second_time

from planner.domain import Evaluation, IslandClass, Layout, PerformanceTable, Question
from planner.errors import InputError
from planner.evaluation import judging
from planner.evaluation.evaluator import Evaluator
from planner.processes.workers import Workers
from planner.workload import question_of

FLEET = small({"H200": 32, "H20": 64})
ASKED = question_of(FLEET)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(2) as pool:
        yield pool


@pytest.mark.parametrize(("death", "place"), [("exit", 0), ("kill", 3)])
def test_a_task_that_kills_its_worker_takes_no_other_with_it(workers: Workers, death: str, place: int) -> None:
    tasks = [(k, "slow" if k == 1 else "well") for k in range(6)]
    tasks[place] = (place, death)
    found = list(workers.run(answer, tasks))
    assert isinstance(found[place], BrokenProcessPool)
    assert [one for k, one in enumerate(found) if k != place] == [k * k for k in range(6) if k != place]


def test_several_deaths_in_a_batch_are_each_told(workers: Workers) -> None:
    found = list(workers.run(answer, [(0, "exit"), (1, "well"), (2, "kill"), (3, "well")]))
    assert [isinstance(one, BrokenProcessPool) for one in found] == [True, False, True, False]
    assert [found[1], found[3]] == [1, 9]
    assert list(workers.run(answer, [(5, "well")])) == [25]


def test_an_exception_of_the_task_is_raised(workers: Workers) -> None:
    with pytest.raises(ValueError, match="made up"):
        list(workers.run(answer, [(0, "well"), (1, "raise")]))
    assert list(workers.run(answer, [(6, "well")])) == [36]


def layout(h200: int, h20: int) -> Layout:
    """Two islands of each type."""
    return Layout.of(IslandClass(gpu=g, size=s) for g, s in [("H200", h200), ("H20", h20)] * 2)


DOOMED = layout(8, 16)


def judge_or_die(table: PerformanceTable, one: Layout, question: Question) -> Evaluation:
    """The judge, but one layout's process is killed."""
    if one == DOOMED:
        os.kill(os.getpid(), signal.SIGKILL)
    return judging.judge(table, one, question)


def test_a_layout_that_kills_its_worker_is_a_failed_evaluation(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.evaluation.evaluator.judge", judge_or_die)
    batch = [layout(16, 32), DOOMED, layout(12, 24)]
    found = list(Evaluator(ASKED, workers)(batch))
    assert [one.failed for one in found] == [False, True, False]
    assert "BrokenProcessPool" in found[1].error
    assert found[1].throughput_rps == 0
    alone = Evaluator(ASKED)
    assert [found[0], found[2]] == [alone.evaluate(batch[0]), alone.evaluate(batch[2])]
    assert all(one.cpu_s > 0 for one in (found[0], found[2]))


@pytest.mark.parametrize("processes", [1, 2])
def test_an_evaluation_that_raises_is_recorded_with_its_reason(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """The question is broken for the judge, wherever it runs."""
    evaluator = Evaluator(ASKED, workers if processes > 1 else None)
    broken = replace(FLEET, assignment="no settings")  # type: ignore[arg-type]
    monkeypatch.setattr(evaluator, "question", Question(scenario=broken, workload=ASKED.workload))
    found = list(evaluator([layout(16, 32), layout(8, 16)]))
    assert [one.failed for one in found] == [True, True]
    assert all(one.error.startswith("AttributeError") and "'str'" in one.error for one in found)


def test_a_worker_that_dies_with_nothing_to_do_is_replaced() -> None:
    with Workers(2) as workers:
        before = set(multiprocessing.active_children())
        assert list(workers.run(answer, [(k, "slow") for k in range(2)])) == [0, 1]
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
            child.join()
        assert list(workers.run(answer, [(k, "well") for k in range(5)])) == [0, 1, 4, 9, 16]


def test_a_run_that_was_left_early_leaves_nothing_to_the_next() -> None:
    with Workers(2) as workers:
        for found in workers.run(answer, [(0, "well"), (1, "slow"), (2, "exit"), (3, "slow")]):
            assert found == 0
            break
        assert list(workers.run(answer, [(k, "well") for k in range(3)])) == [0, 1, 4]


def test_a_task_that_outlives_its_first_death_is_answered(tmp_path: Path) -> None:
    """A process killed from outside, for want of memory say, costs its task a second try, not its answer."""
    with Workers(2) as workers:
        tasks = [(k, str(tmp_path / str(k))) for k in range(4)]
        assert list(workers.run(answer_the_second_time, tasks)) == [0, 1, 4, 9]


def test_deaths_while_tasks_are_handed_over_stop_nothing(workers: Workers) -> None:
    """Deaths at every moment of the handing over: none raises, none hangs, each is told as what it is."""
    hows = ["kill", "well", "exit", "well", "well", "kill"] * 4
    found = list(workers.run(answer, list(enumerate(hows))))
    assert [isinstance(one, BrokenProcessPool) for one in found] == [how != "well" for how in hows]


@pytest.mark.parametrize("count", [0, -1])
def test_fewer_than_one_process_is_refused(count: int) -> None:
    with pytest.raises(InputError, match=f"processes: must be at least 1, got {count}"):
        Workers(count)


def test_an_error_does_not_wait_for_what_others_are_at(tmp_path: Path) -> None:
    mark, before = tmp_path / "late", set(multiprocessing.active_children())
    with pytest.raises(ValueError, match="made up"), Workers(2) as workers:
        list(workers.run(answer_late, [(0, ""), (1, str(mark))]))
    assert not mark.exists()
    assert not set(multiprocessing.active_children()) - before
