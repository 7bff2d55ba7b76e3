"""Evictions under limits, several islands and every order of them: against every set of islands and of pods."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from statistics import mean

import numpy as np
import pytest
from eviction_cases import demand, evictable, full_cluster, makes_room, settings, spot, subsets, within
from placed_records import cluster_of, node

from planner.domain import PHASES, Cluster, DisruptionBudget, Phase, PlacementDemand, PlacementSettings, Pod
from planner.placement import place, violations
from planner.placement.islands.evictions import eviction_trials

Shares = dict[Phase, float]


def shares(placed: Sequence[PlacementDemand], demands: Sequence[PlacementDemand]) -> Shares:
    """What each phase has of the rate of its islands, of their GPUs where rates are not known."""
    rated = all(one.rate_rps > 0 for one in demands)
    found = {one.phase: 0.0 for one in demands}
    for phase in found:
        worth = {one.island: one.rate_rps if rated else float(one.size) for one in demands if one.phase is phase}
        found[phase] = sum(worth[one.island] for one in placed if one.phase is phase) / sum(worth.values())
    return found


def worth(got: Shares) -> tuple[float, float]:
    return round(min(got.values()), 9), round(sum(got.values()), 9)


def placed_of(cluster: Cluster, demands: Sequence[PlacementDemand], asked: PlacementSettings) -> Shares:
    """What the placer gets for the phases; whatever it does is sound."""
    found = place(demands, cluster, asked)
    assert violations(cluster, demands, found, evictions=asked) == ()
    there = {site.island for site in found.sites}
    return shares([one for one in demands if one.island in there], demands)


def best_of_all(cluster: Cluster, demands: Sequence[PlacementDemand], asked: PlacementSettings) -> tuple[float, float]:
    """The most that any islands and any evictions get; more pods gone never hurt."""
    kept = [gone for gone in subsets(evictable(cluster)) if within(cluster, gone, asked)]
    keys = [frozenset(pod.key for pod in gone) for gone in kept]
    largest = [gone for gone, key in zip(kept, keys, strict=True) if not any(key < other for other in keys)]
    sets = [one for count in range(len(demands) + 1) for one in combinations(demands, count)]
    for islands in sorted(sets, key=lambda one: worth(shares(one, demands)), reverse=True):
        if any(makes_room(cluster, gone, islands) for gone in largest):
            return worth(shares(islands, demands))
    raise AssertionError("no island at all is always to be had")


def islands(rng: np.random.Generator, *, phases: bool) -> list[PlacementDemand]:
    """Two to four islands of groups of 1, 2 or 4 GPUs, up to two groups or replicas."""
    found = []
    for k in range(int(rng.integers(2, 5))):
        tp = int(rng.choice([1, 1, 2, 2, 4]))
        groups = 1 if tp == 4 else int(rng.integers(1, 3))
        one = demand(f"i{k}", tp, groups, int(rng.integers(1, 3)) if groups == 1 else 1)
        if phases:
            one = replace(one, phase=list(PHASES)[int(rng.integers(2))], rate_rps=float(rng.integers(1, 6)))
        found.append(one)
    return found


@pytest.mark.parametrize("phases", [pytest.param(False, marks=pytest.mark.study), True])
def test_islands_of_all_kinds_get_nearly_all_that_can_be_had(phases: bool) -> None:
    """40 instances; the share is that of the best least phase, of the sum where that is nothing."""
    rng = np.random.default_rng(8801 + phases)
    found: list[float] = []
    while len(found) < 40:
        cluster, demands = full_cluster(rng, nodes=int(rng.integers(2, 4)), budgets=True), islands(rng, phases=phases)
        asked = settings(
            most_victims=int(rng.integers(1, 5)),
            most_lost_gpu_hours=float(rng.integers(1, 12)) if rng.random() < 0.5 else None,
        )
        had = placed_of(cluster, demands, replace(asked, preempt=False))
        got, best = placed_of(cluster, demands, asked), best_of_all(cluster, demands, asked)
        assert worth(had) <= worth(got) <= best
        if best[1] > 0:
            found.append(worth(got)[0] / best[0] if best[0] > 0 else worth(got)[1] / best[1])
    assert mean(found) >= 0.99
    assert min(found) >= 0.75


# ---- single causes, by hand


def budget(cluster: Cluster, allowed: int) -> Cluster:
    return replace(cluster, disruption_budgets=(DisruptionBudget(name="web", allowed=allowed),))


def gpus_of(cluster: Cluster, demands: Sequence[PlacementDemand], asked: PlacementSettings) -> int:
    found = place(demands, cluster, asked)
    assert violations(cluster, demands, found, evictions=asked) == ()
    return sum(site.gpus for site in found.sites)


def firm(name: str, gpus: Sequence[int], where: str = "n0") -> Pod:
    return Pod(name=name, node=where, gpus=tuple(gpus), cpus=1.0)


def test_an_island_on_an_idle_gpu_stands_back_for_a_larger_one() -> None:
    """One GPU is idle and one eviction allowed: two GPUs for the larger island, where the smaller had one."""
    pods = [spot("a", "n0", [1]), firm("f", range(2, 8))]
    cluster = cluster_of(node("n0"), pods=pods)
    demands = [demand("large", 2), demand("small", 1)]
    found = place(demands, cluster, settings(most_victims=1))
    assert [site.island for site in found.sites] == ["large"]
    (short,) = found.shortfalls
    assert short.island == "small"
    assert gpus_of(cluster, demands, settings(preempt=False)) == 1


def test_an_island_on_an_idle_gpu_moves_for_a_larger_one() -> None:
    """The pod of two GPUs may go, that of one too: the small island takes the other node's."""
    pods = [spot("a", "n0", [1]), firm("f", range(2, 8)), spot("b", "n1", [0]), firm("g", range(1, 8), "n1")]
    cluster = cluster_of(node("n0"), node("n1"), pods=pods)
    assert gpus_of(cluster, [demand("large", 2), demand("small", 1)], settings(most_victims=2)) == 3


def test_no_island_stands_back_where_its_phase_would_lose() -> None:
    """The decode island alone fits; prefill would gain more GPUs by the same eviction, and may not have them."""
    pods = [spot("a", "n0", [1]), firm("f", range(2, 8))]
    cluster = cluster_of(node("n0"), pods=pods)
    demands = [demand("large", 2), demand("small", 1, phase=Phase.DECODE)]
    found = place(demands, cluster, settings(most_victims=1))
    assert [site.island for site in found.sites] == ["small"]
    assert found.victims == ()


def test_a_pod_that_alone_breaks_a_limit_hides_no_other() -> None:
    """Of the pods that free two GPUs the cheaper loses too much: the dearer one goes, not two single ones."""
    pods = [
        spot("long", "n0", [0, 1], 100, checkpoint_age_s=9 * 3600.0),
        spot("dear", "n0", [2, 3], 500, checkpoint_age_s=900.0),
        spot("one", "n1", [0], 100, checkpoint_age_s=900.0),
        firm("f", range(4, 8)),
        firm("g", range(1, 8), "n1"),
    ]
    cluster = cluster_of(node("n0"), node("n1"), pods=pods)
    demands = [demand("i", 1), demand("j", 1)]
    asked = settings(most_victims=1, most_lost_gpu_hours=4.0)
    assert [victim.pod for victim in place(demands, cluster, asked).victims] == ["default/dear"]
    assert gpus_of(cluster, demands, asked) == 2


def test_sets_of_a_node_keep_to_its_disruption_budget() -> None:
    """Two of the budget on one node are the cheapest, and only one may go: it goes together with another pod."""
    pods = [
        spot("a", "n0", [0, 1], 1, disruption_budget="web"),
        spot("b", "n0", [2, 3], 1, disruption_budget="web"),
        spot("c", "n0", [4, 5], 500),
        firm("f", [6, 7]),
        spot("d", "n1", [0], 1, disruption_budget="web"),
        firm("g", range(1, 8), "n1"),
    ]
    cluster = budget(cluster_of(node("n0"), node("n1"), pods=pods), 1)
    found = place([demand("i", 2, 2)], cluster, settings())
    assert len(found.victims) == 2
    assert "default/c" in {victim.pod for victim in found.victims}


def test_no_island_stands_back_where_lost_work_counts_more_than_the_gain() -> None:
    """The larger island gains 1 request/s over the smaller; the eviction loses 2 GPU-hours."""
    pods = [spot("a", "n0", [1], checkpoint_age_s=7200.0), firm("f", range(2, 8))]
    cluster = cluster_of(node("n0"), pods=pods)
    demands = [demand("large", 2, rate_rps=3.0), demand("small", 1, rate_rps=2.0)]
    for rps, island in ((0.0, "large"), (0.4, "large"), (0.6, "small")):
        found = place(demands, cluster, settings(most_victims=1, lost_gpu_hour_rps=rps))
        assert [site.island for site in found.sites] == [island]


def test_tries_end_where_nothing_can_be_gained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The island that is left out fits nowhere, whoever goes: nothing is placed anew."""
    made: list[object] = []
    trial = eviction_trials.Trial
    monkeypatch.setattr(eviction_trials, "Trial", lambda *args: made.append(args) or trial(*args))  # type: ignore[func-returns-value]
    pods = [spot("a", "n0", range(8)), firm("f", range(8), "n1")]
    cluster = cluster_of(node("n0"), node("n1"), pods=pods)
    found = place([demand("i", 8), demand("j", 8, 1, 3)], cluster, settings(most_victims=1))
    assert [site.island for site in found.sites] == ["i"]
    assert len(made) == 2
