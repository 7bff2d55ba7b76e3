"""The placer: brute force on small clusters, its promises on large ones, and what it says where nothing fits."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from brute_force import feasible, placements
from placed_records import cluster_of, node
from placement_scores import score

from planner.domain import (
    Alignment,
    Cluster,
    Phase,
    PlacementDemand,
    PlacementSettings,
    PlacementWeights,
    Pod,
    Qos,
    Taint,
)
from planner.domain.usable import usable_by_type
from planner.errors import InputError
from planner.placement import Fleet, place
from planner.placement.clusters.synthetic import Fit, synthesize
from planner.placement.islands.validation import violations

SETTINGS = PlacementSettings()
SHAPES = ({"numas": 2, "gpus": 4}, {"numas": 4, "gpus": 2}, {"numas": 8, "gpus": 1})


def demand(island: str, tp: int = 1, groups: int = 1, replicas: int = 1, **changes: object) -> PlacementDemand:
    fields: dict[str, object] = {
        "island": island,
        "gpu": "H20",
        "phase": Phase.PREFILL,
        "replicas": replicas,
        "groups": groups,
        "tp": tp,
        "cpus_per_gpu": 4,
    }
    return PlacementDemand(**(fields | changes))  # type: ignore[arg-type]


def small_instance(rng: np.random.Generator) -> tuple[Cluster, list[PlacementDemand]]:
    """Up to three nodes of one shape, partly held, and up to three islands of up to four groups."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    count = int(rng.integers(1, 4))
    nodes = [
        node(f"n{k}", cores=64 // shape["numas"], asw=f"asw-{rng.integers(2)}", aggregation="agg", **shape)
        for k in range(count)
    ]
    pods = []
    for one in nodes:
        for gpu in one.gpus:
            if rng.random() < 0.45:
                first = next(numa for numa in one.numa_nodes if numa.id == gpu.numa).cores
                pinned = first[4 * (gpu.index % shape["gpus"]) :][:4] if rng.random() < 0.7 else ()
                pods.append(
                    Pod(name=f"p-{one.name}-{gpu.index}", node=one.name, gpus=(gpu.index,), cores=pinned, cpus=4.0)
                )
    names = [f"i{k}" for k in range(int(rng.integers(1, 4)))]
    demands = []
    left = 4
    for name in names:
        groups = int(rng.integers(1, min(left, 2) + 1))
        left = max(1, left - groups)
        feeds = tuple((other, 1.0 + int(rng.integers(3))) for other in names if other != name and rng.random() < 0.5)
        demands.append(
            demand(
                name,
                int(rng.choice([1, 2, 4])),
                groups,
                qos=Qos(rng.choice([q.value for q in Qos])),
                cpus_per_gpu=int(rng.choice([0, 4, 8])),
                feeds=feeds,
            )
        )
    return cluster_of(*nodes, pods=pods), demands


@pytest.mark.parametrize("seed", range(10))
def test_small_clusters_agree_with_brute_force(seed: int) -> None:
    """Feasibility, and the best score: of all complete placements none is better than the placer's."""
    cluster, demands = small_instance(np.random.default_rng([6, seed]))
    found = place(demands, cluster, SETTINGS)
    assert violations(cluster, demands, found) == ()
    assert (not found.shortfalls) == feasible(cluster, demands)
    if not found.shortfalls:
        best = max(score(cluster, demands, parts, SETTINGS.weights) for parts in placements(cluster, demands))
        assert found.score == pytest.approx(best, abs=1e-9)
        assert score(cluster, demands, found.parts, SETTINGS.weights) == pytest.approx(found.score, abs=1e-9)


def random_islands(rng: np.random.Generator, count: int, qos: Sequence[Qos]) -> list[PlacementDemand]:
    demands = []
    for k in range(count):
        tp = int(rng.choice([1, 1, 2, 4, 8]))
        groups = int(rng.choice([1, 1, 2, 4, 8]))
        demands.append(
            demand(
                f"island-{k}",
                tp,
                max(1, min(groups, 32 // tp)),
                int(rng.choice([1, 1, 2])),
                gpu=str(rng.choice(["H200", "H800", "H20"])),
                phase=Phase.PREFILL if k % 2 else Phase.DECODE,
                qos=qos[k % len(qos)],
                cpus_per_gpu=8,
            )
        )
    return demands


@pytest.mark.parametrize("fit", list(Fit))
@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_every_guaranteed_island_is_aligned_and_nothing_is_given_twice(fit: Fit, load: float) -> None:
    cluster = synthesize(100, 11, load, fit=fit)
    demands = random_islands(np.random.default_rng(4), 30, [Qos.GUARANTEED])
    found = place(demands, cluster, SETTINGS)
    assert violations(cluster, demands, found) == ()
    assert found.sites
    assert all(site.aligned for site in found.sites)
    assert len(found.sites) + len(found.shortfalls) == len(demands)
    assert found.after.allocated - found.before.allocated == sum(site.gpus for site in found.sites)


def test_mixed_qos_on_a_fragmented_cluster_is_sound() -> None:
    cluster = synthesize(120, 5, 0.8, fit=Fit.RANDOM)
    demands = random_islands(np.random.default_rng(9), 40, list(Qos))
    found = place(demands, cluster, SETTINGS)
    assert violations(cluster, demands, found) == ()
    firm = {one.island for one in demands if one.qos.binds}
    assert all(site.aligned for site in found.sites if site.island in firm)
    single = {one.island for one in demands if one.qos is Qos.SINGLE_NUMA}
    assert all(site.worst is Alignment.NUMA for site in found.sites if site.island in single)


def test_the_same_input_gives_the_same_placement_and_a_fleet_may_be_prepared() -> None:
    cluster = synthesize(100, 2, 0.6)
    demands = random_islands(np.random.default_rng(1), 12, [Qos.GUARANTEED])
    first = place(demands, cluster, SETTINGS)
    fleet = Fleet.of(cluster)
    assert place(demands, fleet, SETTINGS) == first
    assert place(demands, fleet, SETTINGS) == first


def test_an_island_takes_as_few_switches_as_it_can() -> None:
    """Switches with 16, 24 and 40 free GPUs: 24 GPUs fit one, 48 take the largest and fit the rest best."""
    nodes = [node(f"n{k}", asw=asw) for k, asw in enumerate("aa" + "bbb" + "ccccc")]
    cluster = cluster_of(*nodes)
    (site,) = place([demand("one", 8, 3)], cluster, SETTINGS).sites
    assert site.switches == (("b", 24),)
    (site,) = place([demand("two", 8, 6)], cluster, SETTINGS).sites
    assert site.switches == (("c", 40), ("a", 8))


def test_replicas_stay_whole_under_a_switch() -> None:
    """Two replicas of 16: one each under switches of 24, though 24 + 8 would have the lower entropy."""
    nodes = [node(f"n{k}", asw=asw) for k, asw in enumerate("aaabbb")]
    (site,) = place([demand("i", 8, 2, 2)], cluster_of(*nodes), SETTINGS).sites
    assert site.crossing_replicas == 0
    assert site.switches == (("a", 16), ("b", 16))


def test_jointly_placed_islands_beat_one_after_the_other() -> None:
    """The facts' counter-example: switches of 2, 2 and 3 nodes, islands of 4 and of 3 nodes."""
    nodes = [node(f"n{k}", asw=asw) for k, asw in enumerate("aabbccc")]
    found = place([demand("four", 8, 4), demand("three", 8, 3)], cluster_of(*nodes), SETTINGS)
    entropies = {site.island: site.entropy for site in found.sites}
    assert entropies["three"] == pytest.approx(0.0, abs=1e-12)
    assert entropies["four"] == pytest.approx(0.6931, abs=1e-4)


def test_a_prefill_island_lies_near_the_decode_island_that_it_feeds() -> None:
    nodes = [node(f"n{k}", asw=f"asw-{k // 4}", aggregation=f"agg-{k // 8}") for k in range(16)]
    busy = [Pod(name=f"p{k}", node=f"n{k}", gpus=tuple(range(8)), cpus=1.0) for k in (0, 1, 2, 3, 12, 13)]
    cluster = cluster_of(*nodes, pods=busy)
    decode = demand("decode", 8, 2, phase=Phase.DECODE, feeds=(("prefill", 1.0),))
    prefill = demand("prefill", 8, 1, feeds=(("decode", 1.0),))
    found = place([decode, prefill], cluster, SETTINGS)
    switches = {site.island: {asw for asw, _ in site.switches} for site in found.sites}
    assert switches["prefill"] == switches["decode"]


def test_local_terms_follow_their_weights() -> None:
    """One GPU: packing puts it on the fuller node, fragmentation where it strands least."""
    nodes = [node("full", cores=32), node("empty", cores=32)]
    cluster = cluster_of(*nodes, pods=[Pod(name="p", node="full", gpus=(0, 1, 2, 4), cpus=1.0)])
    packed = place([demand("i")], cluster, PlacementSettings(weights=PlacementWeights(packing=1.0)))
    assert packed.parts[0].node == "full"
    assert place([demand("i")], cluster, SETTINGS).terms[0].name == "topology"


def test_gpus_cores_and_cards_lie_together() -> None:
    cluster = cluster_of(node("n", cores=32), pods=[Pod(name="p", node="n", gpus=(0,), cores=(0, 1), cpus=2.0)])
    (part,) = place([demand("i", 4, cpus_per_gpu=8)], cluster, SETTINGS).parts
    assert part.gpu_indices == (4, 5, 6, 7)
    assert part.numa_nodes == (1,)
    assert part.cores == tuple(range(32, 64))
    assert part.nics == ("mlx5_1",)


def test_pinned_cores_of_a_pod_with_a_small_request_are_gone() -> None:
    """A pod may pin more cores than it asks for; both count."""
    cluster = cluster_of(node("n", cores=8), pods=[Pod(name="p", node="n", cores=tuple(range(8)), cpus=1.0)])
    found = place([demand("i", 1, 2, cpus_per_gpu=8, qos=Qos.NONE)], cluster, SETTINGS)
    assert found.shortfalls[0].resource == "CPUs"


@pytest.mark.parametrize(
    ("asked", "pods", "resource", "told"),
    [
        ({"gpu": "H800"}, [], "nodes", "no node has H800"),
        ({"selector": (("zone", "x"),)}, [], "nodes", "lack the labels zone=x"),
        ({"groups": 3, "tp": 8}, [], "GPUs", "24 GPUs are asked for, 16 are idle"),
        (
            {"tp": 8, "groups": 2},
            [Pod(name="p", node="n1", gpus=(0,), cpus=1.0), Pod(name="q", node="n2", cpus=1.0)],
            "GPUs",
            "15",
        ),
        ({"tp": 4, "groups": 4, "cpus_per_gpu": 9}, [], "CPUs", "short on 2 nodes (n1, n2)"),
        ({"tp": 4, "groups": 4, "memory_gb_per_gpu": 200.0}, [], "memory", "800 GB of memory"),
        ({"tp": 8, "groups": 1, "qos": Qos.SINGLE_NUMA}, [], "aligned GPUs", "not even an empty node"),
    ],
)
def test_a_shortfall_names_what_is_short_and_where(
    asked: dict[str, object], pods: list[Pod], resource: str, told: str
) -> None:
    cluster = cluster_of(node("n1", cores=32), node("n2", cores=32), pods=pods)
    (short,) = place([demand("i", **asked)], cluster, SETTINGS).shortfalls  # type: ignore[arg-type]
    assert short.resource == resource
    assert told in short.reason


def test_remedies_are_fewer_gpus_a_migration_and_a_preemption() -> None:
    """Three free GPUs in each NUMA node of two nodes, a spot pod on the fourth: no aligned group of four."""
    pods = [
        Pod(name=f"p{n}{k}", node=f"n{n}", gpus=(4 * k,), cpus=1.0, preemptible=True, priority=1)
        for n in (1, 2)
        for k in range(2)
    ]
    cluster = cluster_of(node("n1"), node("n2"), pods=pods)
    (short,) = place([demand("i", 4, 2)], cluster, SETTINGS).shortfalls
    assert short.resource == "aligned GPUs"
    assert any(
        remedy.startswith(
            "a preemption: evicting up to 2 pods below priority 1000 (default/p10, default/p11) from 1 node"
        )
        for remedy in short.remedies
    )
    assert any(remedy.startswith("a migration: moving 2 pods") for remedy in short.remedies)
    (short,) = place([demand("i", 1, 4, 4)], cluster, SETTINGS).shortfalls
    assert short.remedies[0] == "fewer GPUs: 3 of 4 replicas would fit (12 GPUs)"


def test_preemption_evicts_no_more_than_it_must() -> None:
    """Four GPUs aligned need one socket freed: one pod of the lowest priority goes, the locked and important stay."""
    pods = [
        Pod(name="locked", node="n1", gpus=(0,), cpus=1.0, preemptible=True, priority=1, locked=True),
        Pod(name="cheap", node="n1", gpus=(4,), cpus=1.0, preemptible=True, priority=1, checkpoint_age_s=1800.0),
        Pod(name="dear", node="n2", gpus=(0, 1), cpus=1.0, preemptible=True, priority=5000),
        Pod(name="firm", node="n2", gpus=(4,), cpus=1.0, priority=1),
    ]
    cluster = cluster_of(node("n1"), node("n2"), pods=pods)
    settings = PlacementSettings(preempt=True, priority=1000)
    found = place([demand("i", 4)], cluster, settings)
    assert [victim.pod for victim in found.victims] == ["default/cheap"]
    assert found.victims[0].lost_gpu_hours == pytest.approx(0.5)
    assert violations(cluster, [demand("i", 4)], found, priority=1000) == ()
    assert found.parts[0].gpu_indices == (4, 5, 6, 7)
    assert {term.name: term.value for term in found.terms}["preemption"] == pytest.approx(-0.25)
    assert place([demand("i", 4)], cluster, PlacementSettings(preempt=True, priority=1)).shortfalls


def test_tolerations_open_tainted_nodes() -> None:
    tainted = cluster_of(node("n1", taints=(Taint(key="team", value="search"),)))
    assert place([demand("i")], tainted, SETTINGS).shortfalls
    tolerant = PlacementSettings(tolerations=(Taint(key="team", value="", effect=""),))
    assert place([demand("i")], tainted, tolerant).sites


@pytest.mark.parametrize("key", ["nvidia.com/gpu", "amd.com/gpu"])
def test_the_taint_of_nodes_with_gpus_keeps_islands_off_only_where_it_drives_pods_away(key: str) -> None:
    """Manifests tolerate it with NoSchedule, whatever its value."""
    assert place([demand("i")], cluster_of(node("n1", taints=(Taint(key=key, value="present"),))), SETTINGS).sites
    driving = cluster_of(node("n1", taints=(Taint(key=key, effect="NoExecute"),)))
    assert place([demand("i")], driving, SETTINGS).shortfalls


def test_a_taint_is_named_with_the_toleration_that_opens_its_nodes() -> None:
    """No other remedy is: --devices opens no tainted node. A fault's taint is not to be tolerated."""
    present = Taint(key="team", value="present")
    unknown = Pod(name="p", node="n1", gpu_request=1, preemptible=True)
    tainted = cluster_of(node("n1", taints=(present,)), node("n2", taints=(present,)), pods=[unknown])
    remedy = (
        "placement.tolerations: [{key: team, value: present, effect: NoSchedule}] in the scenario: "
        "15 idle H20 GPUs on nodes with that taint"
    )
    assert place([demand("i")], tainted, PlacementSettings(priority=1000)).shortfalls[0].remedies == (remedy,)
    cordoned = cluster_of(node("n1", taints=(Taint(key="node.kubernetes.io/unschedulable"),)))
    (short,) = place([demand("i")], cordoned, SETTINGS).shortfalls
    assert short.reason.endswith("may be used: 1 are cordoned (uncordon them (kubectl uncordon))")
    assert short.remedies == ("uncordon them (kubectl uncordon): 8 idle H20 GPUs on 1 node that are cordoned",)


def test_nodes_with_pods_of_unknown_gpus_take_single_gpus_alone() -> None:
    """Which GPUs are free nobody knows; one is always aligned. Its cores have to be near it, wherever it lies."""
    cluster = cluster_of(node("n1", cores=16), pods=[Pod(name="p", node="n1", gpu_request=1)])
    (short,) = place([demand("i", tp=2)], cluster, SETTINGS).shortfalls
    assert "hold pods whose GPUs are not known" in short.reason
    singles = [demand("i", tp=1, groups=1, replicas=7, cpus_per_gpu=4)]
    placement = place(singles, cluster, SETTINGS)
    assert violations(cluster, singles, placement) == ()
    (site,) = placement.sites
    assert (site.aligned, site.worst.value) == (True, "numa")
    assert place([replace(singles[0], replicas=8)], cluster, SETTINGS).shortfalls
    assert place([replace(singles[0], replicas=1, cpus_per_gpu=5)], cluster, SETTINGS).shortfalls
    (left_out,) = usable_by_type(cluster, PlacementSettings(cpus_per_gpu=5))[1]
    assert left_out.text.startswith("7 idle H20 GPUs on 1 node: it is not known which GPUs their pods hold, and")


def test_shared_gpus_are_not_given_away() -> None:
    """8 GPUs, of which pods share parts of 1.5: two are gone, and nobody says which."""
    sharing = Pod(name="s", node="n1", gpu_share=1.5)
    cluster = cluster_of(node("n1"), pods=[sharing])
    assert place([demand("i", 2, qos=Qos.GUARANTEED)], cluster, SETTINGS).shortfalls
    for groups, fits in ((6, True), (7, False)):
        asked = [demand("i", 1, groups=groups, qos=Qos.NONE)]
        placed = place(asked, cluster, SETTINGS)
        assert bool(placed.sites) == fits
        assert violations(cluster, asked, placed) == ()
        assert all(part.gpus_assumed for part in placed.parts)
    cut_up = cluster_of(node("n1", offers=(("gpu-fraction", 2),)), pods=[sharing])
    assert place([demand("i", 8, qos=Qos.GUARANTEED)], cut_up, SETTINGS).sites


def test_two_islands_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="island i: must be listed once"):
        place([demand("i"), demand("i")], cluster_of(node("n1")), SETTINGS)


def test_states_before_and_after() -> None:
    cluster = cluster_of(
        node("n1", cores=32), node("n2", cores=32), pods=[Pod(name="p", node="n1", gpus=(0,), cpus=4.0)]
    )
    found = place([demand("i", 4, cpus_per_gpu=8)], cluster, SETTINGS, {"H20": (100.0, 500.0)})
    assert (found.before.gpus, found.before.idle, found.before.empty_nodes) == (16, 15, 1)
    assert [(one.gpus, one.stranded, one.fit) for one in found.before.fragments] == [
        (1, 0, 15),
        (2, 0, 7),
        (4, 0, 3),
        (8, 7, 1),
    ]
    assert found.before.watts == 500 + 15 * 100 + (120 + 15) + 2 * 15
    assert found.after.idle == 11
    assert found.after.watts == 5 * 500 + 11 * 100 + (2 * 120) + 2 * 15
    assert found.parts[0].node == "n1"


def test_fragmentation_is_scored_by_the_clusters_own_pods() -> None:
    """Where all pods hold single GPUs nothing is ever stranded; where all hold eight, one GPU strands the seven others.
    Without pods requests of 1, 2, 4 and 8 stand in: three of four sizes are stranded by it, 7 / 4 of at most 2."""

    def value(*sizes: int) -> float:
        nodes = tuple(node(f"m{k}", labels=(("name", f"m{k}"),)) for k in range(len(sizes) + 1))
        pods = tuple(Pod(name=f"p{k}", node=f"m{k + 1}", gpus=tuple(range(gpus))) for k, gpus in enumerate(sizes))
        found = place([demand("i", 1, selector=(("name", "m0"),))], Cluster(name="c", nodes=nodes, pods=pods), SETTINGS)
        assert {part.node for part in found.parts} == {"m0"}
        shares = {row.gpus: row.share for row in found.before.fragments if row.share}
        assert shares == {size: sizes.count(size) / len(sizes) for size in sizes}
        return next(term.value for term in found.terms if term.name == "fragmentation")

    assert value() == -7 / 4 / 2
    assert value(1, 1) == 0
    assert value(8, 8) == -7 / 7
    assert value(8, 1) == -7 / 2 / 3.5
