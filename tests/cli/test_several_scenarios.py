"""`planner plan` with several scenarios: each gets its run or its error, and the end tells of all."""

import os
import re
from pathlib import Path

import pytest
from command_line import TINY, Command
from plain_pictures import unpainted

INVENTORIES = {
    "good": "{H200: 32, H20: 32}",
    "better": "{H200: 64, H20: 32}",
    "bad": "{H200: lots}",
    "poor": "{H200: 16}\nrouting: {form: table}",  # of the layouts that its search tries none serves
}


@pytest.fixture(autouse=True)
def scenarios(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenarios, and workers that write their runs without pictures."""
    monkeypatch.setenv("PYTHONPATH", unpainted(os.environ)["PYTHONPATH"])
    for name, inventory in INVENTORIES.items():
        text = TINY.replace("name: tiny", f"name: {name}").replace("{H200: 32, H20: 32}", inventory)
        (here / f"{name}.yaml").write_text(text)


def _plan(planner: Command, *names: str, flags: tuple[str, ...] = ()) -> tuple[int, str, str]:
    answer = planner("plan", *(f"{name}.yaml" for name in names), "--out", "out", *flags)
    return answer.status, answer.out, answer.err


def test_one_bad_among_three_in_a_table(planner: Command) -> None:
    status, out, err = _plan(planner, "good", "bad", "better")
    assert status == 2
    rows = [[cell.strip() for cell in re.split("│", line)[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert [row[:2] for row in rows] == [["good", "0"], ["bad", "2"], ["better", "0"]]
    assert [row[3] for row in rows] == ["160", "-", "288"]
    assert [row[5] for row in rows if row[1] == "0"] == ["out/good", "out/better"]
    assert rows[1][5].startswith("bad.yaml: inventory.H200 must be a whole number")
    assert sorted(err.splitlines()) == ["bad: failed with status 2", "better: done", "good: done"]
    assert sorted(path.name for path in Path("out").iterdir()) == ["better", "good"]


def test_an_infeasible_one_as_json(planner: Command) -> None:
    answer = planner("plan", "poor.yaml", "good.yaml", "--out", "out", "--json", "--executor", "serial")
    assert (answer.status, answer.err) == (3, "")
    assert [(row["scenario"], row["status"]) for row in answer.json] == [("poor", 3), ("good", 0)]
    assert "none of the 4 layouts tried serves every range in both phases" in answer.json[0]["message"]
    assert answer.json[0]["throughput_rps"] is None
    assert answer.json[1]["throughput_rps"] > 0
    assert sorted(path.name for path in Path("out").iterdir()) == ["good", "poor"]
    assert [path.name for path in Path("out/poor").rglob("*")] == ["search", "journal.jsonl"]  # what it has evaluated
    assert "`planner plan poor.yaml --resume out/poor`" in answer.json[0]["message"]


def test_failures_of_two_kinds_are_status_1(planner: Command) -> None:
    status, out, err = _plan(planner, "bad", "poor", flags=("--quiet", "--executor", "serial"))
    assert (status, err) == (1, "")
    assert "bad.yaml" in out
    assert "layouts tried" in out
    assert [path.name for path in Path("out").rglob("*")] == ["poor", "search", "journal.jsonl"]


def test_all_good_is_status_0(planner: Command) -> None:
    status, out, err = _plan(planner, "good", "better", flags=("--quiet", "--executor", "serial"))
    assert (status, err) == (0, "")
    assert "out/good" in out
    assert "out/better" in out
