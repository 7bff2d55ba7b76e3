"""NVLink domains of several nodes are places: what fits one lies in one, held against counts and enumeration."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from brute_force import placements
from hypothesis import given
from hypothesis import strategies as st
from placed_records import cluster_of, node
from placement_scores import score, splits

from planner.domain import (
    Cluster,
    ClusterNode,
    Phase,
    Placement,
    PlacementDemand,
    PlacementSettings,
    Pod,
    Qos,
    require_sound,
)
from planner.errors import InputError
from planner.placement import Fleet, NodeType, place, synthesize, violations

SETTINGS = PlacementSettings()
TRAYS, GPUS = 18, 4
NVL72 = NodeType(gpu="GB200-NVL72", share=1.0, gpus=GPUS, cores_per_socket=72, nodes_per_domain=TRAYS)


def demand(island: str, tp: int, groups: int = 1, replicas: int = 1, **changes: object) -> PlacementDemand:
    fields: dict[str, object] = {"gpu": "GB200-NVL72", "phase": Phase.DECODE, "qos": Qos.GUARANTEED}
    return PlacementDemand(island=island, replicas=replicas, groups=groups, tp=tp, **(fields | changes))  # type: ignore[arg-type]


def racks(count: int) -> Cluster:
    """Empty racks of 18 trays of 4 GPUs, all under one switch."""
    return synthesize(count * TRAYS, 1, 0.0, types=[NVL72], nodes_per_asw=(TRAYS * count, TRAYS * count))


def domains_of(cluster: Cluster, placement: Placement) -> dict[str, Counter[str]]:
    """GPUs of each island in each domain, from the parts alone."""
    domain = {one.name: one.nvlink_domain for one in cluster.nodes}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for part in placement.parts:
        counts[part.island][domain[part.node]] += len(part.gpu_indices)
    return counts


FORMS = {
    48: (demand("a", 4, 12), demand("a", 1, 48), demand("a", 2, 3, 8)),
    64: (demand("b", 4, 16), demand("b", 4, 2, 8)),
}


@pytest.mark.parametrize("small", FORMS[48], ids=lambda one: f"{one.replicas}x{one.groups}x{one.tp}")
@pytest.mark.parametrize("large", FORMS[64], ids=lambda one: f"{one.replicas}x{one.groups}x{one.tp}")
def test_islands_of_48_and_64_gpus_lie_in_a_rack_each(small: PlacementDemand, large: PlacementDemand) -> None:
    """8 GPUs of the first lay in the rack of the second."""
    cluster = racks(2)
    for demands in permutations((small, large)):
        placement = place(demands, cluster, SETTINGS)
        assert violations(cluster, demands, placement) == ()
        counts = domains_of(cluster, placement)
        assert [sorted(counts[one.island].values()) for one in (small, large)] == [[48], [64]]
        assert counts["a"].keys() != counts["b"].keys()
        assert {site.island: dict(site.domains) for site in placement.sites} == {k: dict(v) for k, v in counts.items()}
        assert not any(site.crossing_domains for site in placement.sites)


def test_four_islands_fill_two_racks() -> None:
    cluster = racks(2)
    demands = [demand(f"i{k}", 4, size // 4) for k, size in enumerate((40, 40, 32, 32))]
    counts = domains_of(cluster, place(demands, cluster, SETTINGS))
    assert all(len(there) == 1 for there in counts.values())
    assert sum((there for there in counts.values()), Counter()) == Counter(dict.fromkeys(("nvl-0000", "nvl-0018"), 72))


def test_what_no_domain_holds_takes_as_few_switches_and_domains_as_it_can() -> None:
    """Racks of 16 GPUs, two a switch; 24 GPUs lie in two racks of one switch, not of two."""
    nodes = [node(f"n{k}", asw=f"s{k // 4}", nvlink_domain=f"d{k // 2}") for k in range(8)]
    busy = [Pod(name="p", node="n0", gpus=tuple(range(8)), cpus=1.0)]
    placement = place([demand("a", 4, 6, gpu="H20")], cluster_of(*nodes, pods=busy), SETTINGS)
    (site,) = placement.sites
    assert (site.switches, site.crossing_domains) == ((("s0", 24),), 1)
    assert sorted(site.domains) == [("d0", 8), ("d1", 16)]
    large = place([demand("a", 4, 10, gpu="H20")], cluster_of(*nodes, pods=busy), SETTINGS).sites[0]
    assert len(large.switches) == 2
    assert len(large.domains) == 3


def test_a_copy_stays_in_a_domain_where_copies_fit_and_the_island_does_not() -> None:
    """Three copies of 24 GPUs in racks with 56 and 24 GPUs left: two and one."""
    cluster = racks(2)
    busy = {one.name: Pod(name=f"p-{one.name}", node=one.name, gpus=(0, 1, 2, 3), cpus=1.0) for one in cluster.nodes}
    taken = [one.name for one in (*cluster.nodes[:4], *cluster.nodes[TRAYS : TRAYS + 12])]
    cluster = replace(cluster, pods=tuple(busy[name] for name in taken))
    (site,) = place([demand("a", 4, 6, 3)], cluster, SETTINGS).sites
    assert (site.domains, site.crossing_domains) == ((("nvl-0000", 48), ("nvl-0018", 24)), 0)


def drawn_cluster(rng: np.random.Generator) -> Cluster:
    """2 to 4 domains of 1 to 3 nodes, some nodes in none, up to two switches, GPUs held at random."""
    nodes: list[ClusterNode] = []
    for domain in range(int(rng.integers(2, 5))):
        for _ in range(int(rng.integers(1, 4))):
            name = "" if domain == 0 and rng.random() < 0.5 else f"d{domain}"
            numas, gpus = ((2, 4), (2, 2))[rng.integers(2)]
            nodes.append(node(f"n{len(nodes)}", numas=numas, gpus=gpus, asw=f"s{rng.integers(2)}", nvlink_domain=name))
    pods = [
        Pod(name=f"p-{one.name}-{gpu.index}", node=one.name, gpus=(gpu.index,), cpus=1.0)
        for one in nodes
        for gpu in one.gpus
        if rng.random() < 0.3
    ]
    return cluster_of(*nodes, pods=pods)


def room_of(cluster: Cluster, one: ClusterNode, tp: int) -> int:
    """Groups of `tp` GPUs inside NUMA nodes that a node has room for."""
    held = {index for pod in cluster.pods if pod.node == one.name for index in pod.gpus}
    free = Counter(gpu.numa for gpu in one.gpus if gpu.index not in held)
    return sum(count // tp for count in free.values())


@given(seed=st.integers(0, 2**32), tp=st.sampled_from((1, 2)), groups=st.integers(1, 6), replicas=st.integers(1, 3))
def test_an_island_that_fits_a_domain_lies_in_one(seed: int, tp: int, groups: int, replicas: int) -> None:
    """Room counted NUMA node by NUMA node; copies, too, where domains have room for all of them whole."""
    cluster = drawn_cluster(np.random.default_rng(seed))
    asked = demand("a", tp, groups, replicas, gpu="H20", qos=Qos.SINGLE_NUMA)
    placement = place([asked], cluster, SETTINGS)
    rooms: Counter[str] = Counter()
    for one in cluster.nodes:
        rooms[one.nvlink_domain or f"switch {one.asw}"] += room_of(cluster, one, tp)
    assert bool(placement.sites) == (rooms.total() >= groups * replicas)
    in_domains = [room for place, room in rooms.items() if not place.startswith("switch ")]
    if any(room >= groups * replicas for room in in_domains):
        (site,) = placement.sites
        assert site.nodes == 1 or [gpus for _, gpus in site.domains] == [asked.size]
        assert site.crossing_domains == 0
    elif sum(room // groups for room in in_domains) >= replicas:
        assert placement.sites[0].crossing_domains == 0


@given(seed=st.integers(0, 2**32), preempt=st.booleans())
def test_attention_groups_never_leave_a_domain_and_records_say_where_islands_lie(seed: int, preempt: bool) -> None:
    rng = np.random.default_rng(seed)
    cluster = drawn_cluster(rng)
    pods = tuple(replace(pod, preemptible=bool(rng.random() < 0.5)) for pod in cluster.pods)
    cluster = replace(cluster, pods=pods)
    demands = [
        demand(
            f"i{k}",
            int(rng.choice((1, 2, 4))),
            int(rng.integers(1, 5)),
            int(rng.integers(1, 3)),
            gpu="H20",
            qos=list(Qos)[rng.integers(4)],
        )
        for k in range(int(rng.integers(1, 5)))
    ]
    chosen = PlacementSettings(preempt=preempt)
    placement = place(demands, cluster, chosen)
    assert violations(cluster, demands, placement, evictions=chosen) == ()
    domain = {one.name: one.nvlink_domain for one in cluster.nodes}
    for one in demands:
        mine = [part for part in placement.parts if part.island == one.island]
        inside = Counter(domain[part.node] for part in mine for group in part.groups if len(group) == one.tp)
        assert not mine or inside.total() == one.replicas * one.groups
    for site in placement.sites:
        there = domains_of(cluster, placement)[site.island]
        assert dict(site.domains) == {name: gpus for name, gpus in there.items() if name}


@pytest.mark.parametrize("seed", range(10))
def test_enumeration_splits_as_few_domains_as_can_be_and_then_scores_best(seed: int) -> None:
    """Three nodes, of which two form a domain, or each is apart: against every complete placement."""
    rng = np.random.default_rng([9, seed])
    names = (("d0", "d0", "d1"), ("d0", "d0", ""), ("d0", "d1", "d1"))[rng.integers(3)]
    nodes = [node(f"n{k}", gpus=2, asw=f"s{rng.integers(2)}", nvlink_domain=name) for k, name in enumerate(names)]
    pods = [
        Pod(name=f"p-{one.name}-{gpu.index}", node=one.name, gpus=(gpu.index,), cpus=4.0)
        for one in nodes
        for gpu in one.gpus
        if rng.random() < 0.35
    ]
    cluster = cluster_of(*nodes, pods=pods)
    demands = [
        demand(f"i{k}", int(rng.choice((1, 2))), int(rng.integers(1, 4)), gpu="H20", cpus_per_gpu=4) for k in range(2)
    ]
    placement = place(demands, cluster, SETTINGS)
    every = list(placements(cluster, demands))
    assert bool(every) == (not placement.shortfalls)
    if every:
        fewest = min(splits(cluster, parts) for parts in every)
        best = max(score(cluster, demands, p, SETTINGS.weights) for p in every if splits(cluster, p) == fewest)
        assert splits(cluster, placement.parts) == fewest
        assert placement.score == pytest.approx(best, abs=1e-9)


def test_a_group_of_eight_does_not_span_trays_of_four() -> None:
    """Cost has no such group; the shortfall names one that fits."""
    (short,) = place([demand("a", 8, 2)], racks(1), SETTINGS).shortfalls
    assert short.resource == "GPUs on one node"
    assert "2 copies of 2 attention groups of 4 GPUs would fit" in short.remedies[0]


def test_without_domains_places_are_the_switches() -> None:
    fleet = Fleet.of(synthesize(60, 2, 0.5))
    assert fleet.places.of == fleet.switch_of
    assert fleet.places.nodes == fleet.members
    assert not fleet.places.has_domains


@pytest.mark.parametrize(
    ("changes", "key"), [({"domains": (("nvl-0018", 48),)}, "domains"), ({"crossing_domains": 1}, "crossing_domains")]
)
def test_the_validator_names_a_site_that_says_another_domain(changes: dict[str, object], key: str) -> None:
    cluster, demands = racks(2), [demand("a", 4, 12)]
    placement = place(demands, cluster, SETTINGS)
    assert dict(placement.sites[0].domains) == {"nvl-0000": 48}
    wrong = replace(placement, sites=(replace(placement.sites[0], **changes),))
    (fault,) = violations(cluster, demands, wrong)
    assert f"its site's {key} " in fault


def test_made_up_racks_are_sound_whole_under_their_switch_and_labelled() -> None:
    cluster = synthesize(100, 4, 0.5, types=[NVL72, NodeType(gpu="H200", share=1.0)])
    require_sound(cluster, "made up")
    trays = [one for one in cluster.nodes if one.gpu == "GB200-NVL72"]
    assert sorted(Counter(one.nvlink_domain for one in trays).values()) == [14, 18, 18]
    assert all(len({one.asw for one in trays if one.nvlink_domain == d}) == 1 for d in {t.nvlink_domain for t in trays})
    assert all(dict(one.labels)["nvidia.com/gpu.clique"] == one.nvlink_domain for one in trays)
    assert not any(
        one.nvlink_domain or "nvidia.com/gpu.clique" in dict(one.labels) for one in cluster.nodes if one not in trays
    )
    with pytest.raises(InputError, match="nodes_per_domain must be at least 1, got 0"):
        synthesize(4, 0, 0.0, types=[replace(NVL72, nodes_per_domain=0)])
