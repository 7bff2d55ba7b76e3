"""The best set of islands of a cluster as a mixed-integer programme, written down from the records alone.

What a group may take of a node is listed by `brute_force`; nothing of the placer is used.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pulp
from brute_force import Room, aligned, room_of, sites_of, suits
from brute_force import Site as Node

from planner.domain import Cluster, PlacementDemand

Terms = list[pulp.LpAffineExpression]


def most_gpus(cluster: Cluster, demands: Sequence[PlacementDemand]) -> int:
    """GPUs of the islands that fit together and hold most."""
    model, there = _programme(cluster, demands)
    model += pulp.lpSum(one.size * there[one.island] for one in demands)
    return round(_solved(model))


def most_worth(cluster: Cluster, demands: Sequence[PlacementDemand]) -> tuple[float, float]:
    """The share of its GPUs that the least phase has, then the sum of all shares, of the best set."""
    sizes: dict[str, int] = defaultdict(int)
    for one in demands:
        sizes[one.phase] += one.size
    model, there = _programme(cluster, demands)
    shares = [
        pulp.lpSum(one.size / sizes[phase] * there[one.island] for one in demands if one.phase == phase)
        for phase in sizes
    ]
    least = pulp.LpVariable("least", 0, 1)
    for share in shares:
        model += least <= share
    model += least
    best = _solved(model)
    model += least >= best - 1e-7
    model.setObjective(pulp.lpSum(shares))
    return best, _solved(model)


def emptied(cluster: Cluster, priority: int) -> Cluster:
    """Everybody is gone who may go for islands of this priority."""
    stay = (pod for pod in cluster.pods if not pod.preemptible or pod.locked or pod.priority >= priority)
    return replace(cluster, pods=tuple(stay))


def _solved(model: pulp.LpProblem) -> float:
    model.solve(pulp.getSolver("HiGHS", msg=False, threads=1))
    assert model.sol_status == pulp.LpSolutionOptimal
    return float(pulp.value(model.objective))


def _programme(
    cluster: Cluster, demands: Sequence[PlacementDemand]
) -> tuple[pulp.LpProblem, dict[str, pulp.LpVariable]]:
    model = pulp.LpProblem("sets", pulp.LpMaximize)
    there = {one.island: pulp.LpVariable(f"there_{k}", cat=pulp.LpBinary) for k, one in enumerate(demands)}
    groups: dict[str, Terms] = defaultdict(list)
    for number, node in enumerate(sites_of(cluster, demands)):
        for row in _rows(node, room_of(node), demands, groups, number):
            model += row
    for one in demands:
        model += pulp.lpSum(groups[one.island]) == one.replicas * one.groups * there[one.island]
    return model, there


def _rows(
    node: Node, room: Room, demands: Sequence[PlacementDemand], groups: dict[str, Terms], number: int
) -> list[pulp.LpConstraint]:
    gpus: dict[int, Terms] = defaultdict(list)
    near: dict[int, Terms] = defaultdict(list)
    cpus: Terms = []
    memory: Terms = []
    for one in demands:
        if not suits(node.record, one, ()):
            continue
        for counts in product(*(range(min(free, one.tp) + 1) for free in room.gpus)):
            if sum(counts) != one.tp or not aligned(node, room, one, counts):
                continue
            taken = pulp.LpVariable(f"g{number}_{one.island}_{'_'.join(map(str, counts))}", 0, cat=pulp.LpInteger)
            groups[one.island].append(taken)
            cpus.append(one.tp * one.cpus_per_gpu * taken)
            memory.append(one.tp * one.memory_gb_per_gpu * taken)
            for numa, count in enumerate(counts):
                gpus[numa].append(count * taken)
                if one.qos.binds:
                    near[numa].append(count * one.cpus_per_gpu * taken)
    rows = [pulp.lpSum(terms) <= room.gpus[numa] for numa, terms in gpus.items()]
    if cpus:
        rows += [pulp.lpSum(cpus) <= room.cpus, pulp.lpSum(memory) <= room.memory_gb]
    if room.near is not None and cpus:
        rows += [pulp.lpSum(terms) <= room.near[numa] for numa, terms in near.items()]
        rows.append(pulp.lpSum(cpus) <= room.anywhere)
    return rows
