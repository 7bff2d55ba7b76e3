"""Which GPUs and cores pods hold, from what FlexTopo objects and the user say about them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.domain import ClusterNode, Pod
from planner.domain.node_report import NodeReport
from planner.errors import InputError

Notes = list[tuple[str, str]]
UNKNOWN_GPUS = (
    "nobody says which GPUs its pods hold: its free GPUs count by number, for islands of placement.qos best_effort or "
    "none (give --devices to use them for others)"
)
UNPINNED = "is taken as not pinned, as the cores that it reports are all of its node's, or others' too"
ENDED = "claims hardware in FlexTopo, but is over: it holds nothing"
GONE = "claims cores in FlexTopo, but is not in the list of pods: left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a pod claims of its node, as a source says."""

    gpus: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()


def claims_of(report: NodeReport, node: ClusterNode, notes: Notes) -> dict[str, Claims]:
    """Claims by the pod's name as the source writes it. Cores of pods that float are not claimed.

    The agent writes down the cores that a process may run on, the last pod over the others. Kubernetes never pins all
    cores of a node (some stay for the system): where the agent leaves none free, the pod with the most floats. In
    either dialect a pod on all cores floats, and a core with two users is nobody's own.
    """
    all_cores = {core for numa in node.numa_nodes for core in numa.cores}
    floating = {user for _, users in report.core_users if len(users) > 1 for user in users}
    core_counts = Counter(users[0] for core, users in report.core_users if len(users) == 1)
    if core_counts and len(report.core_users) >= len(all_cores):
        largest = max(core_counts.values())
        floating |= {
            user for user, n in core_counts.items() if n >= len(all_cores) or (report.last_user_only and n == largest)
        }
    users = {gpu.used_by for gpu in report.gpus if gpu.used_by} | set(core_counts) | floating
    notes.extend((f"pod {user} on {node.name}", UNPINNED) for user in sorted(floating))
    return {
        user: Claims(
            gpus=tuple(gpu.index for gpu in report.gpus if gpu.used_by == user),
            cores=()
            if user in floating
            else tuple(core for core, by in report.core_users if by == (user,) and core in all_cores),
        )
        for user in sorted(users)
    }


def pods_of_claims(node: str, claims: Mapping[str, Claims]) -> list[Pod]:
    """Pods where FlexTopo is the only source of them; all else about them is unknown."""
    return [
        Pod(
            name=user.rpartition("/")[2],
            namespace=user.rpartition("/")[0] or "default",
            node=node,
            gpus=claim.gpus,
            gpu_request=len(claim.gpus),
            cores=claim.cores,
            cpus=float(len(claim.cores)),
        )
        for user, claim in claims.items()
    ]


def with_claims(
    pods: Sequence[Pod], claims: Mapping[str, Claims], ended: Iterable[str], origin: str, notes: Notes
) -> list[Pod]:
    """The listed pods of one node with what FlexTopo says they hold."""
    over = set(ended)
    claim_of: dict[str, Claims] = {}
    for user, claim in claims.items():
        names = [pod.key for pod in pods if user in (pod.key, pod.name)]
        if len(names) > 1:
            raise _fault(origin, f"usedBy {user}", "name one pod", " and ".join(names))
        if names:
            claim_of[names[0]] = claim
        elif any(user in (key, key.partition("/")[2]) for key in over):
            notes.append((f"pod {user}", ENDED))
        # A GPU held by nobody would count as idle; cores are only left out.
        elif claim.gpus:
            raise _fault(origin, f"usedBy of gpu-{claim.gpus[0]}", "be a pod of the list of pods on this node", user)
        else:
            notes.append((f"pod {user}", GONE))
    return [_claimed(pod, claim_of[pod.key], origin, notes) if pod.key in claim_of else pod for pod in pods]


def _fault(origin: str, subject: str, rule: str, value: str) -> InputError:
    return InputError(f"{origin}: {subject} must {rule}, got {value}.", hint="Take both sources at the same time.")


def _claimed(pod: Pod, claim: Claims, origin: str, notes: Notes) -> Pod:
    """A pod is pinned to as many cores as it asks for; who reports more floats."""
    if pod.gpu_request and len(claim.gpus) > pod.gpu_request:
        raise _fault(
            origin, f"GPUs used by pod {pod.key}", f"be at most the {pod.gpu_request} of its request", str(claim.gpus)
        )
    cores = claim.cores
    if len(cores) > pod.cpus:
        notes.append((f"pod {pod.key}", UNPINNED))
        cores = ()
    return replace(pod, gpus=claim.gpus, gpu_request=max(pod.gpu_request, len(claim.gpus)), cores=cores)


def with_devices(
    pods: Sequence[Pod], devices: Mapping[str, tuple[int | str, ...]], nodes: Mapping[str, ClusterNode], file: str
) -> list[Pod]:
    """The pods with the GPUs that the user's file gives them, by index or UUID."""
    pod_keys = {pod.key for pod in pods}
    for key in devices:
        if key not in pod_keys:
            raise InputError(f"{file}: {key} must be a running pod; no source lists it.", hint="Remove the line.")
    return [_with_device(pod, devices[pod.key], nodes, file) if pod.key in devices else pod for pod in pods]


def _with_device(pod: Pod, devices: tuple[int | str, ...], nodes: Mapping[str, ClusterNode], file: str) -> Pod:
    node = nodes.get(pod.node)
    if node is None:
        return pod  # told with every other pod on an unknown node
    by_uuid = {gpu.uuid: gpu.index for gpu in node.gpus}
    indices = {gpu.index for gpu in node.gpus}
    for device in devices:
        if device not in (indices if isinstance(device, int) else by_uuid):
            raise InputError(
                f"{file}: {pod.key}: must list GPUs of node {node.name}, got {device!r}.",
                hint=f"Its GPUs are {', '.join(f'{gpu.index} ({gpu.uuid})' for gpu in node.gpus) or 'none'}.",
            )
    gpus = tuple(sorted({device if isinstance(device, int) else by_uuid[device] for device in devices}))
    if pod.gpu_request and len(gpus) != pod.gpu_request:
        raise InputError(
            f"{file}: {pod.key}: must list the {pod.gpu_request} GPUs that the pod asks for; it lists {len(gpus)}.",
            hint="Correct the list.",
        )
    if not set(pod.gpus) <= set(gpus):
        raise InputError(
            f"{file}: {pod.key}: GPUs must agree with the FlexTopo object of {node.name}, "
            f"got {list(gpus)} and {list(pod.gpus)}.",
            hint="Take both sources at the same time.",
        )
    return replace(pod, gpus=gpus, gpu_request=len(gpus))


def with_deduced(pods: Sequence[Pod], nodes: Mapping[str, ClusterNode], notes: Notes) -> list[Pod]:
    """GPUs that only one pod can hold: where one pod of a node is left, and as many GPUs as it asks for."""
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.gpu_count:
            by_node.setdefault(pod.node, []).append(pod)
    deduced: dict[str, tuple[int, ...]] = {}
    for name, node_pods in by_node.items():
        unknown = [pod for pod in node_pods if not pod.gpus_known]
        if not unknown or name not in nodes:
            continue
        used_gpus = {gpu for pod in node_pods for gpu in pod.gpus}
        free = [gpu.index for gpu in nodes[name].gpus if gpu.index not in used_gpus]
        # With two such pods any split of what is left is possible.
        if len(unknown) == 1 and len(free) == unknown[0].gpu_count - len(unknown[0].gpus):
            deduced[unknown[0].key] = tuple(sorted([*unknown[0].gpus, *free]))
        else:
            notes.append((f"node {name}", UNKNOWN_GPUS))
    return [replace(pod, gpus=deduced[pod.key]) if pod.key in deduced else pod for pod in pods]
