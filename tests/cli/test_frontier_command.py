"""`planner frontier`: what it writes, what it prints, and what it refuses."""

import csv
import signal
from pathlib import Path
from typing import Any

import pytest
from command_line import Command

from planner.domain import FrontierPoint
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INTERRUPTED
from planner.proposing import frontier

PRICED = """\
name: priced
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 16, H20: 32}
prices_usd_per_gpu_hour: {H200: 4, H20: 1}
ranges: {width: 2048}
search: {work_limit: 30}
"""


@pytest.fixture
def priced(here: Path) -> Path:
    Path("priced.yaml").write_text(PRICED)
    return Path("priced.yaml")


def test_table_figure_and_page_are_written(planner: Command, priced: Path) -> None:
    answer = planner("frontier", priced, "--points", 3, "--out", "f")
    assert answer.status == EXIT_DONE
    assert sorted(path.name for path in Path("f").iterdir()) == [
        "frontier.csv",
        "frontier.html",
        "frontier.md",
        "frontier.png",
    ]
    assert answer.err.count("requests/s (") == 3
    assert "3/3:" in answer.err
    assert "most per USD" in answer.out
    rows = list(csv.DictReader(Path("f/frontier.csv").read_text().splitlines()))
    assert 2 <= len(rows) <= 3
    assert {"price_usd_per_hour", "rate_rps", "bound_rps", "gpus_H20", "gpus_H200", "watts"} <= set(rows[0])
    page = Path("f/frontier.md").read_text()
    assert page.startswith("# Frontier: priced\n")
    assert page.count("\n| ") == 2 + len(rows)
    assert Path("f/frontier.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_one_document_and_an_old_result_stays(planner: Command, priced: Path) -> None:
    asked = ("frontier", priced, "--points", 2, "--out", "f", "--json")
    answer = planner(*asked)
    assert (answer.status, answer.err) == (EXIT_DONE, "")
    points = answer.json["points"]
    assert points[-1]["budget_usd_per_hour"] == 16 * 4 + 32
    assert sum(points[-1]["gpus"].values()) == sum(size * count for _, size, count in points[-1]["layout"])
    assert 0 <= answer.json["most_per_dollar"] < len(points)
    again = planner(*asked)
    assert (again.status, again.out) == (EXIT_BAD_INPUT, "")
    assert "--force" in again.err
    assert planner(*asked, "--force").status == EXIT_DONE


@pytest.mark.parametrize("points", [0, 1, 2])
def test_an_interrupt_ends_with_the_points_found(
    planner: Command, priced: Path, monkeypatch: pytest.MonkeyPatch, points: int
) -> None:
    point = frontier._point

    def interrupted(*arguments: Any) -> FrontierPoint | None:
        nonlocal points
        if points == 0:
            signal.raise_signal(signal.SIGINT)
        points -= 1
        return point(*arguments)

    asked = points
    monkeypatch.setattr(frontier, "_point", interrupted)
    answer = planner("frontier", priced, "--points", 3, "--out", "f", "--json")
    assert answer.status == EXIT_INTERRUPTED
    assert Path("f").exists() == (asked > 0)
    if asked:
        assert answer.err == f"Interrupted {3 - asked} budgets before the end; what was found is in f\n"
        assert len(answer.json["unasked_usd_per_hour"]) == 3 - asked
        assert "**Interrupted**" in Path("f/frontier.md").read_text()


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (PRICED, ("--points", 1), "points: must lie in 2..200, got 1"),
        (PRICED, ("--points", "many"), "--points"),
        (PRICED.replace("{H200: 4, H20: 1}", "{H200: 0, H20: 0}"), (), "prices_usd_per_gpu_hour"),
        (PRICED.replace("deepseek-v3", "deepseek-v9"), (), "Did you mean"),
    ],
)
def test_what_cannot_be_is_refused(planner: Command, priced: Path, text: str, options: tuple, said: str) -> None:
    priced.write_text(text)
    answer = planner("frontier", priced, "--out", "f", *options)
    assert (answer.status, answer.out) == (EXIT_BAD_INPUT, "")
    assert said in answer.err
    assert not Path("f").exists()
