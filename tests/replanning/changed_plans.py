"""A small plan, and plans that take its place: made by hand from its pools, so that no search stands between."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from planner import pipeline
from planner.domain import BucketPool, Plan
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.pool_assembly import pool_islands, pool_routes
from planner.files import scenario_from_document
from planner.workload import question_of, summarize

SMALL = {
    "name": "small",
    "model": "deepseek-v3",
    "workload": "azure-code-2023",
    "inventory": {"H20": 64, "H200": 32, "H800": 32},
    "slo": {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99},
    "ranges": {"width": 1536},
}


@cache
def small_plan() -> Plan:
    """Four pools behind one bucket a phase."""
    scenario = scenario_from_document(SMALL, origin="small", base=Path.cwd(), summarize=summarize)
    return pipeline.plan(scenario)


def plan_of_pools(base: Plan, pools: Sequence[BucketPool]) -> Plan:
    """The plan with these pools, priced anew; certificate and figures of a search are the base's."""
    question = question_of(base.scenario)
    priced = BucketService(question).priced(pools)
    routes = pool_routes(question, priced.pools, priced.rate_rps)
    assert base.buckets is not None
    return replace(
        base,
        throughput_rps=priced.rate_rps,
        prefill_rps=priced.prefill_rps,
        decode_rps=priced.decode_rps,
        islands=tuple(pool_islands(base.scenario, priced.pools, routes, {}, {}, {})),
        routing=routes,
        buckets=replace(
            base.buckets, promise_rps=priced.rate_rps * base.scenario.routing.margin, pools=priced.pools, losses=()
        ),
        exact_rps=None,
        rate_band=None,
        sensitivity=None,
    )


def renamed(pool: BucketPool, **changes: object) -> BucketPool:
    """A pool of other servers, with a name of its own."""
    stem, _, number = pool.island.rpartition("-")
    return replace(pool, island=f"{stem}-{int(number) + 5}", **changes)  # type: ignore[arg-type]


def restarted(base: Plan) -> Plan:
    """Prefill servers of two GPU types are started with other flags."""
    assert base.buckets is not None
    pools = [
        renamed(pool, server=replace(pool.server, batch_size=pool.server.batch_size // 2))
        if pool.server.tokens_per_step and pool.gpu in ("H20", "H800")
        else pool
        for pool in base.buckets.pools
    ]
    return plan_of_pools(base, pools)


def split(base: Plan, at: int) -> Plan:
    """Two prefill buckets in place of one: H200 takes the prompts from `at` tokens on, all others the shorter ones."""
    assert base.buckets is not None
    pools = [
        replace(pool, start=at)
        if pool.server.tokens_per_step and pool.gpu == "H200"
        else renamed(pool, end=at)
        if pool.server.tokens_per_step
        else pool
        for pool in base.buckets.pools
    ]
    return plan_of_pools(base, pools)


def with_longer_answers(base: Plan) -> Plan:
    """The longest answer is twice as long: every engine is started anew, for more tokens."""
    workload = base.scenario.workload
    longer = replace(workload, max_output_tokens=2 * workload.max_output_tokens)
    scenario = replace(base.scenario, workload=longer)
    return plan_of_pools(replace(base, scenario=scenario), [renamed(pool) for pool in base.buckets.pools])
