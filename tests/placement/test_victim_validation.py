"""The validator's look at victims: every rule broken once, from the records alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from eviction_cases import demand, settings, spot
from placed_records import cluster_of, node

from planner.domain import Cluster, DisruptionBudget, Placement, PlacementDemand, PlacementSettings
from planner.placement import place, violations

DEMANDS = [demand("a", 4, 2, rate_rps=2.0), demand("b", 4, 1, rate_rps=1.0)]


def case() -> tuple[Cluster, Placement, PlacementSettings]:
    """Two full nodes; island `a` takes a node from two pods, `b` half of the other."""
    pods = [
        spot(f"p{k}{j}", f"n{k}", range(4 * j, 4 * j + 4), checkpoint_age_s=900.0 * (j + 1), disruption_budget="web")
        for k in range(2)
        for j in range(2)
    ]
    cluster = replace(
        cluster_of(node("n0"), node("n1"), pods=pods), disruption_budgets=(DisruptionBudget(name="web", allowed=3),)
    )
    asked = settings(most_victims=3, most_lost_gpu_hours=4.0)
    return cluster, place(DEMANDS, cluster, asked), asked


def faults(
    cluster: Cluster, found: Placement, asked: PlacementSettings, demands: list[PlacementDemand] | None = None
) -> tuple[str, ...]:
    return violations(cluster, demands or DEMANDS, found, evictions=asked)


def test_the_case_is_sound() -> None:
    cluster, found, asked = case()
    assert faults(cluster, found, asked) == ()
    assert [(victim.island, victim.order) for victim in found.victims] == [("a", 1), ("a", 2), ("b", 3)]


def told(**changes: object) -> Callable[[Placement], Placement]:
    return lambda found: replace(found, victims=(replace(found.victims[0], **changes), *found.victims[1:]))  # type: ignore[arg-type]


def ordered(*orders: int) -> Callable[[Placement], Placement]:
    return lambda found: replace(
        found, victims=tuple(replace(one, order=k) for one, k in zip(found.victims, orders, strict=True))
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (told(lost_gpu_hours=None), "lost_gpu_hours None are not 1.0"),
        (told(lost_gpu_hours=0.5), "lost_gpu_hours 0.5 are not 1.0"),
        (ordered(1, 2, 2), "order must count from 1 to 3, each once"),
        (ordered(0, 1, 2), "order must count from 1 to 3, each once"),
        (ordered(1, 3, 2), "order must keep the pods of one island together"),
    ],
)
def test_a_mistold_victim_is_named(change: Callable[[Placement], Placement], sentence: str) -> None:
    cluster, found, asked = case()
    assert any(sentence in fault for fault in faults(cluster, change(found), asked))


def test_limits_are_counted_from_the_records() -> None:
    cluster, found, asked = case()
    for changed, sentence in (
        (replace(asked, most_victims=2), "3 pods go, most_victims is 2"),
        (replace(asked, most_lost_gpu_hours=3.5), "4 GPU-hours are lost, most_lost_gpu_hours is 3.5"),
    ):
        assert faults(cluster, found, changed) == (f"victims: {sentence}.",)
    tight = replace(cluster, disruption_budgets=(DisruptionBudget(name="web", allowed=2),))
    assert faults(tight, found, asked) == ("victims: 3 pods of disruption budget web go, it allows 2.",)


def test_unknown_work_is_no_work_that_may_be_lost() -> None:
    cluster, found, asked = case()
    unknown = replace(cluster, pods=tuple(replace(pod, checkpoint_age_s=None) for pod in cluster.pods))
    silent = replace(found, victims=tuple(replace(one, lost_gpu_hours=None) for one in found.victims))
    assert len(faults(unknown, silent, asked)) == 3
    assert all("its checkpoint is not known" in fault for fault in faults(unknown, silent, asked))
    assert faults(unknown, silent, replace(asked, assumed_checkpoint_age_s=900.0)) == ()
    assert len(faults(unknown, silent, replace(asked, assumed_checkpoint_age_s=3600.0))) == 1
    assert faults(unknown, silent, replace(asked, most_lost_gpu_hours=None)) == ()
    counts = replace(asked, most_lost_gpu_hours=None, lost_gpu_hour_rps=0.1)
    assert len(faults(unknown, silent, counts)) == 3  # it could not be said what they cost
    assert faults(unknown, silent, replace(counts, assumed_checkpoint_age_s=900.0)) == ()


def test_pods_whose_gpus_are_not_known_are_no_victims() -> None:
    cluster, found, asked = case()
    (first, *others) = cluster.pods
    vague = replace(cluster, pods=(replace(first, gpu_request=5), *others))
    assert any("its GPUs are not known" in fault for fault in faults(vague, found, asked))


def test_an_island_needs_no_pod_that_goes_after_it() -> None:
    """The island whose pods go first holds GPUs of a pod that goes later: the prefix would not be sound."""
    pods = [spot("x", "n0", range(4)), spot("y", "n0", range(4, 8))]
    cluster = cluster_of(node("n0"), pods=pods)
    demands = [demand("a", 4, rate_rps=2.0), demand("b", 4, rate_rps=1.0)]
    found = place(demands, cluster, settings())
    assert faults(cluster, found, settings(), demands) == ()
    swapped = {"a": found.parts[1], "b": found.parts[0]}
    parts = tuple(
        replace(part, gpu_indices=swapped[part.island].gpu_indices, numa_nodes=swapped[part.island].numa_nodes)
        for part in found.parts
    )
    told = faults(cluster, replace(found, parts=parts), settings(), demands)
    assert any("victims up to 1, the last for island a" in fault and "are still held" in fault for fault in told)


def test_cpus_that_a_later_pod_still_holds_are_missed() -> None:
    pods = [spot("x", "n0", range(4), cpus=30.0), spot("y", "n0", range(4, 8), cpus=30.0)]
    cluster = cluster_of(node("n0"), pods=pods)
    demands = [demand("a", 4, cpus_per_gpu=8, rate_rps=2.0), demand("b", 4, cpus_per_gpu=8)]
    asked = settings(cpus_per_gpu=8)
    found = place(demands, cluster, asked)
    assert faults(cluster, found, asked, demands) == ()
    greedy = replace(cluster, pods=(pods[0], replace(pods[1], cpus=40.0)))
    told = faults(greedy, found, asked, demands)
    assert any("72 of 64 CPUs are asked for" in fault for fault in told)
