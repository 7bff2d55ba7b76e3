"""`planner simulate defragmentation`: folder, page, JSON, refusals."""

from pathlib import Path

import pytest
from command_line import Command

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE

SMALL = ("--nodes", 12, "--days", 1, "--warm-up-days", 0.1, "--seeds", "1-2", "--processes", 1, "--quiet")


def test_the_study_is_written_and_shown(planner: Command, here: Path) -> None:
    options = (*SMALL, "--every", "never,6", "--exact", 2, "--exact-nodes", 5)
    answer = planner("simulate", "defragmentation", *options, "--out", "out")
    assert answer.status == EXIT_DONE
    assert "| never | every 6 h |" in answer.out
    written = {path.relative_to("out").as_posix() for path in Path("out").rglob("*.*")}
    pictures = {"figures/placeable.png", "figures/rhythms.png"}
    assert written == {"runs.csv", "series.csv", "exact.csv", "summary.md", "report.html", *pictures}
    assert planner("simulate", "defragmentation", *options, "--out", "out").status == EXIT_BAD_INPUT
    again = planner("simulate", "defragmentation", *options, "--out", "out", "--force", "--json", "--no-figures")
    assert again.status == EXIT_DONE
    assert [(run["every_hours"], run["seed"]) for run in again.json["runs"]] == [(None, 1), (None, 2), (6, 1), (6, 2)]
    assert len(again.json["exact"]) == 2
    assert not Path("out/figures").exists()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--every", "often"), "--every: must be hours, and never"),
        (("--every", "nan"), "every hours: must be from 1"),
        (("--exact", "101"), "--exact: must be from 0 to 100"),
        (("--exact-nodes", "1"), "--exact-nodes: must be from 2"),
        (("--load", "0"), "load must be above 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(planner: Command, here: Path, options: tuple[str, ...], fault: str) -> None:
    answer = planner("simulate", "defragmentation", *SMALL, *options, "--out", "out")
    assert answer.status == EXIT_BAD_INPUT
    assert fault in answer.err
    assert not Path("out").exists()
