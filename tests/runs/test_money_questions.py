"""Questions about money: against every fleet of a small offer, against the README's table, and against each other."""

import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import planner
from planner import pipeline
from planner.domain.frontier import GpuOffer
from planner.errors import InfeasibleError, InputError
from planner.files import (
    listed_offer,
    load_gpu_specs,
    load_price_list,
    offer_from_document,
    scenario_from_document,
)
from planner.runs.questions import (
    Demand,
    MoneyAnswer,
    answer_document,
    answer_text,
    best_fleet_for,
    cheapest_fleet,
    most_of_fleet,
)
from planner.runs.questions.documents import text_of
from planner.workload import summarize

RENT = {"H200": 4.0, "H20": 1.0}
LEVELS = {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}
DEMAND = Demand(
    model="deepseek-v3",
    workload="normal-500-2000",
    sections={"serving": "split", "slo": LEVELS, "ranges": {"width": 2048}, "routing": {"most": 1}},
)
MARGIN = 0.9
PROVEN = 0.021  # the solver's gap, and what is given up for simplicity
ROUND = 1e-6
ANSWERED_RPS = 20.0


def offer(counts: dict[str, int | None], **more: Any) -> GpuOffer:
    rows = {gpu: {"usd_per_hour": RENT[gpu], **({"count": n} if n else {})} for gpu, n in counts.items()}
    return offer_from_document({"gpus": rows, **more})


SMALL = offer({"H200": 16, "H20": 32})
FREE = offer({"H200": None, "H20": None})


@cache
def cheapest_of_all(rps: float) -> MoneyAnswer:
    """Of an offer that is never short; asked once for all tests."""
    return cheapest_fleet(DEMAND, rps, FREE)


@pytest.fixture(scope="module")
def fleets() -> dict[tuple[int, int], float]:
    """Promise of every fleet of whole nodes that the small offer has, by GPUs of H200 and H20; 0: it serves nothing."""
    rates = {}
    for h200 in (0, 8, 16):
        for h20 in (0, 16, 24, 32):
            counts = {gpu: n for gpu, n in (("H200", h200), ("H20", h20)) if n}
            if not counts:
                continue
            document = {"name": "f", "model": DEMAND.model, "workload": DEMAND.workload, "inventory": counts,
                        "simplicity": 0, **DEMAND.sections}  # fmt: skip
            try:
                scenario = scenario_from_document(document, origin="f", base=Path(), summarize=summarize)
                rates[h200, h20] = MARGIN * pipeline.plan(scenario).throughput_rps
            except InfeasibleError:
                rates[h200, h20] = 0.0
    return rates


def price(fleet: tuple[int, int]) -> float:
    return fleet[0] * RENT["H200"] + fleet[1] * RENT["H20"]


@pytest.mark.parametrize("rps", [20.0, pytest.param(40.0, marks=pytest.mark.study)])
def test_the_cheapest_is_that_of_all_fleets(
    fleets: dict[tuple[int, int], float], answered: MoneyAnswer, rps: float
) -> None:
    answer = answered if rps == ANSWERED_RPS else cheapest_fleet(DEMAND, rps, SMALL)
    least = min(price(fleet) for fleet, rate in fleets.items() if rate >= rps)
    assert answer.bound is not None
    assert answer.bound <= least * (1 + ROUND)
    assert answer.rent_usd_per_hour <= least * (1 + PROVEN)
    assert answer.promise_rps >= rps * (1 - 1e-4)
    assert sum(RENT[gpu] * n for gpu, n in answer.gpus) == pytest.approx(answer.rent_usd_per_hour)


@pytest.mark.parametrize("usd", [48.0, pytest.param(80.0, marks=pytest.mark.study)])
def test_the_best_for_a_budget_is_that_of_all_fleets(fleets: dict[tuple[int, int], float], usd: float) -> None:
    answer = best_fleet_for(DEMAND, usd, SMALL)
    most = max(rate for fleet, rate in fleets.items() if price(fleet) <= usd)
    assert answer.rent_usd_per_hour <= usd * (1 + ROUND)
    assert answer.bound is not None
    assert answer.bound * MARGIN >= most * (1 - 0.01)
    assert answer.promise_rps >= most * (1 - PROVEN)


def test_the_price_of_the_cheapest_buys_no_more_for_less() -> None:
    """Of fleets that cost the same the one that serves most: 64 USD/hour promise 30.5 requests/s, and 32.8 as well."""
    answer = cheapest_of_all(30)
    bought = best_fleet_for(DEMAND, answer.rent_usd_per_hour, FREE)
    assert answer.gap is not None
    assert answer.gap <= answer.scenario.search.gap + 1e-5
    assert bought.promise_rps <= answer.promise_rps * (1 + answer.scenario.search.gap)
    # What a decode pool's first step takes of a TTFT no programme sees: 0.05 % here, within the gap that both end at.
    if bought.promise_rps > answer.promise_rps * (1 + answer.scenario.search.gap / 2):
        assert bought.rent_usd_per_hour > answer.rent_usd_per_hour
    (told,) = [point for point in answer.plan.buckets.simpler if point.chosen]
    assert told.pools == len(answer.plan.buckets.pools)


def test_a_rate_beyond_every_fleet_names_one_that_would_do(fleets: dict[tuple[int, int], float]) -> None:
    with pytest.raises(InfeasibleError, match="16 H200") as error:
        cheapest_fleet(DEMAND, 1.5 * max(fleets.values()), SMALL)
    fleet, rent = re.search(r"prices: (.*), ([0-9.]+) USD/hour", error.value.hint or "").groups()  # type: ignore[union-attr]
    counts = {part.split()[1]: int(part.split()[0]) for part in fleet.split(", ")}
    assert sum(RENT[gpu] * n for gpu, n in counts.items()) == pytest.approx(float(rent), abs=0.01)
    assert any(n > {"H200": 16, "H20": 32}[gpu] for gpu, n in counts.items())


def test_a_budget_too_small_names_the_cheapest_fleet(fleets: dict[tuple[int, int], float]) -> None:
    least = min(price(fleet) for fleet, rate in fleets.items() if rate)
    with pytest.raises(InfeasibleError, match=rf"costs {least:.2f} USD/hour"):
        best_fleet_for(DEMAND, least - 1, SMALL)


def test_more_money_never_serves_less_and_more_requests_never_cost_less() -> None:
    less, more = (best_fleet_for(DEMAND, usd, SMALL).promise_rps for usd in (40, 48))
    assert more >= less * (1 - PROVEN)
    few, many = (cheapest_of_all(rps).rent_usd_per_hour for rps in (10, 30))
    assert many >= few * (1 - PROVEN)


def test_a_larger_offer_is_never_dearer() -> None:
    alone = cheapest_fleet(DEMAND, 10, offer({"H20": None}))
    assert cheapest_of_all(10).rent_usd_per_hour <= alone.rent_usd_per_hour * (1 + PROVEN)


def test_rivals_are_what_their_own_offer_answers() -> None:
    answer = cheapest_of_all(10)
    alone = {rival.what: rival for rival in answer.rivals}
    assert {"H20 alone", "H200 alone"} & set(alone)
    for gpu in ("H20", "H200"):
        if f"{gpu} alone" in alone:
            single = cheapest_fleet(DEMAND, 10, offer({gpu: None}))
            assert alone[f"{gpu} alone"].price_usd_per_hour == pytest.approx(single.rent_usd_per_hour, rel=PROVEN)
    assert "instead" in answer_text(answer)


def test_what_is_offered_without_a_count_never_binds() -> None:
    answer = cheapest_of_all(30)
    (paid,) = re.findall(r"as many as ([0-9.]+) USD/hour rents", answer.offered)
    assert answer.rent_usd_per_hour <= float(paid)
    counts = answer.document["inventory"]
    assert isinstance(counts, dict)
    assert all(n * RENT[gpu] >= answer.rent_usd_per_hour for gpu, n in counts.items())


def test_a_fleet_and_its_price_answer_each_other(answered: MoneyAnswer) -> None:
    cheapest = answered
    again = best_fleet_for(DEMAND, cheapest.rent_usd_per_hour, SMALL)
    assert again.promise_rps >= cheapest.promise_rps * (1 - PROVEN)
    owned = most_of_fleet(DEMAND, dict(cheapest.gpus), RENT)
    assert owned.promise_rps >= cheapest.promise_rps * (1 - PROVEN)
    assert owned.rent_usd_per_hour == pytest.approx(cheapest.rent_usd_per_hour)


def test_the_promise_is_less_than_the_capacity_by_the_scenarios_own_margin() -> None:
    half = replace(DEMAND, sections={**DEMAND.sections, "routing": {"margin": 0.5}})
    answer = cheapest_fleet(half, 10, SMALL)
    assert answer.plan.throughput_rps >= 20 * (1 - 1e-4)
    assert answer.promise_rps == pytest.approx(answer.plan.throughput_rps / 2)


def test_whole_nodes_are_rented_whole_and_the_bound_says_of_what_it_is() -> None:
    small_model = replace(DEMAND, model="qwen3-30b-a3b")
    singly = cheapest_fleet(small_model, 20, offer({"H200": None}))
    answer = cheapest_fleet(small_model, 20, offer({"H200": None}, whole_nodes=True))
    count = singly.gpus[0][1]
    assert count % 8
    kind = "a part of a node" if count < 8 else "no whole nodes"
    assert f"{count} H200 are {kind} of 8: where only whole nodes are for rent" in answer_text(singly)
    assert "only whole nodes" not in answer_text(answer)
    assert [n % 8 for _, n in answer.gpus] == [0]
    assert answer.rent_usd_per_hour >= singly.rent_usd_per_hour
    assert answer.bound == singly.bound
    assert answer.promise_rps >= 20
    assert "rented singly" in answer_text(answer)
    assert "by whole nodes" in answer_text(answer)


def test_a_budget_holds_by_whole_nodes() -> None:
    answer = best_fleet_for(replace(DEMAND, model="qwen3-30b-a3b"), 70, offer({"H200": None}, whole_nodes=True))
    assert answer.rent_usd_per_hour <= 70
    assert all(n % 8 == 0 for _, n in answer.gpus)


def test_a_loss_survived_leaves_the_promise() -> None:
    survive = replace(DEMAND, sections={**DEMAND.sections, "survive": {"nodes": 1, "share": 0.9}})
    answer = cheapest_fleet(survive, 10, FREE)
    assert answer.plan.buckets.worst_loss.rate_rps >= 10 * (1 - 1e-4)
    assert answer.rent_usd_per_hour > cheapest_of_all(10).rent_usd_per_hour


README_FREE = {"azure-code-2023": 541.1, "azure-conv-2023": 868.9}
"""README, Results: free choice for 512 USD/hour, of islands of any size with any routing, proven to 0.2 %."""
OF_512 = {"gpus": {"H200": {"usd_per_hour": 4, "count": 128}, "H800": {"usd_per_hour": 2, "count": 256},
                   "H20": {"usd_per_hour": 1, "count": 512}}}  # fmt: skip


@pytest.mark.parametrize("workload", ["azure-conv-2023", pytest.param("azure-code-2023", marks=pytest.mark.study)])
def test_512_usd_buy_nearly_what_a_free_choice_serves_and_never_more(workload: str) -> None:
    answer = best_fleet_for(
        Demand(model="deepseek-v3", workload=workload, sections={"serving": "split"}), 512, offer_from_document(OF_512)
    )
    most = README_FREE[workload]
    assert 0.97 * most <= answer.plan.throughput_rps <= most * 1.003
    assert answer.rent_usd_per_hour <= 512


def test_every_type_with_a_list_price_is_offered() -> None:
    priced = {name for name, gpu in load_gpu_specs().items() if gpu.price}
    listed = listed_offer()
    assert {row.gpu for row in listed.gpus} == priced
    changed = listed_offer({"H200": 2.5, "Rubin-NVL144": 30})
    assert {row.gpu: row.usd_per_hour for row in changed.gpus}["H200"] == 2.5
    assert {row.gpu for row in changed.gpus} == priced | {"Rubin-NVL144"}


@pytest.fixture(scope="module")
def answered() -> MoneyAnswer:
    return cheapest_fleet(DEMAND, ANSWERED_RPS, SMALL)


def test_the_scenario_stands_for_the_question(answered: MoneyAnswer, tmp_path: Path) -> None:
    from planner.files import load_scenario

    file = tmp_path / "s.yaml"
    file.write_text(text_of(answered, tmp_path))
    again = pipeline.plan(load_scenario(file, summarize))
    assert again.fleet == answered.plan.fleet
    assert again.throughput_rps == answered.plan.throughput_rps
    assert again.certificate == answered.plan.certificate


def test_paths_are_told_from_where_the_scenario_lies(
    answered: MoneyAnswer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = replace(answered, document={**answered.document, "workload": "traces/mine.csv"})
    assert "workload: ../traces/mine.csv\n" in text_of(answer, tmp_path / "scenarios")
    assert "workload: traces/mine.csv\n" in text_of(answer)


def test_text_and_document_say_the_same(answered: MoneyAnswer) -> None:
    text, document = answer_text(answered), answer_document(answered)
    assert text.startswith(f"20 requests/s cost {answered.rent_usd_per_hour:.2f} USD/hour: rent ")
    for part in ("requests/s promised, 0.9 of", "TTFT P99", "bound 4 s)", "TPOT P99", "the gap is"):
        assert part in text
    assert document["gpus"] == dict(answered.gpus)
    assert document["bound"] <= document["price_usd_per_hour"]
    demand = [row for row in document["latency"] if row["load"] == "demand"]
    assert {row["rate_rps"] for row in demand} == {20.0}
    assert all(row["late_ms"] <= {"prefill": 4000, "decode": 60}[row["phase"]] for row in demand)


@pytest.mark.parametrize("amount", [0, -1, float("nan"), float("inf")])
def test_amounts_that_are_none_are_refused(amount: float) -> None:
    with pytest.raises(InputError, match="must be above 0"):
        cheapest_fleet(DEMAND, amount, SMALL)
    with pytest.raises(InputError, match="must be above 0"):
        best_fleet_for(DEMAND, amount, SMALL)


PRICES = [
    ({"H100": -1.0}, "H100 must be a number of more than 0"),
    ({"H100": 0.0}, "H100 must be a number of more than 0"),  # for nothing, it would be left out of the offer
    ({"H100": float("nan")}, "H100 must be finite"),
    ({"nope": 2.0}, "nope is not a known GPU type"),
    ({"H100": 2.0, "h100": 3.0}, "h100 is H100 once more"),
]


@pytest.mark.parametrize(("prices", "words"), PRICES, ids=str)
def test_prices_that_are_none_are_refused(prices: dict[str, float], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        planner.cheapest(1, model="qwen3-30b-a3b", workload="normal-500-2000", prices=prices)
    path = tmp_path / "prices.yaml"
    path.write_text("".join(f"{gpu}: {'.nan' if math.isnan(usd) else usd}\n" for gpu, usd in prices.items()))
    with pytest.raises(InputError, match=words):
        load_price_list(path)


def test_prices_in_python_mean_types_in_any_case_and_go_without_an_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    question: dict[str, Any] = {"model": "qwen3-30b-a3b", "workload": "normal-500-2000", "progress": False}

    def asked(_demand: Demand, _rps: float, given: GpuOffer, *_: object) -> None:
        assert given.gpus == listed_offer({"H100": 0.01}).gpus
        raise InfeasibleError("made up")

    with monkeypatch.context() as patched:
        patched.setattr("planner.api.questions.cheapest_fleet", asked)
        with pytest.raises(InfeasibleError, match="made up"):
            planner.cheapest(1, prices={"h100": 0.01}, **question)
    with pytest.raises(InputError, match="goes without an offer"):
        planner.cheapest(1, prices={"H100": 2.0}, offer={"gpus": {"H100": {}}}, **question)


def test_prices_of_a_fleet_at_hand_are_found_in_any_case_and_only_once() -> None:
    question: dict[str, Any] = {"model": "qwen3-30b-a3b", "workload": "normal-500-2000"}
    assert planner.max({"h100": 8}, prices={"H100": 3.0, "H20": 1.0}, **question).price_usd_per_hour == 24
    with pytest.raises(InputError, match="is H100 once more"):
        planner.max({"h100": 8}, prices={"h100": 2.0, "H100": 3.0}, **question)
    with pytest.raises(InputError, match="rps: must be a number, got 'x'"):
        planner.cheapest("x", **question)


def test_levels_that_nothing_holds_name_the_closest() -> None:
    tight = replace(DEMAND, sections={**DEMAND.sections, "slo": {"ttft_ms": 30, "tpot_ms": 2, "percentile": 99}})
    with pytest.raises(InfeasibleError, match=r"(?s)slo.*ms") as error:
        cheapest_fleet(tight, 10, FREE)
    assert "levels" in str(error.value) or "slo" in str(error.value)


def test_fleets_without_a_price_are_told_as_such() -> None:
    answer = most_of_fleet(DEMAND, {"Rubin-NVL144": 16}, {})
    assert "of these GPUs serve more than" in answer_text(answer)
    assert "16 Rubin-NVL144, no price known\n" in answer_text(answer)
    assert answer.rent_usd_per_hour == 0
    assert "no price is known" in answer_text(answer)
    assert "nan" not in answer_text(answer)


def test_a_promise_that_bursts_undo_says_so_beside_its_proof() -> None:
    bursty = replace(DEMAND, workload="azure-code-2023", sections={"slo": LEVELS, "routing": {"most": 1}})
    answer = most_of_fleet(bursty, {"H20": 32}, {})
    buckets = answer.plan.buckets
    assert buckets.burst_rps is not None
    assert buckets.burst_rps < answer.promise_rps
    (figure,) = re.findall(r"promise ([0-9.]+) requests/s where they bunch as in the trace, ", answer_text(answer))
    assert float(figure) == pytest.approx(buckets.burst_rps, rel=0.01)
    assert answer_document(answer)["burst_rps"] == buckets.burst_rps
    assert "bunch" not in answer_text(most_of_fleet(DEMAND, {"H20": 32}, {}))  # no clock, no bursts


def test_prices_that_nobody_publishes_are_called_estimates() -> None:
    estimated = {name for name, gpu in load_gpu_specs().items() if gpu.price and gpu.price.is_estimate}
    assert estimated >= {"H20-3E", "MI308X"}  # README, Limits: "some of them estimates"
    words = "the price of H20-3E is an estimate"
    assert words in answer_text(most_of_fleet(DEMAND, {"H20-3E": 32}, {}))
    assert words not in answer_text(most_of_fleet(DEMAND, {"H20-3E": 32}, {"H20-3E": 2.0}))
    assert words not in answer_text(most_of_fleet(DEMAND, {"H20": 32}, {}))


SMALL_MODEL = replace(DEMAND, model="qwen3-30b-a3b")


def test_whole_nodes_are_the_cheapest_of_those_that_serve() -> None:
    """Singly an H200 beside H20 is cheapest; by the node a node of H20 serves the same for a fifth of both."""
    singly = offer({"H200": None, "H20": None}, whole_nodes=False)
    by_nodes = cheapest_fleet(SMALL_MODEL, 20, offer({"H200": None, "H20": None}, whole_nodes=True))
    nodes = [{"H20": 8}, {"H200": 8}, {"H20": 16}, {"H200": 8, "H20": 8}]
    serving = [fleet for fleet in nodes if most_of_fleet(SMALL_MODEL, fleet, RENT).promise_rps >= 20]
    least = min(sum(RENT[gpu] * n for gpu, n in fleet.items()) for fleet in serving)
    assert by_nodes.rent_usd_per_hour == pytest.approx(least)
    assert by_nodes.rent_usd_per_hour >= cheapest_fleet(SMALL_MODEL, 20, singly).rent_usd_per_hour
    assert all(n % 8 == 0 for rival in by_nodes.rivals for _, n in rival.gpus)
    assert all(rival.price_usd_per_hour >= least for rival in by_nodes.rivals)
    assert "target:" not in text_of(by_nodes)
    assert "whole nodes that were found to promise 20" in text_of(by_nodes)


def test_no_more_nodes_are_rented_than_are_on_offer() -> None:
    answer = best_fleet_for(SMALL_MODEL, 70, offer({"H200": 12}, whole_nodes=True))
    assert answer.gpus == (("H200", 8),)
    with pytest.raises(InputError, match=r"must offer a node of some type \(8 H200\)"):
        best_fleet_for(SMALL_MODEL, 70, offer({"H200": 7}, whole_nodes=True))


def test_a_price_that_lacks_a_type_is_not_shared_out_over_tokens() -> None:
    text = answer_text(most_of_fleet(SMALL_MODEL, {"H200": 8, "Rubin-NVL144": 8}, {}))
    assert "price     32.00 USD/hour without Rubin-NVL144, so none per token\n" in text
