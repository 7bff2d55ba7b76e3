"""Small random clusters, and preemptors that could come to them."""

from hypothesis import strategies as st

from planner.domain import Cluster, ClusterNode, DisruptionBudget, NodeGpu, NumaNode, Pod, Preemptor, Qos

TYPES = ("L40S", "H20")
BUDGETS = (DisruptionBudget(name="none-left", allowed=0), DisruptionBudget(name="one", allowed=1))
SHAPES = ((2, 4, 1), (2, 2, 2), (1, 2, 4), (2, 1, 4), (2, 1, 3), (1, 1, 2), (3, 1, 2))
"""(sockets, NUMA nodes a socket, GPUs a NUMA node)."""
MOST_PODS = 7


@st.composite
def clusters(draw: st.DrawFn, *, tight: bool = False) -> Cluster:
    """One to three nodes of different kinds, partly free. `tight`: CPUs, memory and budgets may bind, and there are
    pods without GPUs."""
    nodes, pods = [], []
    first = draw(st.sampled_from(SHAPES))
    for number in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from((first, first, *SHAPES))) if number else first  # often alike: found in one go
        nodes.append(_node(draw, number, shape, tight))
        pods += _pods(draw, nodes[-1], tight)
    return Cluster(name="random", nodes=tuple(nodes), pods=tuple(pods), disruption_budgets=BUDGETS if tight else ())


@st.composite
def preemptors(draw: st.DrawFn, *, tight: bool = False) -> Preemptor:
    """Up to five GPUs, of any QoS."""
    return Preemptor(
        name="newcomer",
        gpus=draw(st.integers(1, 5)),
        priority=draw(st.sampled_from((0, 300, 1000))),
        qos=draw(st.sampled_from(Qos)),
        gpu=draw(st.sampled_from(("", "L40S"))),
        cpus=draw(st.sampled_from((0.0, 4.0, 12.5))) if tight else 0.0,
        memory_gb=draw(st.sampled_from((0.0, 30.0))) if tight else 0.0,
    )


def _node(draw: st.DrawFn, number: int, shape: tuple[int, int, int], tight: bool) -> ClusterNode:
    sockets, numas, gpus = shape
    odd = draw(st.integers(0, 3)) == 0  # indices need not begin at 0, nor follow the NUMA nodes
    first, order = int(odd), draw(st.permutations(range(sockets * numas * gpus))) if odd else None
    count = sockets * numas * gpus
    return ClusterNode(
        name=f"node-{number}",
        gpu=draw(st.sampled_from(TYPES)) if number else "L40S",
        gpus=tuple(
            NodeGpu(index=first + k, uuid=f"{number}-{k}", numa=(order[k] if order else k) // gpus)
            for k in range(count)
        ),
        numa_nodes=tuple(NumaNode(id=k, socket=k // numas) for k in range(sockets * numas)),
        cpus=16.0 if tight else 64.0,
        memory_gb=64.0,
        asw="asw",
    )


def _pods(draw: st.DrawFn, node: ClusterNode, tight: bool) -> list[Pod]:
    free = [gpu.index for gpu in node.gpus]
    if draw(st.booleans()):
        free = draw(st.permutations(free))
    pods = []
    for number in range(MOST_PODS):
        count = draw(st.sampled_from((0, 1, 2) if tight else (1, 1, 2, 3)))
        held, free = free[:count], free[count:]
        if draw(st.integers(0, 7)) == 0:
            continue  # these stay free
        if not held and not tight:
            break
        unknown = draw(st.integers(0, 40)) == 0
        pods.append(
            Pod(
                name=f"{node.name}-{number}",
                node=node.name,
                gpus=tuple(held),
                gpu_request=len(held) + unknown,
                priority=draw(st.sampled_from((-5, 0, 100, 200, 300))),
                preemptible=draw(st.integers(0, 5)) > 0,
                locked=draw(st.integers(0, 9)) == 0,
                checkpoint_age_s=draw(st.sampled_from((None, 0.0, 60.0, 3600.0, 10_000.0))),
                age_s=draw(st.sampled_from((None, 10.0, 1000.0))),
                cpus=draw(st.sampled_from((0.0, 0.5, 2.0, 5.0))) if tight else 0.0,
                memory_gb=draw(st.sampled_from((0.0, 8.0, 20.0))) if tight else 0.0,
                disruption_budget=draw(st.sampled_from(("", "", "one", "none-left"))) if tight else "",
            )
        )
    return pods
