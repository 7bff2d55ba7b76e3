"""Made-up clusters: sound, shaped as asked, filled to the GPU, the same for the same seed, and made in seconds."""

import time
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.domain import Cluster, PodClass, require_sound
from planner.errors import InputError
from planner.placement.clusters.synthetic import DEFAULT_TYPES, Fit, NodeType, synthesize
from planner.placement.clusters.synthetic_pods import TaskMix


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return synthesize(2000, 3, 0.85)


def held(cluster: Cluster) -> int:
    return sum(pod.gpu_count for pod in cluster.pods)


def idle_by_node(cluster: Cluster) -> dict[str, int]:
    idle = {node.name: len(node.gpus) for node in cluster.nodes}
    for pod in cluster.pods:
        idle[pod.node] -= pod.gpu_count
    return idle


@given(
    nodes=st.integers(1, 150),
    seed=st.integers(0, 2**32),
    load=st.floats(0, 1),
    fit=st.sampled_from(Fit),
    numa_per_socket=st.sampled_from((1, 2, 4)),
    gpus=st.sampled_from((4, 8)),
)
def test_every_cluster_is_sound_and_filled_as_asked(nodes, seed, load, fit, numa_per_socket, gpus):
    kinds = [
        NodeType(gpu="A", share=2.0, numa_per_socket=numa_per_socket, gpus=gpus),
        NodeType(gpu="B", share=1.0, numa_per_socket=numa_per_socket),
    ]
    made = synthesize(nodes, seed, load, types=kinds, fit=fit)
    require_sound(made, "made up")
    assert len(made.nodes) == nodes
    assert held(made) == round(load * sum(made.gpus.values()))
    assert {pod.gpu_request for pod in made.pods} <= {1, 2, 4, 8}


@pytest.mark.parametrize("fit", Fit)
@pytest.mark.parametrize("load", [0.0, 0.7, 1.0])
def test_the_load_is_reached_to_the_gpu(fit, load):
    made = synthesize(300, 5, load, fit=fit)
    assert held(made) == round(load * 2400)
    assert sum(made.idle_gpus.values()) == 2400 - held(made)


def test_one_seed_one_cluster():
    assert repr(synthesize(200, 9, 0.8)) == repr(synthesize(200, 9, 0.8))
    assert repr(synthesize(200, 9, 0.8)) != repr(synthesize(200, 10, 0.8))


def test_switches_are_homogeneous_and_of_32_to_64_nodes(cluster):
    switches = defaultdict(list)
    for node in cluster.nodes:
        switches[node.asw].append(node)
    assert all(len({node.gpu for node in members}) == 1 for members in switches.values())
    sizes = [len(members) for members in switches.values()]
    assert 32 <= min(sizes) <= max(sizes) <= 64
    assert len(set(sizes)) > 10
    above = defaultdict(set)
    for node in cluster.nodes:
        above[node.aggregation].add(node.asw)
    assert sorted(map(len, above.values()))[1:] == [8] * (len(above) - 1)


@pytest.mark.parametrize("bounds", [(32, 32), (1, 1), (5, 7), (40, 41)])
def test_switch_bounds_hold_but_for_a_types_last(bounds):
    made = synthesize(333, 1, 0.0, nodes_per_asw=bounds)
    sizes = Counter(node.asw for node in made.nodes)
    types = {node.asw: node.gpu for node in made.nodes}
    small = [types[asw] for asw, size in sizes.items() if size < bounds[0]]
    assert max(sizes.values()) <= bounds[1]
    assert len(small) == len(set(small))


def test_node_counts_are_exact():
    made = synthesize(1001, 0, 0.0)
    assert made.gpus == {"H20": 8 * 300, "H200": 8 * 401, "H800": 8 * 300}
    shares = [NodeType(gpu=name, share=share) for name, share in (("X", 1), ("Y", 1), ("Z", 1))]
    assert sorted(synthesize(100, 0, 0.0, types=shares).gpus.values()) == [264, 264, 272]


def test_the_mix_is_that_of_the_facts():
    """By count 1: 50 %, 2: 20 %, 4: 12 %, 8: 18 %; within four standard deviations of a binomial."""
    made = synthesize(6000, 2, 0.8)
    total = len(made.pods)

    def near(count: int, share: float) -> bool:
        return abs(count - share * total) <= 4 * (share * (1 - share) * total) ** 0.5

    sizes = Counter(pod.gpu_count for pod in made.pods)
    assert all(near(sizes[size], share) for size, share in ((1, 0.5), (2, 0.2), (4, 0.12), (8, 0.18)))
    assert near(sum(pod.locked for pod in made.pods), 0.4)
    assert sum(bool(pod.anti_affinity) for pod in made.pods) / total == pytest.approx(0.15, abs=0.02)
    assert sum(bool(pod.node_selector) for pod in made.pods) / total == pytest.approx(0.15, abs=0.02)
    kinds = Counter(pod.kind for pod in made.pods)
    assert all(near(kinds[kind], share) for kind, share in TaskMix().classes)


def test_pods_keep_the_rules_that_they_ask_for(cluster):
    labels = {node.name: dict(node.labels) for node in cluster.nodes}
    groups = Counter((pod.anti_affinity, pod.node) for pod in cluster.pods if pod.anti_affinity)
    assert max(groups.values()) == 1
    assert max(Counter(group for group, _ in groups).values()) > 2
    for pod in cluster.pods:
        assert all(labels[pod.node][key] == value for key, value in pod.node_selector)
        assert not (pod.locked and pod.preemptible)
        assert not (pod.kind is PodClass.ONLINE and (pod.preemptible or pod.checkpoint_age_s is not None))
        assert pod.kind is not PodClass.SPOT or (pod.preemptible and 0 <= pod.checkpoint_age_s < 7200)
        assert pod.kind is not PodClass.ONLINE or pod.priority >= 1000


@pytest.mark.parametrize("numa_per_socket", [1, 2, 4])
def test_pinned_cores_lie_beside_their_gpus(numa_per_socket):
    made = synthesize(100, 1, 0.9, types=[NodeType(gpu="H20", share=1, numa_per_socket=numa_per_socket)])
    node = made.nodes[0]
    assert [numa.socket for numa in node.numa_nodes] == sorted([0, 1] * numa_per_socket)
    home = {core: numa.id for numa in node.numa_nodes for core in numa.cores}
    near = {gpu.index: gpu.numa for gpu in node.gpus}
    assert Counter(near.values()) == dict.fromkeys(range(2 * numa_per_socket), 4 // numa_per_socket)
    assert [nic.numa for nic in node.nics] == [near[index] for index in range(8)]
    pinned = [pod for pod in made.pods if pod.cores]
    assert len(pinned) / len(made.pods) == pytest.approx(0.68, abs=0.06)
    for pod in pinned:
        assert len(pod.cores) == pod.cpus
        wanted = Counter(near[gpu] for gpu in pod.gpus)
        assert Counter(home[core] for core in pod.cores) == {
            numa: count * len(pod.cores) // len(pod.gpus) for numa, count in wanted.items()
        }


def test_random_fit_leaves_the_cluster_in_pieces():
    """At equal load, whole nodes are left by best fit; random fit leaves an eighth of them or fewer."""
    whole = {}
    for fit in Fit:
        made = synthesize(1000, 4, 0.85, fit=fit)
        whole[fit] = sum(idle == 8 for idle in idle_by_node(made).values())
    assert whole[Fit.BEST] >= 100
    assert 8 * whole[Fit.RANDOM] <= whole[Fit.BEST]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes": 0}, "nodes must be within 1 and 1,000,000, got 0"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"load": 1.01}, "load must be within 0 and 1"),
        ({"load": float("nan")}, "load must be within 0 and 1, got nan"),
        ({"nodes_per_asw": (64, 32)}, "nodes_per_asw"),
        ({"asws_per_aggregation": 0}, "asws_per_aggregation"),
        ({"types": ()}, "types must be one or more"),
        ({"types": DEFAULT_TYPES[:1] * 2}, "each once"),
        ({"types": [NodeType(gpu="A", share=0.0)]}, "share above 0, got A=0"),
        ({"types": [NodeType(gpu="A", share=1.0, numa_per_socket=3)]}, "type A: gpus"),
        ({"types": [NodeType(gpu="A", share=1.0, numa_per_socket=0)]}, "type A: gpus"),
        ({"mix": TaskMix(demanding=1.0, sizes=((1, 1.0),)), "load": 1.0}, "task mix must reach the load"),
    ],
)
def test_what_is_out_of_range_is_refused(changes, said):
    arguments = {"nodes": 5, "seed": 1, "load": 0.5} | changes
    with pytest.raises(InputError, match=said) as caught:
        synthesize(arguments.pop("nodes"), arguments.pop("seed"), arguments.pop("load"), **arguments)
    assert caught.value.hint


def test_large_tasks_alone_stop_within_one_task():
    made = synthesize(10, 1, 0.53, mix=TaskMix(sizes=((8, 1.0),)))
    assert 0 <= round(0.53 * 80) - held(made) < 3 * 8


def test_twenty_thousand_nodes_take_seconds():
    start = time.process_time()
    made = synthesize(20_000, 1, 0.7)
    assert time.process_time() - start <= 10
    assert held(made) == 112_000
