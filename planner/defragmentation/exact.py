"""The fewest nodes that can hold a cluster's pods, and the fewest moves to get there, as mixed-integer programmes.

| symbol | meaning | unit |
|---|---|---|
| k | tasks that are alike: same request, group and need | |
| N[k] | how many there are; M[k, n]: on node n today | 1 |
| x[k, n] | how many of them lie on node n afterwards, where it may take them | 1 |
| y[n] | 1 where node n is in use; fixed to 1 where a pod stays there that may not be moved | 0/1 |
| s[k, n] | how many of those on n stay: s <= x, s <= M | 1 |

First min sum_n y; then, with that sum fixed, max sum s. Rows: every task lies somewhere; GPUs, CPUs, memory of n hold
its tasks where y[n] = 1; a group has one pod a node; no empty node is opened; the nodes of a type in use have at least
its tasks' GPUs. The state afterwards is what counts: whether moves lead there with both copies running is not asked.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import pulp

from planner.defragmentation.boards import Board, board_of
from planner.defragmentation.partitions import NO_GROUP, Task
from planner.domain import AssignmentSettings, Cluster
from planner.domain.defragmentation import FewestNodes
from planner.errors import InfeasibleError, InputError, SolverError
from planner.milp import solve

MOST_NODES = 100
"""More take days (ASI paper, section 4.1)."""


def fewest_nodes(cluster: Cluster, *, work_limit: float = 60.0, count_moves: bool = True) -> FewestNodes:
    """The optimum of what `consolidate` approaches; `proven` says whether it was proven within `work_limit`.

    Raises:
        InputError: the cluster contradicts itself, or has more than 100 nodes with GPUs.
        SolverError: no solution within `work_limit` a programme.
    """
    board = board_of(cluster)
    if len(board.nodes) > MOST_NODES:
        raise InputError(
            f"cluster {cluster.name}: the exact programme takes {MOST_NODES} nodes with GPUs at most, got "
            f"{len(board.nodes)}.",
            hint="Compare on a part of the cluster.",
        )
    programme = _Programme(board)
    proven = programme.solve(programme.nodes_in_use(), work_limit)
    in_use = round(pulp.value(programme.nodes_in_use()))
    moves = None
    if count_moves:
        programme.model += programme.nodes_in_use() <= in_use, "no_more_nodes"
        proven = programme.solve(-pulp.lpSum(programme.stays.values()), work_limit) and proven
        moves = programme.movable - round(sum(stay.value() or 0 for stay in programme.stays.values()))
    return FewestNodes(
        in_use=in_use,
        vacated=sum(map(bool, board.on_node)) - in_use,
        moves=moves,
        proven=proven,
        variables=len(programme.model.variables()),
        rows=len(programme.model.constraints),
    )


@dataclass(slots=True)
class _Programme:
    """The model and its variables."""

    board: Board
    model: pulp.LpProblem = field(default_factory=lambda: pulp.LpProblem("fewest_nodes", pulp.LpMinimize))
    use: dict[int, pulp.LpVariable | int] = field(default_factory=dict)
    lies: dict[tuple[Task, int], pulp.LpVariable] = field(default_factory=dict)
    stays: dict[tuple[Task, int], pulp.LpVariable] = field(default_factory=dict)
    movable: int = 0

    def __post_init__(self) -> None:
        board = self.board
        for node, tasks in enumerate(board.on_node):
            # An empty node has no variable, as none is opened.
            if tasks:
                free = board.may_be_vacated(node) and board.sound[node]
                self.use[node] = pulp.LpVariable(f"use_{node}", cat="Binary") if free else 1
        # Alike tasks are counted, not told apart: their permutations would be searched one by one.
        kinds: dict[Task, Counter[int]] = defaultdict(Counter)
        for number, task in enumerate(board.tasks):
            if task.movable:
                kinds[task][board.seats[number]] += 1
        for at, (kind, seats) in enumerate(kinds.items()):
            self._add_kind(at, kind, seats)
        for node in self.use:
            self._define_capacities(node)
            self._define_groups(node)
        for row in self._least_of_types():
            self.model += row

    def _add_kind(self, at: int, kind: Task, seats: Counter[int]) -> None:
        """Where tasks of a kind may lie, and that all of them lie somewhere."""
        count = seats.total()
        self.movable += count
        for node in self._nodes_for(kind, seats):
            lies = pulp.LpVariable(f"lies_{at}_{node}", 0, count, "Integer")
            self.lies[kind, node] = lies
            # The capacities imply this for whole nodes; the relaxation is tighter with it.
            if not isinstance(self.use[node], int):
                self.model += lies <= count * self.use[node]
            if seats[node]:
                # No integer needed: at the optimum it is the smaller of two whole numbers.
                self.stays[kind, node] = pulp.LpVariable(f"stays_{at}_{node}", 0, seats[node])
                self.model += self.stays[kind, node] <= lies
        self.model += pulp.lpSum(lies for (other, _), lies in self.lies.items() if other == kind) == count

    def _nodes_for(self, kind: Task, seats: Counter[int]) -> list[int]:
        """Nodes in use of the type, without a fault, that may take it."""
        gpu = self.board.nodes[next(iter(seats))].gpu
        nodes = [n for n in self.use if self.board.sound[n] and self.board.nodes[n].gpu == gpu]
        allowed = self.board.allowed(kind.need, nodes)
        return [node for at, node in enumerate(nodes) if allowed >> at & 1]

    def _on(self, node: int) -> list[tuple[Task, pulp.LpVariable]]:
        return [(kind, lies) for (kind, place), lies in self.lies.items() if place == node]

    def _define_capacities(self, node: int) -> None:
        """What is left without the tasks that may be moved holds what comes."""
        board = self.board
        here = [board.tasks[number] for number in board.on_node[node] if board.tasks[number].movable]
        arrivals = self._on(node)
        for idle, freed, requests in (
            (board.idle_gpus[node], [t.gpus for t in here], [k.gpus for k, _ in arrivals]),
            (board.idle_cpus[node], [t.cpus for t in here], [k.cpus for k, _ in arrivals]),
            (board.idle_memory_gb[node], [t.memory_gb for t in here], [k.memory_gb for k, _ in arrivals]),
        ):
            used = pulp.lpSum(amount * lies for amount, (_, lies) in zip(requests, arrivals, strict=True) if amount)
            self.model += used <= (idle + sum(freed)) * self.use[node]

    def _define_groups(self, node: int) -> None:
        board = self.board
        fixed = {board.tasks[number].group for number in board.on_node[node] if not board.tasks[number].movable}
        fixed.update(board.groups[node])
        by_group: dict[int, list[pulp.LpVariable]] = defaultdict(list)
        for kind, lies in self._on(node):
            if kind.group != NO_GROUP:
                by_group[kind.group].append(lies)
        for group, variables in by_group.items():
            # Who stays on the node keeps the one place of its group.
            self.model += pulp.lpSum(variables) <= (0 if group in fixed else self.use[node])

    def _least_of_types(self) -> Iterator[pulp.LpConstraint]:
        """The GPUs of the nodes in use are at least those that the tasks of the type hold."""
        by_type: dict[str, list[int]] = defaultdict(list)
        for node in self.use:
            by_type[self.board.nodes[node].gpu].append(node)
        for nodes in by_type.values():
            sizes = {node: len(self.board.nodes[node].gpus) for node in nodes}
            gpus_in_use = sum(self.board.tasks[n].gpus for node in nodes for n in self.board.on_node[node])
            # Nodes are whole, which the relaxation does not see: the rounded quotient cuts much of the search.
            largest = max(sizes.values())
            fewest = -(-gpus_in_use // largest) if len(set(sizes.values())) == 1 else 0
            yield pulp.lpSum(self.use[node] for node in nodes) >= fewest

    def nodes_in_use(self) -> pulp.LpAffineExpression:
        """How many nodes hold pods."""
        return pulp.lpSum(self.use.values())

    def solve(self, objective: pulp.LpAffineExpression, work_limit: float) -> bool:
        """Solve in place; whether the optimum is proven."""
        self.model.setObjective(objective)
        try:
            # No gap: what consolidation is measured against must not be off itself.
            return solve(self.model, AssignmentSettings(gap=0.0, work_limit=work_limit)).proven
        except (InfeasibleError, SolverError) as error:
            raise SolverError(
                f"defragmentation: no solution within {work_limit:g} units of work.",
                hint="Raise the limit, or give fewer nodes.",
            ) from error
