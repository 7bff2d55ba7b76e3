"""`planner init` writes scenarios that `check` and `plan` take; shipped scenarios are found by name."""

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml
from command_line import Command

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INFEASIBLE
from planner.files import load_scenario, shipped_scenarios
from planner.workload import summarize

FLAGS = ("--model", "qwen3-30b-a3b", "--workload", "normal-500-2000", "--inventory", "H20=4,H200=2")


@pytest.fixture
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Answers to be typed, one after the other."""
    answers: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with patch("typer.prompt", side_effect=lambda _, default, **__: answers.pop(0) or default):
        yield answers


def written(path: str = "scenario.yaml") -> dict[str, object]:
    document = yaml.safe_load(Path(path).read_text())
    assert isinstance(document, dict)
    return document


def test_what_flags_say_is_written_with_every_common_key_explained(planner: Command) -> None:
    answer = planner(
        "init", *FLAGS, "--ttft", "1.5s", "--tpot", "60ms", "--rps", 5, "--prices", "H20=0.9", "--survive", 1
    )
    assert answer.status == EXIT_DONE, answer.err
    assert written() == {
        "name": "scenario",
        "model": "qwen3-30b-a3b",
        "workload": "normal-500-2000",
        "inventory": {"H20": 4, "H200": 2},
        "prices_usd_per_gpu_hour": {"H20": 0.9},
        "slo": {"ttft_ms": 1500, "tpot_ms": 60, "percentile": 99},
        "objective": {"kind": "rate", "demand_rps": 5},
        "survive": {"nodes": 1, "share": 0.9},
    }
    for key in (*written(), "engine", "serving", "routing", "search"):
        assert f"{key}:" in Path("scenario.yaml").read_text()


def test_every_alternative_that_is_commented_out_may_stand_there(planner: Command) -> None:
    planner("init", *FLAGS, "--ttft", "4s")
    lines = Path("scenario.yaml").read_text().splitlines()
    tried = 0
    for line in (line.removeprefix("# ") for line in lines if line.startswith("# ")):
        key, _, value = line.partition(": ")
        if key.isidentifier() and not any(word in value for word in ("path/", "trace.csv", "cluster")):
            others = [row for row in lines if not row.startswith(f"{key}:")]
            Path("other.yaml").write_text("\n".join([*others, line]))
            load_scenario(Path("other.yaml"), summarize)
            tried += 1
    assert tried > 10


@pytest.mark.parametrize(
    ("levels", "money", "more"),
    list(
        product(
            ((), ("--ttft", "4s"), ("--tpot", "80ms", "--percentile", "90")),
            ((), ("--usd", "6"), ("--prices", "H20=0.5,A100=2", "--rps", "2")),
            ((), ("--engine", "sglang"), ("--serving", "auto")),
        )
    ),
)
def test_written_files_are_read_back(
    planner: Command, levels: tuple[str, ...], money: tuple[str, ...], more: tuple[str, ...]
) -> None:
    with patch("planner.pipeline.check"):  # the reader is what is tested here; one of each is planned below
        answer = planner("init", "mine.yaml", *FLAGS, *levels, *money, *more)
    assert answer.status == EXIT_DONE, answer.err
    scenario = load_scenario(Path("mine.yaml"), summarize)
    assert scenario.name == "mine"
    assert scenario.slo.bounds_anything == bool(levels)
    assert scenario.objective.rents == ("--usd" in money)
    assert scenario.engine.name == ("sglang" if "--engine" in more else "vllm")


@pytest.mark.parametrize("flags", [("--usd", "6"), ("--ttft", "4s", "--tpot", "60ms", "--rps", "3")])
def test_written_files_are_checked_and_planned(planner: Command, flags: tuple[str, ...]) -> None:
    assert planner("init", "mine.yaml", *FLAGS, "--serving", "aggregated", *flags).status == EXIT_DONE
    assert planner("check", "mine.yaml").status == EXIT_DONE
    assert planner("plan", "mine.yaml", "--quiet").status == EXIT_DONE
    assert Path("runs/mine/plan.json").is_file()


def test_an_answer_that_will_not_do_is_asked_for_again(planner: Command, on_a_terminal: list[str]) -> None:
    on_a_terminal += ["qwen", "qwen3-30b-a3b", "H20", "H20=x", "H21=4", "H20=4", "none.csv", "normal-500-2000"]
    on_a_terminal += ["4", "4s", "", "H20=free", "H20=1", "-3", "2"]
    answer = planner("init")
    assert answer.status == EXIT_DONE, answer.err
    assert on_a_terminal == []
    assert answer.err.count("error:") == 8
    assert written()["slo"] == {"ttft_ms": 4000, "percentile": 99}
    assert written()["objective"] == {"kind": "rate", "demand_rps": 2}


def test_a_fleet_that_cannot_serve_is_asked_for_again(planner: Command, on_a_terminal: list[str]) -> None:
    on_a_terminal += ["deepseek-v3", "H20=4", "normal-500-2000", "", "", "", "", "H20=16", "", ""]
    answer = planner("init")
    assert answer.status == EXIT_DONE, answer.err
    assert "no servers of these GPUs" in answer.err
    assert written()["inventory"] == {"H20": 16}


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("init --model qwen3-30b-a3b", EXIT_BAD_INPUT, "--workload, --inventory must be given"),
        ("init --model none --workload normal-500-2000 --inventory H20=4", EXIT_BAD_INPUT, "no model 'none'"),
        ("init --model deepseek-v3 --workload normal-500-2000 --inventory H20=4", EXIT_INFEASIBLE, "no servers of"),
        ("init --model qwen3-30b-a3b --workload normal-500-2000 --inventory H20=4 --usd -2", EXIT_BAD_INPUT, "--usd"),
        ("init --model qwen3-30b-a3b --workload normal-500-2000 --inventory H20=4 --rps -2", EXIT_BAD_INPUT, "--rps"),
        ("init .yaml --model qwen3-30b-a3b --workload normal-500-2000 --inventory H20=4", EXIT_BAD_INPUT, "name"),
    ],
)
def test_nothing_is_written_where_something_is_wrong(planner: Command, line: str, status: int, words: str) -> None:
    answer = planner(*line.split())
    assert answer.status == status
    assert words in answer.err
    assert list(Path().iterdir()) == []


def test_a_file_that_exists_is_left_alone(planner: Command) -> None:
    Path("scenario.yaml").write_text("mine")
    assert planner("init", *FLAGS).status == EXIT_BAD_INPUT
    assert Path("scenario.yaml").read_text() == "mine"
    assert planner("init", *FLAGS, "--force").status == EXIT_DONE


def test_shipped_scenarios_are_found_by_name(planner: Command) -> None:
    listed = planner("scenarios", "--json").json
    assert [row["name"] for row in listed] == list(shipped_scenarios())
    assert planner("check", "quickstart").status == EXIT_DONE


@pytest.mark.parametrize("line", ["plan {}", "check {}", "frontier {} --out f", "serving {}", "cost measure {}"])
def test_an_unknown_name_lists_the_nearest(planner: Command, line: str) -> None:
    answer = planner(*line.format("quickstrat").split())
    assert answer.status == EXIT_BAD_INPUT
    assert "quickstrat: no such file, nor is there a shipped scenario" in answer.err
    assert "Did you mean quickstart?" in answer.err


def test_a_file_of_a_shipped_name_comes_first(planner: Command) -> None:
    Path("quickstart").write_text("name: mine\nmodel: qwen3-30b-a3b\nworkload: normal-500-2000\ninventory: {H20: 4}\n")
    assert planner("check", "quickstart", "--json").json["scenario"] == "mine"


def test_a_folder_of_a_shipped_name_does_not(planner: Command) -> None:
    Path("quickstart").mkdir()
    assert planner("check", "quickstart", "--json").json["scenario"] == "quickstart"


@pytest.mark.parametrize("form", ["", "routing: {form: table}\n", "network: {nic_share: 0.5}\n"])
@pytest.mark.parametrize(
    "kind", ["{kind: target, target_rps: 1}", "{kind: budget, budget_usd_per_hour: 9}", "per_dollar"]
)
def test_an_objective_of_money_needs_no_method(here: Path, form: str, kind: str) -> None:
    head = "name: m\nmodel: qwen3-30b-a3b\nworkload: normal-500-2000\ninventory: {H20: 8}\n"
    Path("m.yaml").write_text(f"{head}{form}objective: {kind}\n")
    method = load_scenario(Path("m.yaml"), summarize).search.method.row
    assert method.solves or method.may_solve
