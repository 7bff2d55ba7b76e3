"""The reference's policies once more, slowly and one node at a time, straight from the facts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.domain import TraceNode, TracePod, TypicalPod, allows

WATTS = {"T4": (10, 70), "P100": (25, 250), "V100M16": (30, 300), "G2": (30, 150), "G3": (50, 400)}


@dataclass
class Node:
    node: TraceNode
    cpu: int
    memory: int
    gpus: list[int]
    tags: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, node: TraceNode) -> "Node":
        return cls(node, node.cpu_milli, node.memory_mib, [1000] * node.gpus)

    def fits(self, pod: TracePod) -> bool:
        if self.cpu < pod.cpu_milli or self.memory < pod.memory_mib:
            return False
        if not pod.gpus:
            return True
        return allows(pod.gpu_spec, self.node.gpu_model) and len(self.fitting(pod)) >= pod.gpus

    def fitting(self, pod: TracePod) -> list[int]:
        return [k for k, left in enumerate(self.gpus) if left >= pod.gpu_milli]

    def options(self, pod: TracePod) -> list[tuple[int, ...]]:
        """Every choice of GPUs that FGD and PWR try."""
        if not pod.gpus:
            return [()]
        if pod.shares_gpu:
            return [(k,) for k in self.fitting(pod)]
        return [tuple(self.fitting(pod)[: pod.gpus])]

    def after(self, pod: TracePod, gpus: Sequence[int]) -> "Node":
        left = [milli - pod.gpu_milli * (k in gpus) for k, milli in enumerate(self.gpus)]
        tags = self.tags | ({tag(pod)} if pod.gpus else set())
        return Node(self.node, self.cpu - pod.cpu_milli, self.memory - pod.memory_mib, left, tags)


def tag(pod: TracePod) -> str:
    return "share" if pod.shares_gpu else f"{pod.gpus}"


def fragment(node: Node, classes: Sequence[TypicalPod]) -> float:
    """By cause, in the simulators' order: both, GPU, CPU, CPU-only with and without room, no access."""
    causes = [0.0] * 6
    idle = sum(node.gpus)
    for pod in classes:
        cpu = node.cpu >= pod.cpu_milli
        fitting = [left for left in node.gpus if left >= pod.gpu_milli]
        if not pod.gpus:
            causes[3 if cpu else 4] += pod.popularity * idle
        elif not allows(pod.gpu_spec, node.node.gpu_model):
            causes[5] += pod.popularity * idle
        elif len(fitting) >= pod.gpus and cpu:
            causes[1] += pod.popularity * (idle - sum(fitting))
        else:
            causes[2 if len(fitting) >= pod.gpus else 1 if cpu else 0] += pod.popularity * idle
    return sum(causes[1:], start=causes[0])


def watts(node: Node) -> tuple[float, float]:
    cores = math.ceil(node.node.cpu_milli / 2000)
    busy = cores - node.cpu // 2000
    sockets, active = math.ceil(cores / 16), math.ceil(busy / 16)
    idle_w, full_w = WATTS[node.node.gpu_model]
    idle = sum(left == 1000 for left in node.gpus)
    return 120 * active + 15 * (sockets - active), full_w * (len(node.gpus) - idle) + idle_w * idle


def best_fit(node: Node, pod: TracePod) -> tuple[int, ...]:
    if pod.shares_gpu:
        return (min(node.fitting(pod), key=lambda k: (node.gpus[k], k)),)
    return tuple(k for k in range(len(node.gpus)) if node.gpus[k] == 1000)[: pod.gpus] if pod.gpus else ()


def fgd(node: Node, pod: TracePod, classes: Sequence[TypicalPod]) -> tuple[int, tuple[int, ...]]:
    found = []
    for option in node.options(pod):
        change = fragment(node, classes) - fragment(node.after(pod, option), classes)
        found.append((int(100 * (1 / (1 + math.exp(-change / 1000)))), option))
    best = max(score for score, _ in found)
    return best, next(option for score, option in found if score == best)


def pwr(node: Node, pod: TracePod, classes: Sequence[TypicalPod]) -> tuple[int, tuple[int, ...]]:
    found = [(int(sum(watts(node)) - sum(watts(node.after(pod, option)))), option) for option in node.options(pod)]
    best = max(score for score, _ in found)
    return best, next(option for score, option in found if score == best)


def bestfit(node: Node, pod: TracePod, classes: Sequence[TypicalPod]) -> tuple[int, tuple[int, ...]]:
    cpu, gpu = node.cpu - pod.cpu_milli, sum(node.gpus) - pod.total_gpu_milli
    return int(100 * (1 - (0.5 * cpu / 128000 + 0.5 * gpu / 8000))), best_fit(node, pod)


def dotprod(node: Node, pod: TracePod, classes: Sequence[TypicalPod]) -> tuple[int, tuple[int, ...]]:
    product = node.cpu * pod.cpu_milli / 128000**2 + sum(node.gpus) * pod.total_gpu_milli / 8000**2
    return int(100 * (1 - product / 2)), best_fit(node, pod)


def gpuclustering(node: Node, pod: TracePod, classes: Sequence[TypicalPod]) -> tuple[int, tuple[int, ...]]:
    if not pod.gpus:
        return 0, ()
    bonus = 25 if not node.tags else 0 if tag(pod) not in node.tags else 75 if len(node.tags) == 1 else 50
    return 25 * (8000 - sum(node.gpus)) // 8000 + bonus, best_fit(node, pod)


def gpupacking(node: Node, pod: TracePod, classes: Sequence[TypicalPod]) -> tuple[int, tuple[int, ...]]:
    if not pod.gpus:
        return 0, ()
    count = len(node.gpus)
    if all(left == 1000 for left in node.gpus):
        return max(33 - count, count), best_fit(node, pod)
    chosen = sorted(node.gpus[k] for k in node.fitting(pod))[: pod.gpus]
    idle = sum(left == 1000 for left in chosen)
    if idle:
        return max(50 - idle, 33), best_fit(node, pod)
    return max(100 - sum(left * 100 // 1000 for left in chosen) // 10, 50), best_fit(node, pod)


RULES = {
    "fgd": fgd,
    "pwr": pwr,
    "bestfit": bestfit,
    "dotprod": dotprod,
    "gpuclustering": gpuclustering,
    "gpupacking": gpupacking,
}


def stretched(name: str, raw: Sequence[int]) -> list[int]:
    low, high = min(raw), max(raw)
    if name not in ("bestfit", "pwr"):
        return list(raw)
    if low == high:
        return [100 if name == "pwr" else 0] * len(raw)
    return [(score - low) * 100 // (high - low) for score in raw]


def replay(
    nodes: Sequence[TraceNode],
    arrivals: Sequence[TracePod],
    terms: Sequence[tuple[str, int]],
    classes: Sequence[TypicalPod],
) -> list[tuple[str, tuple[int, ...], float, float, float]]:
    """Node, GPUs, fragmentation and watts after every arrival; nodes in tie order."""
    states = [Node.of(node) for node in nodes]
    most = max(weight for _, weight in terms)
    heaviest = [name for name, weight in terms if weight == most]
    picks = "fgd" if "fgd" in heaviest else heaviest[0]
    found = []
    for pod in arrivals:
        feasible = [k for k, state in enumerate(states) if state.fits(pod)]
        chosen, gpus = "", ()
        if feasible:
            total = [0] * len(feasible)
            for name, weight in terms:
                raw = [RULES[name](states[k], pod, classes)[0] for k in feasible]
                total = [so_far + weight * score for so_far, score in zip(total, stretched(name, raw), strict=True)]
            k = feasible[total.index(max(total))]
            chosen, gpus = states[k].node.name, RULES[picks](states[k], pod, classes)[1]
            states[k] = states[k].after(pod, gpus)
        drawn = [watts(state) for state in states]
        fragments = sum(fragment(state, classes) for state in states)
        found.append((chosen, gpus, fragments, sum(w[0] for w in drawn), sum(w[1] for w in drawn)))
    return found
