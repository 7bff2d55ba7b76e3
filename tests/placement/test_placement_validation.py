"""Every rule of the validator is seen to fail: a sound placement, and one change for each rule."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from placed_records import cluster_of, node, placement_of, short

from planner.domain import (
    Alignment,
    Cluster,
    NumaNode,
    Phase,
    PlacedPart,
    Placement,
    PlacementDemand,
    Pod,
    Qos,
    Taint,
    Victim,
    require_sound,
)
from planner.placement.islands.validation import fewest, violations

CORES = 16


@dataclass(frozen=True)
class Case:
    """What the validator is given."""

    cluster: Cluster
    demands: tuple[PlacementDemand, ...]
    placement: Placement
    options: dict[str, object] = field(default_factory=dict)

    def faults(self) -> tuple[str, ...]:
        return violations(self.cluster, self.demands, self.placement, **self.options)  # type: ignore[arg-type]


def demand(island: str, **changes: object) -> PlacementDemand:
    fields: dict[str, object] = {
        "island": island,
        "gpu": "H20",
        "phase": Phase.DECODE,
        "replicas": 1,
        "groups": 1,
        "tp": 2,
        "cpus_per_gpu": 4,
    }
    return PlacementDemand(**(fields | changes))  # type: ignore[arg-type]


def part(island: str, where: str, gpus: tuple[int, ...], **changes: object) -> PlacedPart:
    """GPUs of nodes with 4 GPUs and 16 cores a NUMA node, four cores each."""
    first = gpus[0] // 4 * CORES + gpus[0] % 4 * 4
    fields: dict[str, object] = {
        "island": island,
        "replica": 0,
        "node": where,
        "asw": {"n1": "asw-1", "n2": "asw-1", "n3": "asw-2"}[where],
        "tp": 2,
        "gpu_indices": gpus,
        "numa_nodes": tuple(sorted({index // 4 for index in gpus})),
        "cores": tuple(range(first, first + 4 * len(gpus))),
    }
    return PlacedPart(**(fields | changes))  # type: ignore[arg-type]


def sound_case() -> Case:
    """Three nodes under two switches; island `a` in two replicas, `b` beside pods of which one goes, `c` short."""
    pods = (
        Pod(name="web", node="n1", gpus=(3,), cores=(12, 13), cpus=2.0, memory_gb=100.0),
        Pod(name="spot", node="n1", gpus=(4, 5), cpus=4.0, priority=5, preemptible=True),
        Pod(name="side", node="n3", cpus=8.0),
    )
    cluster = cluster_of(
        node("n1", cores=CORES, labels=(("zone", "x"),)),
        node("n2", cores=CORES),
        node("n3", cores=CORES, asw="asw-2", taints=(Taint(key="spare"),)),
        pods=pods,
    )
    demands = (
        demand("a", replicas=2, groups=2, memory_gb_per_gpu=100.0),
        demand("b", selector=(("zone", "x"),)),
        demand("c", tp=8),
        demand("d", tp=4, qos=Qos.SINGLE_NUMA),
        demand("e", qos=Qos.BEST_EFFORT),
    )
    parts = (
        part("a", "n1", (0, 1)),
        part("a", "n3", (4, 5)),
        part("a", "n3", (0, 1, 2, 3), replica=1),
        part("b", "n1", (4, 5)),
        part("d", "n2", (4, 5, 6, 7), tp=4),
        part("e", "n2", (0, 1)),
    )
    victim = Victim(pod="default/spot", node="n1", island="b", priority=5, gpus=2, lost_gpu_hours=None)
    placement = placement_of(cluster, parts, shortfalls=[short(demands[2])], victims=[victim])
    return Case(cluster, demands, placement, {"tolerations": [Taint(key="spare")], "priority": 10})


def swapped(case: Case, number: int, **changes: object) -> Case:
    """One part changed, sites told anew."""
    parts = list(case.placement.parts)
    parts[number] = replace(parts[number], **changes)  # type: ignore[arg-type]
    return with_parts(case, parts)


def with_parts(case: Case, parts: list[PlacedPart]) -> Case:
    old = case.placement
    try:
        anew = placement_of(case.cluster, parts, shortfalls=old.shortfalls, victims=old.victims)
    except (KeyError, ValueError):  # on nodes or GPUs that are not there, or without a tp: no sites to tell
        anew = replace(old, parts=tuple(parts))
    return replace(case, placement=anew)


def told(case: Case, **changes: object) -> Case:
    """The site of island `a` changed."""
    sites = case.placement.sites
    return replace(case, placement=replace(case.placement, sites=(replace(sites[0], **changes), *sites[1:])))  # type: ignore[arg-type]


def with_pod(case: Case, number: int, **changes: object) -> Case:
    pods = list(case.cluster.pods)
    pods[number] = replace(pods[number], **changes)  # type: ignore[arg-type]
    return replace(case, cluster=replace(case.cluster, pods=tuple(pods)))


def with_node(case: Case, number: int, **changes: object) -> Case:
    nodes = list(case.cluster.nodes)
    nodes[number] = replace(nodes[number], **changes)  # type: ignore[arg-type]
    return replace(case, cluster=replace(case.cluster, nodes=tuple(nodes)))


def with_demand(case: Case, number: int, **changes: object) -> Case:
    demands = list(case.demands)
    demands[number] = replace(demands[number], **changes)  # type: ignore[arg-type]
    return replace(case, demands=tuple(demands))


def with_victim(case: Case, **changes: object) -> Case:
    victims = (replace(case.placement.victims[0], **changes),)  # type: ignore[arg-type]
    return replace(case, placement=replace(case.placement, victims=victims))


def with_placement(case: Case, **changes: object) -> Case:
    return replace(case, placement=replace(case.placement, **changes))  # type: ignore[arg-type]


PARTS = sound_case().placement.parts
MUTATIONS: dict[str, tuple[Callable[[Case], Case], str]] = {
    "node": (lambda c: swapped(c, 0, node="n9"), "island a replica 0 on node n9: node is not in the cluster"),
    "gpu type": (lambda c: with_demand(c, 4, gpu="H800"), "island e replica 0 on node n2: gpu is H20, not H800"),
    "asw": (
        lambda c: swapped(c, 3, asw="asw-2"),
        "island b replica 0 on node n1: asw 'asw-2' is not the node's 'asw-1'",
    ),
    "selector": (lambda c: with_node(c, 0, labels=()), "island b replica 0 on node n1: labels lack zone=x"),
    "taint": (lambda c: replace(c, options={"priority": 10}), "node n3: taint spare=:NoSchedule is not tolerated"),
    "toleration's value": (
        lambda c: replace(c, options={"priority": 10, "tolerations": [Taint(key="spare", value="y")]}),
        "node n3: taint spare=:NoSchedule is not tolerated",
    ),
    "GPU index": (lambda c: swapped(c, 0, gpu_indices=(0, 8)), "island a replica 0 on node n1: gpu_indices: GPU 8"),
    "GPU of a pod": (
        lambda c: swapped(c, 0, gpu_indices=(2, 3)),
        "island a replica 0 on node n1: gpu_indices: 3 is held by pod default/web, too",
    ),
    "GPU of a pod that stays": (
        lambda c: with_placement(c, victims=()),
        "island b replica 0 on node n1: gpu_indices: 4 is held by pod default/spot, too",
    ),
    "GPUs unknown": (lambda c: with_pod(c, 2, gpu_request=1), "node n3: pod default/side holds 1 GPUs there"),
    "GPU twice": (
        lambda c: swapped(c, 5, gpu_indices=(3, 4)),
        "island e replica 0 on node n2: gpu_indices: 4 is held by island d replica 0, too",
    ),
    "GPU twice in a part": (
        lambda c: swapped(c, 5, gpu_indices=(0, 0)),
        "island e replica 0 on node n2: gpu_indices: 0 is held by island e replica 0, too",
    ),
    "tp": (lambda c: swapped(c, 2, tp=4), "island a replica 1 on node n3: tp 4 is not 2"),
    "no tp": (lambda c: swapped(c, 2, tp=0), "island a replica 1 on node n3: tp 0 is not 2"),
    "whole groups": (
        lambda c: swapped(c, 2, gpu_indices=(0, 1, 2)),
        "island a replica 1 on node n3: gpu_indices: 3 GPUs are no whole groups of 2",
    ),
    "numa_nodes": (
        lambda c: swapped(c, 5, numa_nodes=(0, 1)),
        "node n2: numa_nodes [0, 1] are not those of its GPUs, [0]",
    ),
    "nics": (lambda c: swapped(c, 5, nics=("mlx5_1", "eth9")), "island e replica 0 on node n2: nics: eth9"),
    "core unknown": (lambda c: swapped(c, 5, cores=(*range(7), 99)), "node n2: cores: [99] are not on the node"),
    "core of a pod": (
        lambda c: swapped(c, 0, cores=(*range(7), 12)),
        "island a replica 0 on node n1: cores: 12 is held by pod default/web, too",
    ),
    "core twice": (
        lambda c: swapped(c, 5, cores=(0, 1, 2, 3, 4, 5, 6, 16)),
        "cores: 16 is held by island d replica 0, too",
    ),
    "too few cores": (lambda c: swapped(c, 5, cores=(0, 1)), "node n2: cores: 2 are pinned, 8 asked for"),
    "cores elsewhere": (
        lambda c: swapped(c, 0, cores=(*range(7), 31)),
        "island a replica 0 on node n1: cores: 7 lie in NUMA node 0, where 2 of its GPUs do",
    ),
    "cpus": (lambda c: with_pod(c, 2, cpus=9.0), "node n3: cpus 33 of 32 are asked for (islands a)"),
    "pinned cpus": (
        lambda c: with_pod(with_node(c, 0, cpus=17.0), 0, cpus=0.0),
        "node n1: cpus 18 of 17 are asked for (islands a, b)",
    ),
    "memory": (
        lambda c: with_pod(c, 2, memory_gb=401.0),
        "node n3: memory_gb 1001 of 1000 are asked for (islands a)",
    ),
    "island unknown": (
        lambda c: replace(c, demands=c.demands[:4]),
        "island e replica 0 on node n2: island is not asked for",
    ),
    "replicas": (lambda c: with_demand(c, 0, replicas=3), "island a: replicas are 2, not 3"),
    "groups": (lambda c: with_demand(c, 0, groups=3), "island a replica 1: groups are 2, not 3"),
    "part twice": (
        lambda c: with_parts(c, [*PARTS[:2], *(part("a", "n3", g, replica=1) for g in ((0, 1), (2, 3))), *PARTS[3:]]),
        "island a replica 1 on node n3: it is listed 2 times",
    ),
    "neither placed nor short": (
        lambda c: with_placement(c, shortfalls=()),
        "island c: it has neither parts nor a shortfall",
    ),
    "placed and short": (
        lambda c: with_placement(c, shortfalls=(*c.placement.shortfalls, short(c.demands[3]))),
        "island d: it has both parts and a shortfall",
    ),
    "short twice": (
        lambda c: with_placement(c, shortfalls=c.placement.shortfalls * 2),
        "island c: shortfalls name it 2 times",
    ),
    "short unknown": (
        lambda c: with_placement(c, shortfalls=(*c.placement.shortfalls, short(demand("z")))),
        "island z: shortfalls name it, and it is not asked for",
    ),
    "guaranteed": (
        lambda c: swapped(c, 3, gpu_indices=(2, 4), numa_nodes=(0, 1), cores=(8, 9, 10, 11, 16, 17, 18, 19)),
        "GPUs [2, 4] lie on (2, 2) sockets and NUMA nodes, where an empty node needs (1, 1) (qos guaranteed)",
    ),
    "guaranteed without cores": (
        lambda c: with_demand(with_demand(c, 1, cpus_per_gpu=17), 0, cpus_per_gpu=0),
        "where an empty node cannot hold the group with its cores (qos guaranteed)",
    ),
    "single_numa": (
        lambda c: swapped(c, 4, gpu_indices=(2, 3, 4, 5), numa_nodes=(0, 1), cores=tuple(range(8, 24))),
        "island d replica 0 on node n2: GPUs [2, 3, 4, 5] are not inside one NUMA node (qos single_numa)",
    ),
    "site missing": (
        lambda c: with_placement(c, sites=c.placement.sites[1:]),
        "island a: sites name it 0 times, not once",
    ),
    "site twice": (
        lambda c: with_placement(c, sites=(*c.placement.sites, c.placement.sites[0])),
        "island a: sites name it 2 times, not once",
    ),
    "site of nothing": (
        lambda c: with_placement(c, sites=(*c.placement.sites, replace(c.placement.sites[0], island="c"))),
        "island c: a site is told, and it has no parts",
    ),
    "site gpus": (lambda c: told(c, gpus=7), "island a: its site's gpus 7 is not 8"),
    "site nodes": (lambda c: told(c, nodes=3), "island a: its site's nodes 3 is not 2"),
    "site switches": (
        lambda c: told(c, switches=(("asw-1", 8),)),
        "island a: its site's switches [('asw-1', 8)] is not",
    ),
    "site entropy": (lambda c: told(c, entropy=0.0), "island a: its site's entropy 0 is not 0.562335"),
    "site aligned": (lambda c: told(c, aligned=False), "island a: its site's aligned False is not True"),
    "site worst": (lambda c: told(c, worst=Alignment.CROSS), "island a: its site's worst cross is not numa"),
    "site crossing": (lambda c: told(c, crossing_replicas=2), "island a: its site's crossing_replicas 2 is not 1"),
    "victim unknown": (lambda c: with_victim(c, pod="default/gone"), "victim default/gone: pod is not in the cluster"),
    "victim twice": (
        lambda c: with_placement(c, victims=c.placement.victims * 2),
        "victim default/spot: pod is listed 2 times",
    ),
    "victim not preemptible": (
        lambda c: with_pod(c, 1, preemptible=False),
        "victim default/spot on node n1, for island b: preemptible is false",
    ),
    "victim locked": (lambda c: with_pod(c, 1, locked=True), "victim default/spot on node n1, for island b: locked"),
    "victim's priority": (
        lambda c: replace(c, options={**c.options, "priority": 5}),
        "for island b: priority 5 is not below the islands' 5",
    ),
    "victim mistold": (lambda c: with_victim(c, gpus=1), "node, priority and gpus are told as ('n1', 5, 1)"),
    "victim's island": (lambda c: with_victim(c, island="z"), "for island z: island is not asked for"),
    "victim for nothing": (lambda c: with_victim(c, island="e"), "for island e: island has no part on the node"),
}


def test_a_sound_placement_has_none() -> None:
    case = sound_case()
    require_sound(case.cluster, "the case")
    assert case.faults() == ()


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_told(name: str) -> None:
    change, sentence = MUTATIONS[name]
    faults = change(sound_case()).faults()
    assert [fault for fault in faults if sentence in fault], faults
    assert all(fault.endswith(".") for fault in faults)


def test_the_default_priority_is_the_settings() -> None:
    case = sound_case()
    assert with_pod(replace(case, options={"tolerations": [Taint(key="spare")]}), 1, priority=5).faults() == ()
    high = with_victim(
        with_pod(replace(case, options={"tolerations": [Taint(key="")]}), 1, priority=1000), priority=1000
    )
    assert len(high.faults()) == 1


def test_cores_count_only_where_they_are_listed() -> None:
    bare = replace(node("n1", cores=0), cpus=64.0)
    asked = demand("a", tp=4)
    placed = part("a", "n1", (0, 1, 2, 3), tp=4, cores=())
    assert violations(cluster_of(bare), [asked], placement_of(cluster_of(bare), [placed])) == ()
    small = replace(bare, cpus=15.0)
    assert len(violations(cluster_of(small), [asked], placement_of(cluster_of(small), [placed]))) == 1


def test_loose_groups_may_cross_and_take_cores_anywhere() -> None:
    cluster = cluster_of(node("n1", cores=CORES))
    crossing = part("a", "n1", (3, 4), numa_nodes=(0, 1), cores=tuple(range(24, 32)))
    for qos, sound in ((Qos.BEST_EFFORT, True), (Qos.NONE, True), (Qos.GUARANTEED, False), (Qos.SINGLE_NUMA, False)):
        placement = placement_of(cluster, [crossing], aligned=False)
        assert (violations(cluster, [demand("a", qos=qos)], placement) == ()) is sound


@pytest.mark.parametrize(
    ("numas", "size", "cpus_per_gpu", "expected"),
    [
        (((0, 4, 32), (1, 4, 32)), 4, 8, (1, 1)),
        (((0, 4, 32), (1, 4, 32)), 5, 0, (2, 2)),
        (((0, 4, 31), (1, 4, 32)), 4, 8, (1, 1)),
        (((0, 4, 31), (1, 4, 31)), 4, 8, (2, 2)),
        (((0, 2, 16), (0, 2, 16), (1, 2, 16), (1, 2, 16)), 4, 8, (1, 2)),
        (((0, 2, 16), (0, 2, 16), (1, 2, 16), (1, 2, 16)), 5, 8, (2, 3)),
        (((0, 2, 16), (0, 2, 16), (0, 2, 16), (1, 4, 32)), 6, 8, (1, 3)),
        (((0, 4, 16), (1, 4, 16)), 6, 8, None),
        (((0, 4, 0), (1, 4, 0)), 4, 8, (1, 1)),
        (((0, 4, 32),), 5, 0, None),
    ],
)
def test_fewest_sockets_then_numa_nodes_of_an_empty_node(
    numas: tuple[tuple[int, int, int], ...], size: int, cpus_per_gpu: int, expected: tuple[int, int] | None
) -> None:
    """(socket, GPUs, cores) of each NUMA node; the answers are worked out by hand."""
    gpus = tuple(numa for numa, (_, count, _) in enumerate(numas) for _ in range(count))
    hardware = (gpus, tuple((numa, socket, cores) for numa, (socket, _, cores) in enumerate(numas)))
    assert fewest(hardware, size, cpus_per_gpu) == expected


def test_hardware_is_told_apart_by_sockets() -> None:
    """Two nodes alike but for their sockets: a group over two NUMA nodes suits both, told as differently wide."""
    numa_nodes = tuple(NumaNode(id=n, socket=0, cores=tuple(range(n * 16, n * 16 + 16))) for n in range(2))
    cluster = cluster_of(node("n1", cores=16), replace(node("n2", cores=16), numa_nodes=numa_nodes))
    asked = [demand("a", tp=8, cpus_per_gpu=0), demand("b", tp=8, cpus_per_gpu=0)]
    parts = [part(i, n, tuple(range(8)), tp=8, cores=()) for i, n in (("a", "n1"), ("b", "n2"))]
    placement = placement_of(cluster, parts)
    assert [site.worst for site in placement.sites] == [Alignment.CROSS, Alignment.SOCKET]
    assert violations(cluster, asked, placement) == ()
