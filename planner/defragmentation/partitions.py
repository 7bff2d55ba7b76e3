"""Nodes of one partition vacated by ejection chains (IPC: ASI paper, section 4.1, algorithm 1).

| symbol | meaning | here |
|---|---|---|
| n | the node that is to be vacated | `node` |
| τ | a task of it, or one that gives way to another | `task` |
| K | most moves of a chain | `depth` |
| C | a chain, deepest move first | a stretch of `log` |

Sets of nodes are bits of one number, so that "who has room, may take it and holds nobody of its group" is an `&`.
What the paper leaves open: an empty node is never opened, nor one that was vacated; a task gives way only to a larger
one, or to one that asks for more; destinations are those with the fewest idle GPUs, nodes that cannot be vacated first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from heapq import heapify, heappop, heappush
from operator import or_

ROUNDING = 1e-6
NOWHERE = -1
NO_GROUP = -1
CPU_BINS = 32
"""Steps by which nodes are sorted by idle CPUs: nodes with too few are passed over together."""


@dataclass(frozen=True, slots=True)
class Task:
    """A pod with GPUs: what it holds, its anti-affinity group and the row of nodes that may take it."""

    gpus: int
    cpus: float
    memory_gb: float
    group: int
    need: int
    movable: bool


@dataclass(frozen=True, slots=True)
class Partition:
    """Nodes (numbered from 0) with what is idle on each, and the tasks on them.

    `allowed`: for each need the bits of the nodes that may take it. `groups`: (node, group) of pods without GPUs.
    `goals`: bits of the nodes that may be vacated. `opened`: empty nodes may be filled.
    """

    idle_gpus: tuple[int, ...]
    idle_cpus: tuple[float, ...]
    idle_memory_gb: tuple[float, ...]
    tasks: tuple[Task, ...]
    nodes_of_tasks: tuple[int, ...]
    allowed: tuple[int, ...]
    groups: tuple[tuple[int, int], ...]
    goals: int
    opened: bool = False


LocalMove = tuple[int, int, int]
"""Task, source and target of a partition."""


Chainwork = tuple[int, tuple[LocalMove, ...]]
"""A node of a partition, and the moves that vacate it, in their order."""


def vacated_nodes(partition: Partition, depth: int, width: int) -> tuple[Chainwork, ...]:
    """Nodes that chains of `depth` moves vacate, those with the fewest tasks first, and the moves of each."""
    floor = Floor(partition, depth, width)
    works = []
    order = _Order(floor, partition.goals)
    while (node := order.next()) != NOWHERE:
        moves = floor.vacate(node)
        if moves:
            works.append((node, moves))
            order.renew({end for _, source, target in moves for end in (source, target)})
    return tuple(works)


class _Order:
    """Nodes that were not tried yet, fewest tasks first, then fewest GPUs in use, as they are now."""

    def __init__(self, floor: "Floor", goals: int) -> None:
        self._floor = floor
        self._waiting = set(bits_of(goals))
        self._heap = [self._entry(node) for node in sorted(self._waiting)]
        heapify(self._heap)

    def _entry(self, node: int) -> tuple[int, int, int]:
        tasks = self._floor.on_node[node]
        return len(tasks), sum(self._floor.tasks[task].gpus for task in tasks), node

    def next(self) -> int:
        """The next node; NOWHERE where all were tried."""
        while self._heap:
            entry = heappop(self._heap)
            # An entry that is out of date is dropped, as `renew` pushed a newer one.
            if entry[2] in self._waiting and entry == self._entry(entry[2]):
                self._waiting.discard(entry[2])
                return entry[2]
        return NOWHERE

    def renew(self, nodes: set[int]) -> None:
        """These nodes have other tasks than before."""
        for node in sorted(nodes & self._waiting):
            heappush(self._heap, self._entry(node))


def bits_of(nodes: int) -> Iterator[int]:
    """Numbers of the set bits, lowest first."""
    while nodes:
        bit = nodes & -nodes
        yield bit.bit_length() - 1
        nodes ^= bit


class Floor:
    """The partition at work: who is where, what is idle, and the log of moves, which can be undone to any point."""

    def __init__(self, partition: Partition, depth: int, width: int) -> None:
        self.tasks = partition.tasks
        self.place = list(partition.nodes_of_tasks)
        self.on_node: list[list[int]] = [[] for _ in partition.idle_gpus]
        for number, node in enumerate(self.place):
            self.on_node[node].append(number)
        self._depth, self._width, self._allowed = depth, width, partition.allowed
        self.gpus = list(partition.idle_gpus)
        self._cpus, self._memory = list(partition.idle_cpus), list(partition.idle_memory_gb)
        self._bins = [0] * (1 + max((idle + self._used(node) for node, idle in enumerate(self.gpus)), default=0))
        for node, idle in enumerate(self.gpus):
            self._bins[idle] |= 1 << node
        self._cpu_step = max(1.0, max(map(self._all_cpus, range(len(self.gpus))), default=0.0) / CPU_BINS)
        self._cpu_bins = [0] * (CPU_BINS + 2)
        for node in range(len(self.gpus)):
            self._cpu_bins[self._cpu_bin(self._cpus[node])] |= 1 << node
        self._leavers_on: list[dict[tuple[int, float, float, int, int], tuple[int, ...]]] = [{} for _ in self.gpus]
        self._goals = partition.goals
        self._open = sum(1 << node for node, tasks in enumerate(self.on_node) if tasks or partition.opened)
        self._holders = self._groups(partition)
        self.log: list[LocalMove] = []
        # The state has a number that an undo brings back, so that what failed in it once need not be tried again.
        self._state, self._states = 0, 0
        self._before: list[int] = []
        self._failures: set[tuple[int, int, int, int]] = set()

    def _used(self, node: int) -> int:
        return sum(self.tasks[number].gpus for number in self.on_node[node])

    def _all_cpus(self, node: int) -> float:
        return self._cpus[node] + sum(self.tasks[number].cpus for number in self.on_node[node])

    def _cpu_bin(self, cpus: float) -> int:
        return min(CPU_BINS + 1, max(0, int((cpus + ROUNDING) / self._cpu_step)))

    def _groups(self, partition: Partition) -> dict[int, int]:
        holders: dict[int, int] = {}
        members = [(node, task.group) for node, task in zip(self.place, self.tasks, strict=True)]
        for node, group in (*members, *partition.groups):
            if group != NO_GROUP:
                holders[group] = holders.get(group, 0) | 1 << node
        return holders

    def vacate(self, node: int) -> tuple[LocalMove, ...]:
        """The moves that leave no task on the node, largest task first; none at all where one of them cannot go."""
        tasks = self.on_node[node]
        if not tasks or not self._promising(node):
            return ()
        avoid, start = 1 << node, len(self.log)
        # They name the node that was avoided, which is another one now.
        self._failures.clear()
        for number in sorted(tasks, key=lambda number: (-self.tasks[number].gpus, number)):
            if not self.eject(number, self._depth, avoid):
                self.undo(start)
                return ()
        # Opened again it would take what leaves the next node: the vacancy would move, not grow.
        self._open &= ~avoid
        return tuple(self.log[start:])

    def _promising(self, node: int) -> bool:
        """Whether its tasks may go at all, and others have as many idle GPUs as they hold."""
        tasks = [self.tasks[number] for number in self.on_node[node]]
        homeless = sum(task.gpus for task in tasks)
        others = self._open & ~(1 << node)
        # Whatever the chains, these GPUs must go somewhere: a sum spares most of the hopeless searches.
        for idle in range(len(self._bins) - 1, 0, -1):
            homeless -= idle * (self._bins[idle] & others).bit_count()
            if homeless <= 0:
                break
        return homeless <= 0 and all(task.movable for task in tasks)

    def eject(self, number: int, depth: int, avoid: int) -> bool:
        """Move a task to a node that is not in `avoid`, by a chain of `depth` moves at most; the log tells the moves,
        deepest first."""
        key = (self._state, number, depth, avoid)
        if key in self._failures:
            return False
        target = self._direct(self.tasks[number], avoid)
        if target != NOWHERE:
            self._move(number, target)
            return True
        if depth > 1 and self._in_turn(number, depth, avoid):
            return True
        self._failures.add(key)
        return False

    def _direct(self, task: Task, avoid: int) -> int:
        """The node with the fewest idle GPUs that takes the task as it is; those that stay in use come first."""
        allowed = self._allowed[task.need] & self._open & ~avoid & ~self._holders.get(task.group, 0)
        # From a rounding below the edge of a bin on, lest a node that just fits is cut off; `_carries` is exact.
        allowed &= reduce(or_, self._cpu_bins[self._cpu_bin(task.cpus - 2 * ROUNDING) :])
        for idle in range(task.gpus, len(self._bins)):
            members = self._bins[idle] & allowed
            if members:
                # A node that could be vacated itself loses that chance with every task that comes.
                for nodes in (members & ~self._goals, members & self._goals):
                    for node in bits_of(nodes):
                        if self._carries(node, task):
                            return node
        return NOWHERE

    def _carries(self, node: int, task: Task) -> bool:
        return self._cpus[node] + ROUNDING >= task.cpus and self._memory[node] + ROUNDING >= task.memory_gb

    def _in_turn(self, number: int, depth: int, avoid: int) -> bool:
        """Another task leaves its node first, by a chain of its own, and this one comes there."""
        start = len(self.log)
        for node, leaving in self._makers_of_room(self.tasks[number], avoid):
            if self.eject(leaving, depth - 1, avoid | 1 << node):
                self._move(number, node)
                return True
            self.undo(start)
        return False

    def _makers_of_room(self, task: Task, avoid: int) -> Iterator[tuple[int, int]]:
        """Nodes with one of their tasks that would leave enough behind: least missing first, on `width` nodes."""
        allowed = self._allowed[task.need] & self._open & ~avoid
        tried = 0
        # With GPUs enough a node lacks only CPUs, memory or the group's place; then the fewest missing GPUs.
        for idle in (*range(task.gpus, len(self._bins)), *range(task.gpus - 1, -1, -1)):
            for node in bits_of(self._bins[idle] & allowed):
                leavers = self._leavers(node, task)
                yield from ((node, number) for number in leavers)
                # A node where nobody could leave cost no chain, and does not count.
                tried += bool(leavers)
                if tried >= self._width:
                    return

    def _leavers(self, node: int, task: Task) -> tuple[int, ...]:
        """Tasks without which the node takes `task`, smallest first; the last one of a node stays there.

        Remembered until somebody comes to the node or leaves it.
        """
        key = (task.gpus, task.cpus, task.memory_gb, task.group, task.need)
        leavers = self._leavers_on[node].get(key)
        if leavers is None:
            leavers = self._leavers_on[node][key] = self._looked_up(node, task)
        return leavers

    def _looked_up(self, node: int, task: Task) -> tuple[int, ...]:
        numbers = self.on_node[node]
        # To empty a node in order to fill it gains nothing.
        if len(numbers) < 2:
            return ()
        blocked = bool(self._holders.get(task.group, 0) >> node & 1)
        fitting = [number for number in numbers if self._frees(node, self.tasks[number], task, blocked)]
        return tuple(sorted(fitting, key=lambda number: (self.tasks[number].gpus, self.tasks[number].cpus, number)))

    def _frees(self, node: int, leaving: Task, task: Task, blocked: bool) -> bool:
        return (
            leaving.movable
            and self.gpus[node] + leaving.gpus >= task.gpus
            # Smaller, or unlike: two equal tasks would chase each other in circles.
            and (leaving.gpus < task.gpus or (leaving.gpus == task.gpus and _differs(leaving, task)))
            and self._cpus[node] + leaving.cpus + ROUNDING >= task.cpus
            and self._memory[node] + leaving.memory_gb + ROUNDING >= task.memory_gb
            and (not blocked or leaving.group == task.group)
        )

    def _move(self, number: int, target: int) -> None:
        self.log.append((number, self.place[number], target))
        self._before.append(self._state)
        self._states += 1
        self._state = self._states
        self._shift(number, target)

    def idle(self, node: int) -> tuple[int, float, float]:
        """GPUs, CPUs and memory (GB) that are idle on a node."""
        return self.gpus[node], self._cpus[node], self._memory[node]

    def undo(self, start: int) -> None:
        """Take back every move from place `start` of the log on."""
        while len(self.log) > start:
            number, source, _ = self.log.pop()
            self._shift(number, source)
            self._state = self._before.pop()

    def _shift(self, number: int, target: int) -> None:
        task, source = self.tasks[number], self.place[number]
        for node, sign in ((source, 1), (target, -1)):
            bit = 1 << node
            self._leavers_on[node].clear()
            self._bins[self.gpus[node]] &= ~bit
            self.gpus[node] += sign * task.gpus
            self._bins[self.gpus[node]] |= bit
            self._cpu_bins[self._cpu_bin(self._cpus[node])] &= ~bit
            self._cpus[node] += sign * task.cpus
            self._cpu_bins[self._cpu_bin(self._cpus[node])] |= bit
            self._memory[node] += sign * task.memory_gb
        self.on_node[source].remove(number)
        self.on_node[target].append(number)
        self.place[number] = target
        if task.group != NO_GROUP:
            # A node has one pod of a group at most, so the bit goes with it.
            self._holders[task.group] = self._holders[task.group] & ~(1 << source) | 1 << target


def _differs(leaving: Task, task: Task) -> bool:
    """Whether a task of the same size may find room where the other one does not."""
    return (leaving.need, leaving.group) != (task.need, task.group) or leaving.cpus < task.cpus
