"""Plans on nodes: what lying there costs, what finds no room, and a search that heeds it."""

from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_scenarios import small

from planner.cost import tabulate_placed
from planner.domain import (
    PHASES,
    Cluster,
    ClusterNode,
    CostMode,
    CostSettings,
    NetworkSettings,
    NodeGpu,
    NumaNode,
    ObjectiveKind,
    ObjectiveSettings,
    ParallelConfig,
    Phase,
    PlacementSettings,
    Plan,
    Pod,
    Qos,
    Reach,
    Scenario,
    SearchMethod,
    SearchSettings,
    SloSettings,
)
from planner.errors import InfeasibleError, InputError
from planner.files import cluster_document, encode_plan, load_run
from planner.pipeline import place, plan
from planner.placement import Fit, synthesize
from planner.workload import divide


def node(name: str, gpu: str, asw: str) -> ClusterNode:
    return ClusterNode(
        name=name,
        gpu=gpu,
        gpus=tuple(NodeGpu(index=i, uuid=f"{name}-{i}", numa=i // 4) for i in range(8)),
        numa_nodes=tuple(NumaNode(id=n, socket=n, cores=tuple(range(48 * n, 48 * n + 48))) for n in range(2)),
        cpus=96.0,
        memory_gb=1000.0,
        asw=asw,
    )


def cluster_of(switches: dict[str, tuple[str, int]]) -> Cluster:
    """Empty nodes: switch -> (GPU type, nodes)."""
    nodes = [node(f"{asw}-{k}", gpu, asw) for asw, (gpu, count) in switches.items() for k in range(count)]
    return Cluster(name="drawn", nodes=tuple(nodes))


ROOMY = cluster_of({"a": ("H200", 4), "b": ("H20", 8)})


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    """Whole-node islands, solved for: what lies compactly costs nothing."""
    asked = small({"H200": 32, "H20": 64})
    search = replace(asked.search, method=SearchMethod.EXACT, sizes=(16, 32), timings=False)
    return replace(asked, search=search)


@pytest.fixture(scope="module")
def unplaced(scenario: Scenario) -> Plan:
    return plan(scenario)


def on(scenario: Scenario, cluster: Cluster, **changes: object) -> Scenario:
    return replace(scenario, cluster=cluster, **changes)  # type: ignore[arg-type]


def test_islands_of_whole_nodes_under_their_own_switch_lose_nothing(scenario: Scenario, unplaced: Plan) -> None:
    placed = place(unplaced, on(scenario, ROOMY))
    assert placed.placement.shortfalls == ()
    assert placed.throughput_rps == pytest.approx(unplaced.throughput_rps, rel=1e-6)
    assert placed.placement.unplaced_rps == unplaced.throughput_rps
    assert {island.id for island in placed.islands if island.phase} == {i.id for i in unplaced.islands if i.phase}
    for island in placed.islands:
        if island.phase is not None:
            assert island.reach.foreign == max(0.0, 1 - 8 / island.parallel.devices)
            assert island.reach.crossing == 0


def test_planning_on_a_cluster_is_planning_and_then_placing(scenario: Scenario, unplaced: Plan) -> None:
    at_once, after = plan(on(scenario, ROOMY)), place(unplaced, on(scenario, ROOMY))
    assert at_once.placement == after.placement
    assert at_once.routing == after.routing


@pytest.mark.parametrize("phase", list(PHASES))
def test_straddling_switches_is_priced_as_smaller_switches_would_be(phase: Phase) -> None:
    """Half a replica under each of two switches: what the unplaced model says where a switch holds half of it."""
    scenario = small({"H200": 32, "H20": 64})
    workload, gpu = divide(scenario.workload, scenario.ranges.width), scenario.inventory.item("H200").gpu
    replica = ParallelConfig(tp=1, dp=32)

    def rates(settings: CostSettings) -> tuple[float, ...]:
        known = tabulate_placed(
            gpu, phase, replica, model=scenario.model, workload=workload, settings=settings, slo=scenario.slo
        )
        return known.rates_rps

    compact, across = scenario.cost, replace(scenario.cost, gpus_per_switch=16)
    assert rates(replace(compact, reach=Reach(foreign=0.75))) == pytest.approx(rates(compact), rel=1e-9)
    parted = replace(compact, reach=Reach(foreign=0.75, crossing=0.5))
    assert rates(parted) == pytest.approx(rates(across), rel=1e-9)
    assert sum(rates(across)) < sum(rates(compact))
    assert sum(rates(replace(compact, reach=Reach(foreign=0.9)))) < sum(rates(compact))


def test_an_island_across_switches_serves_less(scenario: Scenario, unplaced: Plan) -> None:
    parted = cluster_of({f"a{k}": ("H200", 1) for k in range(4)} | {f"b{k}": ("H20", 1) for k in range(8)})
    placed = place(unplaced, on(scenario, parted))
    assert placed.throughput_rps < 0.999 * unplaced.throughput_rps
    assert any(site.crossing_replicas for site in placed.placement.sites)
    for island in placed.islands:
        if island.reach and island.parallel:
            assert island.reach.crossing == max(0.0, 1 - 8 / island.parallel.devices)


def test_the_path_between_islands_takes_from_their_nics(scenario: Scenario) -> None:
    """H200 and H20 lie under different switches: KV caches change switches, and a tight NIC share then binds."""
    tight = replace(scenario, network=NetworkSettings(nic_share=0.001))
    found = plan(on(tight, ROOMY))
    assert any(island.reach and island.reach.path < 1 for island in found.islands)
    assert found.throughput_rps < found.placement.unplaced_rps
    assert found.network_bottleneck


def test_what_finds_no_room_is_told_and_serves_nothing(scenario: Scenario, unplaced: Plan) -> None:
    """Half of the H20 are held: their islands share what is left, the others keep the plan alive."""
    busy = tuple(Pod(name=f"p{k}", node=f"b-{k}", gpus=tuple(range(8)), cpus=8.0) for k in range(4))
    asked = on(scenario, replace(ROOMY, pods=busy))
    placed = place(unplaced, asked)
    lost = {short.island for short in placed.placement.shortfalls}
    assert lost
    idle = {island.id: island.note for island in placed.islands if island.phase is None}
    assert lost <= idle.keys()
    assert all("GPUs are asked for" in idle[name] for name in lost)
    assert 0 < placed.throughput_rps < unplaced.throughput_rps


def test_a_cluster_without_room_for_a_phase_is_infeasible_and_says_what_is_short(
    scenario: Scenario, unplaced: Plan
) -> None:
    with pytest.raises(InfeasibleError, match=r"GPUs are asked for, \d+ are idle"):
        place(unplaced, on(scenario, cluster_of({"a": ("H200", 1), "b": ("H20", 1)})))


def test_an_edited_plan_is_not_placed(scenario: Scenario, unplaced: Plan) -> None:
    with pytest.raises(InputError, match="throughput_rps must be what its layout serves"):
        place(replace(unplaced, throughput_rps=2 * unplaced.throughput_rps), on(scenario, ROOMY))


def test_saving_and_loading_a_placed_plan(scenario: Scenario, tmp_path: Path) -> None:
    placed = plan(on(scenario, ROOMY))
    (tmp_path / "plan.json").write_bytes(encode_plan(placed))
    loaded = load_run(tmp_path / "plan.json")
    assert loaded == placed
    assert place(loaded, loaded.scenario).placement == placed.placement


@pytest.fixture(scope="module")
def fragmented() -> Cluster:
    """No empty node to speak of: 70 % held at random, three types."""
    return synthesize(60, 3, 0.7, fit=Fit.RANDOM)


def on_idle(scenario: Scenario, cluster: Cluster) -> Scenario:
    """The scenario with as many GPUs as the cluster has idle."""
    items = tuple(replace(item, count=cluster.idle_gpus[item.gpu.name]) for item in scenario.inventory.items)
    return replace(scenario, inventory=replace(scenario.inventory, items=items), cluster=cluster)


def test_a_placed_search_judges_what_it_then_places(fragmented: Cluster) -> None:
    """The best trial's rate is the plan's own."""
    asked = on_idle(small({"H200": 32, "H800": 32, "H20": 32}), fragmented)
    asked = replace(asked, objective=ObjectiveSettings(kind=ObjectiveKind.PLACED))
    alone = plan(asked)
    best = next(trial for trial in alone.search.trials if trial.index == alone.search.best_trial)
    assert best.throughput_rps == pytest.approx(alone.throughput_rps, rel=1e-9)
    assert alone.placement is not None


FEW = SearchSettings(method=SearchMethod.RANDOM, iterations=1, batch_size=8, timings=False)


def test_seven_tenths_full_costs_less_than_a_twentieth() -> None:
    cluster = synthesize(100, 0, 0.7)
    found = plan(on(replace(small({"H200": 32, "H20": 64}), search=FEW), cluster))
    assert found.placement.shortfalls == ()
    assert not any(site.crossing_replicas for site in found.placement.sites)
    assert found.throughput_rps >= 0.95 * found.placement.unplaced_rps


@pytest.mark.parametrize("qos", [Qos.GUARANTEED, Qos.NONE])
def test_qos_and_service_levels_go_through(scenario: Scenario, qos: Qos, fragmented: Cluster) -> None:
    asked = on_idle(small({"H200": 32, "H800": 32, "H20": 32}), fragmented)
    asked = replace(
        asked,
        search=replace(asked.search, iterations=1, batch_size=3),
        slo=SloSettings(ttft_ms=20000.0, tpot_ms=100.0),
        placement=PlacementSettings(prefill_qos=qos, decode_qos=qos),
    )
    found = plan(asked)
    assert found.service is not None
    assert found.throughput_rps <= found.placement.unplaced_rps * 1.02
    if qos is Qos.GUARANTEED:
        assert all(site.aligned for site in found.placement.sites)


def test_reference_mode_knows_no_places(scenario: Scenario) -> None:
    """Nor does a profile: times that do not depend on the place would be told as if they did."""
    with pytest.raises(InputError, match=r"cost\.mode must be default where cluster is given"):
        small({"H200": 32, "H20": 64}, cost={"mode": "reference"}, cluster=cluster_document(ROOMY))
    reference = replace(scenario, cost=replace(scenario.cost, mode=CostMode.REFERENCE), cluster=ROOMY)
    with pytest.raises(InputError, match="mode must be default"):
        plan(reference)


def test_a_fleet_for_a_target_must_reach_it_where_it_lies(scenario: Scenario) -> None:
    parted = cluster_of({f"a{k}": ("H200", 1) for k in range(4)} | {f"b{k}": ("H20", 1) for k in range(8)})
    best = plan(scenario).throughput_rps
    asked = replace(scenario, objective=ObjectiveSettings(kind=ObjectiveKind.TARGET, target_rps=0.999 * best))
    with pytest.raises(InfeasibleError, match="are not reached on cluster drawn"):
        plan(on(asked, parted))
    assert plan(on(asked, ROOMY)).throughput_rps >= 0.999 * best * (1 - 1e-4)


def test_a_placed_plan_is_certified_by_the_rate_that_it_has(scenario: Scenario, unplaced: Plan) -> None:
    parted = cluster_of({f"a{k}": ("H200", 1) for k in range(4)} | {f"b{k}": ("H20", 1) for k in range(8)})
    placed = place(unplaced, on(scenario, parted))
    assert placed.certificate.bound_rps == unplaced.certificate.bound_rps
    assert placed.certificate.gap == pytest.approx(1 - placed.throughput_rps / (placed.certificate.bound_rps or 1))
    assert placed.certificate.objective_value == placed.throughput_rps
    assert placed.certificate.note.endswith("does not see the placement")


def test_ranges_that_nobody_serves_any_more_under_service_levels(scenario: Scenario) -> None:
    """The only decode island finds no room: told as infeasible, with what is short, not as a defect."""
    asked = replace(scenario, slo=SloSettings(ttft_ms=20000.0, tpot_ms=100.0))
    unplaced = plan(asked)
    decoding = {island.gpu for island in unplaced.islands if island.phase is Phase.DECODE}
    kept = {"H200": 4, "H20": 8}
    for gpu in decoding:
        kept[gpu] = 1
    tight = cluster_of({"a": ("H200", kept["H200"]), "b": ("H20", kept["H20"])})
    with pytest.raises(InfeasibleError, match="GPUs are asked for"):
        place(unplaced, on(asked, tight))


def test_idle_islands_keep_their_reason(scenario: Scenario) -> None:
    asked = replace(scenario, search=replace(scenario.search, method=SearchMethod.RANDOM, iterations=1, batch_size=4))
    before, after = plan(asked), plan(on(asked, ROOMY))
    told = {island.id: island.note for island in before.islands if island.phase is None}
    assert told == {island.id: island.note for island in after.islands if island.phase is None}
