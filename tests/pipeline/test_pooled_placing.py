"""Plans of buckets on nodes: pools with their servers, what lying there costs, and what finds no room."""

from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_scenarios import bucketed
from test_placing import ROOMY, cluster_of

from planner.domain import (
    BucketPool,
    ObjectiveKind,
    ObjectiveSettings,
    Phase,
    Plan,
    Pod,
    Scenario,
    SurvivalSettings,
)
from planner.errors import InfeasibleError, InputError
from planner.evaluation.buckets.placing import place_pools
from planner.evaluation.buckets.service import BucketService
from planner.files import encode_plan, load_run
from planner.pipeline import place, plan
from planner.placement import Fleet
from planner.proposing.feasibility import posed


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return bucketed({"H200": 32, "H20": 64})


@pytest.fixture(scope="module")
def unplaced(scenario: Scenario) -> Plan:
    return plan(scenario)


def test_pools_on_empty_nodes_keep_all_their_servers(scenario: Scenario, unplaced: Plan) -> None:
    placed = place(unplaced, replace(scenario, cluster=ROOMY))
    assert placed.placement.shortfalls == ()
    assert placed.placement.unplaced_rps == pytest.approx(unplaced.throughput_rps)
    assert placed.throughput_rps == pytest.approx(unplaced.throughput_rps, rel=0.02)
    replicas = {(part.island, part.replica) for part in placed.placement.parts}
    for island in placed.islands:
        assert island.reach is not None
        assert sum(name == island.id for name, _ in replicas) == island.parallel.replicas


def test_planning_on_a_cluster_is_planning_and_then_placing_pools(scenario: Scenario, unplaced: Plan) -> None:
    there = replace(scenario, cluster=ROOMY)
    at_once, after = plan(there), place(unplaced, there)
    assert at_once.placement == after.placement
    assert at_once.routing == after.routing
    assert at_once.buckets == after.buckets


def test_a_pool_without_room_loses_servers(scenario: Scenario, unplaced: Plan) -> None:
    busy = tuple(Pod(name=f"p{k}", node=f"b-{k}", gpus=tuple(range(8)), cpus=8.0) for k in range(4))
    placed = place(unplaced, replace(scenario, cluster=replace(ROOMY, pods=busy)))
    assert 0 < placed.throughput_rps < unplaced.throughput_rps
    sizes = {island.id: island.size for island in unplaced.islands}
    assert all(island.size <= sizes[island.id] for island in placed.islands)
    assert sum(island.size for island in placed.islands if island.gpu == "H20") <= 32
    for island in placed.islands:
        missing = (sizes[island.id] - island.size) * island.parallel.replicas // island.size
        assert ("find no room" in island.note) == (missing > 0)
        assert island.note.startswith(f"{missing} of its " if missing else "")
    vanished = set(sizes) - {island.id for island in placed.islands}
    assert {shortfall.island for shortfall in placed.placement.shortfalls} <= vanished


def test_a_plan_that_lost_servers_is_not_placed_again(scenario: Scenario, unplaced: Plan) -> None:
    """What it lost is not in it: the plan before it was placed is."""
    busy = tuple(Pod(name=f"p{k}", node=f"b-{k}", gpus=tuple(range(8)), cpus=8.0) for k in range(4))
    placed = place(unplaced, replace(scenario, cluster=replace(ROOMY, pods=busy)))
    with pytest.raises(InputError, match=r"found no room when it was placed.*as it was before"):
        place(placed, replace(scenario, cluster=ROOMY))


def test_pools_that_find_no_room_at_all_are_infeasible(scenario: Scenario, unplaced: Plan) -> None:
    tight = cluster_of({"a": ("H200", 1), "b": ("H20", 1)})
    with pytest.raises(InfeasibleError, match="do not serve every bucket"):
        place(unplaced, replace(scenario, cluster=tight))


def test_an_edited_plan_of_pools_is_not_placed(scenario: Scenario, unplaced: Plan) -> None:
    with pytest.raises(InputError, match="throughput_rps must be what its pools serve"):
        place(replace(unplaced, throughput_rps=2 * unplaced.throughput_rps), replace(scenario, cluster=ROOMY))


def test_a_placed_plan_of_pools_is_read_back_and_placed_again(scenario: Scenario, tmp_path: Path) -> None:
    placed = plan(replace(scenario, cluster=ROOMY))
    (tmp_path / "plan.json").write_bytes(encode_plan(placed))
    loaded = load_run(tmp_path / "plan.json")
    assert loaded == placed
    assert place(loaded, loaded.scenario).placement == placed.placement


def test_a_placed_objective_judges_pools_where_they_lie() -> None:
    parted = cluster_of({f"a{k}": ("H200", 1) for k in range(4)})
    asked = bucketed({"H200": 32}, search={"iterations": 1, "batch_size": 2, "timings": False})
    asked = replace(asked, cluster=parted, objective=ObjectiveSettings(kind=ObjectiveKind.PLACED))
    made = plan(asked)
    best = next(trial for trial in made.search.trials if trial.index == made.search.best_trial)
    assert made.placement is not None
    assert best.throughput_rps == pytest.approx(made.throughput_rps, rel=1e-9)


LEVELS = {"ttft_ms": 4000, "tpot_ms": 50, "percentile": 90}


@pytest.fixture(scope="module")
def of_h20() -> Plan:
    """Three prefill servers and one decode server of two nodes each."""
    return plan(bucketed({"H20": 64}, slo=LEVELS))


def pools_with(of_h20: Plan, decode: int) -> tuple[BucketPool, ...]:
    pools = of_h20.buckets.pools
    assert [(pool.phase, pool.count, pool.gpus) for pool in pools] == [(Phase.PREFILL, 3, 48), (Phase.DECODE, 1, 16)]
    return (pools[0], replace(pools[1], count=decode))


def far_apart(of_h20: Plan, nodes: dict[str, tuple[str, int]]) -> Scenario:
    """Between switches a tenth of the rate is left, at which no decode server keeps its bound."""
    cost = replace(of_h20.scenario.cost, cross_switch_bandwidth=0.1)
    return replace(of_h20.scenario, cluster=cluster_of(nodes), cost=cost)


def test_a_server_that_keeps_no_level_where_it_lies_is_left_out(of_h20: Plan) -> None:
    """One of two decode servers finds its nodes under one switch; the other's would be under two."""
    there = far_apart(of_h20, {"a": ("H20", 2), **{f"s{k}": ("H20", 1) for k in range(8)}})
    assert there.cluster is not None
    placed = place_pools(pools_with(of_h20, 2), posed(there), Fleet.of(there.cluster))
    assert [(pool.phase, pool.count) for pool in placed.priced.pools] == [(Phase.PREFILL, 3), (Phase.DECODE, 1)]
    decode = placed.priced.pools[1].island
    assert placed.unplaced == {decode: 1}
    assert placed.advice == {decode: "1 of these would keep no service level where they lie"}
    assert {part.asw for part in placed.placement.parts if part.island == decode} == {"a"}
    assert placed.priced.rate_rps > 0


def test_a_bucket_that_keeps_no_level_anywhere_is_infeasible(of_h20: Plan) -> None:
    there = far_apart(of_h20, {f"s{k}": ("H20", 1) for k in range(8)})
    with pytest.raises(InfeasibleError, match="servers keep no service level where they lie") as refused:
        place(of_h20, there)
    assert refused.value.hint is not None
    assert "slo" in refused.value.hint


@pytest.mark.parametrize("nodes", [8, 6])
def test_pools_without_room_keep_what_losses_of_nodes_need(of_h20: Plan, nodes: int) -> None:
    """Of both halves two servers have to stay, so that one survives: the larger pool gives up what it can."""
    there = replace(
        of_h20.scenario,
        cluster=cluster_of({"a": ("H20", nodes)}),
        survive=SurvivalSettings(nodes=1, share=0.3),
    )
    assert there.cluster is not None
    asked = (pools_with(of_h20, 2), posed(there), Fleet.of(there.cluster))
    if nodes == 8:
        assert [pool.count for pool in place_pools(*asked).priced.pools] == [2, 2]
    else:
        with pytest.raises(InfeasibleError, match=r"survive\.share must be kept"):
            place_pools(*asked)


def test_who_prefills_for_nobody_is_left_out_beside_mixed_servers(of_h20: Plan) -> None:
    """The servers that decode find no room, mixed ones serve the bucket alone: shares of the others would sum to more
    than there is."""
    prefill, decode = pools_with(of_h20, 1)
    server = replace(decode.server, tokens_per_step=512, batch_size=32)
    mixed = replace(decode, phase=Phase.MIXED, island="mixed", server=server)
    far = replace(decode, gpu="H200", island="far")
    nodes = cluster_of({"a": ("H20", 8), "b": ("H20", 8)})
    there = replace(bucketed({"H20": 64, "H200": 16}), cluster=nodes)
    assert there.cluster is not None
    question = posed(there)
    together = BucketService(question).priced((prefill, mixed)).pools
    assert {pool.island: pool.share for pool in together} == {prefill.island: 0, "mixed": 1}
    placed = place_pools((prefill, mixed, far), question, Fleet.of(there.cluster))
    assert [pool.island for pool in placed.priced.pools] == ["mixed"]
    far_away, alone = placed.placement.shortfalls
    assert (far_away.island, far_away.resource) == ("far", "nodes")
    assert (alone.island, alone.resource, alone.gpus) == (prefill.island, "partners", prefill.gpus)
    assert alone.reason == "nobody is left to decode what its servers do not"
    assert placed.placement.parts
    assert {part.island for part in placed.placement.parts} == {"mixed"}
    # the other way round, and where the one without a partner has too little room itself
    decodes, prefills = replace(decode, island="decodes"), replace(far, phase=Phase.PREFILL, server=prefill.server)
    swapped = place_pools((decodes, mixed, prefills), question, Fleet.of(there.cluster)).placement.shortfalls
    assert [row.reason for row in swapped if row.island == "decodes"] == [
        "nobody is left to prefill what its servers do not"
    ]
    little = replace(prefill.server, parallel=replace(prefill.server.parallel, dp=2))
    two = replace(prefill, count=2, server=little)
    squeezed = place_pools((two, replace(mixed, count=2), far), question, Fleet.of(cluster_of({"a": ("H20", 5)})))
    assert [(row.island, row.resource) for row in squeezed.placement.shortfalls] == [
        (two.island, "GPUs"),
        ("far", "nodes"),
    ]


def test_who_makes_room_for_another_with_all_its_servers_is_told_so(of_h20: Plan) -> None:
    """The one that decodes is smaller and chooses last; without it nobody decodes, others prefill."""
    prefill, decode = pools_with(of_h20, 1)
    wide = replace(prefill.server, parallel=replace(prefill.server.parallel, dp=8))
    large = replace(prefill, count=1, server=wide)
    other = replace(prefill, count=1, gpu="H200", island="other")
    nodes = cluster_of({"a": ("H20", 4), "b": ("H200", 2)})
    question = posed(replace(bucketed({"H20": 64, "H200": 16}), cluster=nodes))
    placed = place_pools((large, other, decode), question, Fleet.of(nodes))
    assert [pool.island for pool in placed.priced.pools] == ["other", decode.island]
    (row,) = placed.placement.shortfalls
    assert (row.island, row.gpu, row.gpus, row.resource) == (large.island, "H20", 32, "GPUs")
    assert row.reason == f"its servers make room for {decode.island}, which nobody else stands in for"
    roomy = cluster_of({"a": ("H20", 6), "b": ("H200", 2)})
    question = posed(replace(bucketed({"H20": 64, "H200": 16}), cluster=roomy))
    assert place_pools((large, other, decode), question, Fleet.of(roomy)).placement.shortfalls == ()


def test_under_one_switch_topology_costs_no_pool_anything(scenario: Scenario, unplaced: Plan) -> None:
    beside = replace(ROOMY, nodes=tuple(replace(node, asw="a") for node in ROOMY.nodes))
    sites = place(unplaced, replace(scenario, cluster=beside)).placement.sites
    assert [site.rate_rps for site in sites] == pytest.approx([site.ideal_rps for site in sites])
    pools = {pool.island: pool.count * pool.capacity_rps for pool in unplaced.buckets.pools}
    assert {site.island: site.ideal_rps for site in sites} == pytest.approx(pools)


def test_what_topology_costs_a_pool_rises_with_what_switches_hold_back(of_h20: Plan) -> None:
    """Servers of two nodes, each node under a switch of its own: at the full rate between switches nothing is lost."""
    parted = {f"s{k}": ("H20", 1) for k in range(8)}
    lost = []
    for bandwidth in (1.0, 0.9, 0.6):
        there = far_apart(of_h20, parted)
        cost = replace(there.cost, cross_switch_bandwidth=bandwidth)
        question = posed(replace(there, cost=cost, slo=replace(there.slo, tpot_ms=100)))
        made = place_pools(pools_with(of_h20, 1), question, Fleet.of(there.cluster), advises=True)
        assert not made.placement.shortfalls
        lost.append([site.lost_share for site in made.placement.sites])
    assert lost[0] == pytest.approx([0.0] * len(lost[0]), abs=1e-12)
    assert all(0 < near < far < 1 for near, far in zip(*lost[1:], strict=True))
