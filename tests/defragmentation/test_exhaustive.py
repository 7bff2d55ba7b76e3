"""Small clusters against brute force: every state that moves reach is looked at, move by move, with both copies up."""

from collections import Counter

import pytest
from drawn_clusters import churned, tiny
from hypothesis import given
from hypothesis import strategies as st
from small_clusters import cluster, node, pod

from planner.defragmentation import consolidate, fewest_nodes, replay
from planner.defragmentation.boards import board_of
from planner.defragmentation.exhaustive import _Search
from planner.domain import Cluster
from planner.domain.defragmentation import Defragmentation, DefragmentationSettings
from planner.report.cluster.migration import migration_summary

TINY = range(289)
HEURISTIC = DefragmentationSettings(states=0)


def reachable(small: Cluster) -> tuple[int, int]:
    """Nodes in use of the states that moves reach, the fewest, and the fewest moves to such a state.

    Level by level, from the records alone: no empty node is opened, no node has more than it has while a pod's old and
    new copy both run, two of a group never meet. All nodes here are of one type without labels or taints.
    """
    machines = {item.name: item for item in small.nodes}
    start = tuple(item.node for item in small.pods)
    level, reached = {start}, {start}
    best = len({*start}), 0
    moves = 0
    while level:
        moves += 1
        level = {after for state in level for after in moved(small, machines, state)} - reached
        reached |= level
        best = min([best, *((len({*state}), moves) for state in level)])
    return best


def moved(small: Cluster, machines: dict, state: tuple[str, ...]) -> list[tuple[str, ...]]:  # type: ignore[type-arg]
    gpus: Counter[str] = Counter()
    cpus: Counter[str] = Counter()
    groups = set()
    for item, place in zip(small.pods, state, strict=True):
        gpus[place] += item.gpu_count
        cpus[place] += item.cpus  # type: ignore[assignment]
        groups.add((place, item.anti_affinity))
    return [
        (*state[:at], target, *state[at + 1 :])
        for at, item in enumerate(small.pods)
        for target in {*state} - {state[at]}
        if not item.locked
        and gpus[target] + item.gpu_count <= len(machines[target].gpus)
        and cpus[target] + item.cpus <= machines[target].cpus
        and not (item.anti_affinity and (target, item.anti_affinity) in groups)
    ]


def in_use(result: Defragmentation) -> tuple[int, int]:
    return result.after.in_use, len(result.moves)


@pytest.mark.parametrize("most_movable", [5, pytest.param(9, marks=pytest.mark.study)])
def test_every_tiny_cluster_ends_as_brute_force_does(most_movable: int) -> None:
    """None a node short, none with a move too many; IPC alone misses some, so that the test can fail."""
    better = 0
    for seed in TINY:
        small = tiny(seed)
        if sum(not item.locked for item in small.pods) > most_movable:
            continue
        exact, alone = consolidate(small), consolidate(small, HEURISTIC)
        best = reachable(small)
        assert (in_use(exact), exact.proven) == (best, True), seed
        assert exact.fewest_in_use <= best[0]
        assert in_use(alone) >= best
        assert alone.fewest_in_use <= best[0]
        assert in_use(alone) > best or exact.moves == alone.moves  # IPC's own where they are as good
        hurried = consolidate(small, DefragmentationSettings(states=30))
        assert hurried.fewest_in_use <= best[0] <= hurried.after.in_use
        assert in_use(hurried) == best or not hurried.proven
        better += in_use(alone) > best
    assert better >= 2


@given(st.integers(0, 10_000), st.sampled_from(["best", "random"]), st.booleans())
def test_steps_are_safe_and_each_makes_only_moves_that_it_needs(seed: int, fit: str, small: bool) -> None:
    crowded = churned(6, seed, 0.8, fit=fit, small=small)
    result = consolidate(crowded, DefragmentationSettings(states=2_000))
    for step in result.steps:
        after = replay(crowded, result.moves[: step.last_move])
        assert step.goal not in {item.node for item in after.pods}
        assert result.moves[step.last_move - 1].source == step.goal
    assert in_use(result) <= in_use(consolidate(crowded, HEURISTIC))
    if result.proven:  # states that cannot be reached count for the programme, too
        optimum = fewest_nodes(crowded)
        assert result.after.in_use >= optimum.in_use
        assert result.after.in_use > optimum.in_use or len(result.moves) >= (optimum.moves or 0)


def test_where_work_runs_out_it_is_said() -> None:
    """The same moves whatever the machine: work is counted. The bound holds for large clusters, too."""
    few, large = churned(10, 1, 0.8, fit="random", small=True), churned(100, 1, 0.87)
    assert not consolidate(few, DefragmentationSettings(states=10)).proven
    # That none is vacated takes no moves is soon proven; whether one can be stays open.
    half = consolidate(churned(8, 2, 0.8, small=True), DefragmentationSettings(states=3_000))
    assert (len(half.vacated), half.proven, half.after.in_use - half.fewest_in_use) == (0, False, 1)
    result = consolidate(large)
    assert not result.proven
    assert result.fewest_in_use <= fewest_nodes(large, count_moves=False).in_use <= result.after.in_use


def test_fewer_nodes_by_way_of_an_empty_one_are_not_ruled_out() -> None:
    """Eight nodes of 5 + 2 or 4 + 3 GPUs of 8: seven hold them, 5 + 3 and 4 + 2 + 2, with room to begin in."""
    pods = [
        pod(f"p{at}-{size}", f"n{at}", range(first, first + size))
        for at in range(8)
        for first, size in ((0, 5 - at // 4), (5 - at // 4, 2 + at // 4))
    ]
    result = consolidate(cluster([node(f"n{at}", 8) for at in range(9)], pods))
    assert (result.after.in_use, result.proven, result.fewest_in_use) == (8, True, 7)
    assert "no moves that open no empty node leave fewer" in migration_summary(result)


@pytest.mark.parametrize(("nodes", "seed", "moves"), [(6, 9, 4), (10, 1, 3)])
def test_a_node_that_ipc_leaves_in_use_is_vacated(nodes: int, seed: int, moves: int) -> None:
    crowded = churned(nodes, seed, 0.8)
    exact, alone = consolidate(crowded), consolidate(crowded, HEURISTIC)
    assert in_use(exact) == (alone.after.in_use - 1, moves)
    assert {item.node for item in replay(crowded, exact.moves).pods} == {item.node for item in crowded.pods} - {
        *exact.vacated
    }


def test_moves_that_only_a_later_node_needs_come_with_it() -> None:
    """Two nodes to vacate, each pod with one place to go to: `b`'s first pod need not have left for `a` to be free."""
    labels = [(("pool", name),) for name in "xy"]
    nodes = [node(name, 4, labels=labels[at % 2]) for at, name in enumerate("abcd")]
    pods = [
        pod("p", "a", [0], node_selector=labels[0]),
        pod("q", "b", [0], node_selector=labels[1]),
        pod("r", "b", [1], node_selector=labels[1]),
        *(pod(f"s{name}", name, [0], locked=True) for name in "cd"),
    ]
    partition, _ = board_of(cluster(nodes, pods)).partition(range(4))
    interleaved = ((1, 1, 3), (0, 0, 2), (2, 1, 3))
    assert _Search(partition).works(interleaved) == ((0, ((0, 0, 2),)), (1, ((1, 1, 3), (2, 1, 3))))
