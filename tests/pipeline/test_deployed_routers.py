"""Plans that are priced for the router that they are deployed with."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from planner import pipeline
from planner.domain import LengthMeasure, Phase, Plan, Scenario
from planner.domain.serving.deploy import DeploySettings
from planner.domain.serving.programs import PROGRAMS, Surroundings
from planner.domain.serving.routers import Counted, Endpoints
from planner.evaluation.buckets.service import BucketService
from planner.files import encode_plan, scenario_from_document
from planner.files.plan.plan_reader import decode_plan
from planner.proposing.feasibility import posed
from planner.report.buckets.headline import router_sentence
from planner.report.plan.page import plan_page
from planner.runs.replays.replay_settings import replay_settings
from planner.workload import summarize

BLIND = {"router": "llm-d", "target": "llm-d"}


@cache
def planned(router: str = "", target: str = "", ranks: str = "auto") -> Plan:
    document = {
        "name": "routed",
        "model": "qwen3-235b-a22b",
        "workload": "azure-code-2023",
        "inventory": {"H200": 16, "H20": 32},
        "engine": {"name": "vllm", "version": "0.33.0"},
        "slo": {"ttft_ms": 3000, "tpot_ms": 50, "percentile": 99},
        "serving": "split",
        "ranges": {"width": 2048},
        "routing": {} if router else {"policy": "least_work"},
        "deploy": {"ranks": ranks, **({"router": router} if router else {}), **({"target": target} if target else {})},
    }
    return pipeline.plan(scenario_from_document(document, origin="a test", base=Path(), summarize=summarize))


@pytest.mark.parametrize(
    ("router", "target", "ranks"), [("haproxy", "", "auto"), ("llm-d", "llm-d", "auto"), ("vllm", "", "server")]
)
def test_a_promise_is_what_its_router_holds(router: str, target: str, ranks: str) -> None:
    """In the replay of the router's layers; it is no more than least work would hold of the same pools."""
    plan, knowing = planned(router, target, ranks), planned()
    assert plan.outlook.least_work_rps is not None
    assert plan.throughput_rps <= plan.outlook.least_work_rps * 1.01
    assert plan.throughput_rps <= knowing.throughput_rps * 1.01
    assert knowing.outlook.least_work_rps is None
    settings = replay_settings(plan, requests=4000, seeds=1)
    assert settings.router == plan.scenario.router
    assert pipeline.replay(plan, plan.scenario.workload, settings, plan.outlook.promise_rps).seems_to_hold


def test_pools_for_a_blind_router_serve_more_behind_it_than_those_for_one_that_sees() -> None:
    plan, knowing = planned("vllm", "", "server"), planned()
    service = BucketService(posed(plan.scenario))
    others = service.priced(replace(pool, share=1.0) for pool in knowing.outlook.pools)
    assert plan.throughput_rps >= others.rate_rps * (1 - 1e-6)


def test_it_is_said_saved_and_read() -> None:
    plan = planned("haproxy")
    assert decode_plan(encode_plan(plan), Path("plan.json")).outlook.least_work_rps == pytest.approx(
        plan.outlook.least_work_rps
    )
    text = str(plan_page(plan))
    assert "router `haproxy` holds (rank: least bytes for its speed)" in text
    assert "As haproxy tells lengths by bytes, a phase has one bucket." in text
    others = str(plan_page(planned()))
    assert "That is what router" not in others
    assert "a phase has one bucket" not in others


def test_what_a_router_gives_up_is_told_from_two_percent_on() -> None:
    plan = planned("haproxy")
    for more, is_told in ((1.015, False), (1.025, True)):
        outlook = replace(plan.outlook, least_work_rps=more * plan.throughput_rps)
        text = router_sentence(replace(plan, buckets=outlook))
        assert ("behind one that knew every server's work" in text) is is_told
        assert "router `haproxy` holds" in text


def test_who_tells_lengths_by_bytes_has_one_bucket_of_a_phase() -> None:
    for router, buckets in (("haproxy", 1), ("llm-d", 2), ("", 1), ("none", 2)):
        scenario = planned("haproxy").scenario
        routed = replace(scenario, deploy=replace(scenario.deploy, router=router))
        assert routed.most_buckets == buckets
        assert (routed.router.measure is LengthMeasure.TOKENS) == (buckets > 1)


@pytest.mark.parametrize(
    ("version", "settings", "ranks", "decode_ranks"),
    [
        ("0.33.0", {}, True, True),
        ("0.23.0", {"target": "llm-d"}, True, False),
        ("0.33.0", {"target": "kserve"}, False, False),
        ("0.33.0", {"ranks": "server"}, False, False),
        ("0.18.0", {}, False, False),
    ],
)
def test_ranks_are_endpoints_where_the_engine_and_the_target_have_ports_for_them(
    version: str, settings: dict[str, str], ranks: bool, decode_ranks: bool
) -> None:
    engine = replace(planned().scenario.engine, version=version)
    around = Surroundings.of(engine, DeploySettings(**settings))
    assert (around.ranks, around.decode_ranks) == (ranks, decode_ranks)
    described = PROGRAMS["llm-d"](around)
    assert described.prefill[0].among is (Endpoints.RANK if ranks else Endpoints.SERVER)
    assert described.decode[0].among is (Endpoints.RANK if decode_ranks else Endpoints.SERVER)
    assert described.prefill[0].counts is Counted.TOKENS


def test_decode_servers_that_are_alike_to_a_router_have_as_many_sequences_each() -> None:
    """One that is started for half as many holds the other back; by Little's law rate times step is the same of both,
    and who has fewer than it could takes shorter steps."""
    scenario: Scenario = planned().scenario
    blind = replace(scenario, deploy=replace(scenario.deploy, **BLIND), routing=replace(scenario.routing, policy=None))
    (large,) = [replace(pool, count=1) for pool in planned().outlook.pools if pool.phase is Phase.DECODE]
    small = replace(large, server=replace(large.server, batch_size=large.server.batch_size // 2))
    others = [pool for pool in planned().outlook.pools if pool.phase is Phase.PREFILL]
    pools = [replace(pool, share=1.0) for pool in (*others, large, small)]
    seen, unseen = (
        {pool.server.batch_size: pool.capacity_rps for pool in BucketService(posed(s)).priced(pools).pools[-2:]}
        for s in (scenario, blind)
    )
    few, many = small.server.batch_size, large.server.batch_size
    assert unseen[few] == pytest.approx(seen[few], rel=0.01)
    assert unseen[few] <= unseen[many] < 0.8 * seen[many]
