"""A plan's figures are those of the command lines that it writes: read back from the files alone, they give its rates.

Nothing of the plan but its buckets is used: type, copies and phase come from the objects' labels, annotations and
replicas, the server from the engine's own flags.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import yaml

import planner
from planner.domain import PHASES, BucketPool, Phase, Plan
from planner.evaluation.buckets.service import BucketService
from planner.export import read_server, render
from planner.export.routers.intervals import covering_routes
from planner.workload import question_of

CASES = (
    ("vllm", {"H200": 32, "H20": 32}, "deepseek-v3", {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}),
    ("sglang", {"H200": 32, "H20": 32}, "deepseek-v3", {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}),
    ("vllm", {"H100": 16, "A100": 16}, "llama-3.1-70b", {}),
    ("sglang", {"H200": 32}, "qwen3-235b-a22b", {"tpot_ms": 40}),
)


@pytest.mark.parametrize(("engine", "inventory", "model", "slo"), CASES)
def test_flags_of_the_files_give_the_rates_of_the_plan(
    engine: str, inventory: dict[str, int], model: str, slo: dict[str, float]
) -> None:
    planned = planner.plan(
        inventory=inventory,
        workload="azure-code-2023",
        model=model,
        engine=engine,
        objective={"kind": "rate"},
        **({"slo": slo} if slo else {}),
    ).record
    pools = [
        _read_pool(planned, engine, text) for name, text in render(planned, target="lws").items() if name[0] == "0"
    ]
    assert len(pools) == len(planned.buckets.pools)
    priced = BucketService(question_of(planned.scenario)).priced(pools)
    assert priced.rate_rps == pytest.approx(planned.throughput_rps, rel=1e-9)
    due = {pool.island: pool.capacity_rps for pool in planned.buckets.pools}
    assert {pool.island: pool.capacity_rps for pool in priced.pools} == pytest.approx(due, rel=1e-9)


MIXED_CASES = (
    ("llama-3.1-70b", {"H100": 8}, {"serving": "aggregated", "slo": {"ttft_ms": 6000, "tpot_ms": 100}}),
    ("deepseek-v3", {"H200": 16}, {"serving": "aggregated", "slo": {"ttft_ms": 6000, "tpot_ms": 200}}),
    (
        "llama-3.1-70b",
        {"H100": 20},
        {"serving": "auto", "simplicity": 0, "slo": {"ttft_ms": 6000, "tpot_ms": 70, "percentile": 99}},
    ),
)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(("model", "inventory", "sections"), MIXED_CASES)
def test_flags_of_servers_of_both_phases_give_the_rates_of_the_plan(
    engine: str, model: str, inventory: dict[str, int], sections: dict[str, Any]
) -> None:
    document = {"workload": "azure-conv-2023", **sections}
    planned = planner.plan(inventory=inventory, model=model, engine=engine, **document).record
    pools = [
        _read_pool(planned, engine, text) for name, text in render(planned, target="lws").items() if name[0] == "0"
    ]
    assert [pool.server for pool in pools] == [pool.server for pool in planned.buckets.pools]
    mixed = [pool for pool in pools if pool.phase is Phase.MIXED]
    assert mixed
    assert all(pool.server.tokens_per_step >= pool.server.batch_size > 0 for pool in mixed)
    service = BucketService(question_of(planned.scenario))
    priced = service.priced(pools)
    assert priced.rate_rps == pytest.approx(planned.throughput_rps, rel=1e-9)
    due = {pool.island: pool.capacity_rps for pool in planned.buckets.pools}
    assert {pool.island: pool.capacity_rps for pool in priced.pools} == pytest.approx(due, rel=1e-9)
    smaller = replace(mixed[0].server, tokens_per_step=512)
    edited = [replace(pool, server=smaller) if pool is mixed[0] else pool for pool in pools]
    assert service.priced(edited).rate_rps != pytest.approx(priced.rate_rps, rel=0.005), "the budget decides"


def test_another_budget_is_another_rate() -> None:
    """What is read back decides the rate: a changed flag shows."""
    planned = planner.plan(
        inventory={"H20": 32},
        workload="azure-code-2023",
        engine="vllm",
        slo={"ttft_ms": 4000, "tpot_ms": 60},
        serving="split",
    ).record
    files = {name: text for name, text in render(planned, target="lws").items() if name[0] == "0"}
    prefill = next(text for text in files.values() if "planner/phase: prefill" in text)
    budget = _read_pool(planned, "vllm", prefill).server.tokens_per_step
    changed = _read_pool(
        planned, "vllm", prefill.replace(f"--max-num-batched-tokens={budget}", "--max-num-batched-tokens=2048")
    )
    pools = [_read_pool(planned, "vllm", text) for text in files.values()]
    edited = [changed if pool.island == changed.island else pool for pool in pools]
    service = BucketService(question_of(planned.scenario))
    assert service.priced(edited).prefill_rps < 0.99 * service.priced(pools).prefill_rps


def _read_pool(planned: Plan, engine: str, text: str) -> BucketPool:
    """The pool that a file's object deploys, with the plan's bucket for it."""
    (document,) = (d for d in yaml.safe_load_all(text) if d["kind"] == "LeaderWorkerSet")
    labels, spec = document["metadata"]["labels"], document["spec"]
    phase = Phase(labels["planner/phase"])
    template = spec["leaderWorkerTemplate"].get("leaderTemplate") or spec["leaderWorkerTemplate"]["workerTemplate"]
    container = template["spec"]["containers"][0]
    assert planned.buckets is not None
    island = document["metadata"]["annotations"]["planner/island-id"]
    bucket = next(pool for pool in planned.buckets.pools if pool.island == island)
    return replace(
        bucket,
        gpu=labels["planner/gpu"],
        phase=phase,
        count=spec["replicas"],
        server=read_server(engine, container["args"], phase),
        capacity_rps=0.0,
        full_rps=0.0,
        share=1.0,
    )


def test_phases_may_have_buckets_of_their_own() -> None:
    """Two buckets of prefill beside one of decode: the table covers all lengths in each phase by itself."""
    planned = planner.plan(
        inventory={"H200": 32, "H20": 64},
        ranges={"width": 4096},
        workload="mooncake-conversation",
        slo={"ttft_ms": 10_000, "tpot_ms": 60, "percentile": 99},
        serving="split",
        routing={"policy": "least_work"},
        simplicity=0,
    ).record
    starts = {phase: {route.range_start for route in planned.routing if route.phase is phase} for phase in PHASES}
    assert len(starts[Phase.PREFILL]) != len(starts[Phase.DECODE]), "a case with different buckets"
    covering = covering_routes(planned)
    for phase in PHASES:
        spans = sorted({(route.range_start, route.range_end) for route in covering if route.phase is phase})
        assert spans[0][0] == 0
        assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert len({max(route.range_end for route in covering if route.phase is phase) for phase in PHASES}) == 1
    for target in ("lws", "llm-d", "script"):
        assert render(planned, target=target)  # which checks what it writes
