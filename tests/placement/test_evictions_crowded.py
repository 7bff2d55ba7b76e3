"""Nodes with dozens of small pods: who goes for an island is still minimal, and what it takes grows with the pods."""

import pytest
from eviction_cases import PRIORITY, demand, gone_of, makes_room, settings, spot
from placed_records import cluster_of, node

from planner.domain import Cluster, Qos
from planner.domain.node_room import Left
from planner.placement import place, violations

SMALL = 48
ISLAND = demand("i", tp=4, qos=Qos.NONE, cpus_per_gpu=8)


def crowded() -> Cluster:
    """64 cores: each of 8 GPUs held by a pod of one core, the others by pods without GPUs that hold a core or so."""
    pods = [spot(f"gpu-{k}", "n", (k,), priority=100 + k) for k in range(8)]
    pods += [spot(f"small-{k:02}", "n", (), priority=k % 7, cpus=1.0 + k / 256) for k in range(SMALL)]
    return cluster_of(node("n", cores=32), pods=pods)


def test_nobody_goes_who_could_be_spared() -> None:
    cluster = crowded()
    found = place([ISLAND], cluster, settings(cpus_per_gpu=8))
    gone = gone_of(cluster, found)
    assert not violations(cluster, [ISLAND], found)
    assert sum(bool(pod.gpus) for pod in gone) == 4
    assert makes_room(cluster, gone, [ISLAND])
    assert not any(makes_room(cluster, [pod for pod in gone if pod is not one], [ISLAND]) for one in gone)
    assert all(pod.priority < PRIORITY for pod in gone)


def test_the_work_grows_with_the_pods_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is free is added up a few times a pod, not once for every pair of pods."""
    sums = 0
    plus = Left.plus

    def counted(self: Left, other: Left) -> Left:
        nonlocal sums
        sums += 1
        return plus(self, other)

    monkeypatch.setattr(Left, "plus", counted)
    assert place([ISLAND], crowded(), settings(cpus_per_gpu=8)).victims
    assert sums < 12 * (SMALL + 8)
