"""The arrays stay in step with the pods, however many come and go; copies live their own lives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from victim_clusters import clusters, preemptors

from planner.domain import Cluster, Preemptor, VictimMethod, VictimRule, VictimSettings
from planner.errors import InputError
from planner.placement.victims import Machines, best_victims, victims_of

ARRAYS_OF_LEADS = ("lead_bit", "priority_at", "gpus_at", "cpus_at", "memory_at", "lost_at", "budget_at")


def same_state(one: Machines, other: Machines) -> None:
    """Equal but for the numbers of the pods."""
    assert one.free == other.free
    assert np.array_equal(one.free_cpus, other.free_cpus)
    assert np.array_equal(one.free_memory, other.free_memory)
    assert one.shift == other.shift
    for name in ARRAYS_OF_LEADS:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    keys = [
        [[m.pod(pod).key if pod >= 0 else "" for pod in row] for row in m.owner.tolist()] for m in (one, other)
    ]  # fmt: skip
    assert keys[0] == keys[1]
    assert [sorted(one.pod(pod).key for pod in pods) for pods in one.pods_on] == [
        sorted(other.pod(pod).key for pod in pods) for pods in other.pods_on
    ]


@given(clusters(tight=True), st.data())
def test_pods_that_left_leave_no_trace(cluster: Cluster, data: st.DataObject) -> None:
    machines = Machines.of(cluster)
    left = data.draw(st.lists(st.sampled_from(cluster.pods), unique=True)) if cluster.pods else []
    kept = machines.copy()
    for pod in left:
        machines.remove(machines.number[pod.key])
    rest = tuple(pod for pod in cluster.pods if pod not in left)
    fresh = Machines.of(
        Cluster(name="rest", nodes=cluster.nodes, pods=rest, disruption_budgets=cluster.disruption_budgets)
    )
    same_state(machines, fresh)
    same_state(kept, Machines.of(cluster))
    for pod in left:
        machines.add_record([node.name for node in cluster.nodes].index(pod.node), pod)
    same_state(machines, kept)


@given(clusters(tight=True), preemptors(tight=True), st.sampled_from(VictimRule))
def test_after_the_victims_went_the_newcomer_fits_where_it_was_told(
    cluster: Cluster, preemptor: Preemptor, rule: VictimRule
) -> None:
    machines, rules = Machines.of(cluster), VictimSettings(rule=rule)
    try:
        best = best_victims(machines, preemptor, rules)
    except InputError:
        return
    if best is None:
        return
    for key in best.pods:
        machines.remove(machines.number[key], evicted=True)
    node = machines.names.index(best.node)
    assert victims_of(machines, preemptor, rules, method=VictimMethod.IMP)[node] == ((),)
    assert set(best.gpus) <= set(machines.free_gpus(node))
    machines.add(node, "newcomer", best.gpus, priority=preemptor.priority)
    assert machines.indices_of(node, machines.pod(machines.number["newcomer"]).mask) == best.gpus
    if len(machines.allowed):
        assert machines.allowed.min() >= 0


def test_numbers_are_given_again_and_more_are_made() -> None:
    machines = Machines.uniform(1, gpus=2, numa_nodes=1, sockets=1)
    first = machines.add(0, "a", (0,), priority=3)
    machines.remove(first)
    assert machines.add(0, "b", (0, 1), priority=-4) == first
    assert machines.shift == 5
    for number in range(200):  # pods without GPUs, past the first arrays
        machines.add(0, f"cpu-{number}", (), priority=1, cpus=0.1)
    assert machines.free_cpus[0] == 64_000 - 200 * 100
    assert machines.idle_gpus == 0
    with pytest.raises(KeyError):
        machines.remove(machines.pods.index(None))


@pytest.mark.parametrize(
    ("key", "gpus", "said"),
    [
        ("new", (0,), r"pod new: gpus: must be different free GPUs of node-0, got \[0\]; free are \[1, 2\]"),
        ("new", (7,), r"got \[7\]"),
        ("new", (1, 1), r"got \[1, 1\]"),
        ("old", (1,), "pod old: name: must be there once, and node-0 has one"),
    ],
)
def test_what_cannot_be_put_there(key: str, gpus: tuple[int, ...], said: str) -> None:
    machines = Machines.uniform(1, gpus=3, numa_nodes=1, sockets=1)
    machines.add(0, "old", (0,), priority=1)
    with pytest.raises(InputError, match=said):
        machines.add(0, key, gpus, priority=1)
    assert machines.free_gpus(0) == (1, 2)


@pytest.mark.parametrize("key", ["cpus", "memory_gb", "checkpoint_age_s", "age_s"])
@pytest.mark.parametrize("value", [-1.0, 1.1e12, float("inf"), float("nan")])
def test_figures_that_are_none(key: str, value: float) -> None:
    machines = Machines.uniform(1)
    with pytest.raises(InputError, match=f"pod new: {key}: must be at least 0 and at most 1e"):
        machines.add(0, "new", (0,), priority=1, **{key: value})  # type: ignore[arg-type]
    assert len(machines.free_gpus(0)) == 8


def test_uneven_blocks() -> None:
    """4 GPUs on 8 NUMA nodes of 2 sockets; 8 GPUs on 2 NUMA nodes of one socket."""
    assert Machines.uniform(1, gpus=4).layouts[0].numas == (0, 2, 4, 6)
    assert Machines.uniform(1, gpus=4).layouts[0].sockets == (0, 0, 1, 1)
    assert Machines.uniform(1, gpus=8, numa_nodes=2, sockets=1).layouts[0].numas == (0, 0, 0, 0, 1, 1, 1, 1)
