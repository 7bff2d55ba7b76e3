"""`planner study asi`: folder, JSON, refusals."""

from pathlib import Path

import pytest
from asi_trace import write_job_list, write_trace
from command_line import Command

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE


def test_every_figure_has_a_table_and_a_picture(planner: Command, here: Path) -> None:
    write_trace(Path("trace"))
    answer = planner("study", "asi", "trace", "--out", "out")
    assert answer.status == EXIT_DONE
    tables = sorted(path.stem for path in Path("out").glob("*.csv"))
    assert tables == sorted(path.stem for path in Path("out/figures").glob("*.png"))
    assert len(tables) == 15  # figures 4 and 10 have two halves
    page = Path("out/summary.md").read_text()
    assert "![GPUs given out by GPU type](figures/figure_09_allocation.png)" in page
    assert "Figure 14, Jobs within and across access switches: no row of the trace counts for it." in page
    first = {path: path.read_bytes() for path in Path("out").rglob("*.*")}
    assert planner("study", "asi", "trace", "--out", "out").status == EXIT_BAD_INPUT
    assert planner("study", "asi", "trace", "--out", "out", "--force").status == EXIT_DONE
    assert {path: path.read_bytes() for path in Path("out").rglob("*.*")} == first


def test_a_list_of_jobs_says_what_it_cannot_show(planner: Command, here: Path) -> None:
    write_job_list(Path("jobs"))
    answer = planner("study", "asi", "jobs", "--out", "out", "--no-figures", "--json")
    assert answer.status == EXIT_DONE
    assert [gap["number"] for gap in answer.json["missing"]] == ["2", "3", "9", "11", "12", "13", "14", "16"]
    assert not Path("out/figures").exists()
    assert (
        "Figure 2, Job types and priorities: a list of jobs tells nothing of it." in Path("out/summary.md").read_text()
    )


@pytest.mark.parametrize("days", ["9..", "3..1", "x", "-1..2", ".."])
def test_days_that_are_none_are_refused(planner: Command, here: Path, days: str) -> None:
    answer = planner("study", "asi", str(write_job_list(Path("jobs"))), "--out", "out", f"--days={days}")
    assert answer.status == EXIT_BAD_INPUT
    assert "--days: must be FIRST..LAST" in answer.err
    assert not Path("out").exists()


@pytest.mark.study
def test_a_made_up_trace_is_written_read_and_says_so(planner: Command, here: Path) -> None:
    assert planner("study", "asi", "--synthetic", 1, "--seed", 4, "--out", "made").status == EXIT_DONE
    assert planner("study", "asi", "made", "--no-figures", "--days", "117", "--out", "out").status == EXIT_DONE
    for page in ("made/README.md", "out/summary.md", "out/report.html"):
        assert "made to meet published marginals; says nothing new" in Path(page).read_text()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("jobs", "--synthetic", "1"), "TRACE: goes without --synthetic, got both."),
        (("--days", "1", "--synthetic", "1"), "--days: goes without --synthetic, got both."),
        ((), "TRACE: must be a folder, got none."),
    ],
)
def test_a_trace_or_a_made_up_one(planner: Command, here: Path, line: tuple[str, ...], said: str) -> None:
    answer = planner("study", "asi", *line, "--out", "out")
    assert answer.status == EXIT_BAD_INPUT
    assert said in answer.err
    assert not Path("out").exists()
