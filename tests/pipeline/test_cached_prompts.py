"""Plans whose prompts are in the prefix cache, by length or as the trace's own were."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pipeline_scenarios import bucketed, require_whole, small
from planned import plan

from planner.domain import CacheRate, LengthProfile, Phase, PrefixReuse, RouterPolicy, Scenario
from planner.files import encode_plan, scenario_document
from planner.plans.exact_lengths import evaluate_exactly
from planner.report import summary

SIZES = tuple(2**k for k in range(14, 27))
FLEET = {"H200": 16}


def with_prefix(scenario: Scenario, least: float, most: float, arrival_rps: float | None = 20.0) -> Scenario:
    """The scenario with a workload whose prompts find `least` to `most` as the cache grows."""
    shares = tuple(least + (most - least) * k / len(SIZES) for k in range(len(SIZES) + 1))
    reuse = PrefixReuse(
        block_tokens=512, cache_tokens=SIZES, starts=(1, 1024), prompt_tokens=(1, 2), shares=(shares, shares)
    )
    profile: LengthProfile = replace(scenario.workload, name="reused", prefix=reuse, arrival_rps=arrival_rps)
    return replace(scenario, workload=profile)


def policy(scenario: Scenario, chosen: RouterPolicy) -> Scenario:
    return replace(scenario, routing=replace(scenario.routing, policy=chosen))


def cached(rate: Any, *, table: bool = False, **changes: Any) -> Scenario:
    """A number or rows; `auto` needs a workload of its own."""
    form = changes if table else {"routing": {"most": 1}, "ranges": {"width": 1024}, **changes}
    return (small if table else bucketed)(FLEET, cost={"kv_cache_rate": rate}, **form)


def automatic(least: float, most: float, chosen: RouterPolicy, *, table: bool = False) -> Scenario:
    plain = with_prefix(cached(0, table=table), least, most)
    return policy(replace(plain, cost=replace(plain.cost, kv_cache_rate=CacheRate.AUTO)), chosen)


@pytest.mark.parametrize("table", [False, True], ids=["buckets", "table"])
def test_rows_of_one_share_plan_what_the_number_does(table: bool, tmp_path: Path) -> None:
    number, rows = (plan(cached(rate, table=table)) for rate in (0.5, [{"share": 0.5}]))
    assert rows.throughput_rps == number.throughput_rps
    islands = tuple(replace(island, cached_share=None) for island in rows.islands)
    assert (islands, rows.routing, rows.buckets) == (number.islands, number.routing, number.buckets)
    assert {(island.phase, island.cached_share) for island in rows.islands} == {
        (Phase.PREFILL, 0.5),
        (Phase.DECODE, None),
    }
    assert rows.exact_rps == number.exact_rps
    require_whole(rows, tmp_path)


@pytest.mark.parametrize("table", [False, True], ids=["buckets", "table"])
def test_long_prompts_that_are_cached_give_more_than_short_ones(table: bool) -> None:
    """Of as many prompts: what is not taken in counts by its tokens."""
    short, long = (
        plan(cached([row], table=table)).prefill_rps
        for row in ({"to": 1250, "share": 0.5}, {"from": 1250, "share": 0.5})
    )
    nothing, everything = (plan(cached(rate, table=table)).throughput_rps for rate in (0, 0.5))
    assert nothing < everything
    assert short < long


@pytest.mark.parametrize("table", [False, True], ids=["buckets", "table"])
def test_auto_finds_more_where_the_router_knows_prefixes(table: bool, tmp_path: Path) -> None:
    nothing, most = (plan(cached(rate, table=table)).throughput_rps for rate in (0, 0.6))
    blind, aware = (
        plan(automatic(0.0, 0.6, chosen, table=table))
        for chosen in (RouterPolicy.LEAST_WORK, RouterPolicy.PREFIX_AWARE)
    )
    slack = 1 - 2e-3  # of the search and the solver
    assert nothing * slack <= blind.throughput_rps < aware.throughput_rps <= most / slack
    for made in (blind, aware):
        require_whole(made, tmp_path)
        assert abs(evaluate_exactly(made).difference) < 0.04  # as with a number


def test_an_island_tells_what_its_own_prompts_find() -> None:
    made = plan(cached([{"from": 1024, "share": 0.5}], ranges={"width": 1024}, routing={"form": "buckets", "most": 1}))
    lengths = zip(made.scenario.workload.input_tokens, made.scenario.workload.probabilities, strict=True)
    tokens = [(length, length * probability) for length, probability in lengths]
    expected = 0.5 * sum(n for length, n in tokens if length >= 1024) / sum(n for _, n in tokens)
    shares = [island.cached_share for island in made.islands if island.phase is Phase.PREFILL]
    assert shares == pytest.approx([expected] * len(shares), abs=1e-5)
    number = plan(cached(0.5))
    assert {island.cached_share for island in number.islands} == {None}
    assert b"cached_share" not in encode_plan(number)


def test_what_every_cache_finds_is_found_whoever_routes() -> None:
    number = plan(cached(0.4)).throughput_rps
    for chosen in (RouterPolicy.LEAST_WORK, RouterPolicy.PREFIX_AWARE):
        made = plan(automatic(0.4, 0.4, chosen))
        assert made.throughput_rps == pytest.approx(number, rel=1e-6)


def test_the_report_says_what_is_assumed() -> None:
    blind, aware = (
        summary(plan(automatic(0.0, 0.6, chosen))) for chosen in (RouterPolicy.LEAST_WORK, RouterPolicy.PREFIX_AWARE)
    )
    assert "Prefix cache: prompts find" in blind
    assert "does not look at prefixes" in blind
    assert "rank that holds most of its prefix" in aware
    assert "Prefix cache" not in summary(plan(cached(0.5)))


def test_a_document_keeps_the_words_of_its_scenario() -> None:
    document = scenario_document(automatic(0.1, 0.6, RouterPolicy.PREFIX_AWARE))
    assert document["cost"]["kv_cache_rate"] == "auto"
    assert document["routing"]["policy"] == "prefix_aware"
    assert document["workload"]["prefix"]["block_tokens"] == 512
    rows = scenario_document(cached([{"to": 900, "share": 0.5}]))["cost"]["kv_cache_rate"]
    assert rows == [{"from": 0, "to": 900, "share": 0.5}]
