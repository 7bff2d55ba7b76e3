"""Servers that stay where they lie: by hand, against the placer's own placements, and by the validator's look."""

from dataclasses import replace

import numpy as np
import pytest
from placed_records import cluster_of, node

from planner.domain import Cluster, Phase, PlacedPart, Placement, PlacementDemand, PlacementSettings, Pod, Qos, Taint
from planner.placement import Fleet, place, place_around, violations

SETTINGS = PlacementSettings(cpus_per_gpu=4)
WATTS = {"H20": (75.0, 500.0)}


def demand(island: str, tp: int, replicas: int, groups: int = 1, qos: Qos = Qos.GUARANTEED) -> PlacementDemand:
    return PlacementDemand(
        island=island, gpu="H20", phase=Phase.PREFILL, replicas=replicas, groups=groups, tp=tp, qos=qos, cpus_per_gpu=4
    )


def cluster(nodes: int = 2, pods: tuple[Pod, ...] = ()) -> Cluster:
    """Nodes of eight H20 on two NUMA nodes of 32 cores."""
    return cluster_of(*(node(f"n{k}", numas=2, gpus=4, cores=32) for k in range(nodes)), pods=list(pods))


def part(replica: int, where: str, gpus: tuple[int, ...], island: str = "a") -> PlacedPart:
    """With the first free cores of their NUMA node, four a GPU."""
    numa = gpus[0] // 4
    cores = [32 * numa + 4 * (index % 4) + k for index in gpus for k in range(4)]
    asw = cluster().nodes[0].asw
    return PlacedPart(
        island=island,
        replica=replica,
        node=where,
        gpu_indices=gpus,
        numa_nodes=(numa,),
        asw=asw,
        tp=len(gpus),
        cores=tuple(cores),
    )


def lies(placement: Placement) -> dict[tuple[str, int], list[tuple[str, tuple[int, ...]]]]:
    there: dict[tuple[str, int], list[tuple[str, tuple[int, ...]]]] = {}
    for row in placement.parts:
        there.setdefault((row.island, row.replica), []).append((row.node, row.gpu_indices))
    return there


def around(stays: list[PlacedPart], demands: list[PlacementDemand], where: Cluster) -> Placement:
    placement = place_around(stays, demands, Fleet.of(where), SETTINGS, WATTS)
    assert not violations(where, demands, placement)
    return placement


STAYS = [part(0, "n1", (6, 7)), part(1, "n1", (2, 3))]


def test_others_are_placed_around_those_that_stay() -> None:
    """Left to itself the placer would put all on the first GPUs of one node."""
    placement = around(STAYS, [demand("a", 2, 3), demand("b", 4, 2)], cluster())
    there = lies(placement)
    assert there["a", 0] == [("n1", (6, 7))]
    assert there["a", 1] == [("n1", (2, 3))]
    assert {where for number in (0, 1) for where, _ in there["b", number]} == {"n0"}, "no four GPUs together on n1"
    assert [where for where, _ in there["a", 2]] == ["n1"]
    assert (placement.before.allocated, placement.after.allocated) == (0, 14)
    assert placement.cluster == cluster().name


def test_no_more_copies_stay_than_there_are_to_be() -> None:
    assert lies(around(STAYS, [demand("a", 2, 1)], cluster())) == {("a", 0): [("n1", (6, 7))]}


@pytest.mark.parametrize(
    "where",
    [
        cluster(1),
        cluster(2, (Pod(name="p", node="n1", gpus=(7,)),)),
        cluster(2, (Pod(name="p", node="n1", cores=(40,)),)),
        cluster(2, (Pod(name="p", node="n1", gpu_request=1),)),
        replace(
            cluster(),
            nodes=tuple(replace(n, taints=(Taint(key="gone"),)) if n.name == "n1" else n for n in cluster().nodes),
        ),
        replace(cluster(), nodes=tuple(replace(n, cpus=4.0) if n.name == "n1" else n for n in cluster().nodes)),
    ],
    ids=["node gone", "GPU held", "core held", "nobody knows which is held", "taint", "few CPUs"],
)
def test_those_whose_place_is_gone_are_placed_anew(where: Cluster) -> None:
    placement = around([STAYS[0]], [demand("a", 2, 1)], where)
    assert lies(placement)["a", 0] != [("n1", (6, 7))]


def test_another_form_does_not_stay() -> None:
    wide = around([STAYS[0]], [demand("a", 4, 1)], cluster())
    assert lies(wide)["a", 0][0][1] != (6, 7)


def test_they_move_where_others_find_no_room_otherwise() -> None:
    """A copy of two on each socket: no four GPUs are free together. Moved, all find a place."""
    stays = [part(k, f"n{k // 2}", (1 + 4 * (k % 2), 2 + 4 * (k % 2))) for k in range(4)]
    demands = [demand("a", 2, 4), demand("b", 4, 2)]
    placement = around(stays, demands, cluster())
    assert not placement.shortfalls
    assert sum(len(row.gpu_indices) for row in placement.parts) == 16
    without_b = around(stays, demands[:1], cluster())
    assert [row.gpu_indices for row in without_b.parts] == [row.gpu_indices for row in stays]


def drawn(rng: np.random.Generator) -> tuple[Cluster, list[PlacementDemand]]:
    """So many nodes that islands are not polished, which takes seconds; partly held, and three islands."""
    pods = tuple(
        Pod(name=f"p{k}-{index}", node=f"n{k}", gpus=(index,), cpus=4.0)
        for k in range(17)
        for index in range(8)
        if rng.random() < 0.6
    )
    sizes = [(int(rng.choice([1, 2])), int(rng.integers(1, 4)), int(rng.integers(1, 3))) for _ in range(3)]
    qos = Qos(rng.choice([q.value for q in Qos]))
    return cluster(17, pods), [demand(f"i{k}", *size, qos=qos) for k, size in enumerate(sizes)]


@pytest.mark.parametrize("seed", range(8))
def test_a_placement_that_stays_is_the_same_placement(seed: int) -> None:
    """The placer's own account of it, figure by figure; then fewer stay, and each is where it was."""
    rng = np.random.default_rng(seed)
    where, demands = drawn(rng)
    placed = place(demands, where, SETTINGS, WATTS)
    there = [d for d in demands if d.island not in {row.island for row in placed.shortfalls}]
    placed = place(there, where, SETTINGS, WATTS)
    assert not placed.shortfalls
    stays = list(placed.parts)
    again = around(stays, there, where)
    assert again.score == pytest.approx(placed.score)
    assert replace(again, score=0.0, terms=()) == replace(placed, score=0.0, terms=())
    some = [row for row in stays if row.replica == 0]
    fewer = around(some, there, where)
    assert {(row.island, row.node, row.gpu_indices, row.cores) for row in some} <= {
        (row.island, row.node, row.gpu_indices, row.cores) for row in fewer.parts
    }
    assert not fewer.shortfalls
