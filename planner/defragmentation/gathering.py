"""Jobs that are scattered over switches or NVLink domains, each brought under one by as few moves as are found.

A job's pods outside come to the place where most of it lies already, by chains as in consolidation; who gives way may
go to the nodes that the job leaves. No fewer nodes are empty afterwards: a node is opened only where another one is
left. How far a job is scattered is its entropy over the places, H = -sum p ln p (ASI paper, equation 1).
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

from planner.defragmentation.boards import Board, board_of
from planner.defragmentation.ordering import RawStep, ordered
from planner.defragmentation.partitions import Floor, Partition
from planner.domain import Cluster, ClusterNode
from planner.domain.defragmentation import (
    Defragmentation,
    DefragmentationRound,
    DefragmentationSettings,
    GatheredJob,
    MoveAim,
)
from planner.errors import InputError

MOST_PLACES = 4
"""Places that are tried for a job, those with most of it first."""


@dataclass(frozen=True, slots=True)
class _Job:
    """Tasks of one job on one GPU type."""

    name: str
    gpu: str
    tasks: tuple[int, ...]


def gather(cluster: Cluster, settings: DefragmentationSettings) -> Defragmentation:
    """The moves that bring each scattered job under one switch, or into one NVLink domain (`settings.aim`).

    Raises:
        InputError: the cluster contradicts itself; its nodes name no such places, or its pods no jobs.
    """
    board = board_of(cluster)
    places = [_place(node, settings.aim) for node in board.nodes]
    jobs = _jobs(board)
    _require_any(cluster, settings.aim, places, jobs)
    work = board.copy()
    steps, gathered, left_out = [], [], list(board.left_out)
    for job in sorted(jobs, key=lambda job: (_outside(work, job, places), job.name, job.gpu)):
        before = _gpus_by_place(work, job, places)
        # A node that names no place may be anywhere: a job on it counts as scattered.
        if len(before) < 2 and "" not in before:
            continue
        step, place = _gathered(work, job, places, settings)
        if step is None:
            left_out.append(f"job {job.name}: no place takes the whole of it ({sum(before.values())} GPUs)")
            continue
        for task, _, target in step.moves:
            work.move(task, target)
        steps.append(step)
        gathered.append(
            GatheredJob(
                job=step.goal,
                place=place,
                gpus=step.gpus,
                moves=len(step.moves),
                entropy_before=entropy(list(before.values())),
            )
        )
    rounds = (DefragmentationRound(number=1, steps=len(steps), moves=sum(len(step.moves) for step in steps)),)
    return replace(ordered(cluster, board, steps, settings, rounds, gathered), left_out=tuple(left_out))


def entropy(amounts: Sequence[int]) -> float:
    """-sum p ln p of shares of a total (nats)."""
    total = sum(amounts)
    # Added 0.0: the entropy of a single place is 0, not -0.
    return -sum(amount / total * log(amount / total) for amount in amounts if amount) + 0.0


def _place(node: ClusterNode, aim: MoveAim) -> str:
    return node.nvlink_domain if aim is MoveAim.NVLINK_DOMAIN else node.asw


def _require_any(cluster: Cluster, aim: MoveAim, places: Sequence[str], jobs: Sequence[_Job]) -> None:
    key = "nvlink_domain" if aim is MoveAim.NVLINK_DOMAIN else "asw"
    if not any(places):
        raise InputError(
            f"cluster {cluster.name}: nodes must name their {key} so that jobs can be gathered, none does.",
            hint=f"Add {key} to the nodes.",
        )
    if not jobs:
        raise InputError(
            f"cluster {cluster.name}: pods must name their job so that jobs can be gathered, none does.",
            hint="Add job to the pods of one job or island.",
        )


def _jobs(board: Board) -> list[_Job]:
    """Jobs by name and GPU type: what is under one switch is of one type."""
    tasks: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, pod in enumerate(board.pods):
        if pod.job and pod.gpu_count:
            tasks[pod.job, board.nodes[board.seats[number]].gpu].append(number)
    types = Counter(job for job, _ in tasks)
    return [
        _Job(name if types[name] == 1 else f"{name} ({gpu})", gpu, tuple(numbers))
        for (name, gpu), numbers in tasks.items()
    ]


def _gpus_by_place(board: Board, job: _Job, places: Sequence[str]) -> Counter[str]:
    gpus: Counter[str] = Counter()
    for task in job.tasks:
        gpus[places[board.seats[task]]] += board.tasks[task].gpus
    return gpus


def _outside(board: Board, job: _Job, places: Sequence[str]) -> int:
    """GPUs that are not where most of the job lies."""
    gpus = _gpus_by_place(board, job, places)
    return gpus.total() - max(count for count in gpus.values())


def _gathered(
    board: Board, job: _Job, places: Sequence[str], settings: DefragmentationSettings
) -> tuple[RawStep | None, str]:
    """The fewest moves among the places that are tried, and the place."""
    best: tuple[RawStep | None, str] = (None, "")
    for place in _candidates(board, job, places):
        moves = _moves_to(board, job, place, places, settings)
        if moves and (best[0] is None or len(moves) < len(best[0].moves)):
            gpus = sum(board.tasks[task].gpus for task in job.tasks)
            best = RawStep(job.name, board.seats[job.tasks[0]], moves, gpus), place
    return best


def _candidates(board: Board, job: _Job, places: Sequence[str]) -> list[str]:
    """Places of the type that are large enough, those with most of the job first."""
    sizes: Counter[str] = Counter()
    for node, place in enumerate(places):
        if place and board.sound[node] and board.nodes[node].gpu == job.gpu:
            sizes[place] += len(board.nodes[node].gpus)
    by_place = _gpus_by_place(board, job, places)
    fitting = [place for place in sizes if sizes[place] >= by_place.total()]
    return sorted(fitting, key=lambda place: (-by_place[place], place))[:MOST_PLACES]


def _moves_to(
    board: Board, job: _Job, place: str, places: Sequence[str], settings: DefragmentationSettings
) -> tuple[tuple[int, int, int], ...]:
    """Moves that bring every task of the job to the place; none where one of them cannot come."""
    seats = {board.seats[task] for task in job.tasks}
    inside = [
        node
        for node, name in enumerate(places)
        if name == place and board.sound[node] and board.nodes[node].gpu == job.gpu
    ]
    nodes = [*inside, *sorted(node for node in seats if board.sound[node] and places[node] != place)]
    # A seat that is missing lies on a node with a fault, which is left alone: the job cannot be whole.
    if not seats <= set(nodes):
        return ()
    # Empty nodes may be filled, as the job leaves others empty; how many are is counted at the end.
    partition, numbers = board.partition(nodes, opened=True)
    local = {number: at for at, number in enumerate(numbers)}
    members = [local[task] for task in job.tasks]
    floor = Floor(_kept_inside(partition, members, (1 << len(inside)) - 1), settings.depth, settings.width)
    empty = sum(not tasks for tasks in floor.on_node)
    # Room for a large task is rare, and the small ones would take it.
    members.sort(key=lambda task: (-floor.tasks[task].gpus, task))
    if not all(_brought(floor, task, len(inside), settings.depth) for task in members):
        return ()
    if sum(not tasks for tasks in floor.on_node) < empty:
        return ()
    return tuple((numbers[task], nodes[source], nodes[target]) for task, source, target in floor.log)


def _kept_inside(partition: Partition, members: Sequence[int], inside: int) -> Partition:
    """The partition in which the job's tasks may only come to the place."""
    rows: dict[int, int] = {}
    allowed = list(partition.allowed)
    tasks = list(partition.tasks)
    for task in members:
        need = tasks[task].need
        # A row of its own: tasks of other jobs that ask for the same may still go anywhere.
        if need not in rows:
            rows[need] = len(allowed)
            allowed.append(allowed[need] & inside)
        tasks[task] = replace(tasks[task], need=rows[need])
    return replace(partition, tasks=tuple(tasks), allowed=tuple(allowed))


def _brought(floor: Floor, task: int, inside: int, depth: int) -> bool:
    """Whether the task is at the place, or comes there."""
    if floor.place[task] < inside:
        return True
    # No node to avoid: its row leads to the place alone.
    return floor.tasks[task].movable and floor.eject(task, depth, 0)
