"""Clusters that the scale-up study starts from: table 3's pods on every GPU, or on as many as they find by themselves.

The paper says that all GPUs are allocated and not how that came about; its hit rate of standard preemption depends on
it, so the ways that matter are named (`InitialPlacement`).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType

import numpy as np

from planner.domain import Preemptor, Qos, VictimSet
from planner.errors import InconsistentPlanError
from planner.placement.victims import standard_preemption
from planner.placement.victims.machines import Machines
from planner.studies.preemption.records import (
    GPUS,
    NUMA_NODES,
    SOCKETS,
    TABLE_3,
    InitialPlacement,
    NodePolicy,
    ScaleUpWorkload,
    VictimTie,
    instances,
)

Draws = np.random.Generator
OLDEST_S = 1e7
"""Age of a pod that came before the first; more seconds than pods come."""


class Order(Enum):
    """Who comes first: whole nodes and then the others shuffled, all shuffled, or the largest."""

    WHOLE_NODES_FIRST = auto()
    SHUFFLED = auto()
    LARGEST_FIRST = auto()


class NodeChoice(Enum):
    """On which of the nodes that have room: one with most free GPUs, any, one with fewest."""

    EMPTIEST = auto()
    ANY = auto()
    FULLEST = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How pods come to their GPUs. `lowest`: lowest free indices, else random ones."""

    order: Order = Order.WHOLE_NODES_FIRST
    nodes: NodeChoice = NodeChoice.EMPTIEST
    lowest: bool = True
    saturated: bool = False


RECIPES = MappingProxyType(
    {
        InitialPlacement.SPREAD: Recipe(),
        InitialPlacement.SATURATED: Recipe(saturated=True),
        InitialPlacement.RANDOM_NODES: Recipe(nodes=NodeChoice.ANY),
        InitialPlacement.MIXED: Recipe(order=Order.SHUFFLED, nodes=NodeChoice.ANY, saturated=True),
        InitialPlacement.RANDOM_INDEX: Recipe(lowest=False, saturated=True),
        InitialPlacement.PACKED: Recipe(order=Order.LARGEST_FIRST, nodes=NodeChoice.FULLEST),
    }
)


def initial_machines(nodes: int, initial: InitialPlacement, draws: Draws) -> Machines:
    """So many nodes of 8 GPUs with table 3's pods, scaled; who came later is younger, by a second."""
    recipe = RECIPES[initial]
    filling = Filling(nodes, recipe, draws)
    away = [row for row in arrivals(nodes, recipe.order, draws) if not filling.place(row)]
    if recipe.saturated:
        filling.saturate(away)
    return filling.machines


def arrivals(nodes: int, order: Order, draws: Draws) -> list[ScaleUpWorkload]:
    """Table 3's pods in the order in which they come."""
    counts = instances(nodes)
    pods = [row for row in TABLE_3 for _ in range(counts[row.name])]
    first = {Order.SHUFFLED: 0, Order.WHOLE_NODES_FIRST: counts[TABLE_3[0].name], Order.LARGEST_FIRST: len(pods)}[order]
    return pods[:first] + [pods[first + at] for at in draws.permutation(len(pods) - first)]


def preemptor(row: ScaleUpWorkload, name: str, qos: Qos) -> Preemptor:
    """A pod of a workload that asks for room."""
    return Preemptor(name=name, gpus=row.gpus, priority=row.priority, qos=qos)


def standard(
    machines: Machines, newcomer: Preemptor, policy: NodePolicy, tie: VictimTie, draws: Draws
) -> VictimSet | None:
    """Gödel's standard preemption; the order in which nodes are looked at is drawn."""
    return standard_preemption(
        machines,
        newcomer,
        policy="random" if policy is NodePolicy.RANDOM else "best",
        tie="key" if tie is VictimTie.KEY else "start",
        rng=draws,
    )


def node_of(machines: Machines, victims: VictimSet) -> int:
    """The number of the node that an answer is about."""
    if victims.pods:
        return machines.pod(machines.number[victims.pods[0]]).node
    return machines.names.index(victims.node)


@dataclass(slots=True)
class Filling:
    """A cluster that is being filled. `by_free[f]`: nodes with f free GPUs; `place_in`: where in its list a node is."""

    nodes: int
    recipe: Recipe
    draws: Draws
    machines: Machines = field(init=False)
    by_free: list[list[int]] = field(init=False)
    place_in: list[int] = field(init=False)
    rows: dict[str, ScaleUpWorkload] = field(init=False)
    came: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.machines = Machines.uniform(self.nodes, sockets=SOCKETS, numa_nodes=NUMA_NODES, gpus=GPUS)
        self.by_free = [[] for _ in range(GPUS)] + [list(range(self.nodes))]
        self.place_in = list(range(self.nodes))
        self.rows = {}

    def place(self, row: ScaleUpWorkload) -> bool:
        """Put a pod where the recipe puts it; whether there was room."""
        node = self._node(row.gpus)
        if node is None:
            return False
        self._enter(row, node)
        return True

    def saturate(self, away: Sequence[ScaleUpWorkload]) -> None:
        """Place the pods that stayed away, by Gödel's standard preemption where they do not fit, evicted ones too.

        Who has waited longest goes first. Pods are evicted for higher ones only, so this comes to an end.
        """
        waiting = deque(away)
        while waiting:
            row = waiting.popleft()
            if self.place(row):
                continue
            newcomer = preemptor(row, "newcomer", Qos.NONE)
            victims = standard(self.machines, newcomer, NodePolicy.RANDOM, VictimTie.KEY, self.draws)
            if victims is None:
                continue
            node = node_of(self.machines, victims)
            waiting.extend(self._leave(pod) for pod in victims.pods)
            self._enter(row, node)

    def _node(self, gpus: int) -> int | None:
        """A node with room, as the recipe chooses."""
        sizes = [free for free in range(gpus, GPUS + 1) if self.by_free[free]]
        if not sizes:
            return None
        if self.recipe.nodes is not NodeChoice.ANY:
            among = self.by_free[sizes[-1] if self.recipe.nodes is NodeChoice.EMPTIEST else sizes[0]]
            return among[int(self.draws.integers(len(among)))]
        at = int(self.draws.integers(sum(len(self.by_free[free]) for free in sizes)))
        for free in sizes:
            if at < len(self.by_free[free]):
                return self.by_free[free][at]
            at -= len(self.by_free[free])
        raise InconsistentPlanError("scale-up: a draw was beyond the nodes with room.", hint="Report it.")

    def _enter(self, row: ScaleUpWorkload, node: int) -> None:
        free = self.machines.free_gpus(node)
        gpus = free[: row.gpus] if self.recipe.lowest else self._some(free, row.gpus)
        # hashed names, as a Deployment's pods have: keys of equal pods say nothing about their age
        key = f"{row.name.lower()}-{int(self.draws.integers(2**32)):08x}-{self.came}"
        self.came += 1
        self.machines.add(
            node, key, gpus, priority=row.priority, preemptible=row.preemptible, age_s=OLDEST_S - self.came
        )
        self.rows[key] = row
        self._moved(node, len(free))

    def _some(self, free: Sequence[int], count: int) -> tuple[int, ...]:
        return tuple(sorted(free[at] for at in self.draws.permutation(len(free))[:count]))

    def _leave(self, key: str) -> ScaleUpWorkload:
        number = self.machines.number[key]
        node = self.machines.pod(number).node
        before = len(self.machines.free_gpus(node))
        self.machines.remove(number)
        self._moved(node, before)
        return self.rows.pop(key)

    def _moved(self, node: int, before: int) -> None:
        """Note that so many GPUs of a node were free, and others are now: the last of its old list takes its place."""
        old, new = self.by_free[before], self.by_free[len(self.machines.free_gpus(node))]
        last = old.pop()
        if last != node:
            old[self.place_in[node]] = last
            self.place_in[last] = self.place_in[node]
        self.place_in[node] = len(new)
        new.append(node)
