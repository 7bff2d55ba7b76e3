"""`planner cost measure`: runs ranked, with their commands; and what is refused."""

import shlex
from pathlib import Path

import pytest
from command_line import Command

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE

RIVALS = """\
name: rivals
model: qwen3-30b-a3b-fp8
workload: azure-conv-2023
inventory: {H20: 16, L40S: 16}
prices_usd_per_gpu_hour: {H20: 1.0, L40S: 0.375}
objective: {kind: budget, budget_usd_per_hour: 8}
serving: aggregated
ranges: {width: 4096}
routing: {most: 1}
"""


@pytest.fixture
def rivals(here: Path) -> Path:
    path = here / "rivals.yaml"
    path.write_text(RIVALS, encoding="utf-8")
    return path


def test_runs_are_ranked_and_come_as_commands(planner: Command, rivals: Path) -> None:
    answer = planner("cost", "measure", rivals, "--draws", 16)
    assert (answer.status, answer.err) == (EXIT_DONE, "")
    for words in (
        "What to measure next",
        "Deciding now is expected to lose",
        "saves requests/s",
        "L40S",
        "it has paid",
    ):
        assert words in answer.out
    lines = answer.out.splitlines()
    assert any(line.startswith("vllm serve Qwen/Qwen3-30B-A3B") for line in lines)
    assert any(line.startswith("vllm bench serve --backend openai ") for line in lines)


def test_the_scenarios_engine_is_measured(planner: Command, rivals: Path) -> None:
    """Measurements call TensorRT-LLM otherwise than exports do."""
    rivals.write_text(f"{RIVALS}engine: trtllm\n")
    answer = planner("cost", "measure", rivals, "--draws", 16, "--runs", 1, "--json")
    assert (answer.status, answer.err) == (EXIT_DONE, "")
    assert all("trtllm-serve" in shlex.split(run["serve"][0]) for run in answer.json["runs"])


def test_json_has_the_same_rows(planner: Command, rivals: Path) -> None:
    options = ("--draws", 16, "--runs", 2, "--engine", "sglang", "--tool", "aiperf", "--json")
    found = planner("cost", "measure", rivals, *options).json
    assert found["scenario"] == "rivals"
    assert 1 <= len(found["runs"]) <= 2
    assert [run["rank"] for run in found["runs"]] == list(range(1, len(found["runs"]) + 1))
    first = found["runs"][0]
    assert first["gpu"] == "L40S"
    assert first["gpus"] == first["tp"] * first["dp"] * first["pp"]
    assert 0 < first["share"] <= 1
    assert found["worth_rps"] == pytest.approx(sum(run["worth_rps"] for run in found["runs"]))
    assert first["days_to_pay"] == pytest.approx(first["cost_usd"] / first["worth_usd_per_day"])
    assert shlex.split(first["load"])[:2] == ["aiperf", "profile"]
    assert shlex.split(first["serve"][0])[:3] == ["python3", "-m", "sglang.launch_server"]


def test_where_nothing_is_worth_measuring_that_is_said(planner: Command, rivals: Path) -> None:
    rivals.write_text(RIVALS.replace("H20: 16, L40S: 16", "H20: 16"), encoding="utf-8")
    answer = planner("cost", "measure", rivals, "--draws", 16)
    assert answer.status == EXIT_DONE
    assert "No run is worth its time" in answer.out
    assert "vllm serve" not in answer.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--runs", "0"), "runs: must be from 1 to 8, got 0."),
        (("--draws", "3"), "draws: must be from 16 to 1024, got 3."),
        (("--seed", "-1"), "--seed"),
        (("--engine", "trt"), "Engine 'trt': must be one of vllm, sglang, trtllm."),
        (("--tool", "wrk"), "Tool 'wrk': must be one of vllm, aiperf."),
    ],
)
def test_what_cannot_be_is_refused(planner: Command, rivals: Path, options: tuple[str, str], said: str) -> None:
    answer = planner("cost", "measure", rivals, *options)
    assert (answer.status, answer.out) == (EXIT_BAD_INPUT, "")
    assert said in answer.err


def test_a_scenario_that_is_none_is_refused(planner: Command, here: Path) -> None:
    answer = planner("cost", "measure", here / "none.yaml")
    assert (answer.status, answer.out) == (EXIT_BAD_INPUT, "")
    assert "none.yaml" in answer.err


def test_a_run_folder_is_asked_about_its_scenario(planner: Command, rivals: Path) -> None:
    assert planner("plan", rivals, "--out", "run").status == EXIT_DONE
    of_run, of_scenario = (planner("cost", "measure", where, "--draws", 16, "--json").json for where in ("run", rivals))
    assert of_run == of_scenario


def test_the_papers_mode_has_no_band_to_narrow(planner: Command, rivals: Path) -> None:
    text = RIVALS.replace("qwen3-30b-a3b-fp8", "deepseek-v3").replace("aggregated", "split")
    rivals.write_text(text.replace("L40S", "H200").replace("routing: {most: 1}", "cost: {mode: reference}"))
    answer = planner("cost", "measure", rivals)
    assert (answer.status, answer.out) == (EXIT_BAD_INPUT, "")
    assert "must be buckets to ask what to measure, got cost.mode: reference" in answer.err
