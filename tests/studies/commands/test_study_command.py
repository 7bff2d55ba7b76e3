"""`planner study chapter5`: what it writes, what it prints, and what it refuses."""

import csv
from pathlib import Path

import pytest
from command_line import Command

from planner.domain import Scenario
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, SolverError
from planner.studies.chapter5.records import TrialOutcome

TINY_STUDY = ("study", "chapter5", "--trials", 1, "--iterations", 2, "--batch", 2, "--small", "--out", "s")
FIGURE = ("--figure", "5.8")
TABLES = ("findings.csv", "rounds.csv")
MEASURED = ("generation_cpu_s", "evaluation_cpu_s")


def rows(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def test_tables_figures_and_page_are_written(planner: Command) -> None:
    answer = planner(*TINY_STUDY, *FIGURE)
    assert answer.status == EXIT_DONE
    kinds = [f"figure_5_8.{kind}" for kind in ("csv", "png", "svg")]
    assert sorted(path.name for path in Path("s").iterdir()) == sorted([*kinds, *TABLES, "report.html", "study.md"])
    assert "expected: about" in answer.err
    assert answer.err.count("CPU-seconds a trial") == 3
    assert "halves the throughput" in answer.out
    first = rows("s/figure_5_8.csv")
    assert rows("s/rounds.csv") == first
    (finding,) = rows("s/findings.csv")
    assert finding["figure"] == "5.8"
    assert [row["value"] for row in first] == ["2", "2", "4", "4", "8", "8"]
    assert [row["iteration"] for row in first] == ["0", "1"] * 3
    assert all(0 < float(row["best_rps"]) <= float(row["optimum_rps"]) * 1.01 for row in first)
    page = Path("s/study.md").read_text()
    assert page.startswith("# Chapter 5 of the paper")
    assert "1 trial, 2 iterations, batch size 2" in page
    assert Path("s/figure_5_8.png").read_bytes().startswith(b"\x89PNG")
    again = planner(*TINY_STUDY, *FIGURE)
    assert (again.status, again.out) == (EXIT_BAD_INPUT, "")
    assert "--force" in again.err


@pytest.mark.study
def test_equal_numbers_in_two_processes(planner: Command) -> None:
    """Loading what a search needs takes each process seconds; studies that need less are compared each time."""
    assert planner(*TINY_STUDY, "--figure", "5.7", "--quiet").status == EXIT_DONE
    before = rows("s/figure_5_7.csv")
    again = planner(*TINY_STUDY, "--figure", "5.7", "--quiet", "--force", "--processes", 2)
    assert (again.status, again.err) == (EXIT_DONE, "")
    after = rows("s/figure_5_7.csv")
    for row in (*before, *after):
        assert all(float(row.pop(name)) >= 0 for name in MEASURED)
    assert before == after


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--figure", "5.14"), "figure: must be one of 4.8, table5.1, 5.1"),
        (("--figure", "4.8", "--trace", "mine/thesis.tex"), "only figure 5.13 shows traces"),
        (("--trials", 0), "--trials"),
        (("--iterations", 0), "--iterations"),
        (("--mode", "physical"), "--mode"),
        (("--out", "mine"), "--force"),
    ],
)
def test_what_cannot_be_is_refused_before_the_work(planner: Command, options: tuple, said: str) -> None:
    Path("mine").mkdir()
    Path("mine/thesis.tex").write_text("")
    answer = planner("study", "chapter5", "--small", *options)
    assert (answer.status, answer.out) == (EXIT_BAD_INPUT, "")
    assert said in answer.err
    assert "measured" not in answer.err
    assert [path.name for path in Path().iterdir()] == ["mine"]


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SolverError("made up", hint="Mend it.")])
def test_searches_outlive_what_cuts_a_study_short(
    planner: Command, monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    from planner.studies.chapter5 import study, trials

    asked = ("study", "chapter5", "--trials", 1, "--small", "--figure", "5.8", "--quiet", "--out")
    made: list[int] = []

    def run_trial(scenario: Scenario, progress: object) -> TrialOutcome:
        made.append(scenario.search.batch_size)
        if len(made) == 2 and not Path("whole").exists():
            raise end
        rates = tuple(100 + scenario.search.batch_size / (3 + k) for k in range(scenario.search.iterations))
        spent = (0.125,) * len(rates)
        return TrialOutcome(
            seed=scenario.search.seed, best_rps=rates, generation_cpu_s=spent, evaluation_cpu_s=spent,
            deviation_rps=None, layout="made up",
        )  # fmt: skip

    def none_in_time(*_arguments: object) -> None:
        raise SolverError("made up")

    monkeypatch.setattr(study, "run_trial", run_trial)
    monkeypatch.setattr(trials, "solve_layout", none_in_time)
    answer = planner(*asked, "s")
    assert answer.status == (130 if isinstance(end, KeyboardInterrupt) else 1)
    assert "1 search kept in s: the same command resumes" in answer.err
    assert [path.name for path in Path("s").iterdir()] == ["searches.jsonl"]
    Path("whole").mkdir()
    assert planner(*asked, "whole").status == EXIT_DONE
    whole = made[2:]
    made.clear()
    answer = planner(*asked, "s")
    assert (answer.status, answer.err) == (EXIT_DONE, "s: resumes from 1 search kept there\n")
    assert made == whole[1:]
    files = [{path.name: path.read_bytes() for path in Path(out).iterdir()} for out in ("s", "whole")]
    assert files[0] == files[1]


def test_an_interrupt_leaves_nothing(planner: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.studies.chapter5 import trials

    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trials, "optimize", interrupted)
    assert planner(*TINY_STUDY, "--figure", "5.7", "--quiet").status == 130
    assert list(Path().iterdir()) == []
