"""Which nodes and GPUs of a cluster an island may use: the placer asks this, and so does who counts an inventory."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from planner.domain.cluster import Cluster, ClusterNode, Pod, Taint
from planner.domain.layout import PHASES, Phase
from planner.domain.node_room import Ask, Left, left_on, parts_held
from planner.domain.placement import PlacementSettings
from planner.domain.shapes import GroupKind, Shape

REPELLING = ("NoSchedule", "NoExecute")
DEVICE_TAINTS = tuple(Taint(key=key) for key in ("nvidia.com/gpu", "amd.com/gpu"))
"""What providers put on nodes with GPUs: every manifest of ours tolerates it, whatever its value."""

CORDONED = "node.kubernetes.io/unschedulable"
FAULTS = {
    CORDONED: ("are cordoned", "uncordon them (kubectl uncordon)"),
    "node.kubernetes.io/unreachable": ("are unreachable", "bring them back"),
    "node.kubernetes.io/not-ready": ("are not ready", "bring them back"),
    "planner/unhealthy-gpus": ("have GPUs that are not healthy", "mend them"),
}
"""Taints that tell of a fault, which no toleration mends: what is said of nodes with them, and what helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Idle GPUs of some nodes that no island may use: why, and what would help ("": nothing known)."""

    gpu: str
    gpus: int
    nodes: int
    why: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """All of it in words."""
        nodes = f"{self.nodes:,} node{'' if self.nodes == 1 else 's'}"
        gpus = f"{self.gpus:,} idle {self.gpu} GPU{'' if self.gpus == 1 else 's'}"
        return f"{gpus} on {nodes}: {self.why}" + (f"; {self.remedy}" if self.remedy else "")


def gpus_known(pods: Iterable[Pod]) -> bool:
    """Whether it is known which GPUs of their node these pods hold."""
    return all(pod.gpus_known for pod in pods)


def untolerated(node: ClusterNode, tolerations: Sequence[Taint]) -> tuple[Taint, ...]:
    """Taints that keep a pod with these tolerations off; a toleration without a key or value takes them all. Those that
    only say that there are GPUs keep none of our pods off.
    """
    return tuple(
        taint
        for taint in node.taints
        if taint.effect in REPELLING
        and not any(
            allowed.key in ("", taint.key)
            and allowed.value in ("", taint.value)
            and allowed.effect in ("", taint.effect)
            for allowed in (*DEVICE_TAINTS, *tolerations)
        )
    )


def fault_of(node: ClusterNode) -> tuple[str, str] | None:
    """What keeps every new pod off a node, as the planner sees it (cordoned, not ready, ...), and what would help; None
    where nothing does. Its idle GPUs are nobody's."""
    return next((FAULTS[taint.key] for taint in node.taints if taint.key in FAULTS), None)


def may_lie_on(node: ClusterNode, *, all_known: bool, kind: GroupKind, tolerations: Sequence[Taint]) -> bool:
    """Whether islands may lie on a node at all, however full it is; `all_known`: `gpus_known` of its pods. Where it is
    not known which GPUs are free, only groups may that need not be aligned (`GroupKind.aligns`).
    """
    return bool(node.gpus) and (all_known or not kind.aligns) and not untolerated(node, tolerations)


def usable_gpus(node: ClusterNode, pods: Sequence[Pod], settings: PlacementSettings) -> int:
    """The most idle GPUs of a node that groups of one size, of either phase, may hold beside these pods."""
    if not node.gpus or untolerated(node, settings.tolerations):
        return 0
    shape = Shape.of(node)
    return _most_usable(shape, left_on(node, shape, pods), len(node.gpus), settings)


@lru_cache(maxsize=2**14)
def _most_usable(shape: Shape, free: Left, gpus: int, settings: PlacementSettings) -> int:
    """The same of what is free; many nodes are alike."""
    asks = (_ask(settings, phase, tp) for phase in PHASES for tp in range(1, gpus + 1))
    return max(_most_gpus(free, shape, ask) for ask in asks)


def _ask(settings: PlacementSettings, phase: Phase, tp: int) -> Ask:
    kind = GroupKind(tp, settings.cpus_per_gpu, settings.qos(phase))
    return Ask("", (), kind, settings.memory_gb_per_gpu)


def _most_gpus(free: Left, shape: Shape, ask: Ask) -> int:
    return free.room(shape, ask) * ask.kind.tp


def usable_by_type(cluster: Cluster, settings: PlacementSettings) -> tuple[dict[str, int], tuple[LeftOut, ...]]:
    """Idle GPUs of each type that islands may use (types without any are left out), and those that none may."""
    usable: Counter[str] = Counter()
    barred: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for node, pods in _nodes(cluster):
        idle, able = len(node.gpus) - sum(pod.gpu_count for pod in pods), usable_gpus(node, pods, settings)
        usable[node.gpu] += able
        if idle > able:
            barred[node.gpu, *_why(node, pods, settings)].append(idle - able)
    left_out = (
        LeftOut(gpu=gpu, gpus=sum(counts), nodes=len(counts), why=why, remedy=remedy)
        for (gpu, why, remedy), counts in sorted(barred.items())
    )
    return {gpu: count for gpu, count in sorted(usable.items()) if count}, tuple(left_out)


def usable_by_node(cluster: Cluster, settings: PlacementSettings) -> dict[str, int]:
    """The idle GPUs of each node with GPUs that islands may use."""
    return {node.name: usable_gpus(node, pods, settings) for node, pods in _nodes(cluster)}


def left_out_of(cluster: Cluster, settings: PlacementSettings, inventory: Iterable[str]) -> tuple[str, ...]:
    """What of a cluster's idle GPUs a plan with these GPU types does not use, and why, in words."""
    usable, barred = usable_by_type(cluster, settings)
    types = set(inventory)
    strange = tuple(
        f"{count:,} idle {gpu} GPUs: not in the inventory (types without a GPU spec never are)"
        for gpu, count in usable.items()
        if gpu not in types
    )
    return (*(part.text for part in barred), *strange)


def preemptible_by_type(cluster: Cluster, settings: PlacementSettings) -> dict[str, int]:
    """GPUs of each type that pods hold which may be evicted for the islands, limits aside."""
    counts: Counter[str] = Counter()
    for node, pods in _nodes(cluster):
        if not untolerated(node, settings.tolerations) and gpus_known(pods) and not parts_held(node, pods):
            going = [pod for pod in pods if pod.preemptible and not pod.locked and pod.priority < settings.priority]
            counts[node.gpu] += sum(pod.gpu_count for pod in going)
    return {gpu: count for gpu, count in sorted(counts.items()) if count}


def _nodes(cluster: Cluster) -> Iterator[tuple[ClusterNode, Sequence[Pod]]]:
    pods: Mapping[str, list[Pod]] = defaultdict(list)
    for pod in cluster.pods:
        pods[pod.node].append(pod)
    return ((node, pods[node.name]) for node in cluster.nodes if node.gpus)


def _why(node: ClusterNode, pods: Sequence[Pod], settings: PlacementSettings) -> tuple[str, str]:
    """Why idle GPUs of a node may not be used, and what would help."""
    taints, fault = untolerated(node, settings.tolerations), fault_of(node)
    if taints and fault:
        return fault
    if taints:
        shown = ", ".join(f"{taint.key}{'=' * bool(taint.value)}{taint.value}:{taint.effect}" for taint in taints)
        rows = ", ".join(toleration(taint) for taint in taints)
        return f"taint {shown} is not tolerated", f"placement.tolerations: [{rows}] would open them"
    if (not gpus_known(pods) or parts_held(node, pods)) and any(settings.qos(phase).binds for phase in PHASES):
        return "it is not known which GPUs their pods hold, and placement.qos has to know", (
            "placement.qos best_effort would open them, or an import with --devices"
        )
    needs = f"{settings.cpus_per_gpu} cores" + (
        f" and {settings.memory_gb_per_gpu:g} GB" if settings.memory_gb_per_gpu else ""
    )
    return (
        f"too little else is free there: each GPU takes {needs} along (placement.cpus_per_gpu, memory_gb_per_gpu, qos)",
        "",
    )


def toleration(taint: Taint) -> str:
    """A taint as a row of placement.tolerations."""
    value = f"value: {taint.value}, " if taint.value else ""
    return f"{{key: {taint.key}, {value}effect: {taint.effect}}}"
