"""Nodes while pods come and go, and classes of pods as columns, so that one node is judged for all classes at once.

`states_of` has the nodes of a cluster like that: what its pods leave of each.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from planner.domain import WHOLE_GPU, Cluster, TraceNode, TracePod, allows

MOST_PODS = 1001

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(slots=True)
class NodeState:
    """What is left of a node. `hosted`: pods with GPUs on it, by kind (`pod_kind`)."""

    node: TraceNode
    cpu_left: int
    memory_left: int
    gpu_left: list[int]
    pods: int = 0
    hosted: Counter[int] = field(default_factory=Counter)

    @classmethod
    def empty(cls, node: TraceNode) -> "NodeState":
        """The node before any pod has come."""
        return cls(node, node.cpu_milli, node.memory_mib, [WHOLE_GPU] * node.gpus)

    def take(self, pod: TracePod, gpus: Sequence[int]) -> None:
        """Give the pod its CPUs, memory and these GPUs."""
        self._change(pod, gpus, 1)

    def give_back(self, pod: TracePod, gpus: Sequence[int]) -> None:
        """Undo one `take`."""
        self._change(pod, gpus, -1)

    def _change(self, pod: TracePod, gpus: Sequence[int], sign: int) -> None:
        self.cpu_left -= sign * pod.cpu_milli
        self.memory_left -= sign * pod.memory_mib
        self.pods += sign
        for gpu in gpus:
            self.gpu_left[gpu] -= sign * pod.gpu_milli
        if gpus:
            kind = pod_kind(pod)
            self.hosted[kind] += sign
            # A kind with none left would still count as present.
            if not self.hosted[kind]:
                del self.hosted[kind]


def pod_kind(pod: TracePod) -> int:
    """What GpuClustering tells pods with GPUs apart by: the number of GPUs, 0 for a part of one."""
    return 0 if pod.shares_gpu else pod.gpus


ClassKey = tuple[int, int, int, int, str]


def class_key(pod: TracePod) -> ClassKey:
    """Pods with the same key are alike to every policy."""
    return (pod.cpu_milli, pod.memory_mib, pod.gpus, pod.gpu_milli, pod.gpu_spec)


@dataclass(frozen=True)
class PodClasses:
    """Classes of pods by number: what each asks for, as arrays of one length."""

    pods: tuple[TracePod, ...]
    number: dict[ClassKey, int]
    cpu: Integers
    memory: Integers
    gpus: Integers
    gpu_milli: Integers
    total_gpu: Integers
    shares: Booleans
    kinds: Integers
    specs: tuple[str, ...]
    spec_of: Integers

    @classmethod
    def of(cls, pods: Sequence[TracePod]) -> "PodClasses":
        """The distinct classes among these pods, in order of first appearance."""
        first: dict[ClassKey, TracePod] = {}
        for pod in pods:
            first.setdefault(class_key(pod), pod)
        examples = tuple(first.values())
        specs = sorted({pod.gpu_spec for pod in examples})

        def column(values: Sequence[int]) -> Integers:
            return np.array(values, dtype=np.int64)

        return cls(
            pods=examples,
            number={key: k for k, key in enumerate(first)},
            cpu=column([pod.cpu_milli for pod in examples]),
            memory=column([pod.memory_mib for pod in examples]),
            gpus=column([pod.gpus for pod in examples]),
            gpu_milli=column([pod.gpu_milli if pod.gpus else 0 for pod in examples]),
            total_gpu=column([pod.total_gpu_milli for pod in examples]),
            shares=np.array([pod.shares_gpu for pod in examples], dtype=np.bool_),
            kinds=column([pod_kind(pod) if pod.gpus else -1 for pod in examples]),
            specs=tuple(specs),
            spec_of=column([specs.index(pod.gpu_spec) for pod in examples]),
        )

    def __len__(self) -> int:
        return len(self.pods)

    def alone(self, number: int) -> "PodClasses":
        """One class by itself."""
        return PodClasses.of([self.pods[number]])

    def allowed(self, gpu_model: str) -> Booleans:
        """Classes that may lie on nodes of this GPU model."""
        return np.array([allows(spec, gpu_model) for spec in self.specs], dtype=np.bool_)[self.spec_of]

    def fitting(self, state: NodeState, allowed: Booleans) -> Booleans:
        """Classes that the node has room for; `allowed` as of its GPU model."""
        if state.pods >= MOST_PODS:
            return np.zeros(len(self), dtype=np.bool_)
        milli = np.array(sorted(state.gpu_left), dtype=np.int64)
        # Sorted once, so that every class is one search.
        enough = len(milli) - milli.searchsorted(self.gpu_milli) >= self.gpus
        fits = (self.cpu <= state.cpu_left) & (self.memory <= state.memory_left) & enough
        room: Booleans = fits & (allowed | (self.gpus == 0))  # a pod without GPUs is not particular about models
        return room


def fitting_gpus(gpu_left: Sequence[int], gpu_milli: int) -> list[int]:
    """Indices of the GPUs with so much left."""
    return [index for index, milli in enumerate(gpu_left) if milli >= gpu_milli]


def best_fit(gpu_left: Sequence[int], pod: TracePod) -> tuple[int, ...]:
    """For a part of a GPU the fullest that fits, the first of alike ones; whole GPUs: the first idle ones."""
    fitting = fitting_gpus(gpu_left, pod.gpu_milli)
    if pod.shares_gpu:
        return (min(fitting, key=lambda index: gpu_left[index]),)
    return tuple(fitting[: pod.gpus])


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
