"""A replay refuses every move that is not safe, and shows the cluster after those that are."""

from dataclasses import replace

import pytest
from small_clusters import TAINT, cluster, figure_15, node, pod

from planner.defragmentation import consolidate, replay
from planner.domain.defragmentation import Move
from planner.errors import InconsistentPlanError

BASE = Move(order=1, wave=1, step=1, pod="default/p", source="a", target="b", gpus=2, gpu_indices=(6, 7))


@pytest.mark.parametrize(
    ("move", "there", "here", "words"),
    [
        ({"pod": "default/gone"}, {}, {}, "it must run on a, it runs nowhere"),
        ({"source": "b", "target": "a"}, {}, {}, "it must run on b, runs on a"),
        ({"target": "a"}, {}, {}, "another node"),
        ({"target": "c"}, {}, {}, "node c is not there"),
        ({"gpus": 3}, {}, {}, "it must hold 3 GPUs, holds 2"),
        ({"gpu_indices": (0, 1)}, {}, {}, "GPU indices are held twice"),
        ({"gpu_indices": (8, 9)}, {}, {}, "GPU indices are held twice or do not exist"),
        ({}, {}, {"locked": True}, "it is locked"),
        ({}, {"gpu": "H200"}, {}, "its GPUs must be H20, b has H200"),
        ({}, {"cpus": 60.0}, {}, "b has 60 CPUs, 64 would be used"),
        ({}, {"memory_gb": 500.0}, {}, "b has 500 GB of memory, 512 would be used"),
        ({}, {"taints": (TAINT,)}, {}, "b has taints that a lacks"),
        ({}, {"taints": (replace(TAINT, key="node.kubernetes.io/unschedulable"),)}, {}, "b has a fault"),
        ({}, {}, {"node_selector": (("pool", "x"),)}, "b lacks a label that it selects"),
        ({}, {}, {"anti_affinity": "g"}, "b has a pod of its anti-affinity group g"),
        ({}, {}, {"disruption_budget": "none"}, "1 pods of disruption budget none go at once, it allows 0"),
    ],
)
def test_unsafe_moves_are_refused(
    move: dict[str, object], there: dict[str, object], here: dict[str, object], words: str
) -> None:
    nodes = [node("a", labels=(("pool", "x"),)), node("b", **there)]
    pods = [pod("p", "a", [0, 1], **here), pod("q", "b", range(6), anti_affinity="g")]
    small = cluster(nodes, pods, [("none", 0)])
    with pytest.raises(InconsistentPlanError) as error:
        replay(small, [replace(BASE, **move)])
    assert words in str(error.value)


def test_the_overlap_counts() -> None:
    """What leaves in the same wave has not made room yet."""
    moves = [replace(move, wave=1) for move in consolidate(figure_15()).moves]
    with pytest.raises(InconsistentPlanError, match="n2 has 4 GPUs, 5 would be used"):
        replay(figure_15(), moves)


def test_a_pod_moves_once_a_wave() -> None:
    small = cluster([node("a"), node("b"), node("c")], [pod("p", "a", [0, 1]), pod("q", "b", [0])])
    there = replace(BASE, gpu_indices=(1, 2))
    with pytest.raises(InconsistentPlanError, match="runs on a"):
        replay(small, [there, replace(there, order=2, source="b", target="c")])


def test_a_pod_lives_with_the_taints_of_its_first_node() -> None:
    """What has come from a tainted node to one without may go on to another that bears the taint; no other pod may."""
    nodes = [node("a", taints=(TAINT,)), node("b"), node("c", taints=(TAINT,))]
    small = cluster(nodes, [pod("p", "a", [0, 1]), pod("q", "b", [2]), pod("r", "c", [4])])
    onwards = replace(BASE, order=2, wave=2, source="b", target="c")
    after = replay(small, [replace(BASE, gpu_indices=(0, 1)), replace(onwards, gpu_indices=(0, 1))])
    assert after.pods[0].node == "c"
    with pytest.raises(InconsistentPlanError, match="c has taints that b lacks"):
        replay(small, [replace(onwards, pod="default/q", gpus=1, gpu_indices=(0,))])


def test_pinned_cores_are_pinned_anew() -> None:
    from planner.domain import NumaNode

    numas = (NumaNode(id=0, socket=0, cores=tuple(range(64))), NumaNode(id=1, socket=1, cores=tuple(range(64, 128))))
    nodes = [node(name, numa_nodes=numas) for name in "ab"]
    pods = [
        pod("p", "a", [0], cores=tuple(range(8))),
        pod("q", "b", [0], cores=tuple(range(4)), cpus=4.0, locked=True),
    ]
    small = cluster(nodes, pods)
    moved = replay(small, consolidate(small).moves).pods[0]
    assert (moved.node, moved.gpus, moved.cores, moved.cpus) == ("b", (1,), tuple(range(4, 12)), 8.0)
