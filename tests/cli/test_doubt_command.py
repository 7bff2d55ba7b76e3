"""`planner doubt`: the odds of a saved plan on the terminal, as JSON and in files."""

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from command_line import Command

from planner import files, pipeline
from planner.domain import Plan
from planner.domain.serving.doubt import DoubtedPlan, DoubtSettings
from planner.errors import EXIT_BAD_INPUT, EXIT_INFEASIBLE
from planner.files.scenario.scenarios import scenario_from_document
from planner.report.kit.quantities import rate
from planner.runs.questions.documents import MoneyAnswer, MoneyQuestion
from planner.runs.questions.surely import MOST_TRIES, surely_cheapest
from planner.workload import summarize


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


LINE = ("cheapest", "--rps", "80", "--model", "qwen3-30b-a3b-fp8", "--workload", "azure-conv-2023", "--serving",
        "aggregated", "--offer", "offer.yaml", "--json")  # fmt: skip


@pytest.fixture
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    full = pipeline.doubt
    monkeypatch.setattr(pipeline, "doubt", lambda plan, settings, *more: full(plan, replace(settings, draws=16), *more))
    monkeypatch.setattr("planner.runs.questions.surely.MOST_TRIES", 3)


@pytest.mark.usefixtures("_few_draws")
def test_to_be_sure_costs_more(planner: Command, here: Path) -> None:
    Path("offer.yaml").write_text("gpus: {H20: {usd_per_hour: 1}}\n")
    predicted = planner(*LINE).json
    sure = planner(*LINE, "--sure", "0.9", "--out", "run").json
    assert sure["price_usd_per_hour"] > predicted["price_usd_per_hour"]
    assert (sure["sure"], sure["bound"], "sure" in predicted) == (0.9, None, False)
    assert sure["sure_rps"] >= 80
    told = planner("doubt", "run", "--sure", "0.9", "--draws", "16", "--json").json
    assert told["asked_rps"] == pytest.approx(sure["sure_rps"])


@pytest.mark.usefixtures("_few_draws")
def test_what_no_offer_makes_sure_is_told(planner: Command, here: Path) -> None:
    Path("offer.yaml").write_text("gpus: {H20: {usd_per_hour: 1, count: 1}}\n")
    answer = planner(*LINE, "--sure", "0.99")
    assert answer.status == EXIT_INFEASIBLE, answer.out
    assert planner(*LINE, "--sure", "0").status == EXIT_BAD_INPUT
    both = planner("cheapest", "--service", "c=gpt-oss-20b:azure-conv-2023:9", "--sure", "0.8")
    assert "--sure: goes without --service" in both.err


@pytest.mark.parametrize(("step", "share"), [(1.0, 0.5), (10.0, 0.8), (7.0, 1.3)])
def test_the_least_rate_that_is_sure_enough_is_sought(
    monkeypatch: pytest.MonkeyPatch, step: float, share: float
) -> None:
    """Fleets of so many requests/s at a step, of which a share is sure: the rent is least but for the tolerance."""
    asked: list[float] = []

    def ask(rate_rps: float) -> MoneyAnswer:
        asked.append(rate_rps)
        fleets = math.ceil(rate_rps / step - 1e-9)
        return MoneyAnswer(
            question=MoneyQuestion.CHEAPEST,
            amount=rate_rps,
            document={},
            scenario=small_plan().scenario,
            plan=replace(small_plan(), throughput_rps=fleets * step),
            rivals=(),
            gpus=(),
            rent_usd_per_hour=float(fleets),
            bound=float(fleets),
            gap=0.0,
        )

    def doubt(plan: Plan, settings: DoubtSettings) -> DoubtedPlan:
        rate_rps = plan.throughput_rps
        return DoubtedPlan(
            name="",
            rate_rps=rate_rps,
            promise_rps=rate_rps,
            rates_rps=(share * rate_rps,) * 16,
            demands_rps=(),
            rents=(),
        )

    monkeypatch.setattr("planner.runs.questions.surely.pipeline.doubt", doubt)
    answer = surely_cheapest(ask, 20.0, 0.8, DoubtSettings())
    least = max(math.ceil(20 / share / step - 1e-9), math.ceil(20 / step - 1e-9))
    assert least <= answer.rent_usd_per_hour <= max(least + 1, 1.05 * least)
    assert answer.sure is not None
    assert (answer.amount, answer.bound, answer.sure[1] >= 20) == (20.0, None, True)
    assert len(asked) <= MOST_TRIES
