"""Moves planned on a cluster, in several processes, replayed, and as the files of a folder."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, TypeVar

from planner import defragmentation, export, files, report
from planner.domain import Cluster
from planner.domain.defragmentation import Defragmentation, DefragmentationSettings, MoveAim
from planner.errors import SolverError
from planner.files.plan.sealed_documents import sealed_text
from planner.processes import Workers

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
            README: report.migration_page(self.plan).encode(),
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
