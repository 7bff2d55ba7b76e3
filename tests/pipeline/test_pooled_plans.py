"""The user's default way: pools behind buckets of prompt length, whatever is asked of them."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pipeline_scenarios import bucketed, require_whole

from planner.domain import (
    PHASES,
    BucketPlan,
    Evaluation,
    Layout,
    Phase,
    Plan,
    Scenario,
    SearchMethod,
    SearchSettings,
    SizeSet,
)
from planner.errors import InfeasibleError, InputError
from planner.export.summary import deployed_plan
from planner.files import encode_plan
from planner.pipeline import check, plan
from planner.plans.diff import compare
from planner.plans.exact_lengths import evaluate_exactly
from planner.plans.router_grid import grid_of, on_grid
from planner.proposing.frontier import frontier

MIXED = {"H200": 16, "H20": 32}
ONE_BUCKET = {"routing": {"most": 1}}
PRICES = {"H200": 4.0, "H20": 1.0}
LEVELS = {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}


def traced(inventory: dict[str, int] | None = None, **changes: Any) -> Scenario:
    """Under a real trace, at prices that differ."""
    counts = inventory or MIXED
    own = {"workload": "azure-code-2023", "prices_usd_per_gpu_hour": {gpu: PRICES.get(gpu, 2.5) for gpu in counts}}
    return bucketed(counts, **{**own, **changes})


def pools_of(made: Plan) -> BucketPlan:
    assert made.buckets is not None
    return made.buckets


@pytest.fixture(scope="module")
def leveled() -> Plan:
    return plan(traced(slo=LEVELS))


@pytest.fixture(scope="module")
def fastest() -> Plan:
    return plan(traced(simplicity=0))


SCENARIOS = {
    "rack": bucketed({"GB200-NVL72": 72}),
    "cached": bucketed({"MI300X": 32}, cost={"kv_cache_rate": 0.5}, engine={"name": "sglang"}),
    "drafts": bucketed({"H200": 16}, cost={"mtp_tokens": 2, "redundant_experts": 32}),
    "PCIe dense": bucketed({"H100-NVL": 8, "L40S": 8}, model="llama-3.1-70b", **ONE_BUCKET),
    "unpriced": bucketed({"H200": 16, "Rubin-NVL144": 16}, prices_usd_per_gpu_hour={"H200": 4}, **ONE_BUCKET),
    "sizes": bucketed({"H200": 64}, search={"sizes": [16], "timings": False}),
}
"""Beside those of the goldens, which are checked in the same way."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_any_scenario_ends_in_pools_that_are_read_back_and_reported(name: str, tmp_path: Path) -> None:
    made = plan(SCENARIOS[name])
    require_whole(made, tmp_path)
    assert made.certificate.objective_bound is not None
    assert made.certificate.objective_bound >= made.throughput_rps * (1 - 1e-6)


def test_the_same_scenario_gives_the_same_bytes() -> None:
    asked = traced({"H200": 16}, slo=LEVELS, **ONE_BUCKET)
    assert encode_plan(plan(asked)) == encode_plan(plan(asked))


def test_an_interrupt_makes_a_plan_of_the_best_so_far() -> None:
    search = SearchSettings(
        method=SearchMethod.RANDOM, iterations=3, batch_size=3, timings=False, sizes=SizeSet.WHOLE_NODES
    )

    def interrupt(done: int, _total: int, best: Evaluation | None) -> None:
        if best is not None:
            raise KeyboardInterrupt

    made = plan(replace(bucketed({"H200": 32}), search=search), interrupt)
    assert made.search.interrupted
    assert pools_of(made).pools
    assert len(made.search.trials) < 9


def test_a_budget_is_kept_and_a_larger_one_serves_no_less() -> None:
    rates = []
    for budget in (50, 80):
        made = plan(traced(objective={"kind": "budget", "budget_usd_per_hour": budget}, **ONE_BUCKET))
        assert sum(island.price_usd_per_hour for island in made.islands) <= budget * (1 + 1e-9)
        rates.append(made.throughput_rps)
    assert rates[0] < rates[1]


@pytest.mark.parametrize(("kind", "unit"), [("target", "USD/hour"), ("watts", "W")])
def test_a_target_is_reached_at_a_cost_near_its_bound(kind: str, unit: str) -> None:
    made = plan(traced(objective={"kind": kind, "target_rps": 20}, slo=LEVELS, **ONE_BUCKET))
    assert made.throughput_rps >= 20 * (1 - 1e-4)
    assert made.scenario.objective.kind.row.unit == unit
    items = {item.gpu.name: item for item in made.scenario.inventory.items}
    charges = {name: item.gpu.max_w if unit == "W" else item.price_usd_per_gpu_hour for name, item in items.items()}
    cost = sum(charges[island.gpu] * island.size for island in made.islands)
    assert made.certificate.objective_value == pytest.approx(cost)
    assert made.certificate.objective_bound is not None
    assert made.certificate.objective_bound <= cost


def test_requests_per_usd_are_near_their_bound() -> None:
    made = plan(traced(objective={"kind": "per_dollar"}, simplicity=0, **ONE_BUCKET))
    rent = sum(island.price_usd_per_hour for island in made.islands)
    assert made.certificate.objective_value == pytest.approx(made.throughput_rps / rent)
    assert made.certificate.objective_gap is not None
    assert made.certificate.objective_gap < 0.02
    whole = plan(traced(simplicity=0, **ONE_BUCKET))
    assert made.throughput_rps / rent >= whole.throughput_rps / whole.price_usd_per_hour * (1 - 1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"objective": {"kind": "budget", "budget_usd_per_hour": 3}}, r"3 USD/hour rents no .* the cheapest costs \d+"),
        ({"objective": {"kind": "target", "target_rps": 9999}}, r"9999 requests/s is above .* at most \d+"),
        (
            {"inventory": {"H200": 16}, "survive": {"nodes": 1, "share": 0.9}},
            r"survive\.share: 0\.9 .* the closest share is 0\.00",
        ),
        ({"slo": {"ttft_ms": 60, "tpot_ms": 20}}, r"within the service levels.*slo\.ttft_ms: 60 ms"),
    ],
)
def test_what_is_out_of_reach_names_what_is_nearest(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InfeasibleError, match=rf"(?s){words}") as caught:
        plan(traced(**changes))
    assert caught.value.hint
    assert caught.value.exit_status == 3


@pytest.mark.parametrize(
    ("inventory", "words"),
    [
        ({"H200": 2}, ["H200 (the inventory has 2) prefill, decode: memory: 673 GB of weights", "at least 8 would do"]),
        ({"H200": 8}, ["room for a server of deepseek-v3 in each phase, got 8 H200", "to decode 8 H200"]),
        ({"A10": 16, "H20": 2}, ["A10 (the inventory has 16) prefill, decode: vllm 0.33.0 refuses all", "FP8 cache"]),
    ],
)
def test_gpus_that_serve_nothing_say_what_excludes_them(inventory: dict[str, int], words: list[str]) -> None:
    for attempt in (plan, check):
        with pytest.raises(InfeasibleError) as caught:
            attempt(bucketed(inventory))
        assert [word for word in words if word not in caught.value.message] == []


def test_an_objective_in_money_needs_prices() -> None:
    with pytest.raises(InputError, match="H200 costs nothing"):
        plan(bucketed({"H200": 16}, objective={"kind": "per_dollar"}, prices_usd_per_gpu_hour={"H200": 0}))


def test_what_must_survive_does_and_costs_rate(fastest: Plan) -> None:
    surviving = plan(traced(survive={"nodes": 1, "share": 0.7}, simplicity=0))
    assert surviving.throughput_rps <= fastest.throughput_rps * (1 + 1e-3)
    assert pools_of(surviving).worst_loss.rate_rps >= 0.7 * surviving.throughput_rps * (1 - 1e-3)
    assert pools_of(fastest).worst_loss.rate_rps < 0.7 * fastest.throughput_rps


def test_the_more_nodes_may_be_lost_the_less_a_plan_counts_on() -> None:
    """Pools stay what they can do; the plan's rate leaves what must remain."""
    rates = []
    for nodes in (1, 2):
        made = plan(traced({"H200": 48}, survive={"nodes": nodes, "share": 0.9}, **ONE_BUCKET))
        rates.append(made.throughput_rps)
        assert pools_of(made).worst_loss.rate_rps >= 0.9 * made.throughput_rps * (1 - 1e-3)
        assert min(island.utilisation for island in made.islands) < 1
    assert rates[1] < rates[0]


def test_exact_lengths_recount_a_plan_of_pools(fastest: Plan) -> None:
    exact = evaluate_exactly(fastest)
    assert exact.binned_rps == pytest.approx(fastest.throughput_rps)
    assert abs(exact.difference) < 0.01
    assert fastest.exact_rps == pytest.approx(exact.throughput_rps)


def test_a_budget_of_another_size_is_recounted_as_it_is_started() -> None:
    made = plan(traced({"H20": 64}, ranges={"width": 64}, cost={"max_tokens_per_step": 4096}))
    assert {pool.server.tokens_per_step for pool in pools_of(made).pools if pool.phase is Phase.PREFILL} <= {2048, 4096}
    assert abs(evaluate_exactly(made).difference) < 0.005


@pytest.mark.parametrize("cells", [8, 32])
def test_a_grid_keeps_pools_and_costs_little(leveled: Plan, cells: int) -> None:
    grid = grid_of(leveled, cells)
    for phase in PHASES:
        mine = [pool for pool in pools_of(leveled).pools if pool.phase is phase]
        assert {name for pool in grid.phase(phase).pools for name in pool} == {pool.island for pool in mine}
        for pool in mine:
            cell = grid.phase(phase).pool_of(pool.end - 1)
            assert pool.island in grid.phase(phase).pools[cell]
    assert abs(grid.cost) < 0.1
    there = on_grid(leveled, grid)
    assert there.throughput_rps == grid.grid_rps
    served = {island.id: island.batch_size for island in leveled.islands}
    assert {island.id: island.batch_size for island in there.islands} == served


def test_a_frontier_of_buckets_is_of_pools() -> None:
    asked = traced({"H200": 16, "H20": 16}, slo=LEVELS, **ONE_BUCKET)
    points = frontier(asked, 3).points
    assert len(points) >= 2
    for cheap, dear in pairwise(points):
        assert cheap.price_usd_per_hour < dear.price_usd_per_hour
        assert cheap.rate_rps < dear.rate_rps
    for point in points:
        assert point.bound_rps >= point.rate_rps
        assert point.price_usd_per_hour <= point.budget_usd_per_hour * (1 + 1e-9)
        assert point.band is not None
        assert all(island.size % 8 == 0 or 8 % island.size == 0 for island, _ in point.layout.counts)
    most = plan(replace(asked, simplicity=0.0))
    assert points[-1].rate_rps == pytest.approx(most.throughput_rps, rel=0.03)


def test_plans_of_pools_compare_with_each_other(leveled: Plan, fastest: Plan) -> None:
    old, new = deployed_plan(leveled), deployed_plan(fastest)
    assert not compare(old, old).differs
    changes = {change.gpu: change for change in compare(old, new).gpus}
    assert all(change.new == change.old + change.started - change.stopped for change in changes.values())


def test_the_layout_of_a_plan_is_that_of_its_servers(leveled: Plan) -> None:
    best = leveled.search.trials[leveled.search.best_trial]
    counts: dict[tuple[str, int], int] = {}
    for pool in pools_of(leveled).pools:
        key = pool.gpu, pool.server.parallel.devices
        counts[key] = counts.get(key, 0) + pool.count
    assert {(island.gpu, island.size): count for island, count in best.layout.counts} == counts
    assert isinstance(best.layout, Layout)
