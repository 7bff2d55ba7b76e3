"""The most nodes of a small part that moves can vacate, and the fewest moves: every order of moves that opens no empty
node is looked at.

| symbol | meaning | here |
|---|---|---|
| D | nodes that could end up empty together: the others have room for every task, however it got there | `goals` |
| g | moves so far | `done` |
| h | moves still needed at least: tasks on the D with the fewest | `_missing` |
| f | g + h, which never falls along an order of moves (A*) | first of a heap entry |

Tasks that are alike are counted, not told apart. A node that was emptied is not filled again, as an empty one is never
opened. Work is counted in states and tries of packing, never by the clock; where it runs out, it is said.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate, combinations

from planner.defragmentation.partitions import (
    NO_GROUP,
    NOWHERE,
    ROUNDING,
    Chainwork,
    LocalMove,
    Partition,
    Task,
    bits_of,
)
from planner.errors import SolverError

MOST_NODES = 12
"""Nodes in use of a part that is searched: the sets of nodes that could be vacated double with each."""
GOALS_A_STATE = 16
"""Sets of nodes that are as much work to compare as a state is to make."""

Contents = tuple[int, ...]
"""Kinds of the tasks on a node, ascending."""
State = tuple[Contents, ...]
Room = tuple[int, float, float, frozenset[int]]
"""GPUs, CPUs and memory (GB) idle on a node, and the anti-affinity groups there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """What the search says of a part: `works` that do better than those known (None: none do); the nodes in use but
    `bound` are too few for the tasks, in any arrangement, if one more goes; `proven`: no moves that open no empty node
    are better than the better of both."""

    works: tuple[Chainwork, ...] | None
    bound: int
    proven: bool


def _most_by_room(partition: Partition) -> int:
    """Nodes that can be vacated at most: what they have must be idle on the nodes in use, themselves included."""
    in_use, goals = {*partition.nodes_of_tasks}, [*bits_of(partition.goals)]
    counts = [len(goals)]
    for idle, amounts in (
        (partition.idle_gpus, [task.gpus for task in partition.tasks]),
        (partition.idle_cpus, [task.cpus for task in partition.tasks]),
        (partition.idle_memory_gb, [task.memory_gb for task in partition.tasks]),
    ):
        sizes = dict(enumerate(map(float, idle)))
        for amount, node in zip(amounts, partition.nodes_of_tasks, strict=True):
            sizes[node] += amount
        spare = sum(idle[node] for node in in_use) + ROUNDING
        counts.append(sum(total <= spare for total in accumulate(sorted(sizes[node] for node in goals))))
    return min(counts)


def best_moves(partition: Partition, vacated: int, moves: int, states: int) -> Optimum:
    """More nodes than the `vacated`, else fewer than the `moves` that are known for them.

    `states`: the work that each number of nodes may take.
    """
    bound = _most_by_room(partition)
    if len({*partition.nodes_of_tasks}) > MOST_NODES or not states:
        return Optimum(works=None, bound=bound, proven=False)
    search = _Search(partition)
    open_counts = []
    for count in range(bound, vacated - 1, -1):
        search.work = states
        try:
            goals = search.goals(count)
            if not goals:
                bound = count - 1  # nor do more nodes pack
            order = search.order(goals, moves if count == vacated else None)
        except SolverError:
            open_counts.append(count)
            continue
        if order is not None or count == vacated:
            works = None if order is None else search.works(order)
            return Optimum(works=works, bound=bound, proven=not open_counts)
    return Optimum(works=None, bound=bound, proven=False)


@dataclass(slots=True)
class _Search:
    """A part as kinds of tasks on nodes; what stays on a node is counted in its `rooms` from the start."""

    partition: Partition
    work: int = 0
    kinds: list[Task] = field(default_factory=list)
    rooms: list[Room] = field(default_factory=list)
    staying: list[bool] = field(default_factory=list)
    start: State = ()
    room_by_contents: dict[tuple[int, Contents], Room] = field(default_factory=dict)

    def __post_init__(self) -> None:
        partition = self.partition
        numbers: dict[Task, int] = {}
        contents: list[list[int]] = [[] for _ in partition.idle_gpus]
        groups: list[set[int]] = [set() for _ in partition.idle_gpus]
        self.staying = [False] * len(contents)
        for node, group in partition.groups:
            groups[node].add(group)
        for task, node in zip(partition.tasks, partition.nodes_of_tasks, strict=True):
            if task.movable:
                contents[node].append(numbers.setdefault(task, len(numbers)))
            else:
                self.staying[node] = True
                groups[node].add(task.group)
        self.kinds = list(numbers)
        idle = zip(partition.idle_gpus, partition.idle_cpus, partition.idle_memory_gb, strict=True)
        for (gpus, cpus, memory), members, present in zip(idle, contents, groups, strict=True):
            tasks = [self.kinds[kind] for kind in members]
            self.rooms.append(
                (
                    gpus + sum(task.gpus for task in tasks),
                    cpus + sum(task.cpus for task in tasks),
                    memory + sum(task.memory_gb for task in tasks),
                    frozenset(present - {NO_GROUP}),
                )
            )
        self.start = tuple(tuple(sorted(members)) for members in contents)

    def _spend(self, work: int = 1) -> None:
        self.work -= work
        if self.work < 0:
            raise SolverError("defrag: more states than may be looked at.", hint="Allow more states.")

    def goals(self, count: int) -> list[tuple[int, ...]]:
        """Sets of so many nodes without which the others have room for every task."""
        return [nodes for nodes in combinations(bits_of(self.partition.goals), count) if self._packs(nodes)]

    def order(self, goals: list[tuple[int, ...]], fewer_than: int | None) -> tuple[LocalMove, ...] | None:
        """The fewest moves that vacate one of the goals; None: there are none, or not `fewer_than` that many."""
        first = _missing(self.start, goals)
        if first is None:
            return None
        done, cost = {self.start: 0}, 1 + len(goals) // GOALS_A_STATE
        before: dict[State, tuple[State, int, int, int]] = {}
        heap = [(first, 0, self.start)]
        while heap:
            promised, negative, state = heappop(heap)
            if -negative > done[state]:
                continue  # reached by fewer moves since
            if fewer_than is not None and promised >= fewer_than:
                return None
            if promised == -negative:
                return self._told_apart(state, before)
            for kind, source, target in self._moves(state):
                self._spend(cost)
                after = _moved(state, kind, source, target)
                if 1 - negative < done.get(after, 1 + len(done) - negative):
                    done[after] = 1 - negative
                    before[after] = state, kind, source, target
                    # Of equal promise the one that has come furthest: most orders need no detour.
                    heappush(heap, (1 - negative + (_missing(after, goals) or 0), negative - 1, after))
        return None

    def _moves(self, state: State) -> Iterator[tuple[int, int, int]]:
        """Kind, source and target of every move that has room now, while both copies are up."""
        for target, contents in enumerate(state):
            if not contents and not self.staying[target]:
                continue  # an empty node is not opened
            room = self._room(target, contents)
            takes = [self._fits(kind, target, room) for kind in range(len(self.kinds))]
            for source, members in enumerate(state):
                if source != target:
                    yield from ((kind, source, target) for kind in dict.fromkeys(members) if takes[kind])

    def _room(self, node: int, contents: Contents) -> Room:
        """What is idle on a node with these tasks."""
        room = self.room_by_contents.get((node, contents))
        if room is None:
            room = self.rooms[node]
            for kind in contents:
                room = self._less(room, self.kinds[kind])
            self.room_by_contents[node, contents] = room
        return room

    def _fits(self, kind: int, node: int, room: Room) -> bool:
        task = self.kinds[kind]
        return bool(
            self.partition.allowed[task.need] >> node & 1
            and room[0] >= task.gpus
            and room[1] + ROUNDING >= task.cpus
            and room[2] + ROUNDING >= task.memory_gb
            and task.group not in room[3]
        )

    @staticmethod
    def _less(room: Room, task: Task) -> Room:
        groups = room[3] if task.group == NO_GROUP else room[3] | {task.group}
        return room[0] - task.gpus, room[1] - task.cpus, room[2] - task.memory_gb, groups

    def _packs(self, vacated: tuple[int, ...]) -> bool:
        """Whether the nodes in use but these have room for every task, in any arrangement."""
        nodes = [node for node, members in enumerate(self.start) if (members or self.staying[node])]
        bins = [node for node in nodes if node not in vacated]
        homes = [(kind, node) for node in nodes for kind in self.start[node]]
        # Large ones first, as they have the fewest places; alike ones lie side by side.
        homes.sort(key=lambda home: (-self.kinds[home[0]].gpus, -self.kinds[home[0]].cpus, home))
        hopeless: set[tuple[int, tuple[Room, ...]]] = set()
        return self._placed([kind for kind, _ in homes], bins, [self.rooms[node] for node in bins], hopeless)

    def _placed(
        self, homeless: list[int], bins: list[int], rooms: list[Room], hopeless: set[tuple[int, tuple[Room, ...]]]
    ) -> bool:
        """Whether the `homeless` kinds find places in these rooms."""
        if not homeless:
            return True
        key = len(homeless), tuple(rooms)
        if key in hopeless or sum(room[0] for room in rooms) < sum(self.kinds[kind].gpus for kind in homeless):
            return False
        self._spend()
        for at, node in enumerate(bins):
            if self._fits(homeless[0], node, rooms[at]):
                room, rooms[at] = rooms[at], self._less(rooms[at], self.kinds[homeless[0]])
                placed = self._placed(homeless[1:], bins, rooms, hopeless)
                rooms[at] = room
                if placed:
                    return True
        hopeless.add(key)
        return False

    def _told_apart(self, state: State, before: dict[State, tuple[State, int, int, int]]) -> tuple[LocalMove, ...]:
        """The moves to a state, of tasks by number."""
        steps = []
        while state in before:
            state, *step = before[state]
            steps.append(step)
        numbers = {task: kind for kind, task in enumerate(self.kinds)}
        place = list(self.partition.nodes_of_tasks)
        moves = []
        for kind, source, target in reversed(steps):
            # Any of those that are alike will do.
            number = next(
                number
                for number, task in enumerate(self.partition.tasks)
                if place[number] == source and numbers.get(task) == kind
            )
            place[number] = target
            moves.append((number, source, target))
        return tuple(moves)

    def works(self, moves: tuple[LocalMove, ...]) -> tuple[Chainwork, ...]:
        """The moves cut where a node has come free; who stops there has made none that only later nodes need."""
        works = []
        waiting = list(moves)
        tasks = list(self.partition.nodes_of_tasks)
        while waiting:
            end, goal = self._first_free(tasks, waiting)
            at = end - 1
            for place in range(at - 1, -1, -1):
                later = [*waiting[:place], *waiting[place + 1 : at + 1], waiting[place], *waiting[at + 1 :]]
                if self._first_free(tasks, later) == (at, goal):
                    waiting, at = later, at - 1
            works.append((goal, tuple(waiting[: at + 1])))
            for number, _, target in waiting[: at + 1]:
                tasks[number] = target
            waiting = waiting[at + 1 :]
        return tuple(works)

    def _first_free(self, tasks: list[int], moves: list[LocalMove]) -> tuple[int, int]:
        """How many of the moves free the first node, and which; (0, NOWHERE) where one of all the moves has no room."""
        kinds = {task: kind for kind, task in enumerate(self.kinds)}
        place, first = list(tasks), (0, NOWHERE)
        members: list[list[int]] = [[] for _ in self.rooms]
        for number, node in enumerate(place):
            if self.partition.tasks[number].movable:
                members[node].append(kinds[self.partition.tasks[number]])
        for done, (number, source, target) in enumerate(moves, start=1):
            kind = kinds[self.partition.tasks[number]]
            opened = not members[target] and not self.staying[target]
            room = self._room(target, tuple(sorted(members[target])))
            if opened or place[number] != source or not self._fits(kind, target, room):
                return 0, NOWHERE
            place[number] = target
            members[source].remove(kind)
            members[target].append(kind)
            if first[1] == NOWHERE and not members[source] and not self.staying[source]:
                first = done, source
        return first


def _missing(state: State, goals: list[tuple[int, ...]]) -> int | None:
    """Tasks on those of the goals that have the fewest: each takes a move. None: no goals."""
    return min((sum(len(state[node]) for node in nodes) for nodes in goals), default=None)


def _moved(state: State, kind: int, source: int, target: int) -> State:
    contents = list(state)
    leaving = list(contents[source])
    leaving.remove(kind)
    contents[source] = tuple(leaving)
    contents[target] = tuple(sorted((*contents[target], kind)))
    return tuple(contents)
