"""Room for an island: the moves that make it, and how they compare with evictions."""

from dataclasses import replace

import pytest
from drawn_clusters import clusters
from hypothesis import given
from hypothesis import strategies as st
from small_clusters import cluster, node, pod

from planner.defragmentation import moves_for, replay
from planner.domain import Cluster, Phase, PlacementDemand, PlacementSettings, Qos
from planner.evaluation.hosting import with_moves
from planner.placement import place

ISLAND = PlacementDemand(
    island="decode-1", gpu="H20", phase=Phase.DECODE, replicas=1, groups=1, tp=8, cpus_per_gpu=8, qos=Qos.NONE
)
PLACING = PlacementSettings(decode_qos=Qos.NONE, most_moves=3)


def crowded() -> Cluster:
    nodes = [node("a"), node("b"), node("c")]
    pods = [
        pod("p", "a", [0, 1]),
        *(pod(f"q{at}", "b", [at], locked=True) for at in range(5)),
        *(pod(f"r{at}", "c", [at], locked=True) for at in range(7)),
    ]
    return cluster(nodes, pods)


def test_one_move_makes_room() -> None:
    plan = moves_for(crowded(), ISLAND)
    assert [(move.pod, move.source, move.target) for move in plan.moves] == [("default/p", "a", "b")]
    assert plan.steps[0].goal == "a"


def test_who_fits_already_needs_none_and_who_never_fits_has_none() -> None:
    assert moves_for(crowded(), replace(ISLAND, tp=2)) is None
    assert moves_for(crowded(), replace(ISLAND, groups=2)) is None
    assert moves_for(crowded(), replace(ISLAND, gpu="H200")) is None
    assert moves_for(crowded(), replace(ISLAND, selector=(("pool", "x"),))) is None


def test_room_that_other_groups_need_is_not_used_up() -> None:
    """Two groups of four: one fits on b, so p may not go there."""
    nodes = [node("a", 4), node("b", 4), node("c", 4)]
    pods = [pod("p", "a", [0]), pod("q", "c", [0], locked=True)]
    plan = moves_for(cluster(nodes, pods), replace(ISLAND, groups=2, tp=4))
    assert [(move.pod, move.target) for move in plan.moves] == [("default/p", "c")]


def test_moves_are_compared_with_evictions() -> None:
    small = crowded()
    lying = pod("p", "a", [0, 1], preemptible=True, checkpoint_age_s=5400.0)
    small = replace(small, pods=(lying, *small.pods[1:]))
    placement = place([ISLAND], small, PLACING)
    (shortfall,) = with_moves(placement, [ISLAND], small, PLACING, {}).shortfalls
    assert shortfall.remedies[0] == (
        "1 move would host it (0.5 GPU-hours with both copies up) against 1 eviction (3 GPU-hours lost)"
    )
    assert shortfall.remedies[1:] == placement.shortfalls[0].remedies


@pytest.mark.parametrize(
    ("most", "small", "words"),
    [
        (3, crowded(), "1 move would host it (0.5 GPU-hours with both copies up); no evictions would"),
        (0, crowded(), ""),
    ],
)
def test_what_a_shortfall_says(most: int, small: Cluster, words: str) -> None:
    settings = replace(PLACING, most_moves=most)
    placement = place([ISLAND], small, settings)
    (shortfall,) = with_moves(placement, [ISLAND], small, settings, {}).shortfalls
    assert shortfall.remedies == ((words,) if words else ()) + placement.shortfalls[0].remedies


def test_too_many_moves_are_not_offered() -> None:
    nodes = [node("a", 4), node("b", 4)]
    pods = [pod(f"p{at}", "a", [at]) for at in range(2)] + [pod("q", "b", [0], locked=True)]
    small, island = cluster(nodes, pods), replace(ISLAND, tp=4)
    settings = replace(PLACING, most_moves=1)
    placement = place([island], small, settings)
    (shortfall,) = with_moves(placement, [island], small, settings, {}).shortfalls
    assert shortfall.remedies == placement.shortfalls[0].remedies
    assert "2 moves" in with_moves(placement, [island], small, PLACING, {}).shortfalls[0].remedies[0]


@given(clusters(), st.integers(1, 2), st.sampled_from([2, 4]))
def test_after_the_moves_all_groups_fit(small: Cluster, groups: int, tp: int) -> None:
    island = replace(ISLAND, groups=groups, tp=tp, cpus_per_gpu=4)
    plan = moves_for(small, island)
    if plan is None:
        return
    assert place([island], small, PLACING).shortfalls
    after = replay(small, plan.moves)
    assert not place([island], after, PLACING).shortfalls
