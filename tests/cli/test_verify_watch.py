"""`planner verify` of a watch: every decision is made again on what was observed, and its plan planned again."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from plain_pictures import copied_pictures

from planner.files.plan.digests import sealed
from planner.files.plan.journal_lines import line_of
from planner.runs.verifying.watches import DECIDED, OBSERVED, watch_verified
from planner.runs.watching.watches import WatchJob, watch

SMALL = """\
name: small
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 64, H20: 64}
prices_usd_per_gpu_hour: {H200: 4, H20: 1}
ranges: {width: 4096}
serving: split
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A load that rises once: two plans."""
    folder = tmp_path_factory.mktemp("watched")
    (folder / "small.yaml").write_text(SMALL)
    (folder / "load.csv").write_text("time,requests_per_s\n0,6\n600,16\n1800,16\n")
    job = WatchJob(
        scenario=folder / "small.yaml",
        feeds=(folder / "load.csv",),
        out=folder / "seen",
        every_s=300.0,
        simulate=True,
    )
    with copied_pictures():
        assert len(list(watch(job))) == 7
    return folder


@pytest.fixture
def watched(seen: Path, here: Path) -> Path:
    """A copy, with its scenario beside it."""
    shutil.copy(seen / "small.yaml", here)
    return Path(shutil.copytree(seen / "seen", here / "seen"))


def with_line(folder: Path, number: int, change: Callable[[dict[str, Any]], object]) -> None:
    """A line of the log changed, its checksum written anew."""
    path = folder / "watch.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    step = json.loads(lines[number - 1])["step"]
    change(step)
    lines[number - 1] = line_of("step", step)
    path.write_bytes(b"".join(lines))


def line_with_plan(folder: Path, number: int) -> int:
    """Where a plan takes its place."""
    rows = [json.loads(line) for line in (folder / "watch.jsonl").read_text().splitlines()]
    places = [place for place, row in enumerate(rows, start=1) if row.get("step", {}).get("decision", {}).get("fleet")]
    return places[number - 1]


def test_a_watch_as_it_was_written_agrees(planner: Command, watched: Path) -> None:
    assert planner("report", watched).status == 0
    with copied_pictures():
        answer = planner("verify", watched, "--json")
    assert (answer.status, answer.json["differences"]) == (0, [])
    assert answer.json["unchecked"] == [OBSERVED]
    assert {"watch.jsonl", "current", "report.html", "plans/0002/plan.json"} <= set(answer.json["files"])


def test_edits_of_decisions_are_found(watched: Path) -> None:
    """By line and key, with what would have been decided; without the scenario, what its plan contradicts."""
    number = line_with_plan(watched, 2)
    edits = {
        "decision.reason": lambda step: step["decision"].update(reason="the load rose"),
        "decision.fleet.change_usd": lambda step: step["decision"]["fleet"].update(change_usd=0.5),
        "decision.fleet.promise_rps": lambda step: step["decision"]["fleet"].update(promise_rps=99.0),
        "observation.load_rps": lambda step: step["observation"].update(load_rps=6.0),
        "time": lambda step: step.update(time="noon"),
    }
    for key, change in edits.items():
        shutil.copytree(watched, "edited")
        with_line(Path("edited"), number, change)
        keys = [row.key for row in watch_verified(Path("edited"), None).verification.differences]
        if key == "observation.load_rps":  # taken as it is, but what was decided does not follow from it
            assert any(name.startswith(f"line {number}, decision.") for name in keys)
        else:
            assert keys == [f"line {number}, {key}"]
        shutil.rmtree("edited")
    Path("small.yaml").rename("away.yaml")
    with_line(watched, number, edits["decision.fleet.promise_rps"])
    alone = watch_verified(watched, None)
    assert not alone.decided
    assert DECIDED in alone.verification.unchecked
    assert [row.key for row in alone.verification.differences] == [f"line {number}, decision.fleet.promise_rps"]
    assert watch_verified(watched, Path("away.yaml")).decided


def test_other_pools_and_another_plan_that_stands_are_found(watched: Path) -> None:
    """Pools that serve the load as well, and are not those that the watch would have chosen."""
    (watched / "current").write_text("plans/0001\n")
    path = watched / "plans/0002/plan.json"
    document = json.loads(path.read_text())
    document["scenario"]["objective"]["target_rps"] *= 1.01
    path.write_text(json.dumps(sealed(document), ensure_ascii=False))
    rows = {(row.file, row.key) for row in watch_verified(watched, None).verification.differences}
    assert ("current", "line 1") in rows
    assert ("plans/0002/plan.json", "scenario.objective.target_rps") in rows


def test_another_scenario_is_told(watched: Path) -> None:
    Path("other.yaml").write_text(SMALL.replace("H20: 1}", "H20: 1.5}"))
    keys = {row.key for row in watch_verified(watched, Path("other.yaml")).verification.differences}
    assert "header.facts.scenario" in keys
