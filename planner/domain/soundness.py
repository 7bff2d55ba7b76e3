"""What must hold in a cluster before anything is placed on it."""

from collections import Counter
from collections.abc import Iterable

from planner.domain.cluster import MOST_GPUS_OF_A_NODE, Cluster, ClusterNode, Pod
from planner.errors import InputError

ROUNDING = 1e-6


def require_sound(cluster: Cluster, origin: str) -> None:
    """Raises InputError that names the first object and field that contradict another; `origin` is where it came from.

    Names are unique; NUMA nodes, GPUs, cores and disruption budgets exist; no GPU and no core is held by two pods; no
    node gives away more than it has, no budget allows less than nothing.
    """
    for name, count in Counter(node.name for node in cluster.nodes).items():
        if count > 1:
            raise _fault(origin, f"node {name}", "must be listed once", f"{count} times", "Remove the others.")
    for node in cluster.nodes:
        _require_hardware(node, origin)
    _require_pods(cluster, origin)
    _require_budgets(cluster, origin)


def _fault(origin: str, what: str, rule: str, came: str, hint: str) -> InputError:
    return InputError(f"{origin}: {what} {rule}; came {came}.", hint=hint)


def _require_hardware(node: ClusterNode, origin: str) -> None:
    where = f"node {node.name}:"
    if len(node.gpus) > MOST_GPUS_OF_A_NODE:
        raise _fault(
            origin,
            f"{where} gpus",
            f"must be at most {MOST_GPUS_OF_A_NODE}",
            f"{len(node.gpus)}",
            "Describe each operating system as a node of its own.",
        )
    if node.gpus and not node.gpu:
        raise _fault(origin, f"{where} gpu", "must name the type of its GPUs", "nothing", "Add the type.")
    _require_once((numa.id for numa in node.numa_nodes), f"{where} numa_nodes", origin)
    _require_once((core for numa in node.numa_nodes for core in numa.cores), f"{where} cores", origin)
    _require_once((gpu.index for gpu in node.gpus), f"{where} gpus", origin)
    _require_once((gpu.uuid for gpu in node.gpus), f"{where} GPU uuids", origin)
    known = {numa.id for numa in node.numa_nodes}
    for what, numa in [(f"GPU {gpu.index}", gpu.numa) for gpu in node.gpus] + [
        (f"NIC {nic.name}", nic.numa) for nic in node.nics
    ]:
        if numa not in known:
            raise _fault(
                origin,
                f"{where} {what}: numa",
                f"must be one of its NUMA nodes ({', '.join(map(str, sorted(known))) or 'it has none'})",
                str(numa),
                "Correct the id, or add the NUMA node.",
            )


def _require_once(values: Iterable[object], what: str, origin: str) -> None:
    twice = [value for value, count in Counter(values).items() if count > 1]
    if twice:
        raise _fault(origin, what, "must each be listed once", f"{twice[0]} more than once", "Remove the others.")


def _require_pods(cluster: Cluster, origin: str) -> None:
    nodes = {node.name: node for node in cluster.nodes}
    _require_once((pod.key for pod in cluster.pods), "pods", origin)
    gpus: dict[tuple[str, int], Pod] = {}
    cores: dict[tuple[str, int], Pod] = {}
    by_node: dict[str, list[Pod]] = {}
    for pod in cluster.pods:
        node = nodes.get(pod.node)
        if node is None:
            raise _fault(
                origin, f"pod {pod.key}: node", "must be a node of the cluster", repr(pod.node), "Add the node."
            )
        by_node.setdefault(pod.node, []).append(pod)
        _require_held(pod, node, "gpus", pod.gpus, {gpu.index for gpu in node.gpus}, gpus, origin)
        if pod.cores:
            _require_held(pod, node, "cores", pod.cores, {c for n in node.numa_nodes for c in n.cores}, cores, origin)
    for name, held in by_node.items():
        _require_within(nodes[name], held, origin)


def _require_budgets(cluster: Cluster, origin: str) -> None:
    _require_once((budget.name for budget in cluster.disruption_budgets), "disruption_budgets", origin)
    for budget in cluster.disruption_budgets:
        if budget.allowed < 0:
            raise _fault(
                origin,
                f"disruption budget {budget.name}: allowed",
                "must be at least 0",
                f"{budget.allowed}",
                "Write 0 where nobody may go.",
            )
    known = {budget.name for budget in cluster.disruption_budgets}
    for pod in cluster.pods:
        if pod.disruption_budget and pod.disruption_budget not in known:
            raise _fault(
                origin,
                f"pod {pod.key}: disruption_budget",
                "must be one of the cluster's disruption_budgets",
                repr(pod.disruption_budget),
                "Correct the name, or add the budget.",
            )


def _require_held(
    pod: Pod,
    node: ClusterNode,
    key: str,
    held: tuple[int, ...],
    there: set[int],
    owners: dict[tuple[str, int], Pod],
    origin: str,
) -> None:
    for item in held:
        if item not in there:
            raise _fault(
                origin, f"pod {pod.key}: {key}", f"must exist on node {node.name}", str(item), "Correct the index."
            )
        other = owners.setdefault((node.name, item), pod)
        if other is not pod:
            raise _fault(
                origin,
                f"pod {pod.key}: {key}",
                "must be held by one pod alone",
                f"{item} of node {node.name}, which pod {other.key} holds, too",
                "Correct one of the two pods.",
            )
    if len(set(held)) < len(held):
        raise _fault(origin, f"pod {pod.key}: {key}", "must each be listed once", str(list(held)), "Remove the others.")


def _require_within(node: ClusterNode, pods: list[Pod], origin: str) -> None:
    """GPUs and CPUs of a node cover what its pods ask for."""
    asked = sum(pod.gpu_count for pod in pods)
    if asked > len(node.gpus):
        raise _fault(
            origin,
            f"node {node.name}: GPUs used",
            f"must be at most the {len(node.gpus)} that it has",
            f"{asked}, by {', '.join(pod.key for pod in pods if pod.gpu_count)[:200]}",
            "Correct the pods' GPUs, or the node's.",
        )
    for what, used, had in (
        ("cpus", sum(max(pod.cpus, len(pod.cores)) for pod in pods), node.cpus),
        ("memory_gb", sum(pod.memory_gb for pod in pods), node.memory_gb),
    ):
        if used > had * (1 + ROUNDING) + ROUNDING:
            raise _fault(
                origin,
                f"node {node.name}: {what} requested or pinned",
                f"must be at most the {had:g} that it has",
                f"{used:g}",
                "Correct the pods' requests, or the node's.",
            )
