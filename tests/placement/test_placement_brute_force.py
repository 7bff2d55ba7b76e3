"""The enumeration itself: counted by hand where it can be, raw subsets of GPUs, and the validator's agreement."""

from dataclasses import replace
from itertools import combinations, islice, product
from math import comb

import numpy as np
import pytest
from brute_force import feasible, placements
from placed_records import cluster_of, node, placement_of

from planner.domain import Cluster, Phase, PlacedPart, PlacementDemand, Pod, Qos, Taint, require_sound
from planner.placement.islands.validation import violations


def demand(island: str, tp: int, *, groups: int = 1, replicas: int = 1, **changes: object) -> PlacementDemand:
    fields: dict[str, object] = {
        "island": island,
        "gpu": "H20",
        "phase": Phase.PREFILL,
        "replicas": replicas,
        "groups": groups,
        "tp": tp,
    }
    return PlacementDemand(**(fields | changes))  # type: ignore[arg-type]


def test_counts_that_are_known() -> None:
    """A node of 2 x 4 GPUs: where groups can go, GPUs of a NUMA node being alike."""
    cluster = cluster_of(node("n1"))
    loose = Qos.NONE
    assert len(list(placements(cluster, [demand("a", 4)]))) == 2
    assert len(list(placements(cluster, [demand("a", 4, qos=loose)]))) == 5
    assert len(list(placements(cluster, [demand("a", 8)]))) == 1
    assert not list(placements(cluster, [demand("a", 8, qos=Qos.SINGLE_NUMA)]))
    assert len(list(placements(cluster, [demand("a", 1, groups=8)]))) == 1
    assert len(list(placements(cluster, [demand("a", 1, replicas=8)]))) == 1
    assert len(list(placements(cluster, [demand("a", 2), demand("b", 2)]))) == 4
    assert len(list(placements(cluster, []))) == 1


def test_a_guarantee_is_what_an_empty_node_gives() -> None:
    """Three GPUs are left in each NUMA node: four fit only across, which an empty node would not have done."""
    pods = [Pod(name=f"p{n}", node="n1", gpus=(4 * n,), cpus=1.0) for n in range(2)]
    cluster = cluster_of(node("n1"), pods=pods)
    assert not feasible(cluster, [demand("a", 4)])
    assert feasible(cluster, [demand("a", 4, qos=Qos.BEST_EFFORT)])
    assert feasible(cluster, [demand("a", 6)])
    assert not feasible(cluster, [demand("a", 3, groups=2, replicas=2)])


def test_cores_cpus_memory_labels_and_taints_limit() -> None:
    small = cluster_of(node("n1", cores=16))
    assert feasible(small, [demand("a", 2, groups=2, cpus_per_gpu=8)])
    assert not feasible(small, [demand("a", 4, cpus_per_gpu=8, qos=Qos.SINGLE_NUMA)])
    assert feasible(small, [demand("a", 4, cpus_per_gpu=8)])
    assert not feasible(small, [demand("a", 1, groups=5, cpus_per_gpu=8)])
    busy = replace(small, pods=(Pod(name="p", node="n1", cpus=1.0),))
    assert not feasible(busy, [demand("a", 2, groups=2, cpus_per_gpu=8)])
    assert not feasible(small, [demand("a", 2, memory_gb_per_gpu=501.0)])
    assert not feasible(small, [demand("a", 2, selector=(("zone", "x"),))])
    assert not feasible(small, [demand("a", 2, gpu="H800")])
    tainted = cluster_of(node("n1", taints=(Taint(key="spare"),)))
    assert not feasible(tainted, [demand("a", 2)])
    assert feasible(tainted, [demand("a", 2)], [Taint(key="spare")])
    unknown = cluster_of(node("n1"), pods=[Pod(name="p", node="n1", gpu_request=1)])
    assert not feasible(unknown, [demand("a", 2)])


def test_loose_groups_leave_the_cores_that_others_need() -> None:
    """The loose group is asked for first; its cores are taken after those of the bound one, in the other NUMA node."""
    pods = [Pod(name="p", node="n1", gpus=(0, 1, 5, 6, 7), cpus=1.0)]
    cluster = cluster_of(node("n1", cores=16), pods=pods)
    asked = [demand("loose", 1, cpus_per_gpu=8, qos=Qos.NONE), demand("bound", 2, cpus_per_gpu=8)]
    found = list(placements(cluster, asked))
    assert len(found) == 1
    cores = {part.island: part.cores for part in found[0]}
    assert cores == {"bound": tuple(range(16)), "loose": tuple(range(16, 24))}


def random_case(rng: np.random.Generator) -> tuple[Cluster, list[PlacementDemand]]:
    """1-3 nodes of up to 8 GPUs, some of them taken, and 1-3 small islands."""
    nodes, pods = [], []
    for n in range(int(rng.integers(1, 4))):
        numas, gpus = ((2, 4), (4, 2), (2, 2), (1, 4))[rng.integers(4)]
        one = node(
            f"n{n}", numas=numas, sockets=min(2, numas), gpus=gpus, cores=int(rng.choice((8, 16, 32))), asw=f"s{n % 2}"
        )
        nodes.append(one)
        taken = [index for index in range(numas * gpus) if rng.random() < 0.3]
        pinned = [core for numa in one.numa_nodes for core in numa.cores if rng.random() < 0.2]
        if taken or pinned:
            pods.append(
                Pod(name=f"p{n}", node=one.name, gpus=tuple(taken), cores=tuple(pinned), cpus=float(len(pinned)))
            )
    demands = [
        demand(
            f"i{k}",
            int(rng.choice((1, 2, 4))),
            groups=int(rng.integers(1, 3)),
            replicas=int(rng.integers(1, 3)),
            qos=list(Qos)[rng.integers(4)],
            cpus_per_gpu=int(rng.choice((0, 4, 8))),
        )
        for k in range(rng.integers(1, 4))
    ]
    cluster = cluster_of(*nodes, pods=pods)
    require_sound(cluster, "the case")
    return cluster, demands


def test_what_is_listed_is_sound_and_whether_something_is_agrees() -> None:
    rng = np.random.default_rng(1)
    some = 0
    for _ in range(120):
        cluster, demands = random_case(rng)
        listed = list(islice(placements(cluster, demands), 20))
        assert bool(listed) == feasible(cluster, demands)
        assert len(set(listed)) == len(listed)
        for parts in listed:
            placement = placement_of(cluster, parts)
            told = [fault for fault in violations(cluster, demands, placement) if "site's aligned" not in fault]
            assert told == []
        some += bool(listed)
    assert 32 < some < 88


def raw_subsets(cluster: Cluster, asked: PlacementDemand) -> set[tuple[tuple[str, tuple[int, ...]], ...]]:
    """Every way to give one replica's groups sets of GPUs, that the validator finds nothing wrong with."""
    sets = [
        (one.name, gpus) for one in cluster.nodes for gpus in combinations([gpu.index for gpu in one.gpus], asked.tp)
    ]
    found = set()
    for chosen in product(sets, repeat=asked.groups):
        if list(chosen) != sorted(chosen):
            continue
        placement = placement_of(cluster, _raw_parts(cluster, asked, chosen))
        faults = violations(cluster, [asked], placement)
        if not [fault for fault in faults if "site's aligned" not in fault]:
            found.add(tuple(chosen))
    return found


def _raw_parts(
    cluster: Cluster, asked: PlacementDemand, chosen: tuple[tuple[str, tuple[int, ...]], ...]
) -> list[PlacedPart]:
    parts = []
    for one in cluster.nodes:
        indices = [index for name, gpus in chosen if name == one.name for index in gpus]
        numas = sorted({gpu.numa for gpu in one.gpus if gpu.index in indices})
        if indices:
            parts.append(
                PlacedPart(
                    island=asked.island,
                    replica=0,
                    node=one.name,
                    asw=one.asw,
                    tp=asked.tp,
                    gpu_indices=tuple(indices),
                    numa_nodes=tuple(numas),
                )
            )
    return parts


@pytest.mark.parametrize("qos", list(Qos))
@pytest.mark.parametrize(("tp", "groups"), [(1, 2), (2, 1), (2, 2), (3, 1)])
def test_raw_subsets_are_the_choices_times_the_gpus_that_are_alike(qos: Qos, tp: int, groups: int) -> None:
    """Two nodes of 2 x 2 GPUs, one GPU taken: the sets that the validator passes, told as GPUs per NUMA node."""
    pods = [Pod(name="p", node="n2", gpus=(0,))]
    cluster = cluster_of(node("n1", gpus=2), node("n2", gpus=2), pods=pods)
    asked = demand("a", tp, groups=groups, qos=qos)
    raw = {
        tuple(sorted((name, tuple(sum(g // 2 == numa for g in gpus) for numa in range(2))) for name, gpus in chosen))
        for chosen in raw_subsets(cluster, asked)
    }
    listed = [
        tuple(
            sorted(
                (part.node, tuple(sum(g // 2 == numa for g in group) for numa in range(2)))
                for part in parts
                for group in part.groups
            )
        )
        for parts in placements(cluster, [asked])
    ]
    assert len(listed) == len(set(listed))
    assert set(listed) == raw


def test_raw_subsets_of_one_group_are_as_many_as_counting_says() -> None:
    cluster = cluster_of(node("n1"))
    assert len(raw_subsets(cluster, demand("a", 4, qos=Qos.NONE))) == comb(8, 4)
    assert len(raw_subsets(cluster, demand("a", 4))) == 2
    assert len(raw_subsets(cluster, demand("a", 2))) == 2 * comb(4, 2)
