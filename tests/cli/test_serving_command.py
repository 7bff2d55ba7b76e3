"""`planner serving`: what it writes, what it prints, and what it refuses."""

import csv
import signal
from pathlib import Path
from typing import Any

import pytest
from command_line import TABLE, Command

from planner.domain import FormPoint
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INFEASIBLE, EXIT_INTERRUPTED
from planner.proposing import serving_forms

LLAMA = """\
name: llama
model: llama-3.1-70b
workload: azure-conv-2023
inventory: {H100: 8}
ranges: {width: 2048}
slo: {ttft_ms: 6000, tpot_ms: 24, percentile: 99}
"""


@pytest.fixture
def llama(here: Path) -> Path:
    Path("llama.yaml").write_text(LLAMA)
    return Path("llama.yaml")


def test_table_figure_and_page_are_written(planner: Command, llama: Path) -> None:
    answer = planner("serving", llama, "--tpot", "26,24,30", "--out", "s")
    assert answer.status == EXIT_DONE
    assert sorted(path.name for path in Path("s").iterdir()) == [
        "serving.csv",
        "serving.html",
        "serving.md",
        "serving.png",
    ]
    assert "3/3: 30 ms TPOT: auto" in answer.err
    assert "splitting pays" in answer.out
    assert "Written to s" in answer.out
    rows = list(csv.DictReader(Path("s/serving.csv").read_text().splitlines()))
    assert {row["serving"] for row in rows} == {"split", "aggregated", "auto"}
    assert {"24.0", "26.0", "30.0"} <= {row["tpot_ms"] for row in rows}
    page = Path("s/serving.md").read_text()
    assert page.startswith("# Forms of serving: llama\n")
    assert "| 24 (the scenario's) | **" in page
    assert "KV transfer of split pools under 24 ms TPOT: " in page
    assert Path("s/serving.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_one_document_and_an_old_result_stays(planner: Command, llama: Path) -> None:
    command = ("serving", llama, "--tpot", "22,24", "--out", "s", "--json")
    answer = planner(*command)
    assert (answer.status, answer.err) == (EXIT_DONE, "")
    assert answer.json["bounds_ms"] == [22, 24]
    assert answer.json["changes"] == []
    assert answer.json["own_ms"] == 24
    assert answer.json["summary"].startswith("By bound on TPOT: from 22 to 24 ms splitting pays (")
    assert 0 < answer.json["transfer"]["mean_ms"] < answer.json["transfer"]["longest_ms"]
    rates = {(point["tpot_ms"], point["serving"]): point["rate_rps"] for point in answer.json["points"]}
    assert len(rates) == 6
    assert rates[24, "split"] > rates[24, "aggregated"] > 0
    again = planner(*command)
    assert (again.status, again.out) == (EXIT_BAD_INPUT, "")
    assert "--force" in again.err
    assert planner(*command, "--force").status == EXIT_DONE


def test_without_a_folder_nothing_is_written(planner: Command, llama: Path) -> None:
    answer = planner("serving", llama, "--tpot", "22,24", "--quiet")
    assert (answer.status, answer.err) == (EXIT_DONE, "")
    assert "splitting pays" in answer.out
    assert [path.name for path in Path().iterdir()] == ["llama.yaml"]


@pytest.mark.parametrize("bounds", [0, 1, 2])
def test_an_interrupt_ends_with_the_bounds_done(
    planner: Command, llama: Path, monkeypatch: pytest.MonkeyPatch, bounds: int
) -> None:
    solved, plans = serving_forms._solved, 3 * bounds

    def interrupted(*arguments: Any) -> FormPoint:
        nonlocal plans
        if plans == 0:
            signal.raise_signal(signal.SIGINT)
        plans -= 1
        return solved(*arguments)

    monkeypatch.setattr(serving_forms, "_solved", interrupted)
    answer = planner("serving", llama, "--tpot", "22,24,26", "--out", "s", "--json")
    assert answer.status == EXIT_INTERRUPTED
    assert Path("s").exists() == (bounds > 0)
    if bounds:
        assert answer.err == f"Interrupted {3 - bounds} bounds before the end; what was found is in s\n"
        assert answer.json["bounds_ms"] == [22, 24, 26][:bounds]
        assert answer.json["unasked_ms"] == [22, 24, 26][bounds:]
        assert "**Interrupted**" in Path("s/serving.md").read_text()


def test_an_interrupt_while_changes_are_looked_for_keeps_all_bounds(
    planner: Command, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(serving_forms._Comparison, "_halve", interrupted)
    answer = planner("serving", llama, "--tpot", "24,60", "--out", "s", "--json")
    assert answer.status == EXIT_INTERRUPTED
    assert "before all changes were narrowed down" in answer.err
    assert [(change["below_ms"], change["above_ms"]) for change in answer.json["changes"]] == [(24, 60)]
    assert "changes were not narrowed down" in Path("s/serving.md").read_text()


@pytest.mark.parametrize(
    ("text", "bounds", "said"),
    [
        (LLAMA, "15,many", "--tpot: must be numbers"),
        (LLAMA, "15,,20", "--tpot: must be numbers"),
        (LLAMA, "15", "2 to 100 different ones, got 1"),
        (LLAMA, "15,0.05", "must lie in 0.1"),
        (LLAMA, "15,nan", "got nan"),
        (LLAMA, "15,6000", "slo.ttft_ms must exceed slo.tpot_ms"),
        (TABLE, "15,30", "routing.form must be buckets"),
        (LLAMA.replace("llama-3.1-70b", "llama-9"), "15,30", "error"),
    ],
)
def test_what_cannot_be_is_refused(planner: Command, llama: Path, text: str, bounds: str, said: str) -> None:
    llama.write_text(text)
    answer = planner("serving", llama, "--tpot", bounds, "--out", "s")
    assert (answer.status, answer.out) == (EXIT_BAD_INPUT, "")
    assert said in answer.err
    assert not Path("s").exists()


def test_bounds_that_nothing_reaches_are_infeasible(planner: Command, llama: Path) -> None:
    answer = planner("serving", llama, "--tpot", "2,3", "--out", "s", "--quiet")
    assert (answer.status, answer.out) == (EXIT_INFEASIBLE, "")
    assert "no form of serving reaches anything up to 3 ms TPOT" in answer.err
    assert not Path("s").exists()
