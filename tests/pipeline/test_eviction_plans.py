"""Plans that evict: what the records say, and a search that weighs lost work against requests/s."""

from dataclasses import replace

import pytest
from pipeline_scenarios import small

from planner.domain import (
    Cluster,
    ClusterNode,
    DisruptionBudget,
    IslandClass,
    Layout,
    NodeGpu,
    NumaNode,
    ObjectiveKind,
    ObjectiveSettings,
    PlacementSettings,
    Plan,
    Pod,
    Scenario,
    SearchMethod,
    SearchSettings,
)
from planner.errors import InputError
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.placing import demands_of
from planner.pipeline import plan, recheck
from planner.placement import violations
from planner.workload import question_of

TEN_HOURS = 36_000.0


def node(asw: str, gpu: str, number: int) -> ClusterNode:
    return ClusterNode(
        name=f"{asw}-{number}",
        gpu=gpu,
        gpus=tuple(NodeGpu(index=i, uuid=f"{asw}-{number}-{i}", numa=i // 4) for i in range(8)),
        numa_nodes=tuple(NumaNode(id=n, socket=n, cores=tuple(range(48 * n, 48 * n + 48))) for n in range(2)),
        cpus=96.0,
        memory_gb=1000.0,
        asw=asw,
    )


NODES = tuple(node("a", "H200", k) for k in range(4)) + tuple(node("b", "H20", k) for k in range(8))


def half_held(**changes: object) -> Cluster:
    """Two nodes of each type hold pods of four GPUs whose last checkpoints are ten hours old."""
    pods = [
        Pod(
            name=f"{name}-{socket}",
            node=name,
            gpus=tuple(range(4 * socket, 4 * socket + 4)),
            cpus=8.0,
            priority=100,
            preemptible=True,
            checkpoint_age_s=TEN_HOURS,
        )
        for name in ("a-2", "a-3", "b-6", "b-7")
        for socket in range(2)
    ]
    return Cluster(name="held", nodes=NODES, pods=tuple(replace(pod, **changes) for pod in pods))  # type: ignore[arg-type]


def searched(cluster: Cluster, **settings: object) -> Scenario:
    """Every layout is placed; pods may go."""
    return replace(
        small({"H200": 32, "H20": 64}),
        cluster=cluster,
        objective=ObjectiveSettings(kind=ObjectiveKind.PLACED),
        placement=PlacementSettings(preempt=True, **settings),  # type: ignore[arg-type]
        search=SearchSettings(method=SearchMethod.RANDOM, iterations=2, batch_size=8, timings=False),
    )


def faults(found: Plan) -> tuple[str, ...]:
    assert found.placement is not None
    assert found.scenario.cluster is not None
    placement = replace(found.placement, shortfalls=())
    terms = found.scenario.placement
    return violations(found.scenario.cluster, demands_of(found), placement, evictions=terms)


@pytest.fixture(scope="module")
def careless() -> Plan:
    return plan(searched(half_held()))


def layout_of(found: Plan) -> list[tuple[str, int]]:
    return sorted((island.gpu, island.size) for island in found.islands)


def test_a_plan_with_evictions_says_what_they_lose_and_in_which_order(careless: Plan) -> None:
    assert careless.placement.judged_rps is None
    assert [victim.order for victim in careless.placement.victims] == list(range(1, 9))
    assert careless.placement.lost_gpu_hours == pytest.approx(8 * 4 * 10)
    assert faults(careless) == ()
    assert recheck(careless, "plan") == careless


def test_a_weight_on_lost_work_changes_which_layout_is_chosen(careless: Plan) -> None:
    """A light weight lowers the judged rate alone; a heavy one makes a layout better that evicts less."""
    light = plan(searched(half_held(), lost_gpu_hour_rps=0.05))
    heavy = plan(searched(half_held(), lost_gpu_hour_rps=1.0))
    assert layout_of(light) == layout_of(careless)
    assert light.throughput_rps == careless.throughput_rps
    assert light.placement.judged_rps == pytest.approx(light.throughput_rps - 0.05 * 320)
    assert layout_of(heavy) != layout_of(careless)
    assert heavy.placement.lost_gpu_hours < careless.placement.lost_gpu_hours
    assert heavy.throughput_rps < careless.throughput_rps
    assert heavy.throughput_rps - heavy.placement.lost_gpu_hours > careless.throughput_rps - 320
    for found in (light, heavy):
        best = next(trial for trial in found.search.trials if trial.index == found.search.best_trial)
        assert best.throughput_rps == pytest.approx(found.placement.judged_rps)
        assert best.throughput_rps == max(trial.throughput_rps for trial in found.search.trials)
        assert recheck(found, "plan") == found
        edited = replace(found, placement=replace(found.placement, judged_rps=1.0))
        with pytest.raises(InputError, match="is not the plan's"):
            recheck(edited, "plan")


def test_a_layout_whose_evictions_lose_more_than_it_serves_serves_nothing(careless: Plan) -> None:
    asked = searched(half_held(), lost_gpu_hour_rps=10.0)
    evaluator = Evaluator(question_of(asked))
    judged = evaluator.evaluate(Layout.of(IslandClass(gpu=one.gpu, size=one.size) for one in careless.islands))
    assert (judged.throughput_rps, judged.assignment, judged.failed) == (0.0, None, False)
    assert "placement.lost_gpu_hour_rps" in judged.error


def test_limits_hold_in_a_search_and_are_told(careless: Plan) -> None:
    limited = plan(searched(half_held(), most_victims=3, most_lost_gpu_hours=100.0))
    assert len(limited.placement.victims) <= 2
    assert limited.placement.lost_gpu_hours <= 100.0
    assert faults(limited) == ()
    assert 0 < limited.throughput_rps <= careless.throughput_rps
    assert any("most_lost_gpu_hours" in short.reason for short in limited.placement.shortfalls)


def test_a_disruption_budget_of_the_cluster_holds_in_a_plan() -> None:
    cluster = replace(
        half_held(disruption_budget="batch"), disruption_budgets=(DisruptionBudget(name="batch", allowed=1),)
    )
    found = plan(searched(cluster))
    assert len(found.placement.victims) <= 1
    assert faults(found) == ()
