"""`planner cheapest`, `buy` and `max`: what they print and write, what to ask next, and what they refuse."""

import json
import re
import shlex
from pathlib import Path

import pytest
from command_line import Command

from planner.domain.frontier import GpuOffer
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INFEASIBLE, InfeasibleError
from planner.files import listed_offer
from planner.runs.questions import Demand

ASKED = ("--model", "qwen3-30b-a3b", "--workload", "normal-500-2000", "--ttft", "4s", "--tpot", "60ms")
OFFER = "gpus:\n  H200: {usd_per_hour: 4, count: 2}\n  H20: {usd_per_hour: 1, count: 4}\n"
TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"{k * 0.5},{200 + 13 * k},{5 + k % 9}\n" for k in range(60)
)


@pytest.fixture(autouse=True)
def offer(here: Path) -> Path:
    Path("offer.yaml").write_text(OFFER)
    return Path("offer.yaml")


def test_an_answer_stands_for_a_scenario_and_says_what_to_ask_next(planner: Command) -> None:
    answer = planner("cheapest", "--rps", 5, *ASKED, "--offer", "offer.yaml", "--scenario", "s.yaml")
    assert answer.status == EXIT_DONE, answer.err
    rent = re.match(r"5 requests/s cost ([0-9.]+) USD/hour: rent ", answer.out)
    assert rent
    assert "s.yaml" in answer.out
    commands = [line.strip() for line in answer.out.splitlines() if line.startswith("    planner ")]
    assert [command.split()[1] for command in commands] == ["plan", "replay", "buy", "cheapest"]
    again = planner(*shlex.split(commands[0])[1:], "--json")
    assert again.status == EXIT_DONE, again.err
    assert again.json["price_usd_per_hour"] == pytest.approx(float(rent[1]), abs=0.01)


def test_json_is_one_document(planner: Command) -> None:
    answer = planner("buy", "--usd", 6, *ASKED, "--serving", "aggregated", "--offer", "offer.yaml", "--json").json
    assert answer["price_usd_per_hour"] <= 6
    assert answer["low_rps"] <= answer["capacity_rps"] <= answer["bound"] * (1 + 1e-6)
    assert answer["promise_rps"] == pytest.approx(0.9 * answer["capacity_rps"])
    assert answer["scenario"]["objective"] == {"kind": "budget", "budget_usd_per_hour": 6}
    assert answer["rivals"]
    assert all(set(rival) == {"what", "gpus", "price_usd_per_hour", "rate_rps"} for rival in answer["rivals"])
    assert [step["command"].split()[1] for step in answer["next"]] == ["buy", "replay", "cheapest", "buy"]


def test_a_fleet_at_hand_of_a_trace_of_ones_own(planner: Command) -> None:
    Path("mine.csv").write_text(TRACE)
    Path("prices.yaml").write_text("H20: 0.5\nA100: 1.2\n")
    question = ("--inventory", "H20=4", "--model", "qwen3-30b-a3b", "--workload", "mine.csv", "--tpot", "80ms")
    Path("deep").mkdir()
    answer = planner("max", *question, "--prices", "prices.yaml", "--scenario", "deep/s.yaml", "--out", "run", "--json")
    assert answer.status == EXIT_DONE, answer.err
    assert json.loads(Path("run/plan.json").read_text())["scenario"]["name"] == answer.json["scenario"]["name"]
    assert Path("run/summary.md").is_file()
    assert answer.json["price_usd_per_hour"] == 2.0
    assert "workload: ../mine.csv" in Path("deep/s.yaml").read_text()
    assert planner("check", "deep/s.yaml").status == EXIT_DONE
    assert [step["command"] for step in answer.json["next"]][:2] == [
        "planner report run",
        "planner replay run --trace lengths",
    ]
    text = planner("max", *question, "--engine", "vllm:0.33.0", "--percentile", 95).out
    (whole_plan,) = (line for line in text.splitlines() if line.endswith("--out runs/max-H20x4"))
    assert planner(*shlex.split(whole_plan)[1:], "--quiet").status == EXIT_DONE
    assert Path("runs/max-H20x4/plan.json").is_file()
    assert "one more" in text
    assert "TPOT P95 " in text
    assert re.search(r"TPOT P95 \S+ ms \(P10–P90 \S+ ms, bound 80 ms\)", text)


def test_what_was_never_measured_stands_at_the_head(planner: Command) -> None:
    """A model that no run was of, on a type that was measured with others."""
    demand = ("--model", "qwen3-8b", "--workload", "normal-500-2000", "--tpot", "60ms")
    text = planner("max", "--inventory", "H20=1", *demand).out
    said = "no measurement of this model (H20)"
    first = "Measure one server before you rent many: `planner cost measure` says which runs tell most."
    assert text.splitlines()[1] == f"Carried over: {said}. {first}"
    answer = planner("max", "--inventory", "H20=1", *demand, "--json").json
    assert answer["carried_over"] == said
    assert all(row["low_ms"] < row["late_ms"] < row["high_ms"] for row in answer["latency"] if row["late_ms"])


def test_every_type_with_a_list_price_is_for_rent_unless_an_offer_says_what_is(
    planner: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers: list[GpuOffer] = []

    def asked(_demand: Demand, _rps: float, offer: GpuOffer, _progress: object) -> None:
        offers.append(offer)
        raise InfeasibleError("made up")

    monkeypatch.setattr("planner.runs.questions.cheapest_fleet", asked)
    assert planner("cheapest", "--rps", 3, *ASKED, "--prices", "H20=0.01").status == EXIT_INFEASIBLE
    assert [offer.gpus for offer in offers] == [listed_offer({"H20": 0.01}).gpus]
    assert planner("cheapest", "--rps", 3, *ASKED, "--offer", "offer.yaml").status == EXIT_INFEASIBLE
    assert {row.gpu: row.count for row in offers[1].gpus} == {"H200": 2, "H20": 4}


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("cheapest --rps 20 --model none --workload normal-500-2000", EXIT_BAD_INPUT, "no model 'none'"),
        ("cheapest --rps 20 --model qwen3-30b-a3b --workload none", EXIT_BAD_INPUT, "no workload 'none'"),
        ("cheapest --rps -2 --model qwen3-30b-a3b --workload normal-500-2000", EXIT_BAD_INPUT, "rps: must be above 0"),
        ("cheapest --rps nan --model qwen3-30b-a3b --workload normal-500-2000", EXIT_BAD_INPUT, "rps: must be above 0"),
        ("buy --usd 0 --model qwen3-30b-a3b --workload normal-500-2000", EXIT_BAD_INPUT, "usd: must be above 0"),
        ("cheapest --rps 2 --ttft 4 {asked}", EXIT_BAD_INPUT, "--ttft: must be a time"),
        ("cheapest --rps 2 --tpot -60ms {asked}", EXIT_BAD_INPUT, "--tpot: must be a time"),
        ("cheapest --rps 2 --tpot 60ms --percentile 100 {asked}", EXIT_BAD_INPUT, "slo.percentile"),
        ("cheapest --rps 2 --engine best {asked}", EXIT_BAD_INPUT, "engine"),
        ("cheapest --rps 2 --serving both {asked}", EXIT_BAD_INPUT, "serving"),
        ("cheapest --rps 2 --share 0.5 {asked}", EXIT_BAD_INPUT, "--share: goes with --survive"),
        ("cheapest --rps 2 --offer offer.yaml --prices H20=1 {asked}", EXIT_BAD_INPUT, "--prices: goes without"),
        ("cheapest --rps 2 --offer none.yaml {asked}", EXIT_BAD_INPUT, "none.yaml"),
        ("cheapest --rps 2 --prices H21=1 {asked}", EXIT_BAD_INPUT, "no GPU type 'H21'"),
        ("cheapest --rps 2 --prices H20=free {asked}", EXIT_BAD_INPUT, "H20 must be a price"),
        ("max --inventory H20 {asked}", EXIT_BAD_INPUT, "--inventory: must be pairs"),
        ("max --inventory H20=4,H20=4 {asked}", EXIT_BAD_INPUT, "H20 twice"),
        ("max --inventory H20=0 {asked}", EXIT_BAD_INPUT, "H20 must be a whole number"),
        ("max --inventory H21=4 {asked}", EXIT_BAD_INPUT, "H21"),
        ("max --inventory L4=8 --model deepseek-v3 --workload normal-500-2000", EXIT_INFEASIBLE, "673 GB of weights"),
        ("buy --usd 0.5 --offer offer.yaml {asked}", EXIT_INFEASIBLE, "the cheapest, 1 H20, costs 1.00 USD/hour"),
        ("cheapest --rps 2 --scenario offer.yaml {asked}", EXIT_BAD_INPUT, "offer.yaml: exists already"),
    ],
)
def test_what_cannot_be_answered_is_named(planner: Command, line: str, status: int, message: str) -> None:
    words = line.format(asked="--model qwen3-30b-a3b --workload normal-500-2000").split()
    answer = planner(*words)
    assert (answer.status, answer.out) == (status, "")
    assert message in answer.err
    assert "Traceback" not in answer.err
    assert sorted(path.name for path in Path().iterdir()) == ["offer.yaml"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "gpus must be"),
        ("gpus: {}", "gpus must be a mapping of GPU types"),
        ("gpus: {H21: {}}", "gpus.H21 is not a known GPU type"),
        ("gpus: {H20: {usd_per_hour: 0}}", "gpus.H20.usd_per_hour must be"),
        ("gpus: {H20: {usd_per_hour: .nan}}", "gpus.H20.usd_per_hour must be"),
        ("gpus: {H20: {count: 0}}", "gpus.H20.count must be"),
        ("gpus: {H20: {price: 1}}", "gpus.H20.price is not a known key"),
        ("gpus: {Rubin-NVL144: {}}", "no list price"),
        ("gpus: {H20: {}}\nwhole_nodes: maybe", "whole_nodes must be"),
        ("gpus: [H20]", "gpus must be"),
    ],
)
def test_offers_that_are_none_are_refused_by_key(planner: Command, offer: Path, text: str, message: str) -> None:
    offer.write_text(text)
    answer = planner("cheapest", "--rps", 2, *ASKED, "--offer", "offer.yaml")
    assert answer.status == EXIT_BAD_INPUT
    assert "offer.yaml: " in answer.err
    assert message in answer.err
