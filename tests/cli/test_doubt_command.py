"""`planner doubt`: the odds of a saved plan on the terminal, as JSON and in files."""

from functools import cache
from pathlib import Path

import pytest
from command_line import Command

from planner import files, pipeline
from planner.domain import Plan
from planner.errors import EXIT_BAD_INPUT
from planner.files.scenario.scenarios import scenario_from_document
from planner.report.kit.quantities import rate
from planner.workload import summarize

pytestmark = pytest.mark.usefixtures("all_draws")


@cache
def small_plan() -> Plan:
    """Eight GPUs that keep a bound on TPOT."""
    document = {
        "name": "doubted",
        "model": "qwen3-30b-a3b-fp8",
        "workload": "azure-conv-2023",
        "inventory": {"H20": 8},
        "serving": "aggregated",
        "ranges": {"width": 4096},
        "slo": {"ttft_ms": 2000, "tpot_ms": 40, "percentile": 95},
    }
    return pipeline.plan(scenario_from_document(document, origin="the tests", base=Path(), summarize=summarize))


def test_the_command_tells_odds_and_writes_its_files(planner: Command, here: Path) -> None:
    files.write_run(Path("run"), {"plan.json": files.encode_plan(small_plan())})
    doubts = ("--draws", "32", "--demand", "0.2", "--breakpoints", "20")
    answer = planner("doubt", "run", *doubts, "--sure", "0.85", "--out", "doubt", "--json")
    assert answer.status == 0
    assert {row["thing"].split()[0] for row in answer.json["swings"]} == {"H20", "the"}
    assert {row["key"] for row in answer.json["breakpoints"]} == {"pace.H20.mixed"}
    row = next(row for row in answer.json["sure"] if row["sure"] == 0.8)
    assert 0 < row["rate_rps"] < answer.json["rate_rps"]
    assert answer.json["asked_rps"] < row["rate_rps"]
    assert {path.name for path in Path("doubt").iterdir()} == {"doubt.md", "doubt.html", "draws.csv", "swings.csv"}
    assert len(Path("doubt/draws.csv").read_text().splitlines()) == 33
    text = planner("doubt", "run", "--draws", "32", "--demand", "0.2").out
    assert f"80 % sure: {rate(row['rate_rps'])} requests/s" in text
    assert planner("doubt", "run", "--draws", "32", "--out", "doubt").status == EXIT_BAD_INPUT  # it is there already


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--sure", "1.2"), "--sure: must be above 0 and below 1, got 1.2"),
        (("--draws", "3"), "draws must be"),
        (("--demand", "-1"), "demand must be"),
        (("--known-speeds",), "must doubt something"),
    ],
)
def test_bad_doubts_are_refused(planner: Command, here: Path, flags: tuple[str, ...], words: str) -> None:
    files.write_run(Path("run"), {"plan.json": files.encode_plan(small_plan())})
    answer = planner("doubt", "run", *flags)
    assert answer.status == EXIT_BAD_INPUT
    assert words in answer.err


LINE = ("--model", "qwen3-30b-a3b-fp8", "--workload", "azure-conv-2023", "--serving", "aggregated",
        "--ttft", "2s", "--tpot", "40ms", "--percentile", "95", "--json")  # fmt: skip


def test_a_question_may_ask_to_be_sure(planner: Command, here: Path) -> None:
    Path("offer.yaml").write_text("gpus: {H20: {usd_per_hour: 1, count: 2}}\n")
    sure = planner("cheapest", "--rps", "3", "--offer", "offer.yaml", "--sure", "0.8", "--out", "run", *LINE).json
    assert sure["scenario"]["promise"] == {"sure": 0.8}
    assert sure["promise_rps"] >= 3
    odds = {row["sure"]: row["rate_rps"] for row in sure["odds"]["sure"]}
    assert odds[0.8] == sure["promise_rps"] < odds[0.5]
    doubt = planner("doubt", "run", "--sure", "0.8", "--json").json
    assert doubt["asked_rps"] == pytest.approx(sure["promise_rps"])


def test_what_cannot_be_so_sure_is_refused(planner: Command, here: Path) -> None:
    assert planner("cheapest", "--rps", "14", "--sure", "0", *LINE).status == EXIT_BAD_INPUT
    both = planner("cheapest", "--service", "c=gpt-oss-20b:azure-conv-2023:9", "--sure", "0.8")
    assert "--sure: goes without --service" in both.err
    bought = planner("buy", "--usd", "9", "--sure", "0.8", *LINE)
    assert bought.status == EXIT_BAD_INPUT
    assert "promise.sure goes with objective.kind rate or target or robust" in bought.err
