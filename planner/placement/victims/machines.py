"""Machines and the pods on them as arrays: the state that victims are looked for in, changed one pod at a time.

| symbol | meaning | unit |
|---|---|---|
| N, W | nodes; most GPUs of a node (at most 16) | 1 |
| position | place of a GPU among its node's, in the order of their indices | |
| lead | the lowest position that a pod holds; what a pod weighs is kept there, 0 elsewhere | |
| mCPU, MB | cores and memory as whole thousandths of a core and whole MB, so that sums are exact in any order | |
| lost | checkpoint age × GPUs, in whole GPU-milliseconds; an unknown age counts as 0 | GPU-ms |
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.domain import Cluster, Pod
from planner.domain.preemption import pod_priority, whole
from planner.errors import InputError
from planner.placement.victims.target_masks import GpuLayout, positions_of

THOUSAND = 1000
HIGHEST = 1e12
"""Beyond every figure of a pod; thousandths of it, times GPUs, still fit into 64 bits."""
MOST_GPUS = 16
"""Of a node: as many as the masks have bits."""
NOBODY = -1
NO_PRIORITY = np.iinfo(np.int64).max
"""Priority of a number that no pod has: never the lowest."""

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class HostedPod:
    """A pod on a node: `mask` of the positions that it holds, `cpus` in mCPU, `memory` in MB, `lost` in GPU-ms.

    `age_s` is infinite where nothing is known. `rank` comes before the key wherever keys settle ties. `may_go`: it is
    preemptible and not locked. `budget`: number of its disruption budget, or -1.
    """

    key: str
    node: int
    mask: int
    gpus: int
    priority: int
    cpus: int
    memory: int
    lost: int
    age_s: float
    rank: int
    may_go: bool
    budget: int


class Machines:
    """The state; `add` and `remove` change it, `copy` keeps one.

    Of nodes (N,): `names`, `gpu_types`, `layouts` (kinds) with `kind`, `known` (it is known which GPUs its pods hold),
    `free_cpus`, `all_cpus` (mCPU), `free_memory`, `all_memory` (MB), `free` (mask of free positions). Of GPUs (W, N):
    `owner` (number of a pod or -1), `lead_bit` (1 << lead of its owner; 0: free), and at leads `priority_at`,
    `gpus_at`, `cpus_at`, `memory_at`, `lost_at`, `budget_at`. Of pods, by number: `pods`, `priority`, `age_s`,
    `budget`, `may_go`.
    """

    def __init__(
        self,
        names: Sequence[str],
        gpu_types: Sequence[str],
        layouts: Sequence[GpuLayout],
        *,
        cpus: Sequence[float],
        memory_gb: Sequence[float],
        budgets: Sequence[tuple[str, int]] = (),
    ) -> None:
        self.names, self.gpu_types = tuple(names), tuple(gpu_types)
        self.layouts = tuple(dict.fromkeys(layouts))
        kinds = {layout: k for k, layout in enumerate(self.layouts)}
        self.kind: Array = np.array([kinds[layout] for layout in layouts], dtype=np.int32)
        self.width = max((len(layout.indices) for layout in self.layouts), default=0)
        if self.width > MOST_GPUS:
            raise InputError(
                f"machines: gpus: must be at most {MOST_GPUS} a node, got {self.width}.",
                hint="Victims are looked for inside one node; leave such nodes out.",
            )
        # The narrowest type that holds a node: masks of all nodes then stay in the cache.
        self.bits = np.uint8 if self.width <= 8 else np.uint16
        count = len(self.names)
        self.known: Array = np.ones(count, dtype=bool)
        self.free_cpus: Array = np.array([_thousandths(value) for value in cpus], dtype=np.int64)
        self.free_memory: Array = np.array([_thousandths(value) for value in memory_gb], dtype=np.int64)
        self.all_cpus, self.all_memory = self.free_cpus.copy(), self.free_memory.copy()
        self.free: list[int] = [(1 << len(layout.indices)) - 1 for layout in layouts]
        self.pods_on: list[list[int]] = [[] for _ in self.names]
        self.budget_names = tuple(name for name, _ in budgets)
        self.allowed: Array = np.array([allowed for _, allowed in budgets], dtype=np.int64)
        shape = (self.width, count)
        self.owner: Array = np.full(shape, NOBODY, dtype=np.int32)
        self.lead_bit: Array = np.zeros(shape, dtype=self.bits)
        self.priority_at, self.gpus_at, self.cpus_at, self.memory_at, self.lost_at = (
            np.zeros(shape, dtype=np.int64) for _ in range(5)
        )
        self.budget_at: Array = np.full(shape, NOBODY, dtype=np.int32)
        self.pods: list[HostedPod | None] = []
        self.number: dict[str, int] = {}
        self._vacant: list[int] = []
        self._groups: dict[str, tuple[tuple[GpuLayout, Array], ...]] = {}
        self._grow(max(64, count * self.width))

    @classmethod
    def of(cls, cluster: Cluster) -> "Machines":
        """The state of a sound cluster (`require_sound`); nodes and pods in its order."""
        machines = cls(
            [node.name for node in cluster.nodes],
            [node.gpu if node.gpus else "" for node in cluster.nodes],
            [GpuLayout.of(node) for node in cluster.nodes],
            cpus=[node.cpus for node in cluster.nodes],
            memory_gb=[node.memory_gb for node in cluster.nodes],
            budgets=[(budget.name, budget.allowed) for budget in cluster.disruption_budgets],
        )
        place = {name: k for k, name in enumerate(machines.names)}
        for pod in cluster.pods:
            machines.add_record(place[pod.node], pod)
        return machines

    @classmethod
    def uniform(
        cls,
        nodes: int,
        *,
        sockets: int = 2,
        numa_nodes: int = 8,
        gpus: int = 8,
        gpu: str = "",
        cpus: float = 64.0,
        memory_gb: float = 512.0,
        budgets: Sequence[tuple[str, int]] = (),
    ) -> "Machines":
        """Equal empty nodes node-0, node-1, …: GPUs in equal blocks on NUMA nodes, and those on sockets.

        Raises InputError for fewer than one socket or NUMA node, and more GPUs than a node can have here.
        """
        for key, value, fewest in (("sockets", sockets, 1), ("numa_nodes", numa_nodes, 1), ("gpus", gpus, 0)):
            if whole(value, f"machines: {key}") < fewest:
                raise InputError(f"machines: {key}: must be at least {fewest}, got {value}.", hint="Give 2, 8 and 8.")
        layout = GpuLayout.even(sockets, numa_nodes, gpus)
        names = [f"node-{k}" for k in range(nodes)]
        return cls(
            names,
            [gpu] * nodes,
            [layout] * nodes,
            cpus=[cpus] * nodes,
            memory_gb=[memory_gb] * nodes,
            budgets=budgets,
        )

    def __len__(self) -> int:
        return len(self.names)

    def add(
        self,
        node: int,
        pod_key: str,
        gpus: Iterable[int],
        *,
        priority: int,
        preemptible: bool = True,
        locked: bool = False,
        cpus: float = 0.0,
        memory_gb: float = 0.0,
        checkpoint_age_s: float | None = None,
        age_s: float | None = None,
        rank: int = 0,
        budget: str = "",
    ) -> int:
        """Put a pod on a node, on GPUs given by their indices, all free; gives its number until it is removed.

        Raises InputError for a node that is not there, a key that is taken, GPUs that are not the node's or not free,
        unknown budgets, priorities beyond 32 bits, and figures that are negative or none.
        """
        self._require_node(node, pod_key)
        _require_numbers(pod_key, cpus=cpus, memory_gb=memory_gb, checkpoint_age_s=checkpoint_age_s, age_s=age_s)
        mask = self._mask(node, pod_key, tuple(gpus))
        count = mask.bit_count()
        record = HostedPod(
            key=pod_key,
            node=node,
            mask=mask,
            gpus=count,
            priority=pod_priority(priority, f"pod {pod_key}"),
            cpus=_thousandths(cpus),
            memory=_thousandths(memory_gb),
            lost=_thousandths(checkpoint_age_s or 0.0) * count,
            age_s=math.inf if age_s is None else age_s,
            rank=rank,
            may_go=preemptible and not locked,
            budget=self._budget(pod_key, budget),
        )
        return self._enter(record)

    def add_record(self, node: int, pod: Pod) -> int:
        """Put a pod of a cluster on a node, as `add` does; one that does not say which GPUs closes it."""
        self._require_node(node, pod.key)
        self.known[node] &= pod.gpus_known
        # A node that this closes must drop out of its group.
        self._groups.clear()
        return self.add(
            node,
            pod.key,
            pod.gpus,
            priority=pod.priority,
            preemptible=pod.preemptible and pod.gpus_known,
            locked=pod.locked,
            cpus=pod.cpu_count,
            memory_gb=pod.memory_gb,
            checkpoint_age_s=pod.checkpoint_age_s,
            age_s=pod.age_s,
            budget=pod.disruption_budget,
        )

    def remove(self, pod: int, *, evicted: bool = False) -> None:
        """Take a pod off its node; an eviction uses up one of its disruption budget."""
        record = self.pod(pod)
        node = record.node
        self.free[node] |= record.mask
        self.free_cpus[node] += record.cpus
        self.free_memory[node] += record.memory
        self.pods_on[node].remove(pod)
        if record.mask:
            positions = list(positions_of(record.mask))
            self.owner[positions, node] = NOBODY
            self.lead_bit[positions, node] = 0
            for at in (self.priority_at, self.gpus_at, self.cpus_at, self.memory_at, self.lost_at):
                at[positions[0], node] = 0
            self.budget_at[positions[0], node] = NOBODY
        self.may_go[pod], self.priority[pod] = False, NO_PRIORITY
        if evicted and record.budget != NOBODY:
            self.allowed[record.budget] -= 1
        del self.number[record.key]
        self.pods[pod] = None
        self._vacant.append(pod)

    def copy(self) -> "Machines":
        """The same state, to try things on; numbers stay."""
        twin = object.__new__(Machines)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                value = value.copy()  # noqa: PLW2901 - each kind of field has its own way of being copied
            elif name == "pods_on":
                value = [list(pods) for pods in value]  # noqa: PLW2901
            elif isinstance(value, list | dict):
                value = value.copy()  # noqa: PLW2901
            setattr(twin, name, value)
        return twin

    def pod(self, number: int) -> HostedPod:
        """The pod of a number."""
        record = self.pods[number]
        if record is None:
            raise KeyError(number)
        return record

    def indices_of(self, node: int, mask: int) -> tuple[int, ...]:
        """Indices of a node's GPUs at the positions of a mask."""
        indices = self.layout_of(node).indices
        return tuple(indices[k] for k in positions_of(mask))

    def layout_of(self, node: int) -> GpuLayout:
        """How a node's GPUs lie."""
        return self.layouts[int(self.kind[node])]

    def free_gpus(self, node: int) -> tuple[int, ...]:
        """Indices of a node's GPUs that no pod holds."""
        return self.indices_of(node, self.free[node])

    @property
    def idle_gpus(self) -> int:
        """GPUs that no pod holds."""
        return sum(mask.bit_count() for mask in self.free)

    @property
    def shift(self) -> int:
        """What is added to every priority so that the lowest counts as 1; 0 where all are at least 1."""
        lowest = int(self.priority.min())
        return max(0, 1 - lowest)

    def groups(self, gpu: str) -> tuple[tuple[GpuLayout, Array], ...]:
        """The nodes with GPUs of a type ("": of any), by kind, that pods can be looked for on; numbers ascending."""
        if gpu not in self._groups:
            suited = self.known & np.array([gpu in ("", gpu_type) for gpu_type in self.gpu_types], dtype=bool)
            groups = ((layout, np.flatnonzero(suited & (self.kind == k))) for k, layout in enumerate(self.layouts))
            self._groups[gpu] = tuple((layout, nodes) for layout, nodes in groups if len(nodes) and layout.indices)
        return self._groups[gpu]

    def _require_node(self, node: int, pod_key: str) -> None:
        if not 0 <= whole(node, f"pod {pod_key}: node") < len(self.names):
            raise InputError(
                f"pod {pod_key}: node: must be the number of one of the {len(self.names)} nodes, from 0, got {node}.",
                hint="Nodes are numbered as they were given.",
            )

    def _mask(self, node: int, pod_key: str, gpus: tuple[int, ...]) -> int:
        indices = self.layout_of(node).indices
        mask = sum(1 << indices.index(gpu) for gpu in set(gpus) if gpu in indices)
        if mask.bit_count() != len(gpus) or mask & ~self.free[node]:
            raise InputError(
                f"pod {pod_key}: gpus: must be different free GPUs of {self.names[node]}, got {list(gpus)}; "
                f"free are {list(self.free_gpus(node))}.",
                hint="A GPU has one pod; remove the one that holds it first.",
            )
        if pod_key in self.number:
            raise InputError(
                f"pod {pod_key}: name: must be there once, and {self.names[self.pod(self.number[pod_key]).node]} "
                "has one of that name.",
                hint="Name pods namespace/name.",
            )
        return mask

    def _budget(self, pod_key: str, name: str) -> int:
        if not name:
            return NOBODY
        if name not in self.budget_names:
            raise InputError(
                f"pod {pod_key}: disruption_budget: must be one of the cluster's, got {name!r}.",
                hint="List it under disruption_budgets, with how many of its pods may be evicted.",
            )
        return self.budget_names.index(name)

    def _enter(self, record: HostedPod) -> int:
        if not self._vacant:
            # Doubled, so that arrays are seldom copied.
            self._grow(2 * len(self.pods))
        pod, node = self._vacant.pop(), record.node
        self.pods[pod], self.number[record.key] = record, pod
        self.free[node] &= ~record.mask
        self.free_cpus[node] -= record.cpus
        self.free_memory[node] -= record.memory
        self.pods_on[node].append(pod)
        self.priority[pod], self.may_go[pod] = record.priority, record.may_go
        self.age_s[pod], self.budget[pod] = record.age_s, record.budget
        if record.mask:
            positions = list(positions_of(record.mask))
            lead = positions[0]
            self.owner[positions, node] = pod
            self.lead_bit[positions, node] = 1 << lead
            self.priority_at[lead, node], self.gpus_at[lead, node] = record.priority, record.gpus
            self.cpus_at[lead, node], self.memory_at[lead, node] = record.cpus, record.memory
            self.lost_at[lead, node], self.budget_at[lead, node] = record.lost, record.budget
        return pod

    def _grow(self, size: int) -> None:
        old = len(self.pods)
        self.pods += [None] * (size - old)
        # From the end, as they are popped: numbers are given out rising.
        self._vacant += range(size - 1, old - 1, -1)
        if not old:
            self.priority: Array = np.full(size, NO_PRIORITY, dtype=np.int64)
            self.age_s: Array = np.full(size, math.inf)
            self.budget: Array = np.full(size, NOBODY, dtype=np.int32)
            self.may_go: Array = np.zeros(size, dtype=bool)
            return
        more = size - old
        self.priority = np.append(self.priority, np.full(more, NO_PRIORITY, dtype=np.int64))
        self.age_s = np.append(self.age_s, np.full(more, math.inf))
        self.budget = np.append(self.budget, np.full(more, NOBODY, dtype=np.int32))
        self.may_go = np.append(self.may_go, np.zeros(more, dtype=bool))


def _require_numbers(pod_key: str, **figures: float | None) -> None:
    for key, value in figures.items():
        if value is not None and not 0.0 <= value <= HIGHEST:
            raise InputError(
                f"pod {pod_key}: {key}: must be at least 0 and at most {HIGHEST:g}, got {value:g}.",
                hint="Correct the pod.",
            )


def _thousandths(value: float) -> int:
    return round(value * THOUSAND)
