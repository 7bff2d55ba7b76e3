"""Scattered jobs under one switch, by hand and on random clusters."""

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_clusters import cluster, node, pod

from planner.defragmentation import replay
from planner.defragmentation.gathering import gather
from planner.domain import Cluster
from planner.domain.defragmentation import DefragmentationSettings, MoveAim, MoveBudget
from planner.errors import InputError

SWITCH = DefragmentationSettings(aim=MoveAim.SWITCH)


def test_the_part_outside_comes_to_where_most_of_the_job_lies() -> None:
    nodes = [node("a0", asw="a"), node("a1", asw="a"), node("b0", asw="b")]
    pods = [
        pod("j-0", "a0", range(6), job="j"),
        pod("j-1", "b0", [0, 1], job="j"),
        pod("x", "a1", [0], locked=True),
    ]
    result = gather(cluster(nodes, pods), SWITCH)
    assert [(move.pod, move.target) for move in result.moves] == [("default/j-1", "a0")]
    (job,) = result.gathered
    assert (job.job, job.place, job.gpus, job.moves) == ("j", "a", 8, 1)
    assert job.entropy_before == pytest.approx(-(0.75 * log(0.75) + 0.25 * log(0.25)))
    assert (result.steps[0].goal, result.steps[0].gpus, result.vacated) == ("j", 8, ())


def test_others_give_way_to_where_the_job_was() -> None:
    nodes = [node("a0", asw="a"), node("b0", asw="b")]
    pods = [
        pod("j-0", "a0", range(4), job="j"),
        pod("x", "a0", [4, 5]),
        pod("j-1", "b0", range(4), job="j"),
        pod("y", "b0", [4, 5], locked=True),
    ]
    result = gather(cluster(nodes, pods), SWITCH)
    assert [(move.pod, move.target, move.wave) for move in result.moves] == [
        ("default/x", "b0", 1),
        ("default/j-1", "a0", 2),
    ]


def test_an_empty_node_is_opened_only_for_another_one() -> None:
    nodes = [node("a0", asw="a"), node("a1", asw="a"), node("b0", asw="b")]
    whole = [pod("j-0", "a0", range(8), job="j"), pod("j-1", "b0", range(8), job="j")]
    assert [move.target for move in gather(cluster(nodes, whole), SWITCH).moves] == ["a1"]
    shared = [whole[0], pod("j-1", "b0", range(4), job="j"), pod("y", "b0", [4], locked=True)]
    result = gather(cluster(nodes, shared), SWITCH)
    assert result.moves == ()
    assert result.left_out == ("1 pod with GPUs: locked", "job j: no place takes the whole of it (12 GPUs)")


def test_nvlink_domains_are_places_too() -> None:
    nodes = [node(f"t{at}", 4, nvlink_domain=f"rack-{at // 2}") for at in range(4)]
    pods = [pod("j-0", "t0", range(4), job="j"), pod("j-1", "t2", range(4), job="j")]
    result = gather(cluster(nodes, pods), DefragmentationSettings(aim=MoveAim.NVLINK_DOMAIN))
    assert [(job.place, job.moves) for job in result.gathered] == [("rack-0", 1)]


def test_a_budget_leaves_jobs_out() -> None:
    nodes = [node("a0", asw="a"), node("b0", asw="b")]
    pods = [pod("j-0", "a0", [0], job="j"), pod("j-1", "b0", [0], job="j"), pod("y", "b0", [1], locked=True)]
    result = gather(cluster(nodes, pods), DefragmentationSettings(aim=MoveAim.SWITCH, budget=MoveBudget(most_moves=0)))
    assert (result.moves, result.gathered) == ((), ())


@pytest.mark.parametrize(
    ("changes", "job", "words"),
    [({"asw": ""}, "j", "nodes must name their asw"), ({}, "", "pods must name their job")],
)
def test_nothing_to_go_by(changes: dict[str, str], job: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        gather(cluster([node("a", **changes)], [pod("p", "a", [0], job=job)]), SWITCH)


@st.composite
def scattered(draw: st.DrawFn) -> Cluster:
    nodes = [node(f"n{at}", 4, asw=draw(st.sampled_from("ab"))) for at in range(draw(st.integers(2, 6)))]
    pods = []
    for place in nodes:
        free = [0, 1, 2, 3]
        for size in draw(st.lists(st.integers(1, 3), max_size=3)):
            if size <= len(free):
                job = draw(st.sampled_from(["", "j", "k"]))
                held = [free.pop() for _ in range(size)]
                pods.append(pod(f"p{len(pods)}", place.name, held, job=job, locked=draw(st.integers(0, 5)) == 0))
    return cluster(nodes, [*pods, pod("last", "n0", [], job="j")])


@given(scattered())
def test_gathered_jobs_lie_in_one_place_and_no_fewer_nodes_are_empty(small: Cluster) -> None:
    if not any(item.job and item.gpu_count for item in small.pods):
        return
    result = gather(small, SWITCH)
    after = replay(small, result.moves)
    switch = {item.name: item.asw for item in small.nodes}
    for job in result.gathered:
        assert {switch[item.node] for item in after.pods if item.job == job.job and item.gpu_count} == {job.place}
    assert result.after.empty >= result.before.empty
