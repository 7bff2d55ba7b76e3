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
from planner.domain.turnover import ChurnFigures, ChurnTask, Rhythm, RhythmChoice, RhythmSettings
from planner.errors import InputError, SolverError
from planner.files.plan.digests import sealed_text
from planner.placement.diagnosis import diagnose
from planner.processes.workers import Workers
from planner.replay.measures.columns import spread
from planner.runs.pages import page_bytes


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


HOURS_A_DAY = 24.0
RHYTHM_TABLE, RHYTHM_DOCUMENT, RHYTHM_PAGE = "rhythms.csv", "rhythms.json", "report.html"


def rhythm_file_names() -> tuple[str, ...]:
    """What `rhythm_files` may hold."""
    return (README, RHYTHM_TABLE, RHYTHM_DOCUMENT, RHYTHM_PAGE)


def rhythm_files(choice: RhythmChoice) -> dict[str, bytes]:
    """A comparison of rhythms as the files of a folder."""
    page = report.rhythms_page(choice)
    return {
        README: report.page_text(page).encode(),
        RHYTHM_TABLE: report.rhythms_csv(choice),
        RHYTHM_DOCUMENT: sealed_text(report.rhythms_document(choice)),
        RHYTHM_PAGE: page_bytes(page),
    }


def compare_rhythms(
    cluster: Cluster,
    settings: RhythmSettings,
    moving: DefragmentationSettings,
    *,
    tasks: Sequence[ChurnTask] = (),
    processes: int = 1,
) -> RhythmChoice:
    """The cluster's life under each rhythm, on the same tasks of each seed, and the last rhythm worth its moves.

    InputError: nothing that comes and goes, tasks that fit nowhere or end early, a cluster that contradicts itself.
    """
    last_h, hours = max((task.submit_h for task in tasks), default=float("inf")), HOURS_A_DAY * settings.days
    if last_h < hours:
        raise InputError(
            f"tasks: must come for the {hours:g} hours that are simulated, the last comes after {last_h:g}.",
            hint="Ask for fewer --days, or give more tasks.",
        )
    lives = [
        (cluster, settings, moving, tasks, seed, every) for every in settings.every_hours for seed in settings.seeds
    ]
    with Workers(processes) as workers:
        figures = list(_Crew(workers, processes)(_life, lives))
    count = len(settings.seeds)
    by_rhythm = [figures[at : at + count] for at in range(0, len(figures), count)]
    sizes = [len(node.gpus) for node in cluster.nodes if node.gpus]
    rhythms: list[Rhythm] = []
    reference: tuple[Rhythm, list[ChurnFigures]] | None = None
    for every, rows in zip(settings.every_hours, by_rhythm, strict=True):
        rhythms.append(_rhythm(every, rows, by_rhythm[0], reference, settings, moving.overlap_hours))
        if rhythms[-1].worth:
            reference = rhythms[-1], rows
    return RhythmChoice(
        cluster=cluster.name,
        settings=settings,
        overlap_hours=moving.overlap_hours,
        nodes=len(sizes),
        gpus=sum(sizes),
        held_percent=spread([row.held_percent for row in by_rhythm[0]]).mean,
        tasks=len(tasks),
        rhythms=tuple(rhythms),
        recommended=next(row.every_hours for row in reversed(rhythms) if row.worth),
    )


def _life(
    cluster: Cluster,
    settings: RhythmSettings,
    moving: DefragmentationSettings,
    tasks: Sequence[ChurnTask],
    seed: int,
    every_hours: float | None,
) -> ChurnFigures:
    """What a seed's tasks make of the cluster under one rhythm."""
    hours = max(1, round(HOURS_A_DAY * settings.days))
    turnover = defragmentation.turnover_of(cluster, seed, hours=hours, life_hours=settings.life_hours, tasks=tasks)
    return defragmentation.simulate_churn(turnover, seed, every_hours, moving).figures


def _rhythm(
    every_hours: float | None,
    rows: Sequence[ChurnFigures],
    never: Sequence[ChurnFigures],
    reference: tuple[Rhythm, Sequence[ChurnFigures]] | None,
    settings: RhythmSettings,
    overlap_hours: float,
) -> Rhythm:
    """A rhythm beside never, and its step from the last one that was worth it."""
    days = rows[0].hours / HOURS_A_DAY
    # Seed by seed: both had the same tasks, so that what seeds differ by falls out.
    pairs = list(zip(rows, never, strict=True))
    freed = spread([HOURS_A_DAY * (row.empty - base.empty) for row, base in pairs])
    moves = spread([row.moves / days for row in rows])
    freed_gpu_hours = spread([HOURS_A_DAY * (row.empty_gpus - base.empty_gpus) for row, base in pairs]).mean
    twice_gpu_hours = overlap_hours * spread([row.moved_gpus / days for row in rows]).mean
    step, worth = None, reference is None
    if reference:
        last, others = reference
        gain = spread([HOURS_A_DAY * (row.empty - base.empty) for row, base in zip(rows, others, strict=True)])
        step = (moves.mean - last.moves.mean) / gain.mean if gain.mean > 0 else None
        limit = settings.most_moves_per_node_hour
        pays = twice_gpu_hours - last.twice_gpu_hours <= freed_gpu_hours - last.freed_gpu_hours
        # A gain whose interval has 0 in it may be the seeds' alone.
        worth = step is not None and (gain.low or 0.0) > 0 and (pays if limit is None else step <= limit)
    return Rhythm(
        every_hours=every_hours,
        empty=spread([row.empty for row in rows]),
        not_full=spread([row.not_full for row in rows]),
        freed=freed,
        freed_gpu_hours=freed_gpu_hours,
        moves=moves,
        twice_gpu_hours=twice_gpu_hours,
        step=step,
        worth=worth,
    )
