"""`cost.kv_cache_rate` of a scenario: a number, rows by prompt length, or auto; and the way back."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from planner.domain import CacheRate, RangeHits, RouterPolicy, RoutingForm, Scenario
from planner.domain.slo import LONGEST_PROMPT
from planner.files import deciding_differences, scenario_document

Refused = Callable[..., None]
Read = Callable[[Mapping[str, Any]], Scenario]

TABLE = "from,prompt_tokens,16384,1048576,unbounded\n1,900,0.1,0.3,0.4\n1000,9000,0,0.5,0.9\n"
REUSED = {
    "kind": "lengths",
    "name": "reused",
    "arrival_rps": 3,
    "mean_output_tokens": 9,
    "max_output_tokens": 99,
    "lengths": "input_tokens,requests\n500,3\n2000,1\n",
    "prefix": {"block_tokens": 512, "shares": TABLE},
}


@pytest.fixture
def auto(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"workload": REUSED, "cost": {"kv_cache_rate": "auto"}}


def test_rows_are_read_and_written_back(read: Read, document: dict[str, Any]) -> None:
    document["cost"] = {
        "kv_cache_rate": [{"to": 100, "share": 0.1}, {"from": 50, "to": 700, "share": 0}, {"share": 0.5}]
    }
    scenario = read(document)
    assert scenario.cost.kv_cache_rate == (
        RangeHits(start=0, end=100, share=0.1),
        RangeHits(start=50, end=700, share=0.0),
        RangeHits(start=0, end=LONGEST_PROMPT, share=0.5),
    )
    assert replace(read(scenario_document(scenario)), inputs=()) == replace(scenario, inputs=())


def test_auto_is_read_and_written_back(read: Read, auto: dict[str, Any]) -> None:
    scenario = read(auto)
    assert scenario.cost.kv_cache_rate is CacheRate.AUTO
    assert scenario_document(scenario)["cost"]["kv_cache_rate"] == "auto"  # type: ignore[index]
    assert replace(read(scenario_document(scenario)), inputs=()) == replace(scenario, inputs=())


def test_auto_draws_on_the_workload_and_on_who_routes(read: Read, auto: dict[str, Any]) -> None:
    scenario = read(auto)
    prefixes = scenario.cost.prefixes
    assert (prefixes.reuse, prefixes.mean_prompt, prefixes.arrival_rps) == (scenario.workload.prefix, 875.0, 3.0)
    assert dict(prefixes.gpus) == {"H200": 16, "H20": 8}
    aware = replace(scenario, routing=replace(scenario.routing, policy=RouterPolicy.PREFIX_AWARE))
    assert (prefixes.policy, aware.cost.prefixes.policy) == ("least_work", "prefix_aware")
    assert replace(scenario, cost=replace(scenario.cost, kv_cache_rate=0.1)).cost.prefixes is None
    assert replace(scenario, workload=replace(scenario.workload, prefix=None)).cost.prefixes is None


def test_a_number_draws_on_nothing(read: Read, auto: dict[str, Any]) -> None:
    auto["cost"] = {"kv_cache_rate": 0.25}
    cost = read(auto).cost
    assert (cost.kv_cache_rate, cost.prefixes) == (0.25, None)


@pytest.mark.parametrize(
    ("form", "rate", "times"),
    [
        (RoutingForm.TABLE, CacheRate.AUTO, 1),
        (RoutingForm.TABLE, 0.25, 0),
        (RoutingForm.BUCKETS, CacheRate.AUTO, 1),
        (RoutingForm.BUCKETS, 0.25, 1),  # whose capacities are those behind the router
    ],
)
def test_whom_the_router_chooses_decides_a_search(
    read: Read, auto: dict[str, Any], form: RoutingForm, rate: float | CacheRate, times: int
) -> None:
    scenario = read(auto)
    begun = replace(
        scenario,
        cost=replace(scenario.cost, kv_cache_rate=rate),
        routing=replace(scenario.routing, form=form),
    )
    came = replace(begun, routing=replace(begun.routing, policy=RouterPolicy.PREFIX_AWARE))
    told = deciding_differences(begun, came)
    assert [words.split()[0] for words in told] == ["routing.policy"] * times


@pytest.mark.parametrize(
    ("cost", "words", "hint"),
    [
        ({"kv_cache_rate": "automatic"}, ("auto, a number", "rows {from, to, share}", "'automatic'"), ""),
        ({"kv_cache_rate": "0.5"}, ("auto, a number", "'0.5'"), "without quotes"),
        ({"kv_cache_rate": []}, ("auto, a number", "a list of 0"), "Add a row"),
        ({"kv_cache_rate": [0.5]}, ("kv_cache_rate",), ""),
        ({"kv_cache_rate": None}, ("a number of at least 0 and less than 1",), ""),
        ({"kv_cache_rate": {"share": 0.5}}, ("a number of at least 0 and less than 1",), ""),
        ({"kv_cache_rate": [{"from": 5, "to": 9}]}, ("kv_cache_rate[0].share", "missing"), ""),
        ({"kv_cache_rate": [{"share": 1}]}, ("kv_cache_rate[0].share", "less than 1", "got 1"), ""),
        ({"kv_cache_rate": [{"share": 0}, {"from": 9, "to": 9, "share": 0}]}, ("[1].to", "at least 10"), ""),
        ({"kv_cache_rate": [{"share": 0, "tokens": [0, 5]}]}, ("kv_cache_rate[0].tokens", "not a known key"), "from"),
        (
            {"kv_cache_rate": [{"share": 0}], "mode": "reference"},
            ("number where cost.mode is reference",),
            "mean share",
        ),
        (
            {"kv_cache_rate": "auto", "mode": "reference"},
            ("number where cost.mode is reference", "'auto'"),
            "mean share",
        ),
        ({"kv_cache_rate": "auto"}, ("begin alike", "normal-500-2000", "'auto'"), "hash_ids"),
    ],
)
def test_other_values_are_refused(
    read: Read, document: dict[str, Any], refused: Refused, cost: dict[str, Any], words: tuple[str, ...], hint: str
) -> None:
    refused(lambda: read(document | {"cost": cost}), "notebook: cost.kv_cache_rate", *words, hint=hint)


def test_a_profile_knows_one_share(read: Read, auto: dict[str, Any], refused: Refused) -> None:
    csv = "gpu,model,phase,tp,dp,ep,length,batch,ms\nH200,deepseek-v3,prefill,1,8,8,1000,1,100\n"
    auto["cost"] |= {"source": "tabulated", "profile": {"csv": csv}}
    refused(lambda: read(auto), "cost.kv_cache_rate", "number where cost.source is tabulated")
