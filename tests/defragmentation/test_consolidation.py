"""Nodes vacated by chains: the paper's example, its rules one by one, and what must hold on any cluster."""

from collections import Counter
from dataclasses import replace

import pytest
from drawn_clusters import clusters
from hypothesis import given
from hypothesis import strategies as st
from small_clusters import TAINT, cluster, figure_15, node, pod

from planner.defragmentation import consolidate, replay
from planner.domain import Cluster
from planner.domain.defragmentation import Defragmentation, DefragmentationSettings, MoveBudget
from planner.errors import InputError


def moves_of(result: Defragmentation) -> list[tuple[str, str, str]]:
    return [(move.pod.removeprefix("default/"), move.source, move.target) for move in result.moves]


@pytest.mark.parametrize("depth", [1, 2])
def test_figure_15_takes_chains_of_three(depth: int) -> None:
    result = consolidate(figure_15(), DefragmentationSettings(depth=depth, states=0))
    assert (result.moves, result.vacated, result.proven) == ((), (), False)
    assert [(item.steps, item.moves) for item in result.rounds] == [(0, 0)]


@pytest.mark.parametrize(("depth", "states"), [(3, 0), (1, 50_000)])
def test_figure_15_s_moves_in_their_order(depth: int, states: int) -> None:
    """By chains of three, and by looking at every order of moves."""
    result = consolidate(figure_15(), DefragmentationSettings(depth=depth, states=states))
    assert moves_of(result) == [("j7", "n2", "n3"), ("j3", "n1", "n2"), ("j1", "n0", "n1")]
    assert result.vacated == ("n0",)
    assert [move.wave for move in result.moves] == [1, 2, 3]  # each needs what the one before it leaves
    assert [move.gpu_indices for move in result.moves] == [(3,), (2, 3), (1, 2, 3)]
    after = replay(figure_15(), result.moves)
    used = Counter({item.node: 0 for item in after.pods})
    used.update({name: sum(p.gpu_count for p in after.pods if p.node == name) for name in used})
    assert [4 - used[f"n{at}"] for at in range(4)] == [4, 0, 0, 0]


def test_a_direct_move_is_a_chain_of_one() -> None:
    small = cluster([node("a"), node("b")], [pod("p", "a", [0, 1]), pod("q", "b", [0, 1, 2])])
    result = consolidate(small, DefragmentationSettings(depth=1))
    assert moves_of(result) == [("p", "a", "b")]
    assert (result.before.not_full, result.before.empty, result.after.empty) == (2, 0, 1)


def test_an_empty_node_is_never_opened() -> None:
    small = cluster([node("a"), node("b")], [pod("p", "a", [0])])
    assert consolidate(small).moves == ()


@pytest.mark.parametrize(
    ("changes", "there"),
    [
        ({"locked": True}, {}),
        ({"node_selector": (("pool", "x"),)}, {}),
        ({}, {"gpu": "H200"}),
        ({}, {"taints": (TAINT,)}),
        ({}, {"cpus": 50.0}),
        ({}, {"memory_gb": 400.0}),
        ({"gpu_share": 0.5}, {}),
        ({"disruption_budget": "tight"}, {}),
        ({"anti_affinity": "group"}, {}),
    ],
)
def test_what_keeps_a_pod_where_it_is(changes: dict[str, object], there: dict[str, object]) -> None:
    nodes = [node("a", labels=(("pool", "x"),)), node("b", **there)]
    held = [pod("p", "a", [0, 1], **changes), pod("q", "b", range(6), locked=True, anti_affinity="group")]
    assert consolidate(cluster(nodes, held, [("tight", 0)])).moves == ()
    free = cluster([node("a", labels=(("pool", "x"),)), node("b")], [pod("p", "a", [0, 1]), held[1]])
    assert len(consolidate(free).moves) == 1


def test_a_pod_lives_with_the_taints_of_its_node() -> None:
    nodes = [node("a", taints=(TAINT,)), node("b", taints=(TAINT,))]
    pods = [pod("p", "a", [0]), pod("q", "b", [0], locked=True)]
    assert moves_of(consolidate(cluster(nodes, pods))) == [("p", "a", "b")]


def test_nodes_with_a_fault_are_left_alone() -> None:
    cordoned = replace(TAINT, key="node.kubernetes.io/unschedulable", value="")
    pods = [pod("p", "a", [0]), pod("q", "b", [0])]
    result = consolidate(cluster([node("a", taints=(cordoned,)), node("b")], pods))
    assert result.moves == ()
    assert result.left_out == ("1 pod with GPUs: on nodes with a fault (cordoned, not ready, ...)",)


def test_a_tried_node_is_as_it_was() -> None:
    """`a` has two pods of which one finds room: it stays, too, and the other node can take its place."""
    nodes = [node("a"), node("b"), node("c")]
    pods = [pod("p", "a", range(7)), pod("r", "a", [7]), pod("q", "b", range(7), locked=True), pod("s", "c", [0])]
    assert moves_of(consolidate(cluster(nodes, pods))) == [("s", "c", "b")]


def test_budgets_keep_whole_steps_of_the_most_worth() -> None:
    nodes = [node(name) for name in "abcd"]
    pods = [
        *(pod(f"p{at}", "a", [at]) for at in range(2)),
        pod("q", "b", [0, 1, 2]),
        *(pod(f"r{at}", "c", [at]) for at in range(3)),
        pod("s", "d", [0], locked=True),
    ]
    small = cluster(nodes, pods)

    def within(**limits: float) -> Defragmentation:
        return consolidate(small, DefragmentationSettings(overlap_hours=0.5, budget=MoveBudget(**limits)))  # type: ignore[arg-type]

    everything = within()
    assert everything.vacated == ("b", "a")
    assert [step.last_move for step in everything.steps] == [1, 3]
    assert [step.slots_per_move for step in everything.steps] == [1.0, 0.5]
    assert within(most_moves=2).vacated == ("b",)
    assert within(most_moves=0).moves == ()
    assert within(most_gpu_hours=1.5).vacated == ("b",)
    assert within(most_gpu_hours=1.4).vacated == ("a",)
    assert everything.gpu_hours == 2.5
    assert (everything.waves, within(most_at_once=1).waves) == (1, 3)


def test_a_disruption_budget_bounds_a_wave() -> None:
    pods = [pod(f"p{at}", "a", [at], disruption_budget="web") for at in range(3)]
    small = cluster([node("a"), node("b")], [*pods, pod("q", "b", [0], locked=True)], [("web", 2)])
    assert [move.wave for move in consolidate(small).moves] == [1, 1, 2]


def test_two_of_a_group_do_not_meet_while_they_overlap() -> None:
    """g1 can only come to b once g2 has left it."""
    nodes = [node("a", 4), node("b", 4), node("c", 4)]
    pods = [
        pod("g1", "a", [0, 1, 2], anti_affinity="g"),
        pod("g2", "b", [0], anti_affinity="g"),
        pod("x", "b", [1], locked=True),
        pod("y", "c", [0, 1, 2], locked=True),
    ]
    result = consolidate(cluster(nodes, pods))
    assert moves_of(result) == [("g2", "b", "c"), ("g1", "a", "b")]
    assert [move.wave for move in result.moves] == [1, 2]


def test_unknown_gpus_are_counted_and_not_named() -> None:
    nodes = [node("a"), node("b")]
    pods = [pod("p", "a", [0]), pod("q", "b", [], gpu_request=3, cpus=1.0, locked=True)]
    result = consolidate(cluster(nodes, pods))
    assert [(move.target, move.gpus, move.gpu_indices) for move in result.moves] == [("b", 1, ())]
    moved = next(item for item in replay(cluster(nodes, pods), result.moves).pods if item.name == "p")
    assert (moved.node, moved.gpus, moved.gpu_count) == ("b", (), 1)


def test_contradictions_are_told_and_left_alone() -> None:
    nodes = [node("a"), node("b"), node("c")]
    pods = [
        pod("astray", "a", [0], node_selector=(("pool", "x"),)),
        pod("g1", "b", [0], anti_affinity="g"),
        pod("g2", "b", [1], anti_affinity="g"),
        pod("q", "c", range(4)),
    ]
    result = consolidate(cluster(nodes, pods))
    assert moves_of(result) == [("q", "c", "b")] or moves_of(result) == [("q", "c", "a")]
    assert result.problems == (
        "pod default/astray: node a lacks the label pool=x that it selects; left where they are",
        "node b: 2 pods of anti-affinity group g share it: default/g1, default/g2; left where they are",
    )


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        ([pod("p", "nowhere", [0])], "pod default/p: node must be a node of the cluster, got 'nowhere'"),
        ([pod("p", "a", [], gpu_request=9)], "node a: GPUs used must be at most the 8 that it has, got 9"),
        ([pod("p", "a", [0], cpus=129.0)], "node a: cpus requested or pinned must be at most the 128 that it has"),
    ],
)
def test_unsound_clusters_are_refused(pods: list[object], words: str) -> None:
    with pytest.raises(InputError) as error:
        consolidate(cluster([node("a")], pods))  # type: ignore[arg-type]
    assert words in str(error.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"depth": 0},
        {"rounds": 0},
        {"partition_nodes": 1},
        {"seed": -1},
        {"states": -1},
        {"overlap_hours": float("nan")},
    ],
)
def test_settings_out_of_range(changes: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(changes))):
        DefragmentationSettings(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("limits", [{"most_moves": -1}, {"most_at_once": 0}, {"most_gpu_hours": float("inf")}])
def test_budgets_out_of_range(limits: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(limits))):
        MoveBudget(**limits)  # type: ignore[arg-type]


def states(small: Cluster, result: Defragmentation) -> list[tuple[list[tuple[str, str]], list[tuple[str, str]]]]:
    """For each wave: (pod, node) of everything that runs while it lasts, and once it is over."""
    place = {item.key: item.node for item in small.pods}
    rows = []
    for wave in range(1, result.waves + 1):
        moves = [move for move in result.moves if move.wave == wave]
        during = [*place.items(), *((move.pod, move.target) for move in moves)]
        place |= {move.pod: move.target for move in moves}
        rows.append((during, list(place.items())))
    return rows


@given(clusters(), st.integers(1, 3), st.integers(0, 3), st.sampled_from([2, 3, 500]))
def test_no_capacity_is_exceeded_and_every_rule_holds(small: Cluster, depth: int, seed: int, nodes: int) -> None:
    """Counted here from the records alone, the overlap of old and new copies included."""
    result = consolidate(small, DefragmentationSettings(depth=depth, seed=seed, partition_nodes=nodes))
    pods = {item.key: item for item in small.pods}
    machines = {item.name: item for item in small.nodes}
    for during, after in states(small, result):
        for name, machine in machines.items():
            there = [pods[key] for key, place in during if place == name]
            assert sum(item.gpu_count for item in there) <= len(machine.gpus)
            assert sum(item.cpus for item in there) <= machine.cpus
            assert sum(item.memory_gb for item in there) <= machine.memory_gb
            groups = Counter(item.anti_affinity for item in there if item.anti_affinity)
            assert max(groups.values(), default=1) == 1
        for key, place in after:
            assert set(pods[key].node_selector) <= set(machines[place].labels)
            assert machines[place].gpu == machines[pods[key].node].gpu
            assert set(machines[place].taints) <= set(machines[pods[key].node].taints)
    moved = {move.pod for move in result.moves}
    assert not any(pods[key].locked or pods[key].disruption_budget == "none" for key in moved)
    assert [item.key for item in replay(small, result.moves).pods] == [item.key for item in small.pods]


@given(clusters(), st.integers(0, 3))
def test_every_step_leaves_its_node_empty_and_opens_none(small: Cluster, seed: int) -> None:
    result = consolidate(small, DefragmentationSettings(seed=seed))
    used = {item.node for item in small.pods}
    assert {move.target for move in result.moves} <= used
    for step in result.steps:
        moves = result.moves[: step.last_move]
        after = replay(small, moves)
        assert step.goal not in {item.node for item in after.pods}
        assert step.goal not in {move.target for move in result.moves[step.last_move :]}
    assert result.after.empty - result.before.empty == len(result.vacated)


@given(clusters(), st.integers(0, 3), st.integers(0, 6))
def test_any_prefix_of_steps_is_a_plan_of_its_own(small: Cluster, seed: int, most: int) -> None:
    limited = consolidate(small, DefragmentationSettings(seed=seed, budget=MoveBudget(most_moves=most)))
    assert len(limited.moves) <= most
    replay(small, limited.moves)
    assert limited.after.empty - limited.before.empty == len(limited.vacated)


def test_parts_of_cut_up_or_reserved_gpus_take_none_of_the_whole_ones() -> None:
    """As `planner cluster diagnose` counts: of b's 3 whole GPUs 2 are idle, or 1 where its own are shared."""
    sharing = pod("s", "b", [], gpu_share=0.5, cpus=1.0, memory_gb=1.0)
    pods = [pod("p", "a", [0, 1]), pod("q", "b", [0]), sharing]
    keeper = pod("k", "b", [3], namespace="kai-resource-reservation", locked=True)
    cut_up = node("b", 3, offers=(("gpu-fraction", 1),))
    for nodes, there, moves in (
        ([node("a", 4), cut_up], pods, 1),
        ([node("a", 4), node("b", 4)], [*pods, keeper], 1),
        ([node("a", 4), node("b", 3)], pods, 0),
    ):
        small = cluster(nodes, there)
        result = consolidate(small)
        assert len(result.moves) == moves
        assert replay(small, result.moves).pods[0].node == ("b" if moves else "a")
