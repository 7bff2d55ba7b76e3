"""The paper's cluster (table 3) as the facts reproduce it: shuffled arrivals spread over the nodes, lowest free GPUs.

20 A of 8 GPUs (1500), 40 B of 4 (1000), neither preemptible; 200 C of 2 (500) and 80 D of 1 (200), which are; 800 GPUs
for every 100 nodes. Pods of equal priority stand in random order.
"""

from functools import cache

import numpy as np

from planner.domain import Preemptor, Qos, VictimSettings
from planner.placement.victims import Machines, best_victims

WORKLOADS = {"A": (8, 1500, False, 20), "B": (4, 1000, False, 40), "C": (2, 500, True, 200), "D": (1, 200, True, 80)}
"""Name -> GPUs, priority, preemptible, pods per 100 nodes."""


def preemptor(workload: str, qos: Qos = Qos.GUARANTEED) -> Preemptor:
    """One more of a workload."""
    gpus, priority, _, _ = WORKLOADS[workload]
    return Preemptor(name=workload, gpus=gpus, priority=priority, qos=qos)


@cache
def saturated(nodes: int, seed: int) -> Machines:
    """A full cluster, not to be changed: what finds no room is left out, and D fill the rest."""
    rng = np.random.default_rng(seed)
    machines = Machines.uniform(nodes)
    free = np.full(nodes, 8)
    counts = {name: count * nodes // 100 for name, (_, _, _, count) in WORKLOADS.items()}
    order = ["A"] * counts.pop("A")
    rest = [name for name, count in counts.items() for _ in range(count)]
    order += [rest[k] for k in rng.permutation(len(rest))]
    for number, name in enumerate(order):
        node, gpus = int(free.argmax()), WORKLOADS[name][0]
        if free[node] >= gpus:
            _put(machines, rng, node, name, number, machines.free_gpus(node)[:gpus])
            free[node] -= gpus
    for node in range(nodes):
        for gpu in machines.free_gpus(node):
            _put(machines, rng, node, "D", len(order) + 8 * node + gpu, (gpu,))
    return machines


def _put(
    machines: Machines, rng: np.random.Generator, node: int, name: str, number: int, gpus: tuple[int, ...]
) -> None:
    _, priority, preemptible, _ = WORKLOADS[name]
    rank = int(rng.integers(2**31))
    machines.add(node, f"{name}-{number}", gpus, priority=priority, preemptible=preemptible, rank=rank)


def hits(workload: str, qos: Qos, settings: VictimSettings, seeds: range, nodes: int = 100) -> list[bool]:
    """Whether the best victims leave the newcomer inside one socket, in one state a seed."""
    found = (best_victims(saturated(nodes, seed), preemptor(workload, qos), settings) for seed in seeds)
    return [one is not None and one.alignment != "cross" for one in found]
