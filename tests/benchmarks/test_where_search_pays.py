"""The guide's table of where a search pays is that of the trials, and `auto` does what it says."""

import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from where_search_pays import EXACT, ROWS, SEEDS, Row, interval, read, table

from planner.cli.docs.markdown_pages import guide_text
from planner.domain import SearchMethod
from planner.files import scenario_from_document
from planner.proposing.certificate import is_exact
from planner.workload import summarize

TRIALS = read()
ALONE = ("divider", "plain", "direct", "saasbo")
"""Models that begin with nothing."""

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.objective}, {row.name}")


def values(row: Row, method: str) -> list[float]:
    return [outcome.value for outcome in TRIALS[row.objective, row.name, method]]


def is_ahead(row: Row, method: str, other: str) -> bool:
    """Whether the mean difference, seed by seed, is above 0 by its 95 % interval."""
    gains = [one - two for one, two in zip(values(row, method), values(row, other), strict=True)]
    return statistics.mean(gains) > interval(gains) + 1e-9


def test_the_guide_has_the_table_of_the_trials() -> None:
    assert table() in guide_text("planning")
    assert set(TRIALS) == {(row.objective, row.name, method) for row in ROWS for method in row.methods}
    assert {len(outcomes) for outcomes in TRIALS.values()} == {len(SEEDS)}


@each_row
def test_searches_judge_equally_many(row: Row) -> None:
    searches = [TRIALS[row.objective, row.name, method] for method in row.methods if method != EXACT]
    assert {outcome.evaluations for outcomes in searches for outcome in outcomes} in ({32}, {16})


@each_row
def test_auto_follows_the_table(row: Row) -> None:
    """It is the programme where no search is ahead of that; else it begins with the answer and is not behind it."""
    assert not any(is_ahead(row, method, EXACT) for method in row.methods if method not in (EXACT, "auto"))
    scenario = scenario_from_document(row.document(), origin="test", base=Path(), summarize=summarize)
    searched = replace(scenario, search=replace(scenario.search, method=SearchMethod.AUTO))
    if "auto" in row.methods:
        assert not is_exact(searched)
        assert not is_ahead(row, EXACT, "auto")
    else:
        assert is_exact(searched) or searched.objective.kind.row.robust


def test_what_the_guide_says_of_it() -> None:
    rows = {(row.objective, row.name): row for row in ROWS}
    goals = rows["goals", "pools"]
    assert [row.objective for row in ROWS if "auto" in row.methods and is_ahead(row, "auto", EXACT)] == ["goals"]
    assert all(is_ahead(goals, EXACT, method) for method in goals.methods if method not in (EXACT, "auto"))
    placed = [row for row in ROWS if row.objective == "placed"]
    assert all(values(row, "auto") == values(row, "auto, graph") == values(row, EXACT) for row in placed)
    assert all(is_ahead(row, "auto", "graph") for row in placed)
    assert is_ahead(goals, "divider", "plain")
    of_rate = rows["rate", "table"]
    assert all(is_ahead(of_rate, EXACT, method) for method in ("plain", "saasbo", "random", "genetic"))
    assert not any(is_ahead(of_rate, one, other) for one in ALONE for other in ALONE if one != other)
