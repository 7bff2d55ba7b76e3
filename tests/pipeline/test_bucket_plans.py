"""Plans of buckets: what they say follows from their pools alone, and their bounds are above all that was made."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pipeline_scenarios import bucketed
from planned import plan as shared_plan

from planner.cost import BUILT_IN
from planner.domain import (
    PHASES,
    Band,
    BucketPlan,
    BucketPool,
    CostSettings,
    GpuSpec,
    LoadPoint,
    ModelSpec,
    Phase,
    Plan,
    Scenario,
)
from planner.errors import InfeasibleError
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.service import BucketService
from planner.files.plan.plan_document import encode_plan
from planner.files.plan.plan_reader import decode_plan
from planner.pipeline import check, plan
from planner.workload import question_of

LEVELS = {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}
CASES: dict[str, dict[str, Any]] = {
    "free": {"inventory": {"H200": 16, "H20": 32}},
    "levels": {"inventory": {"H200": 16, "H20": 32}, "slo": LEVELS},
    "best": {"inventory": {"H200": 16, "H20": 32}, "slo": LEVELS, "simplicity": 0, "routing": {"most": 1}},
    "tight": {"inventory": {"H20": 64}, "slo": {"ttft_ms": 2500, "tpot_ms": 40, "percentile": 99}},
    "mean": {"inventory": {"H20": 32}, "slo": {"ttft_ms": 1500, "tpot_ms": 40}, "workload": "azure-conv-2023"},
    "survives": {"inventory": {"H200": 48}, "slo": LEVELS, "survive": {"nodes": 1, "share": 0.6}},
}
each_case = pytest.mark.parametrize("name", CASES)


def scenario(**changes: Any) -> Scenario:
    document = {"workload": "azure-code-2023", "ranges": {"width": 1536}, "search": {"timings": False}, **changes}
    inventory = document.pop("inventory")
    return bucketed(inventory, **document)


@cache
def planned(name: str) -> Plan:
    return plan(scenario(**CASES[name]))


def changed(name: str, **changes: Any) -> Plan:
    return shared_plan(scenario(**{**CASES[name], **changes}))


def pools_of(planned_case: Plan) -> BucketPlan:
    assert planned_case.buckets is not None
    return planned_case.buckets


def service(made: Plan) -> BucketService:
    return BucketService(question_of(made.scenario))


@each_case
def test_bounds_are_above_the_plan(name: str) -> None:
    made, certificate = planned(name), planned(name).certificate
    assert certificate.bound_rps is not None
    assert certificate.gap is not None
    assert pools_of(made).unrestricted_rps == certificate.bound_rps
    assert certificate.bound_rps >= certificate.objective_bound * (1 - 1e-6)
    assert certificate.objective_bound >= made.throughput_rps
    assert certificate.gap == pytest.approx(1 - made.throughput_rps / certificate.bound_rps)
    assert 0 <= certificate.objective_gap <= 0.1
    assert certificate.objective_value == made.throughput_rps


@each_case
def test_a_plan_read_back_is_what_its_pools_make_it(name: str) -> None:
    made = planned(name)
    saved = decode_plan(encode_plan(made), Path("plan.json"))
    bare = [replace(pool, capacity_rps=0.0, full_rps=0.0, share=1.0) for pool in pools_of(saved).pools]
    priced = service(saved).priced(bare)
    assert priced.rate_rps == pytest.approx(made.throughput_rps, rel=1e-6)
    assert priced.prefill_rps == pytest.approx(made.prefill_rps, rel=1e-6)
    assert priced.decode_rps == pytest.approx(made.decode_rps, rel=1e-6)
    for pool, other in zip(pools_of(saved).pools, priced.pools, strict=True):
        assert (pool.island, pool.count, pool.server) == (other.island, other.count, other.server)
        assert pool.capacity_rps == pytest.approx(other.capacity_rps, rel=1e-6)
        assert pool.full_rps == pytest.approx(other.full_rps, rel=1e-6)
        assert pool.share == pytest.approx(other.share, rel=1e-6)


@each_case
def test_rates_are_sums_over_pools(name: str) -> None:
    made, rates = planned(name), {}
    spans = question_of(made.scenario).workload.ranges
    pools = pools_of(made).pools
    for phase in PHASES:
        edges = sorted({(pool.start, pool.end) for pool in pools if pool.phase is phase})
        assert edges[0][0] == spans[0].start
        assert edges[-1][1] == spans[-1].end
        assert all(first[1] <= after[0] for first, after in pairwise(edges))
        for start, end in edges:
            mine = [pool for pool in pools if pool.phase is phase and pool.start == start]
            chance = sum(span.probability for span in spans if start <= span.start < end)
            total = sum(pool.count * pool.capacity_rps for pool in mine)
            assert sum(pool.share for pool in mine) == pytest.approx(1)
            assert all(p.share == pytest.approx(p.count * p.capacity_rps / total) for p in mine)
            assert all(0 < pool.capacity_rps <= pool.full_rps * (1 + 1e-9) for pool in mine)
            rates[phase, start] = total / chance
    assert made.throughput_rps <= min(rates.values()) * (1 + 1e-9)
    if not made.scenario.survive.share:
        assert made.throughput_rps == pytest.approx(min(rates.values()))
    assert made.buckets.promise_rps == pytest.approx(made.throughput_rps * made.scenario.routing.margin)


@each_case
def test_no_gpu_is_given_twice(name: str) -> None:
    made = planned(name)
    for gpu, count in CASES[name]["inventory"].items():
        assert sum(pool.gpus for pool in pools_of(made).pools if pool.gpu == gpu) <= count


def bucket_rate(pools: tuple[BucketPool, ...], start: int, made: Plan) -> float:
    """What the prefill pools of a bucket allow the whole mix."""
    mine = [pool for pool in pools if pool.phase is Phase.PREFILL and pool.start == start]
    chance = sum(s.probability for s in question_of(made.scenario).workload.ranges if start <= s.start < mine[0].end)
    return sum(pool.count * pool.capacity_rps for pool in mine) / chance


@pytest.mark.parametrize("name", ["levels", "best", "tight"])
def test_at_its_capacity_a_bucket_just_keeps_the_bound(name: str) -> None:
    """The first decode step is set aside at its bound, and told as it is: the difference is added here."""
    made = planned(name)
    pools, bounds = pools_of(made).pools, CASES[name]["slo"]
    for pool in (pool for pool in pools if pool.phase is Phase.PREFILL):
        same = [p for p in pools if (p.phase, p.start) == (pool.phase, pool.start)]
        rate = bucket_rate(pools, pool.start, made)
        rows = service(made).latencies(same, {LoadPoint.CAPACITY: rate})
        assert rows[0].late_ms is not None
        late = pool.late_share or 0.01
        if late == pytest.approx(0.01):
            assert rows[0].late_ms + bounds["tpot_ms"] == pytest.approx(bounds["ttft_ms"], rel=0.01)
        elif late < 0.01:
            assert rows[0].late_ms + bounds["tpot_ms"] <= bounds["ttft_ms"] * 1.01
    for row in pools_of(made).latencies:
        if row.phase is Phase.DECODE and row.load is LoadPoint.CAPACITY:
            assert row.late_ms is not None
            assert row.late_ms <= bounds["tpot_ms"] * 1.01


def test_times_have_the_ends_of_their_measurements() -> None:
    """The widest of the GPU types that serve the bucket, here with bands of their own."""
    made = planned("levels")
    pools = pools_of(made).pools
    assert len({pool.gpu for pool in pools if pool.phase is Phase.PREFILL}) > 1
    assert all(row.low_ms < row.late_ms < row.high_ms for row in pools_of(made).latencies)
    names = sorted({pool.gpu for pool in pools})
    bands = {(gpu, half): Band(low=0.9 - 0.2 * k, high=1.2 + 0.3 * k) for k, gpu in enumerate(names) for half in PHASES}

    def own_band(gpu: GpuSpec, _model: ModelSpec, phase: Phase, _cost: CostSettings) -> Band:
        return bands[gpu.name, phase]

    with patch("planner.evaluation.buckets.latencies.time_band", own_band):
        rows = service(made).latencies(pools, {LoadPoint.PROMISE: 0.1 * made.throughput_rps})
    for row in rows:
        of_phase = [bands[pool.gpu, row.phase] for pool in pools if pool.serves(row.phase)]
        assert row.low_ms == pytest.approx(row.late_ms * min(band.low for band in of_phase))
        # Whether steps of prefill last 1 / share of their kernels', or pauses lie between them, is not known.
        longest_ms = row.late_ms / (BUILT_IN.factor("prefill_pool").value if row.phase is Phase.PREFILL else 1.0)
        assert row.high_ms == pytest.approx(longest_ms * max(band.high for band in of_phase))
    assert {row.phase for row in rows} == set(PHASES)


@pytest.mark.parametrize("name", ["levels", "mean"])
def test_requests_take_longer_at_higher_rates(name: str) -> None:
    made = planned(name)
    parts = (0.1, 0.4, 0.7, 0.9, 1.0)
    tables = [
        service(made).latencies(pools_of(made).pools, {LoadPoint.PROMISE: part * made.throughput_rps}) for part in parts
    ]
    for slower, faster in zip(tables[1:], tables, strict=False):
        for row, other in zip(slower, faster, strict=True):
            for late, early in ((row.p50_ms, other.p50_ms), (row.late_ms, other.late_ms)):
                assert late is not None
                assert early is not None
                assert late >= early * (1 - 1e-6)
        assert all(row.p50_ms <= row.late_ms for row in slower if row.p50_ms is not None and row.late_ms is not None)


@pytest.mark.parametrize("name", ["levels", "best", "survives"])
def test_losses_are_what_remains_without_the_servers(name: str) -> None:
    made = planned(name)
    pools = pools_of(made).pools
    unbroken = service(
        replace(made, scenario=replace(made.scenario, survive=replace(made.scenario.survive, share=0.0)))
    )
    assert [loss.island for loss in pools_of(made).losses] == [pool.island for pool in pools]
    for loss, pool in zip(pools_of(made).losses, pools, strict=True):
        gone = min(pool.count, max(1, 8 // pool.server.parallel.devices))
        assert loss.servers == gone
        smaller = [replace(p, count=p.count - gone * (p is pool)) for p in pools]
        if pool.count < 8 // pool.server.parallel.devices:
            continue  # its node takes servers of other pools, too
        if all(any(p.count and (p.phase, p.start) == (q.phase, q.start) for p in smaller) for q in pools):
            remaining = unbroken.priced([p for p in smaller if p.count]).rate_rps
            assert loss.rate_rps == pytest.approx(remaining)
        else:
            assert loss.rate_rps == 0
    assert pools_of(made).worst_loss.rate_rps == min(loss.rate_rps for loss in pools_of(made).losses)


@pytest.mark.parametrize(
    ("inventory", "nodes"), [({"H200": 16}, 1), ({"H200": 16}, 2), ({"H200": 16}, 3), ({"H200": 8, "H20": 8}, 2)]
)
def test_no_set_of_nodes_takes_more_than_the_worst_loss(inventory: dict[str, int], nodes: int) -> None:
    """Every way in which servers may lie on so many nodes is tried, pools that share a node and small ones, too."""
    plan_made = changed("levels", model="llama-3.1-70b", inventory=inventory)
    assert any(pool.server.parallel.devices < 8 for pool in pools_of(plan_made).pools)
    unbroken = service(plan_made)
    largest = max(pools_of(plan_made).pools, key=lambda pool: pool.count)
    kept = [pool for pool in pools_of(plan_made).pools if pool is not largest]
    pools = [*kept, replace(largest, count=1), replace(largest, count=largest.count - 1)]
    rates = []
    for lost in itertools.product(*(range(_most_lost(pool, nodes) + 1) for pool in pools)):
        if _nodes_of(pools, lost) <= nodes:
            left = [replace(pool, count=pool.count - gone) for pool, gone in zip(pools, lost, strict=True)]
            serving = [pool for pool in left if pool.count]
            complete = {(p.phase, p.start) for p in serving} == {(p.phase, p.start) for p in pools}
            rates.append(unbroken.priced(serving).rate_rps if complete else 0.0)
    worst = min(loss.rate_rps for loss in unbroken.losses(pools, nodes))
    assert worst == pytest.approx(min(rates), rel=1e-9)


def _most_lost(pool: BucketPool, nodes: int) -> int:
    return min(pool.count, nodes * max(1, 8 // pool.server.parallel.devices))


def _nodes_of(pools: Sequence[BucketPool], lost: Sequence[int]) -> int:
    """The fewest nodes of 8 GPUs that take these servers with them: parts of a node lie side by side."""
    parts: dict[str, int] = {}
    nodes = 0
    for pool, gone in zip(pools, lost, strict=True):
        devices = pool.server.parallel.devices
        if devices >= 8:
            nodes += gone
        else:
            parts[pool.gpu] = parts.get(pool.gpu, 0) + devices * gone
    return nodes + sum(-(-gpus // 8) for gpus in parts.values())


def test_the_share_that_is_asked_for_survives() -> None:
    made = planned("survives")
    assert pools_of(made).worst_loss.rate_rps >= 0.6 * made.throughput_rps * (1 - 1e-6)
    assert made.throughput_rps <= changed("survives", survive={}).throughput_rps * 1.001


def test_every_bucket_by_itself_asks_for_no_less() -> None:
    by_itself = changed("best", slo={**LEVELS, "scope": "every_bucket"})
    assert by_itself.throughput_rps <= planned("best").throughput_rps * 1.002


def test_a_bound_that_grows_with_the_prompt_asks_for_less() -> None:
    grown = changed("best", slo={**LEVELS, "ttft_ms_per_1k_tokens": 500})
    assert grown.throughput_rps >= planned("best").throughput_rps * 0.998
    exact = {**CASES["best"], "slo": {**LEVELS, "ttft_ms_per_1k_tokens": 0}}
    assert scenario(**exact).slo == scenario(**CASES["best"]).slo


def test_nothing_is_given_up_for_simplicity_where_none_is_asked_for() -> None:
    best, certificate = planned("best"), planned("best").certificate
    assert certificate is not None
    assert best.throughput_rps >= planned("levels").throughput_rps * 0.998
    assert best.throughput_rps >= changed("levels", simplicity=0.1).throughput_rps * 0.998
    assert max(point.rate_rps for point in pools_of(best).simpler) == pytest.approx(best.throughput_rps, rel=0.01)


def test_a_bound_on_some_lengths_alone_is_a_cut_point() -> None:
    asked = {**LEVELS, "ranges": [{"from": 0, "to": 1536, "ttft_ms": 2000}]}
    case = {**CASES["levels"], "slo": asked, "routing": {"policy": "least_work"}}
    prices = BucketPrices(question_of(scenario(**case)))
    for phase in PHASES:
        spans = prices.question.workload.ranges
        starts = {spans[first].start for first, _ in prices.phases[phase].buckets.intervals}
        assert 1536 in starts


def kinds(made: Plan) -> int:
    return len({(pool.gpu, pool.server) for pool in pools_of(made).pools})


def test_simpler_plans_have_fewer_kinds() -> None:
    simple = changed("levels", simplicity=0.1)
    assert kinds(simple) <= kinds(planned("levels")) <= kinds(planned("best"))
    assert simple.throughput_rps >= 0.87 * planned("best").throughput_rps


def test_simpler_plans_of_a_budget_keep_to_it() -> None:
    """Pools of all that is offered would pass the bound of what the budget rents."""
    rented = changed("best", objective={"kind": "budget", "budget_usd_per_hour": 70})
    assert rented.certificate.objective_bound is not None
    fewer = [point for point in pools_of(rented).simpler if not point.chosen]
    assert fewer
    assert all(point.rate_rps <= rented.certificate.objective_bound * 1.001 for point in fewer)


def test_without_levels_no_less_is_served() -> None:
    assert planned("free").throughput_rps >= planned("best").throughput_rps * 0.985


@pytest.mark.parametrize("survive", [{}, {"survive": {"nodes": 1, "share": 0.5}}], ids=["unbroken", "survives"])
@pytest.mark.parametrize("inventory", [{"H200": 8}, {"H200": 16}, {"H200": 4, "H20": 12}], ids=str)
def test_what_a_check_says_is_what_the_plan_says(inventory: dict[str, int], survive: dict[str, Any]) -> None:
    """A small fleet has room for a server of each phase, or has not: known before the search."""
    small = scenario(inventory=inventory, slo=LEVELS, routing={"most": 1}, simplicity=0, **survive)
    outcomes = []
    for command in (check, plan):
        try:
            command(small)
        except InfeasibleError as error:
            outcomes.append(error.message.partition("; the closest")[0])
        else:
            outcomes.append("")
    assert outcomes[0] == outcomes[1]
