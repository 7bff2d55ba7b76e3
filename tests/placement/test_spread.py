"""Pools whose servers may not share nodes as they like: every way to share them out over nodes is the truth."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, combinations, product

import numpy as np
import pytest
from placed_records import cluster_of, node

from planner.domain import Cluster, Phase, Placement, PlacementDemand, PlacementSettings, PlacementWeights, Pod, Qos
from planner.placement import Fleet, place, place_around
from planner.placement.islands.evictions.eviction_rivals import may_hold
from planner.placement.islands.fleet import Occupancy
from planner.placement.islands.validation import violations

SETTINGS = PlacementSettings(prefill_qos=Qos.NONE, decode_qos=Qos.NONE, cpus_per_gpu=0)


def pool(name: str, servers: int, size: int, per_node: int, **changes: object) -> PlacementDemand:
    """Servers of `size` GPUs: of one group, or of two where they are even and the name says so."""
    groups = 2 if name.endswith("2") and size % 2 == 0 else 1
    fields: dict[str, object] = {
        "island": name,
        "gpu": "H20",
        "phase": Phase.DECODE,
        "replicas": servers,
        "groups": groups,
        "tp": size // groups,
        "qos": Qos.NONE,
        "per_node": per_node,
    }
    return PlacementDemand(**(fields | changes))  # type: ignore[arg-type]


def drawn_cluster(rng: np.random.Generator, nodes: int) -> Cluster:
    """Nodes of 8 GPUs, some held by pods that may be evicted, under two switches."""
    records = [node(f"n{k}", asw=f"asw-{k % 2}") for k in range(nodes)]
    held = [int(count) for count in rng.choice([0, 0, 2, 4, 7], size=nodes)]
    pods = [
        Pod(name=f"p{k}", node=f"n{k}", gpus=tuple(range(count)), priority=10, preemptible=True)
        for k, count in enumerate(held)
        if count
    ]
    return cluster_of(*records, pods=pods)


def drawn_pools(rng: np.random.Generator) -> list[PlacementDemand]:
    names = ("a2", "b2", "c")[: int(rng.integers(1, 4))]
    return [pool(name, int(rng.integers(1, 5)), int(rng.choice([1, 2, 4])), int(rng.integers(1, 4))) for name in names]


def fit(free: Sequence[int], pools: Sequence[PlacementDemand]) -> bool:
    """Whether the servers can be shared out over the nodes: every number of each pool on every node is tried."""

    @cache
    def go(at: int, left: tuple[int, ...]) -> bool:
        if at == len(free):
            return not any(left)
        shares = (range(min(count, asked.per_node or count) + 1) for count, asked in zip(left, pools, strict=True))
        return any(
            sum(n * asked.groups * asked.tp for n, asked in zip(counts, pools, strict=True)) <= free[at]
            and go(at + 1, tuple(have - n for have, n in zip(left, counts, strict=True)))
            for counts in product(*shares)
        )

    return go(0, tuple(asked.replicas for asked in pools))


def free_on(cluster: Cluster) -> list[int]:
    held = Counter({pod.node: pod.gpu_count for pod in cluster.pods})
    return [len(record.gpus) - held[record.name] for record in cluster.nodes]


def most_on_a_node(placement: Placement, island: str) -> int:
    """Servers that the worst node has a part of."""
    on_nodes = Counter(name for name, _ in {(p.node, p.replica) for p in placement.parts if p.island == island})
    return max(on_nodes.values(), default=0)


def check(cluster: Cluster, pools: Sequence[PlacementDemand], placement: Placement) -> None:
    assert violations(cluster, pools, placement) == ()
    assert all(most_on_a_node(placement, asked.island) <= asked.per_node for asked in pools)


@pytest.mark.parametrize("seed", range(10))
def test_as_many_gpus_find_room_as_any_spread_has_room_for(seed: int) -> None:
    """Enumerated exactly on up to three nodes, solved for on more; with evictions, all that empty nodes could hold."""
    rng = np.random.default_rng(seed)
    cluster, pools = drawn_cluster(rng, 2 + seed % 4), drawn_pools(rng)
    sets = chain.from_iterable(combinations(pools, count) for count in range(len(pools) + 1))
    most = max(sum(asked.size for asked in some) for some in sets if fit(free_on(cluster), some))
    weights = PlacementWeights(topology=float(seed % 2))
    placement = place(pools, cluster, replace(SETTINGS, weights=weights))
    check(cluster, pools, placement)
    assert sum(len(part.gpu_indices) for part in placement.parts) == most
    evicting = place(pools, cluster, replace(SETTINGS, preempt=True))
    check(cluster, pools, evicting)
    assert not evicting.shortfalls or not fit([8] * len(cluster.nodes), pools)


@pytest.mark.parametrize("seed", range(6))
def test_servers_that_run_on_count(seed: int) -> None:
    """Some servers stay; the others are placed so that no node has too many with them, or anew with all of them."""
    rng = np.random.default_rng(100 + seed)
    cluster = drawn_cluster(rng, 5)
    asked = pool("a2", 4, 2, 1 + seed % 2)
    before = place([asked], cluster, SETTINGS)
    stays = [part for part in before.parts if part.replica < 2]
    crowd = [replace(part, replica=k) for k, part in enumerate(stays)]
    fleet = Fleet.of(cluster)
    placement = place_around(crowd, [asked], fleet, SETTINGS, {})
    check(cluster, [asked], placement)
    assert bool(placement.shortfalls) is not fit(free_on(cluster), [asked])
    if not placement.shortfalls and len({part.node for part in stays}) == len(stays):
        assert {(part.node, part.gpu_indices) for part in stays} <= {(p.node, p.gpu_indices) for p in placement.parts}


def test_servers_that_share_a_node_too_many_move_apart() -> None:
    cluster = cluster_of(*(node(f"n{k}") for k in range(3)))
    loose = place([pool("a", 3, 2, 0)], cluster, SETTINGS)
    assert most_on_a_node(loose, "a") == 3
    spread = pool("a", 3, 2, 1)
    placement = place_around(loose.parts, [spread], Fleet.of(cluster), SETTINGS, {})
    check(cluster, [spread], placement)
    assert loose.parts[0] in placement.parts, "one of them stays"
    assert any("3 servers are on node" in fault for fault in violations(cluster, [spread], loose))


def test_alike_pools_have_nodes_in_common() -> None:
    """Two pools of one server a node each: what one may have of a node says nothing of both."""
    pools = [pool(name, 2, 2, 1) for name in "ab"]
    occupancy = Occupancy.of(Fleet.of(cluster_of(*(node(f"n{k}") for k in range(2)))))
    assert may_hold(occupancy, pools)


def test_a_server_over_two_nodes_is_no_spread() -> None:
    """Groups of a server on two nodes: losing either takes it."""
    cluster = cluster_of(*(node(f"n{k}", gpus=1) for k in range(2)))
    straddling = place([pool("a2", 1, 4, 0)], cluster, SETTINGS)
    assert len({part.node for part in straddling.parts}) == 2
    faults = violations(cluster, [pool("a2", 1, 4, 1)], straddling)
    assert faults == ("island a2 replica 0: it must lie inside one node, not on n0, n1.",)


def test_a_pool_that_cannot_be_spread_says_so() -> None:
    """Room for eight servers, on two nodes."""
    cluster = cluster_of(*(node(f"n{k}") for k in range(2)))
    (short,) = place([pool("a", 3, 2, 1)], cluster, SETTINGS).shortfalls
    assert short.resource == "spread"
    assert short.reason == (
        "2 of 3 servers fit on 16 idle GPUs on 2 H20 nodes, each inside a node and none with more than 1 of them, "
        "which losses of nodes count on"
    )
    assert "1 more node with room for 1 server: it would fit" in short.remedies
    assert any(remedy.startswith("fewer GPUs: 2 of 3 replicas") for remedy in short.remedies)
