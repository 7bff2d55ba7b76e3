"""From an address to workers that were let in, and back: children ended, client and cluster closed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from planner.errors import InputError
from planner.runs.batches.dask_engine.admission import Admission, Tell
from planner.runs.batches.dask_engine.children import end_children
from planner.runs.batches.dask_engine.clusters import open_client, openness, require_address
from planner.runs.batches.dask_engine.dispatching import ABSENCE_S, Dispatcher

PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DaskSettings:
    """Workers of the Dask scheduler at `scheduler`; None: `workers` processes of a cluster on this machine.

    `patience_s`: how long a scheduler may take to answer, and a first worker to be there; `absence_s`: how long work
    waits where all workers have gone; `tell`: hears of workers that get no work, and of a scheduler that asks for no
    key. InputError: fewer than one worker, what cannot be an address, or one of another machine without TLS.
    """

    workers: int
    scheduler: str | None = None
    patience_s: float = PATIENCE_S
    absence_s: float = ABSENCE_S
    tell: Tell = lambda _: None

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"processes: must be at least 1, got {self.workers}.", hint="Give one or more.")
        if self.scheduler is not None:
            require_address(self.scheduler)


@contextmanager
def open_dispatcher(
    settings: DaskSettings, *, current: Path | None = None, folders: Sequence[Path] = (), files: Sequence[Path] = ()
) -> Iterator[Dispatcher]:
    """Workers ready for tasks, which have `current` as their current folder and see `folders` and `files`.

    Raises InputError where the scheduler does not answer, nobody works for it, or workers are not fit for it.
    """
    shared = folders if current is None else (current, *folders)
    if settings.scheduler is not None and (warning := openness(settings.scheduler)):
        settings.tell(warning)
    with open_client(settings.scheduler, settings.workers, settings.patience_s) as client:
        admission = Admission(client, shared, files, settings.tell)
        admission.begin(settings.patience_s)
        try:
            yield Dispatcher(client, admission, current=current, absence_s=settings.absence_s)
        finally:
            if client.status == "running":
                with suppress(Exception):  # they end with their worker, too
                    client.run(end_children, on_error="ignore")
