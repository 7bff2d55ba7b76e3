"""Cuts of the communication graph: parts by hand, and whatever the point, islands of idle GPUs that fit their part."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_cases import Bowl, inventory, islands, search, serve_nothing, sizes, used

from planner.domain import (
    Cluster,
    ClusterNode,
    Encoding,
    NodeGpu,
    NumaNode,
    PlacementSettings,
    Pod,
    Qos,
    SearchMethod,
    SizeSet,
    admits,
)
from planner.errors import InputError
from planner.proposing.search import Ground, optimize, space_of
from planner.proposing.search.communication import all_cuts
from planner.proposing.search.graph_space import GraphSpace

PLACEMENT = PlacementSettings(prefill_qos=Qos.NONE, decode_qos=Qos.NONE, cpus_per_gpu=0)
GRAPH = SearchMethod.GRAPH


def node(name: str, gpu: str = "H200", *, asw: str = "", aggregation: str = "", domain: str = "") -> ClusterNode:
    """A node of 8 GPUs."""
    return ClusterNode(
        name=name,
        gpu=gpu,
        gpus=tuple(NodeGpu(index=k, uuid=f"{name}-{k}", numa=0) for k in range(8)),
        numa_nodes=(NumaNode(id=0, socket=0),),
        cpus=64,
        memory_gb=512,
        asw=asw,
        aggregation=aggregation,
        nvlink_domain=domain,
    )


def ground(*nodes: ClusterNode, **busy: int) -> Ground:
    """A cluster of these nodes, of which pods hold the first so many GPUs of some."""
    pods = tuple(Pod(name=f"on-{name}", node=name, gpus=tuple(range(count))) for name, count in busy.items() if count)
    return Ground(cluster=Cluster(name="made up", nodes=nodes, pods=pods), placement=PLACEMENT)


SWITCHED = ground(
    node("a", asw="s1", aggregation="g1"),
    node("b", asw="s2", aggregation="g1"),
    node("c", asw="s1", aggregation="g1"),
    node("d", asw="s3", aggregation="g2", domain="rack"),
    node("e", asw="s4", aggregation="g2", domain="rack"),
    node("f"),
    b=2,
    e=5,
    f=7,
)
"""Idle: a 8, b 6, c 8, d 8, e 3, f 1; d and e are of one NVLink domain under two switches; nobody names f's."""


def parts(place: Ground, count: int = 64, least: int = 2) -> dict[str, list[tuple[str, ...]]]:
    (cuts,) = all_cuts(place, inventory({"H200": count}), search(GRAPH, min_island_size=least)).values()
    return {cut.level: [tuple(name for name, _ in part.nodes) for part in cut.parts] for cut in cuts}


def test_cuts_by_hand() -> None:
    assert parts(SWITCHED) == {
        "cluster": [("a", "c", "b", "d", "e", "f")],
        "aggregation": [("a", "c", "b"), ("d", "e")],  # f has one GPU, too few for an island
        "asw": [("a", "c"), ("d", "e"), ("b",)],  # an NVLink domain holds together under two switches
        "nvlink_domain": [("d", "e"), ("a",), ("c",), ("b",)],
        "node": [("a",), ("c",), ("d",), ("b",), ("e",)],
    }


def test_parts_hold_no_more_than_the_inventory_and_no_fewer_than_an_island() -> None:
    assert parts(SWITCHED, count=20, least=4)["asw"] == [("a", "c"), ("d",)]
    assert parts(SWITCHED, least=9) == {
        "cluster": [("a", "c", "b", "d", "e", "f")],
        "aggregation": [("a", "c", "b"), ("d", "e")],
        "nvlink_domain": [("d", "e")],
        "asw": [("a", "c"), ("d", "e")],
    }


def graph_space(place: Ground, counts: dict[str, int], **changes: object) -> GraphSpace:
    space = space_of(inventory(counts), replace(search(GRAPH), **changes), ground=place)
    assert isinstance(space, GraphSpace)
    return space


def point(space: GraphSpace, cut: int, count: int, skew: float = 0.0) -> dict[str, float]:
    return {"cut_H200": float(cut), "islands_H200": float(count), "skew_H200": skew}


def test_islands_by_hand() -> None:
    space = graph_space(SWITCHED, {"H200": 64})
    assert sizes(space.layout(point(space, 2, 1)), "H200") == [6, 11, 16]  # the switches as they are
    assert sizes(space.layout(point(space, 2, 2)), "H200") == [6, 8, 8, 11]  # the largest part is halved
    assert sizes(space.layout(point(space, 2, 3)), "H200") == [3, 6, 8, 8, 8]  # d and e part at the end of a node
    assert sizes(space.layout(point(space, 0, 2)), "H200") == [16, 18]  # 17 + 17 of a 8, c 8, b 6, ...: after c
    assert sizes(space.layout(point(space, 4, 1)), "H200") == [3, 6, 8, 8, 8]
    assert sizes(space.layout(point(space, 3, 0)), "H200") == []


@st.composite
def places(draw: st.DrawFn) -> Ground:
    """Clusters of two types, some of whose switches and domains nobody names."""
    nodes, busy = [], {}
    for number in range(draw(st.integers(1, 9))):
        name = f"n{number}"
        level = [draw(st.sampled_from(["", "x", "y", "z"])) for _ in range(3)]
        gpu = draw(st.sampled_from(["H200", "H20"]))
        nodes.append(node(name, gpu, aggregation=level[0], asw=level[1], domain=level[2]))
        busy[name] = draw(st.integers(0, 8))
    return ground(*nodes, **busy)


@given(st.data(), places(), st.sampled_from([SizeSet.ALL, SizeSet.WHOLE_NODES]), st.integers(1, 6))
def test_whatever_the_point_islands_are_idle_gpus_of_one_part(
    data: st.DataObject, place: Ground, sizes_: SizeSet, least: int
) -> None:
    counts = {"H200": data.draw(st.integers(8, 80)), "H20": data.draw(st.integers(8, 80))}
    asked = replace(search(GRAPH), sizes=sizes_, min_island_size=least)
    try:
        space = space_of(inventory(counts), asked, ground=place)
    except InputError:
        return
    assert isinstance(space, GraphSpace)
    unit = data.draw(st.lists(st.floats(0, 1), min_size=len(space.parameters), max_size=len(space.parameters)))
    drawn = space.at(unit)
    held = Counter({pod.node: pod.gpu_count for pod in place.cluster.pods})
    by_part: Counter[tuple[str, ...]] = Counter()
    for proposal in space.proposals(drawn):
        names = tuple(name for name, _ in proposal.part.nodes)
        of_part = [one for one in place.cluster.nodes if one.name in names]
        assert {one.gpu for one in of_part} == {proposal.gpu}
        assert all(count <= 8 - held[name] for name, count in proposal.part.nodes)
        assert proposal.size >= least
        by_part[names] += proposal.size
        assert by_part[names] <= sum(count for _, count in proposal.part.nodes)
        if sizes_ is SizeSet.WHOLE_NODES:
            assert admits(sizes_, inventory(counts).item(proposal.gpu).gpu, proposal.size)
    layout = space.layout(drawn)
    assert all(gpus <= counts[gpu] for gpu, gpus in used(layout).items())
    canonical = space.canonical(drawn)
    assert space.layout(canonical) == layout
    assert space.canonical(canonical) == canonical
    assert all(axis.low <= canonical[axis.name] <= axis.high for axis in space.parameters)


def joined(place: Ground, one: ClusterNode, other: ClusterNode, keys: tuple[str, ...]) -> bool:
    """Whether a walk over nodes that share a name at one of these levels leads from one to the other."""
    reached, names = {one.name}, [one]
    while names:
        at = names.pop()
        for candidate in place.cluster.nodes:
            near = any(getattr(at, key) and getattr(at, key) == getattr(candidate, key) for key in keys)
            if candidate.gpu == one.gpu and near and candidate.name not in reached and idle(place, candidate):
                reached.add(candidate.name)
                names.append(candidate)
    return other.name in reached


def idle(place: Ground, one: ClusterNode) -> int:
    return 8 - sum(pod.gpu_count for pod in place.cluster.pods if pod.node == one.name)


@given(places(), st.sampled_from(["aggregation", "asw", "nvlink_domain", "node"]))
def test_parts_are_the_connected_ones(place: Ground, level: str) -> None:
    keys = ("aggregation", "asw", "nvlink_domain", "name")
    keys = keys[("aggregation", "asw", "nvlink_domain", "node").index(level) :]
    cuts = all_cuts(place, inventory({"H200": 80, "H20": 80}), search(GRAPH, min_island_size=1))
    nodes = {one.name: one for one in place.cluster.nodes}
    for cut in (cut for levels in cuts.values() for cut in levels if cut.level == level):
        part_of = {name: number for number, part in enumerate(cut.parts) for name, _ in part.nodes}
        for (one, part), (other, its) in product(part_of.items(), repeat=2):
            assert (part == its) == joined(place, nodes[one], nodes[other], keys)


def test_the_nearest_point_to_a_layout_of_the_space_is_its_own() -> None:
    space = graph_space(SWITCHED, {"H200": 64})
    for cut in range(5):
        for count in range(6):
            layout = space.layout(point(space, cut, count))
            assert space.layout(space.encode(layout)) == layout
    assert used(space.layout(space.encode(islands(("H200", 30))))) == {"H200": 34}


def test_searches_begin_with_the_cuts_and_are_equal_for_equal_seeds() -> None:
    counts = {"H200": 64}
    judge = Bowl({"H200": (3, 0.5)})
    results = [
        optimize(inventory(counts), search(GRAPH, batch_size=8, iterations=1), judge, ground=SWITCHED) for _ in "ab"
    ]
    assert results[0] == results[1]
    first = [trial.layout for trial in results[0].record.trials[:4]]
    space = graph_space(SWITCHED, counts)
    assert first == [space.layout(point(space, cut, 1)) for cut in range(4)]
    for method in (SearchMethod.RANDOM, SearchMethod.SOBOL, SearchMethod.GRID, SearchMethod.GENETIC):
        asked = search(method, encoding=Encoding.GRAPH, iterations=3, batch_size=4)
        one, other = (optimize(inventory(counts), asked, judge, ground=SWITCHED).record for _ in "ab")
        assert one == other
        assert all(space.layout(dict(trial.parameters)) == trial.layout for trial in one.trials)


def test_where_no_cut_serves_there_is_no_best() -> None:
    result = optimize(inventory({"H200": 64}), search(GRAPH), serve_nothing, ground=SWITCHED)
    assert result.best is None
    assert len(result.record.trials) == 8


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(InputError, match="got no cluster") as caught:
        space_of(inventory({"H200": 8}), search(SearchMethod.RANDOM, encoding=Encoding.GRAPH))
    assert caught.value.message.startswith("search.encoding")
    with pytest.raises(InputError, match="must have 2 idle GPUs"):
        graph_space(ground(node("a"), a=7), {"H200": 8})
    rng = np.random.default_rng(0)
    single = graph_space(ground(node("a")), {"H200": 8})
    assert [axis.name for axis in single.parameters] == ["islands_H200", "skew_H200"]
    assert used(single.layout(single.sample(rng)))["H200"] == 8
