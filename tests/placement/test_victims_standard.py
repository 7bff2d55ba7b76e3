"""Gödel's standard preemption, against its rules spelled out on records."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from victim_clusters import clusters, preemptors
from victim_machines import asks, machine
from victim_oracle import may_go, places, ways

from planner.domain import (
    Alignment,
    Cluster,
    ClusterNode,
    Pod,
    Preemptor,
    Qos,
    VictimMethod,
    VictimSet,
    VictimSettings,
)
from planner.errors import InputError
from planner.placement.victims import Machines, standard_preemption, victims_of

PLAIN = VictimSettings()
INFINITE = float("inf")


def room(cluster: Cluster, node: ClusterNode, going: set[str], preemptor: Preemptor) -> bool:
    """Whether the preemptor fits without topology once these are gone."""
    pods = [pod for pod in cluster.pods if pod.node == node.name]
    bare = Preemptor(
        name="bare",
        gpus=preemptor.gpus,
        priority=preemptor.priority,
        qos=Qos.NONE,
        cpus=preemptor.cpus,
        memory_gb=preemptor.memory_gb,
    )
    gone = tuple(pod for pod in pods if pod.key in going)
    return any(places(cluster, node, [pod for pod in pods if pod.key not in going], gone, bare))


def check_minimal(cluster: Cluster, preemptor: Preemptor, found: VictimSet) -> None:
    node = next(node for node in cluster.nodes if node.name == found.node)
    those = {pod.key: pod for pod in cluster.pods}
    assert all(may_go(cluster, those[key], preemptor, PLAIN) for key in found.pods)
    assert room(cluster, node, set(found.pods), preemptor)
    assert not any(room(cluster, node, set(found.pods) - {key}, preemptor) for key in found.pods)
    staying = [pod for pod in cluster.pods if pod.node == node.name and pod.key not in found.pods]
    free = sorted({gpu.index for gpu in node.gpus} - {gpu for pod in staying for gpu in pod.gpus})
    assert found.gpus == tuple(free[: preemptor.gpus])


def reprieved(cluster: Cluster, node: ClusterNode, preemptor: Preemptor) -> list[Pod] | None:
    """The rule as it is told, on records; most important first."""
    if room(cluster, node, set(), preemptor):
        return []
    pods = [pod for pod in cluster.pods if pod.node == node.name and may_go(cluster, pod, preemptor, PLAIN)]
    going = {pod.key for pod in pods}
    if not room(cluster, node, going, preemptor):
        return None
    key = {pod.key: (pod.priority, INFINITE if pod.age_s is None else pod.age_s, pod.key) for pod in pods}
    pods.sort(key=lambda pod: key[pod.key], reverse=True)
    for pod in pods:
        if room(cluster, node, going - {pod.key}, preemptor):
            going.discard(pod.key)
    return [pod for pod in pods if pod.key in going]


def node_order(victims: list[Pod]) -> tuple[float, ...]:
    if not victims:
        return (0,)
    highest = max(pod.priority for pod in victims)
    starts = [-INFINITE if pod.age_s is None else -pod.age_s for pod in victims if pod.priority == highest]
    return 1, highest, sum(pod.priority + 2**31 for pod in victims), len(victims), -min(starts)


@given(clusters(), preemptors())
def test_reprieve_and_the_choice_of_nodes(cluster: Cluster, preemptor: Preemptor) -> None:
    machines = Machines.of(cluster)
    try:
        best = standard_preemption(machines, preemptor, policy="best")
    except InputError:
        return
    here = [node for node in cluster.nodes if preemptor.gpu in ("", node.gpu)]
    here = [node for node in here if all(pod.gpus_known for pod in cluster.pods if pod.node == node.name)]
    expected = {node.name: reprieved(cluster, node, preemptor) for node in here}
    expected = {name: victims for name, victims in expected.items() if victims is not None}
    found = victims_of(machines, preemptor, PLAIN, method=VictimMethod.STANDARD)
    assert {machines.names[node]: [machines.pod(pod).key for pod in sets[0]] for node, sets in found.items()} == {
        name: [pod.key for pod in victims or ()] for name, victims in expected.items()
    }
    if best is None:
        assert not expected
        return
    assert best.node == min(expected, key=lambda name: node_order(expected[name] or []))
    check_minimal(cluster, preemptor, best)


@given(clusters(tight=True), preemptors(tight=True), st.integers(0, 99), st.sampled_from(("key", "start")))
def test_what_it_finds_is_minimal_and_eligible(cluster: Cluster, preemptor: Preemptor, seed: int, tie: str) -> None:
    machines = Machines.of(cluster)
    try:
        found = standard_preemption(machines, preemptor, tie=tie, rng=np.random.default_rng(seed))  # type: ignore[arg-type]
    except InputError:
        return
    assert found == standard_preemption(machines, preemptor, tie=tie, rng=np.random.default_rng(seed))  # type: ignore[arg-type]
    if found is not None:
        check_minimal(cluster, preemptor, found)


def test_random_takes_every_node_that_can_and_best_the_best() -> None:
    machines = machine(nodes=4)
    for node in range(3):  # the last has none that may go
        for gpu in range(8):
            machines.add(node, f"pod-{node}-{gpu}", (gpu,), priority=(300, 100, 200)[node])
    machines.add(3, "fixed", range(8), priority=1, preemptible=False)
    rngs = (np.random.default_rng(seed) for seed in range(40))
    taken = [standard_preemption(machines, asks(2), rng=rng) for rng in rngs]
    assert {found.node for found in taken if found is not None} == {"node-0", "node-1", "node-2"}
    best = standard_preemption(machines, asks(2), policy="best")
    assert best.node == "node-1"


@pytest.mark.parametrize(
    ("ages", "tie", "gone"),
    [((50.0, 10.0, None), "start", 1), ((10.0, 50.0, None), "start", 0), ((None, 50.0, 50.0), "start", 1),
     ((50.0, 10.0, None), "key", 0)],
)  # fmt: skip
def test_later_starts_go_first_and_keys_settle_ties(ages: tuple[float | None, ...], tie: str, gone: int) -> None:
    machines = machine(sockets=1, numas=1, gpus=3)
    for gpu, age in enumerate(ages):
        machines.add(0, f"pod-{gpu}", (gpu,), priority=1, age_s=age)
    found = standard_preemption(machines, asks(1), policy="best", tie=tie)  # type: ignore[arg-type]
    assert found.pods == (f"pod-{gone}",)


def test_the_latest_start_decides_between_equal_nodes() -> None:
    machines = machine(sockets=1, numas=1, gpus=2, nodes=3)
    for node, ages in enumerate(((5.0, 60.0), (20.0, 30.0), (10.0, 50.0))):
        for gpu, age in enumerate(ages):
            machines.add(node, f"pod-{node}-{gpu}", (gpu,), priority=1, age_s=age)
    found = standard_preemption(machines, asks(2), policy="best")
    assert found.node == "node-1"  # its oldest victim started last


def share_aligned(gpus: int, held: int) -> float:
    """Share of hits over every order in which the pods of a full node could stand."""
    count, going = 8 // held, gpus // held
    hits = []
    for first in combinations(range(count), going):  # the rest of the order changes nothing
        machines = machine()
        for k in range(count):
            machines.add(0, f"pod-{k}", range(k * held, (k + 1) * held), priority=1, rank=k not in first)
        found = standard_preemption(machines, asks(gpus), policy="best", tie="key")
        assert found is not None
        hits.append(found.alignment is not Alignment.CROSS)
    return sum(hits) / len(hits)


@pytest.mark.parametrize(("gpus", "held", "share"), [(4, 2, 1 / 3), (2, 1, 12 / 28), (4, 1, 2 / 70)])
def test_closed_forms_of_the_hit_rate(gpus: int, held: int, share: float) -> None:
    """Facts, 5: 33.3 % of 4 GPUs from aligned pairs, 42.9 % of 2 and 2.9 % of 4 from single GPUs."""
    assert share_aligned(gpus, held) == pytest.approx(share, abs=1e-12)


def test_random_needs_a_generator() -> None:
    with pytest.raises(InputError, match="rng: must be given"):
        standard_preemption(machine(), asks(1))


def test_every_order_of_ranks_gives_a_minimal_set() -> None:
    """Sizes 1, 1, 2, 4 for a group of 4: whatever the order, the big one alone or the others together."""
    sizes = {"a": (0,), "b": (1,), "c": (2, 3), "d": (4, 5, 6, 7)}
    seen = set()
    for order in permutations(sizes):
        machines = machine()
        for rank, key in enumerate(order):
            machines.add(0, key, sizes[key], priority=1, rank=rank)
        found = standard_preemption(machines, asks(4), policy="best")
        assert found is not None
        seen.add(frozenset(found.pods))
    assert seen == {frozenset("d"), frozenset("abc")}


def test_standard_finds_room_wherever_there_is_some_without_topology() -> None:
    @given(clusters(), preemptors())
    def holds(cluster: Cluster, preemptor: Preemptor) -> None:
        bare = Preemptor(name="b", gpus=preemptor.gpus, priority=preemptor.priority, qos=Qos.NONE, gpu=preemptor.gpu)
        try:
            found = standard_preemption(Machines.of(cluster), bare, policy="best")
        except InputError:
            return
        assert (found is None) == (not ways(cluster, bare, PLAIN))

    holds()
