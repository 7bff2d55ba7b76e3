"""How far it is from a search to the solver: a reader who follows a rate to its programme passes few of our frames."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulp
import pytest
from pipeline_scenarios import small

import planner
from planner.pipeline import plan

HOME = Path(planner.__file__).parent
MOST_FRAMES = 8
SEARCHED = {"method": "random", "batch_size": 2, "iterations": 2, "min_island_size": 8, "timings": False}
FLEET = {"H200": 16, "H20": 16}
Stacks = set[tuple[str, ...]]


def _own_frames(innermost: Any) -> Iterator[str]:
    """Functions of ours that are under way, the outermost last."""
    frame = innermost
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(HOME):
            yield f"planner/{path.relative_to(HOME).as_posix()}:{frame.f_code.co_name}"
        frame = frame.f_back


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> Stacks:
    """Our frames at every call of the solver, from the outermost in."""
    heard: Stacks = set()
    solve = pulp.LpProblem.solve

    def listen(model: pulp.LpProblem, *arguments: Any, **options: Any) -> int:
        heard.add(tuple(reversed(list(_own_frames(sys._getframe(1))))))
        return int(solve(model, *arguments, **options))

    monkeypatch.setattr(pulp.LpProblem, "solve", listen)
    return heard


@pytest.mark.parametrize(
    "changes",
    [
        {"search": SEARCHED},
        {"search": SEARCHED, "objective": {"kind": "pareto", "goals": ["rate", "price"]}},
        {"search": {"method": "exact"}},
        {"search": {"method": "exact"}, "objective": {"kind": "per_dollar"}},
    ],
    ids=["searched", "several goals", "exact", "per dollar"],
)
def test_a_plan_is_few_frames_from_the_solver(stacks: Stacks, changes: dict[str, Any]) -> None:
    plan(small(FLEET, **changes))
    assert {stack[0] for stack in stacks} == {"planner/pipeline.py:plan"}
    assert max(map(len, stacks)) <= MOST_FRAMES, max(stacks, key=len)


def test_a_search_is_few_frames_from_the_solver_where_queues_count(stacks: Stacks) -> None:
    plan(small(FLEET, search=SEARCHED, slo={"ttft_ms": 4000}))
    begin = "planner/proposing/search/outer_loop.py:optimize"
    from_search = {stack[stack.index(begin) + 1 :] for stack in stacks if begin in stack}
    assert any("planner/evaluation/patience.py:with_patience" in stack for stack in from_search)
    assert max(map(len, from_search)) <= MOST_FRAMES, max(from_search, key=len)
