"""Plans on NVL72 racks: islands in one, priced so; and the forms that shortfalls of a plan name, with their rates."""

from dataclasses import replace

import pytest
from pipeline_scenarios import small

from planner.cost import tabulate_placed
from planner.domain import (
    Cluster,
    Duty,
    IslandClass,
    ParallelConfig,
    Phase,
    PlacementDemand,
    PlacementSettings,
    Plan,
    Question,
    Reach,
    Scenario,
    SearchMethod,
)
from planner.evaluation.reaches import MOST_FORMS, forms_of, reaches_of
from planner.pipeline import place, plan
from planner.placement import Fleet, NodeType, synthesize
from planner.placement import place as place_islands
from planner.workload import question_of

GPU = "GB200-NVL72"
TRAY = NodeType(gpu=GPU, share=1.0, gpus=4, cores_per_socket=72, nodes_per_domain=18)


@pytest.fixture(scope="module")
def racks() -> Cluster:
    """Two racks of 72 GPUs under one switch."""
    return synthesize(36, 1, 0.0, types=[TRAY], nodes_per_asw=(36, 36))


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    asked = small({GPU: 112})
    return replace(asked, search=replace(asked.search, method=SearchMethod.EXACT, sizes=(48, 64), timings=False))


@pytest.fixture(scope="module")
def unplaced(scenario: Scenario) -> Plan:
    return plan(scenario)


def test_islands_of_48_and_64_gpus_lose_nothing_in_two_racks(
    scenario: Scenario, unplaced: Plan, racks: Cluster
) -> None:
    """Where trays are apart, as if nobody had named the racks, the same plan serves less."""
    assert sorted(island.size for island in unplaced.islands) == [48, 64]
    placed = place(unplaced, replace(scenario, cluster=racks))
    assert all(len(site.domains) == 1 for site in placed.placement.sites)
    assert all(island.reach is not None and island.reach.foreign == 0 for island in placed.islands)
    assert placed.throughput_rps == pytest.approx(unplaced.throughput_rps, rel=1e-9)
    nodes = tuple(replace(node, nvlink_domain="", labels=()) for node in racks.nodes)
    apart = place(unplaced, replace(scenario, cluster=replace(racks, nodes=nodes)))
    assert apart.throughput_rps < 0.98 * placed.throughput_rps


def test_a_copy_over_two_racks_is_priced_over_the_network(question: Question, racks: Cluster) -> None:
    """Racks of 56 GPUs each: the copy of 64 leaves one of them; its 8 GPUs there reach seven eighths over the NIC."""
    cluster = replace(racks, nodes=(*racks.nodes[:14], *racks.nodes[18:32]))
    demands = [
        PlacementDemand(island=name, gpu=GPU, phase=Phase.DECODE, replicas=1, groups=size, tp=1)
        for name, size in (("a", 48), ("b", 64))
    ]
    fleet, gpu = Fleet.of(cluster), question.scenario.inventory.item(GPU).gpu
    placement = place_islands(demands, fleet, PlacementSettings())
    assert {site.island: sorted(site.domains) for site in placement.sites} == {
        "a": [("nvl-0018", 48)],
        "b": [("nvl-0000", 56), ("nvl-0018", 8)],
    }
    reaches = reaches_of(placement, demands, fleet, [gpu], 1.0)
    assert (reaches["a"].foreign, reaches["b"].foreign) == (0, 0.875)
    inside, across = (_rates(question, ParallelConfig(tp=1, dp=64), reach) for reach in (Reach(), reaches["b"]))
    assert all(slow < fast for slow, fast in zip(across, inside, strict=True))


def _rates(question: Question, parallel: ParallelConfig, reach: Reach | None = None) -> tuple[float, ...]:
    """Of decode, as the cost model has them."""
    scenario = question.scenario
    return tabulate_placed(
        scenario.inventory.item(GPU).gpu,
        Phase.DECODE,
        parallel,
        model=scenario.model,
        workload=question.workload,
        settings=replace(scenario.cost, reach=reach),
        slo=scenario.slo,
    ).rates_rps


@pytest.fixture(scope="module")
def question(scenario: Scenario) -> Question:
    return question_of(scenario)


def test_forms_of_an_island_are_priced_as_the_cost_model_does(question: Question) -> None:
    """Decode of sixteen GPUs in groups of four: what the formulas say of every smaller group, best first."""
    shares = tuple(1 / len(question.workload.ranges) for _ in question.workload.ranges)
    duty = Duty(island=IslandClass(gpu=GPU, size=16), phase=Phase.DECODE, count=1, time_shares=shares)
    forms = forms_of({"a": (duty, ParallelConfig(tp=4, dp=4)), "b": (duty, ParallelConfig(tp=4, dp=4))}, question)
    assert forms["a"] == forms["b"]
    assert 0 < len(forms["a"]) <= MOST_FORMS
    rates = [form.rate_rps for form in forms["a"]]
    assert rates == sorted(rates, reverse=True)
    for form in forms["a"]:
        assert form.tp < 4
        assert form.replicas * form.groups * form.tp == 16
        known = _rates(question, ParallelConfig(tp=form.tp, dp=form.groups, replicas=form.replicas))
        served = sum(share * rate for share, rate in zip(shares, known, strict=True))
        assert form.rate_rps == pytest.approx(served, rel=1e-12)
