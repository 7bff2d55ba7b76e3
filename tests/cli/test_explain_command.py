"""`planner explain` as a user calls it: a page of figures, JSON, refusals."""

import json
from pathlib import Path

from command_line import Command


def test_a_plan_and_its_pools_are_explained(planner: Command, run: Path) -> None:
    plan = json.loads((run / "plan.json").read_text())
    page = planner("explain", run)
    assert page.status == 0
    assert f"serves {plan['throughput_rps']:#.4g} requests/s" in page.out
    assert "loses at least" in page.out
    for pool in plan["buckets"]["pools"][:1]:
        answer = planner("explain", run, "--pool", pool["island"], "--seconds", "0")
        assert answer.status == 0
        parts = (
            "Why this GPU type",
            "Why this configuration",
            "Why so many",
            "Why these buckets",
            "What would change it",
        )
        assert all(f"## {part}" in answer.out for part in parts)
        document = planner("explain", run, "--island", pool["island"], "--seconds", "0", "--json").json
        assert (document["gpu"], document["servers"]) == (pool["gpu"], pool["count"])


def test_islands_of_a_table_are_explained(planner: Command, table_run: Path) -> None:
    plan = json.loads((table_run / "plan.json").read_text())
    island = next(island for island in plan["islands"] if island["phase"])
    answer = planner("explain", table_run, "--island", island["id"])
    assert (answer.status, "planner cost configurations" in answer.out) == (0, True)
    assert planner("explain", table_run).status == 0


def test_what_is_not_there_is_refused(planner: Command, run: Path, table_run: Path) -> None:
    for folder, noun in ((run, "pool"), (table_run, "island")):
        answer = planner("explain", folder, "--island", "nobody")
        assert (answer.status, answer.out) == (2, "")
        assert f"must have a{'n' * (noun == 'island')} {noun} 'nobody', has none. Its {noun}s are" in answer.err
    assert planner("explain", "nowhere").status == 2
