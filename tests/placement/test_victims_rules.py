"""Which set of victims is best, who never goes, and what is asked in vain."""

import pytest
from victim_machines import EXACT, asks, machine

from planner.domain import (
    Alignment,
    Cluster,
    ClusterNode,
    NodeGpu,
    NumaNode,
    Pod,
    Preemptor,
    Qos,
    VictimMethod,
    VictimRule,
    VictimSettings,
)
from planner.errors import InputError
from planner.placement.victims import Machines, best_victims, standard_preemption, victims_of

SCORED = VictimSettings()


@pytest.mark.parametrize("method", EXACT)
def test_fewest_victims_are_not_the_lowest_priorities(method: VictimMethod) -> None:
    """Facts: two pods at 500 end the search before four at 200 come up."""
    machines = machine(sockets=1, numas=1)
    for k in range(2):
        machines.add(0, f"c-{k}", (2 * k, 2 * k + 1), priority=500)
    for k in range(4):
        machines.add(0, f"d-{k}", (4 + k,), priority=200)
    best = best_victims(machines, asks(4), SCORED, method)
    assert (best.pods, best.priority_sum) == (("c-0", "c-1"), 1000)
    assert best.score == pytest.approx(0.5 / 1000 + 0.5 * 1.0)


@pytest.mark.parametrize("method", EXACT)
def test_topology_outweighs_priorities_unless_alpha_is_one(method: VictimMethod) -> None:
    machines = machine(nodes=2)
    for gpu in range(8):
        aligned = gpu < 2
        machines.add(0, f"high-{gpu}", (gpu,), priority=900 if aligned else 1000, preemptible=aligned)
        apart = gpu in (0, 7)
        machines.add(1, f"low-{gpu}", (gpu,), priority=100 if apart else 1000, preemptible=apart)
    chosen = {}
    for alpha in (0.0, 0.5, 0.9, 1.0):
        best = best_victims(machines, asks(2, Qos.BEST_EFFORT), VictimSettings(alpha=alpha), method)
        assert best is not None
        chosen[alpha] = best.node, best.alignment
    socket, cross = ("node-0", Alignment.SOCKET), ("node-1", Alignment.CROSS)
    assert chosen == {0.0: socket, 0.5: socket, 0.9: socket, 1.0: cross}
    none = best_victims(machines, asks(2, Qos.NONE), SCORED, method)
    assert (none.node, none.score) == ("node-1", 0.5 / 200)


@pytest.mark.parametrize("method", EXACT)
def test_priorities_of_zero_and_below_count_from_the_lowest_as_one(method: VictimMethod) -> None:
    machines = machine(sockets=1, numas=1, gpus=3)
    for gpu, priority in enumerate((0, -7, 3)):
        machines.add(0, f"pod-{gpu}", (gpu,), priority=priority)
    best = best_victims(machines, asks(1, priority=10), SCORED, method)
    assert (best.pods, best.priority_sum, best.score) == (("pod-1",), -7, 0.5 / 1 + 0.5)
    machines.remove(machines.number["pod-1"])
    machines.add(0, "stays", (1,), priority=1, locked=True)
    best = best_victims(machines, asks(1, priority=10), SCORED, method)
    assert (best.pods, best.score) == (("pod-0",), 0.5 / 1 + 0.5)


@pytest.mark.parametrize("method", EXACT)
def test_rules_choose_by_priority_topology_and_lost_work(method: VictimMethod) -> None:
    """Three single GPUs: the least work to lose, the lowest priority, and a middle that the mixture takes."""
    machines = machine(sockets=1, numas=1, gpus=3)
    for gpu, (priority, hours) in enumerate(((900, 0.0), (100, 100.0), (110, 0.01))):
        machines.add(0, f"pod-{gpu}", (gpu,), priority=priority, checkpoint_age_s=3600 * hours)
    chosen = {}
    for rule in VictimRule:
        best = best_victims(machines, asks(1), VictimSettings(rule=rule), method)
        assert best is not None
        chosen[rule] = best.pods[0], best.lost_gpu_s
    assert chosen == {
        VictimRule.SCORE: ("pod-1", 360_000.0),
        VictimRule.LOST_WORK: ("pod-0", 0.0),
        VictimRule.COMBINED: ("pod-2", 36.0),
    }


@pytest.mark.parametrize("method", [*EXACT, VictimMethod.STANDARD])
def test_nobody_goes_where_it_fits(method: VictimMethod) -> None:
    machines = machine(nodes=2)
    machines.add(0, "low", (0,), priority=1)
    machines.add(1, "a", (0, 1, 2), priority=1)
    best = best_victims(machines, asks(5), VictimSettings(cross=0.1), method)
    assert (best.pods, best.node, best.priority_sum, best.spare_gpus) == ((), "node-0", 0, 0)
    assert victims_of(machines, asks(5, Qos.NONE), SCORED, method=method) == {0: ((),), 1: ((),)}


@pytest.mark.parametrize("method", EXACT)
def test_nobody_goes_even_for_a_better_place(method: VictimMethod) -> None:
    machines = machine(nodes=2)
    for gpu in range(8):
        machines.add(0, f"low-{gpu}", (gpu,), priority=1)
        if gpu not in (0, 7):
            machines.add(1, f"high-{gpu}", (gpu,), priority=999)
    best = best_victims(machines, asks(2, Qos.BEST_EFFORT), VictimSettings(alpha=0.0), method)
    assert (best.node, best.pods, best.alignment) == ("node-1", (), Alignment.CROSS)


@pytest.mark.parametrize("method", EXACT)
def test_equal_lost_work_takes_fewer_victims(method: VictimMethod) -> None:
    machines = machine(sockets=1, numas=1, gpus=2, nodes=2)
    machines.add(0, "one", (0,), priority=1)
    machines.add(0, "other", (1,), priority=1)
    machines.add(1, "both", (0, 1), priority=900)
    best = best_victims(machines, asks(2), VictimSettings(rule=VictimRule.LOST_WORK), method)
    assert best.pods == ("both",)


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("rule", [VictimRule.LOST_WORK, VictimRule.COMBINED])
@pytest.mark.parametrize("cpus", [0.0, 8.0])
def test_four_pods_that_lose_nothing_go_before_one_that_loses_much(
    method: VictimMethod, rule: VictimRule, cpus: float
) -> None:
    """With CPUs the four have to be joined by one that holds them: still nothing is lost."""
    machines = Machines.uniform(1, sockets=2, numa_nodes=2, gpus=8, cpus=8)
    machines.add(0, "train", range(4), priority=5, checkpoint_age_s=360_000, cpus=4)
    for gpu in range(4, 8):
        machines.add(0, f"idle-{gpu}", (gpu,), priority=5, checkpoint_age_s=0, cpus=0.5)
    machines.add(0, "log", (), priority=5, cpus=2)
    best = best_victims(machines, asks(4, cpus=cpus and 4.0), VictimSettings(rule=rule), method)
    assert set(best.pods) == {f"idle-{gpu}" for gpu in range(4, 8)} | ({"log"} if cpus else set())
    assert best.lost_gpu_s == 0


@pytest.mark.parametrize("method", EXACT)
def test_nodes_where_cpus_bind_compete_with_the_others(method: VictimMethod) -> None:
    machines = Machines.uniform(2, cpus=8, sockets=1, numa_nodes=1, gpus=1)
    for name, gpus in (("cheap", (0,)), ("floating", ())):
        machines.add(0, name, gpus, priority=1, cpus=4)
    machines.add(1, "dear", (0,), priority=900, cpus=8)
    best = best_victims(machines, asks(1, cpus=8), SCORED, method)
    assert set(best.pods) == {"cheap", "floating"}


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize(
    ("gpus", "first", "second", "gone"),
    [
        (1, (2, 1, 0), (1, 900, 0), "second"),  # over-freed GPUs count before priorities,
        (1, (1, 900, 0), (1, 100, 0), "second"),  # those before the order of nodes,
        (1, (1, 100, 0), (1, 100, 0), "first"),
        (2, (1, 900, 1), (2, 100, 0), "second"),  # and GPUs that were free are not over-freed
        (1, (3, 1, 0), (2, 900, 0), "second"),
    ],
)
def test_ties(
    method: VictimMethod, gpus: int, first: tuple[int, int, int], second: tuple[int, int, int], gone: str
) -> None:
    """At α = 0 only topology scores, and here it is the same everywhere. Nodes: a victim's (GPUs, priority), idle."""
    machines = machine(sockets=1, numas=1, gpus=4, nodes=2)
    for node, (name, (held, priority, idle)) in enumerate((("first", first), ("second", second))):
        machines.add(node, name, range(held), priority=priority)
        machines.add(node, f"fixed-{node}", range(held + idle, 4), priority=1, preemptible=False)
    best = best_victims(machines, asks(gpus), VictimSettings(alpha=0.0), method)
    assert best.pods == (gone,)


@pytest.mark.parametrize("method", EXACT)
def test_exactly_enough_cpus_are_enough(method: VictimMethod) -> None:
    machines = Machines.uniform(1, cpus=10, sockets=1, numa_nodes=1, gpus=3)
    for gpu, cpus in enumerate((4.0, 5.0, 1.0)):
        machines.add(0, f"pod-{gpu}", (gpu,), priority=1, cpus=cpus)
    assert victims_of(machines, asks(1, cpus=4.0), SCORED, method=method) == {0: ((0,), (1,))}


@pytest.mark.parametrize("method", EXACT)
def test_a_budget_allows_so_many_at_once(method: VictimMethod) -> None:
    machines = Machines.uniform(1, sockets=1, numa_nodes=1, gpus=4, budgets=[("web", 1)])
    for gpu in range(4):
        machines.add(0, f"pod-{gpu}", (gpu,), priority=1, budget="web" if gpu < 3 else "")
    assert victims_of(machines, asks(2), SCORED, method=method) == {0: ((0, 3), (1, 3), (2, 3))}
    assert victims_of(machines, asks(3), SCORED, method=method) == {}
    machines.remove(0, evicted=True)
    assert victims_of(machines, asks(2), SCORED, method=method) == {0: ((3,),)}


@pytest.mark.parametrize("method", EXACT)
def test_pods_without_gpus_go_where_cpus_bind(method: VictimMethod) -> None:
    machines = Machines.uniform(1, cpus=16, sockets=1, numa_nodes=1, gpus=2)
    machines.add(0, "gpu", (0, 1), priority=5, cpus=2)
    for number, cpus in enumerate((3, 4, 7)):
        machines.add(0, f"cpu-{number}", (), priority=1, cpus=cpus)
    found = victims_of(machines, asks(1, cpus=9), SCORED, method=method)
    assert found == {0: ((0, 3),)}
    machines.remove(0)
    assert victims_of(machines, asks(1, cpus=9), SCORED, method=method) == {0: ((3,),)}
    assert victims_of(machines, asks(1, cpus=5.1), SCORED, method=method) == {0: ((2,), (3,))}


def test_many_small_pods_leave_one_set_of_which_none_can_be_spared() -> None:
    """Beyond the limit of tries: 60 pods of half a core, 20 of which must go."""
    machines = Machines.uniform(1, cpus=32, sockets=1, numa_nodes=1, gpus=1)
    for number in range(60):
        machines.add(0, f"pod-{number:02}", (), priority=number, cpus=0.5)
    (going,) = victims_of(machines, asks(1, cpus=12), SCORED)[0]
    assert going == tuple(range(20))  # 2 cores are free, the least important 20 give 10
    best = best_victims(machines, asks(1, cpus=12), SCORED)
    assert best.pods == tuple(f"pod-{number:02}" for number in range(20))
    best = best_victims(machines, asks(1, cpus=12), VictimSettings(rule=VictimRule.LOST_WORK))
    assert best.pods == tuple(f"pod-{number:02}" for number in range(20))


def test_many_small_pods_of_a_budget_go_as_far_as_it_allows() -> None:
    """The 20 least important are of a budget that lets three go: the next 17 of no budget go with them."""
    machines = Machines.uniform(1, cpus=32, sockets=1, numa_nodes=1, gpus=1, budgets=(("web", 3),))
    for number in range(60):
        machines.add(0, f"pod-{number:02}", (), priority=number, cpus=0.5, budget="web" if number < 20 else "")
    (going,) = victims_of(machines, asks(1, cpus=12), SCORED)[0]
    assert going == (*range(3), *range(20, 37))


def test_many_small_pods_of_a_budget_of_which_the_least_important_free_too_little() -> None:
    """Three of the budget may go: the three most important ones, as they alone free enough beside the others."""
    machines = Machines.uniform(1, cpus=32, sockets=1, numa_nodes=1, gpus=1, budgets=(("web", 3),))
    for number in range(57):
        machines.add(0, f"pod-{number:02}", (), priority=number, cpus=0.25, budget="web" if number < 40 else "")
    for number in range(57, 60):
        machines.add(0, f"pod-{number:02}", (), priority=number, cpus=5, budget="web")
    (going,) = victims_of(machines, asks(1, cpus=21), SCORED)[0]
    assert set(going) >= {57, 58, 59}


def test_sixteen_gpus_and_kinds_side_by_side() -> None:
    """Nodes of two kinds and types; of 16 GPUs, masks need two bytes."""
    nodes = tuple(
        ClusterNode(
            name=f"node-{number}",
            gpu=("H20", "L40S")[number % 2],
            gpus=tuple(NodeGpu(index=k, uuid="", numa=k // (count // 2)) for k in range(count)),
            numa_nodes=(NumaNode(id=0, socket=0), NumaNode(id=1, socket=1)),
            cpus=64.0,
            memory_gb=64.0,
            asw="asw",
        )
        for number, count in enumerate((16, 4, 16, 16))
    )
    pods = tuple(
        Pod(name=f"p-{number}-{k}", node=f"node-{number}", gpus=(k,), priority=1 + number, preemptible=k != 3)
        for number, count in enumerate((16, 4, 16, 16))
        for k in range(count)
    )
    cluster = Cluster(name="kinds", nodes=nodes, pods=pods)
    machines = Machines.of(cluster)
    found = victims_of(machines, asks(7), SCORED)
    assert {node: len(sets) for node, sets in found.items()} == {0: 8 + 1, 2: 8 + 1, 3: 8 + 1}  # C(8, 7) + C(7, 7)
    assert list(victims_of(machines, Preemptor(name="p", gpus=2, priority=9, gpu="H20"), SCORED)) == [0, 2]
    assert found == victims_of(machines, asks(7), SCORED, method=VictimMethod.IMP)
    best = best_victims(machines, asks(7), SCORED)
    assert best == best_victims(machines, asks(7), SCORED, VictimMethod.IMP)


@pytest.mark.parametrize(
    "why",
    [
        {"priority": 1000},
        {"priority": 2000},
        {"preemptible": False},
        {"locked": True},
        {"age_s": 30.0},
        {"budget": "used-up"},
    ],
    ids=lambda why: next(iter(why)),
)
@pytest.mark.parametrize("method", VictimMethod)
def test_never_victims(method: VictimMethod, why: dict[str, object]) -> None:
    machines = Machines.uniform(1, gpus=1, numa_nodes=1, sockets=1, budgets=[("used-up", 0), ("some", 1)])
    machines.add(0, "pod", (0,), **{"priority": 1, "age_s": 100.0, "budget": "some", **why})  # type: ignore[arg-type]
    window = VictimSettings(protected_s=60.0)
    assert best_victims(machines, asks(1), window, method) is None
    assert standard_preemption(machines, asks(1), policy="best", settings=window) is None
    machines.remove(0)
    machines.add(0, "pod", (0,), priority=1, age_s=100.0, budget="some")
    best = best_victims(machines, asks(1), window, method)
    assert best.pods == ("pod",)
    assert best_victims(machines, asks(1), window, method, exclude={"pod"}) is None


@pytest.mark.parametrize("qos", Qos)
def test_a_preemptor_that_no_node_could_hold(qos: Qos) -> None:
    machines = machine()
    for gpus, said in (
        (9, r"preemptor newcomer: gpus: must be at most 8, .* got 9\."),
        (0, "at least 1, got 0"),
        (-1, "-1"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            best_victims(machines, asks(gpus, qos), SCORED)
        assert caught.value.hint
    with pytest.raises(InputError, match="gpu: must be a GPU type of the cluster, got 'H20'; there are: none"):
        victims_of(machines, Preemptor(name="p", gpus=1, priority=1, gpu="H20", qos=qos), SCORED)


@pytest.mark.parametrize("method", VictimMethod)
@pytest.mark.parametrize("key", ["cpus", "memory_gb"])
@pytest.mark.parametrize("value", [-1.0, 64.001, 1e30, float("inf"), float("nan")])
def test_a_preemptor_that_asks_for_more_than_a_node_has(method: VictimMethod, key: str, value: float) -> None:
    """Room for its GPUs alone is none; exactly the node's own figure is asked for and granted."""
    machines = Machines.uniform(1, gpus=8, cpus=64.0, memory_gb=64.0)
    machines.add(0, "pod", range(8), priority=1, cpus=64.0, memory_gb=64.0)
    with pytest.raises(InputError, match=rf"preemptor p: {key}: must be at least 0 and at most 64, .* got "):
        best_victims(machines, Preemptor(name="p", gpus=8, priority=9, **{key: value}), SCORED, method)  # type: ignore[arg-type]
    best = best_victims(machines, Preemptor(name="p", gpus=8, priority=9, **{key: 64.0}), SCORED, method)  # type: ignore[arg-type]
    assert best.pods == ("pod",)


def test_two_gpus_in_one_numa_node_that_has_one() -> None:
    with pytest.raises(InputError, match="single_numa must find 2 GPUs in one NUMA node"):
        standard_preemption(machine(), asks(2, Qos.SINGLE_NUMA), policy="best")


@pytest.mark.parametrize(
    "key",
    [
        {"alpha": -0.1},
        {"alpha": 1.1},
        {"alpha": float("nan")},
        {"socket": 2.0},
        {"protected_s": -1.0},
        {"protected_s": float("nan")},
    ],
)
def test_settings_out_of_range(key: dict[str, float]) -> None:
    with pytest.raises(InputError, match=r"preemption\."):
        VictimSettings(**key)  # type: ignore[arg-type]


def test_pods_that_do_not_say_which_gpus_close_their_node() -> None:
    node = ClusterNode(
        name="n",
        gpu="H20",
        gpus=(NodeGpu(index=0, uuid="", numa=0), NodeGpu(index=1, uuid="", numa=0)),
        numa_nodes=(NumaNode(id=0, socket=0),),
        cpus=8.0,
        memory_gb=8.0,
        asw="a",
    )
    pods = (
        Pod(name="known", node="n", gpus=(0,), preemptible=True),
        Pod(name="unknown", node="n", gpu_request=1, preemptible=True),
    )
    for count, expected in ((1, {0: 1}), (2, {})):
        machines = Machines.of(Cluster(name="c", nodes=(node,), pods=pods[:count]))
        found = victims_of(machines, asks(2), SCORED)
        assert {number: len(sets) for number, sets in found.items()} == expected


def test_budgets_that_the_cluster_does_not_have() -> None:
    with pytest.raises(InputError, match="disruption_budget: must be one of the cluster's, got 'web'"):
        machine().add(0, "pod", (0,), priority=1, budget="web")
