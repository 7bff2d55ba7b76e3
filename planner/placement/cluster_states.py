"""A cluster as the online policies see it: what its pods leave of every node."""

from planner.domain import WHOLE_GPU, Cluster, TraceNode, TracePod
from planner.placement.node_states import NodeState

MILLI = 1000
MIB_PER_GB = 1e9 / 2**20


def states_of(cluster: Cluster) -> list[NodeState]:
    """Nodes of a sound cluster with what is left of them; a pod whose GPUs are not known holds the first idle ones."""
    states = {}
    places = {}
    for node in cluster.nodes:
        places[node.name] = {gpu.index: k for k, gpu in enumerate(node.gpus)}
        states[node.name] = NodeState.empty(
            TraceNode(
                name=node.name,
                cpu_milli=round(node.cpus * MILLI),
                memory_mib=round(node.memory_gb * MIB_PER_GB),
                gpus=len(node.gpus),
                gpu_model=node.gpu,
            )
        )
    # Pods that name their GPUs first: the others then hold what is really idle.
    for pod in sorted(cluster.pods, key=lambda pod: not pod.gpus_known):
        state = states[pod.node]
        pod_gpus = [places[pod.node][index] for index in pod.gpus]
        idle = [k for k, milli in enumerate(state.gpu_left) if milli == WHOLE_GPU and k not in pod_gpus]
        state.take(
            TracePod(
                name=pod.key,
                cpu_milli=round(pod.cpu_count * MILLI),
                memory_mib=round(pod.memory_gb * MIB_PER_GB),
                gpus=pod.gpu_count,
                gpu_milli=WHOLE_GPU if pod.gpu_count else 0,
            ),
            (*pod_gpus, *idle[: pod.gpu_count - len(pod_gpus)]),
        )
    return list(states.values())
