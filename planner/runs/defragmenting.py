"""Moves planned on a cluster and replayed, as the files of a folder; and a diagnosis with what they open."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from planner import defragmentation, export, files, report
from planner.defragmentation import consolidate
from planner.domain import Cluster, Qos
from planner.domain.defragmentation import Defragmentation, DefragmentationSettings, Move, MoveAim
from planner.domain.diagnosis import ChangeKind, ClusterDiagnosis, GpuRequest, RequestDiagnosis, UnlockingChange
from planner.errors import SolverError
from planner.files.plan.digests import sealed_text
from planner.placement.diagnosis import diagnose
from planner.processes.workers import Workers


def with_moves(diagnosis: ClusterDiagnosis, cluster: Cluster) -> ClusterDiagnosis:
    """The diagnosis of this cluster with a change more a request: the moves that vacate nodes (IPC), a count, no bound.

    InputError: a cluster that contradicts itself.
    """
    requests = tuple(dict.fromkeys(row.request for row in diagnosis.requests))
    moves = consolidate(cluster).moves
    if not moves or not requests:
        return diagnosis
    after = _fits_after(cluster, moves, requests, diagnosis.qos, guaranteed_only=diagnosis.guaranteed_only)
    counts = {"": len(moves)}
    types = {node.name: node.gpu for node in cluster.nodes}
    for move in moves:
        counts[types[move.source]] = counts.get(types[move.source], 0) + 1
    rows = tuple(_row(row, after[row.gpu, row.request], counts.get(row.gpu, 0)) for row in diagnosis.requests)
    return replace(diagnosis, requests=rows)


def _fits_after(
    cluster: Cluster, moves: Sequence[Move], requests: tuple[GpuRequest, ...], qos: Qos, *, guaranteed_only: bool
) -> dict[tuple[str, GpuRequest], int]:
    places = {move.pod: move for move in moves}  # the last move of a pod counts
    pods = tuple(
        replace(pod, node=places[pod.key].target, gpus=places[pod.key].gpu_indices, cores=())
        if pod.key in places
        else pod
        for pod in cluster.pods
    )
    moved = diagnose(replace(cluster, pods=pods), requests=requests, jobs=(), qos=qos, guaranteed_only=guaranteed_only)
    return {(row.gpu, row.request): row.fit for row in moved.requests}


def _row(row: RequestDiagnosis, fit: int, moves: int) -> RequestDiagnosis:
    if fit <= row.fit:
        return row
    change = UnlockingChange(kind=ChangeKind.MOVES, amount=moves, gpus=(fit - row.fit) * row.request.gpus)
    changes = sorted((*row.changes, change), key=lambda c: (c.kind.evicts, -c.gpus, c.at_most, c.amount))
    return replace(row, changes=tuple(changes))


Answer = TypeVar("Answer")
README, MOVES, TABLE, AFTER = "README.md", "moves.json", "moves.csv", "cluster-after.yaml"
FEWEST_TASKS = 8
"""Partitions below which starting processes takes longer than the work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """Moves and the cluster after them, as the replay has it."""

    plan: Defragmentation
    after: Cluster

    @property
    def files(self) -> dict[str, bytes]:
        """Every file by its path.

        Raises InputError where a name could not stand in a script.
        """
        return {
            README: report.page_text(report.migration_page(self.plan)).encode(),
            MOVES: sealed_text(report.migration_document(self.plan)),
            TABLE: report.moves_csv(self.plan),
            AFTER: files.cluster_text(self.after).encode(),
            **{name: content.encode() for name, content in export.migration_files(self.plan).items()},
        }


def file_names() -> tuple[str, ...]:
    """What `Migration.files` may hold."""
    return (README, MOVES, TABLE, AFTER, export.MIGRATION_SCRIPT, f"{export.MIGRATION_FOLDER}/step-0001.json")


def migrate(cluster: Cluster, settings: DefragmentationSettings, *, processes: int = 1) -> Migration:
    """Plan the moves that `settings.aim` asks for and replay them on the cluster.

    Raises:
        InputError: the cluster contradicts itself.
        InconsistentPlanError: a move would not be safe.
    """
    if settings.aim is MoveAim.NODES:
        with Workers(processes) as workers:  # none is started before it has something to do
            plan = defragmentation.consolidate(cluster, settings, run=_Crew(workers, processes))
    else:
        plan = defragmentation.gather(cluster, settings)
    return Migration(plan=plan, after=defragmentation.replay(cluster, plan.moves))


class _Crew:
    """Runs partitions in so many processes, where they are enough to be worth it; the processes stay for all rounds."""

    def __init__(self, workers: Workers, processes: int) -> None:
        self._workers, self._processes = workers, processes

    def __call__(self, function: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]]) -> Iterable[Answer]:
        """The answers in order."""
        if self._processes == 1 or len(tasks) < FEWEST_TASKS:
            return (function(*task) for task in tasks)
        return self._at_once(function, tasks)

    def _at_once(self, function: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Answer]:
        for answer in self._workers.run(function, tasks):
            if isinstance(answer, BrokenProcessPool):
                raise SolverError(
                    "defrag: the process of a partition died twice.",
                    hint="Give it more memory, or fewer --processes.",
                ) from answer
            yield answer
