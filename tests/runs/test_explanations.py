"""Explanations: rivals are what the cost model says, and values said to switch a choice do when planned again."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from planner import pipeline
from planner.cost import compare_configurations
from planner.domain import BucketPool, ParallelConfig, Phase, Plan, ServerConfig
from planner.files import scenario_from_document
from planner.files.disk.strict_yaml import parse_yaml
from planner.files.scenario.settings import read_setting, with_settings
from planner.proposing.explaining.islands import explain_island
from planner.proposing.explaining.plans import explain_plan
from planner.proposing.explaining.pools import explain_pool
from planner.workload import summarize

PAIR = """\
name: pair
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 16, H20: 32}
serving: split
ranges: {width: 4096}
"""
ONE_LENGTH = PAIR.replace(
    "normal-500-2000",
    "{kind: lengths, name: n, mean_output_tokens: 100, max_output_tokens: 1000, "
    'lengths: "input_tokens,probability\\n1024,1\\n"}',
).replace("ranges: {width: 4096}\n", "")
RENT = """\
name: rent
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 16, H20: 32}
serving: split
prices_usd_per_gpu_hour: {H200: 4, H20: 1}
ranges: {width: 4096}
objective: {kind: target, target_rps: 10}
"""
FEW = """\
name: few
model: qwen3-30b-a3b
workload: normal-500-2000
inventory: {H200: 12, L4: 8}
serving: split
slo: {ttft_ms: 2000, tpot_ms: 40}
ranges: {width: 4096}
"""
FOUR = PAIR.replace("H200: 16", "H200: 32")
TABLE = PAIR + "routing: {form: table}\nsearch: {method: exact, sizes: [8, 16]}\n"

LEVELS = PAIR.replace("ranges", "slo: {ttft_ms: 6000, tpot_ms: 80}\nranges")
PLENTY_S = 60.0
PREFILL = Phase.PREFILL


@cache
def planned(text: str, *settings: str) -> Plan:
    """The plan of a scenario with some of its keys set."""
    document = with_settings(parse_yaml(text, file="s").plain(), map(read_setting, settings), "s")
    return pipeline.plan(scenario_from_document(document, origin="s", base=Path(), summarize=summarize))


def pools_of(plan: Plan, phase: Phase) -> list[BucketPool]:
    """The pools of a phase."""
    assert plan.buckets is not None
    return [pool for pool in plan.buckets.pools if pool.phase is phase]


def kinds_of(plan: Plan, phase: Phase) -> set[tuple[str, ServerConfig]]:
    """Servers of a phase but for their batch."""
    return {(pool.gpu, replace(pool.server, batch_size=0)) for pool in pools_of(plan, phase)}


def test_rivals_serve_what_the_cost_model_says() -> None:
    """Of prompts of one length, without levels, at the budget that `planner cost configurations` takes."""
    plan, compared = planned(ONE_LENGTH), 0
    settings = replace(plan.scenario.cost, two_micro_batches=False)
    for pool in pools_of(plan, PREFILL):
        rates = compare_configurations(
            pool.gpu,
            "deepseek-v3",
            PREFILL,
            size=pool.server.parallel.devices,
            lengths=[1024],
            settings=settings,
        )
        served = {row.parallel: row.rates_rps[0] for row in rates}
        for rival in explain_pool(plan, pool.island, 0).rivals:
            server = rival.server
            if server.parallel in served and server.tokens_per_step == 16384 and not server.overlapped:
                assert rival.full_rps == pytest.approx(served[server.parallel], rel=1e-9)
                compared += 1
    assert compared >= 3


def test_a_pool_is_what_its_rivals_make_it() -> None:
    plan = planned(PAIR)
    for pool in plan.buckets.pools:
        explanation = explain_pool(plan, pool.island, 0)
        (chosen,) = [rival for rival in explanation.rivals if rival.chosen]
        assert (chosen.server.parallel, chosen.servers) == (pool.server.parallel, pool.count)
        for rival in explanation.rivals:
            devices = rival.server.parallel.devices
            assert (rival.servers, rival.idle_gpus) == divmod(pool.gpus, devices)
        served = [rival.servers * rival.rate_rps for rival in explanation.rivals]
        assert served == sorted(served, reverse=True)
        assert explanation.load_rps == pytest.approx(pool.share * plan.throughput_rps)
        # one bucket: what is left of a phase's capacity with a server less
        together = sum(p.count * p.capacity_rps for p in pools_of(plan, pool.phase))
        left = min(plan.throughput_rps, together - pool.capacity_rps)
        assert explanation.count.one_less_rps == pytest.approx(max(0.0, left))


def test_types_are_ranked_by_what_the_objective_counts() -> None:
    """An H200 serves more than an H20 and costs four times as much."""
    for text, figure in ((PAIR, "rate_per_gpu_rps"), (RENT, "rate_per_usd")):
        plan = planned(text)
        for phase in (PREFILL, Phase.DECODE):
            rows = explain_pool(plan, pools_of(plan, phase)[0].island, 0).types
            figures = [getattr(row, figure) for row in rows]
            assert figures == sorted(figures, reverse=True)
            assert [row.gpu for row in rows] == (["H200", "H20"] if text == PAIR else ["H20", "H200"])


@pytest.mark.parametrize("phase", [pytest.param(PREFILL, marks=pytest.mark.study), Phase.DECODE])
def test_a_stated_level_switches_the_choice(phase: Phase) -> None:
    plan = planned(LEVELS)
    rows = explain_pool(plan, pools_of(plan, phase)[0].island, PLENTY_S).what_ifs
    changes = [row for row in rows if row.changes and row.key.startswith("slo.")]
    assert changes
    for row in changes:
        assert row.planned
        assert row.same_at is not None
        there = planned(LEVELS, f"{row.key}={row.value:g}")
        assert kinds_of(there, phase) != kinds_of(plan, phase)
        assert there.throughput_rps == pytest.approx(row.rate_rps)
        assert kinds_of(planned(LEVELS, f"{row.key}={row.same_at:g}"), phase) == kinds_of(plan, phase)


def test_a_stated_price_switches_the_choice() -> None:
    plan = planned(RENT)
    rows = explain_pool(plan, pools_of(plan, PREFILL)[0].island, PLENTY_S).what_ifs
    changes = [row for row in rows if row.changes and row.key.startswith("prices")]
    assert changes
    for row in changes:
        assert row.same_at is not None
        assert max(row.value, row.same_at) / min(row.value, row.same_at) <= 1.02
        assert kinds_of(planned(RENT, f"{row.key}={row.value:g}"), PREFILL) != kinds_of(plan, PREFILL)
        assert kinds_of(planned(RENT, f"{row.key}={row.same_at:g}"), PREFILL) == kinds_of(plan, PREFILL)


def test_inventory_is_planned_again() -> None:
    plan = planned(PAIR)
    pool = next(pool for pool in pools_of(plan, PREFILL) if pool.gpu == "H200")
    rows = explain_pool(plan, pool.island, PLENTY_S).what_ifs
    rates = {row.value: row.rate_rps for row in rows if row.key == "inventory.H200"}
    assert set(rates) == {8, 24}
    assert planned(PAIR, "inventory.H200=24").throughput_rps == pytest.approx(rates[24])


def test_without_time_nothing_is_planned_again_and_that_is_told() -> None:
    plan = planned(LEVELS)
    explanation = explain_pool(plan, pools_of(plan, PREFILL)[0].island, 0)
    assert not any(row.planned for row in explanation.what_ifs)
    assert any("more --seconds tell more" in note for note in explanation.notes)


def test_alternatives_bound_what_can_be_planned() -> None:
    explanation = explain_plan(planned(FOUR))
    bounds = {row.name: row.bound_rps or 0.0 for row in explanation.alternatives}
    for gpu in ("H200", "H20"):
        reached = planned(FOUR, f"inventory.{gpu}=null").throughput_rps
        assert 0.5 * bounds[f"without {gpu}"] < reached <= bounds[f"without {gpu}"] * (1 + 1e-6)
    reached = planned(FOUR, "serving=aggregated").throughput_rps
    assert 0.5 * bounds["aggregated serving"] < reached <= bounds["aggregated serving"] * (1 + 1e-6)
    assert bounds["islands of any size and routing, served as here"] >= explanation.rate_rps


def test_fewer_gpu_types_are_no_better_than_the_bound_of_all() -> None:
    """The relaxation without the little type (179 requests/s) passes what was proven of both together (163)."""
    explanation = explain_plan(planned(FEW))
    assert explanation.bound is not None
    bounds = {row.name: row.bound_rps or 0.0 for row in explanation.alternatives}
    assert bounds["without L4"] == explanation.bound
    assert planned(FEW, "inventory.L4=null").throughput_rps <= explanation.bound


def test_of_a_rented_fleet_nothing_is_rented_instead() -> None:
    assert any("nothing is rented in place" in note for note in explain_plan(planned(RENT)).notes)
    assert not explain_plan(planned(PAIR)).notes


def test_an_island_of_a_table_is_explained_by_cost_configurations() -> None:
    plan = planned(TABLE)
    island = next(island for island in plan.islands if island.phase is PREFILL)
    explanation = explain_island(plan, island.id)
    rows = compare_configurations(
        island.gpu,
        "deepseek-v3",
        PREFILL,
        size=island.size,
        lengths=[length for length, _ in explanation.lengths],
        settings=plan.scenario.cost,
    )
    shares = [share for _, share in explanation.lengths]
    rates = {
        row.parallel: 1 / sum(share / rate for share, rate in zip(shares, row.rates_rps, strict=True))
        for row in rows
        if all(row.rates_rps)
    }
    for rival in explanation.rivals:
        parallel = ParallelConfig(tp=rival.tp, dp=rival.dp, pp=rival.pp, replicas=rival.replicas)
        assert rival.rate_rps == pytest.approx(rates[parallel])
    assert explanation.rivals[0].rate_rps == pytest.approx(max(rates.values()))
    assert explanation.one_less_rps is not None
    assert explanation.bound_rps is not None
    assert explanation.one_less_rps < explanation.bound_rps
