"""Tasks to workers: each worker has as many as it works on at once, and what a dead one had goes to another, once."""

import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from distributed import Client, Future, KilledWorker

from planner.errors import PlannerError
from planner.processes.interrupts import check
from planner.processes.workers import WAKE_S
from planner.runs.batches.dask_engine.admission import AGAIN, LOOK_S, Admission, lost
from planner.runs.batches.dask_engine.children import ChildDeath, UnwantedError, answer_in_child

Answer = TypeVar("Answer")
ABSENCE_S = 60.0
"""How long work waits for a worker where all have gone: a pod that is started anew may take that long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Generic[Answer]):
    """How the task at `place` ended: with an answer, an exception of its own, or a death."""

    place: int
    answer: Answer | None = None
    error: BaseException | None = None
    death: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Errand:
    place: int
    worker: str
    deaths: int


class Dispatcher:
    """Hands tasks to the workers that `admission` lets in."""

    def __init__(
        self, client: Client, admission: Admission, *, current: Path | None = None, absence_s: float = ABSENCE_S
    ) -> None:
        self._current = current
        self._client, self._admission, self._absence_s = client, admission, absence_s
        self._running: dict[Future[Any], _Errand] = {}
        self._ended: SimpleQueue[Future[Any]] = SimpleQueue()
        self._looked_s = time.monotonic()
        self._served_s = time.monotonic()

    def run(
        self,
        function: Callable[..., Answer],
        tasks: Sequence[tuple[Any, ...]],
        again: Callable[..., Answer] | None = None,
    ) -> Generator[Ended[Answer], None, None]:
        """One for each task, as they end. `again`: in place of `function` after a first worker died of the task, or
        with it. Left early, what is under way is called off.

        Raises PlannerError where the scheduler goes, or no worker is left.
        """
        waiting = deque((place, 0) for place in range(len(tasks)))
        self._served_s = time.monotonic()
        try:
            while waiting or self._running:
                for worker in self._free():
                    if waiting:
                        place, deaths = waiting.popleft()
                        self._submit(again if again and deaths else function, tasks[place], place, deaths, worker)
                for errand, ended in self._next():
                    if ended.death and not errand.deaths:  # it may have been ended for what others did
                        waiting.appendleft((errand.place, 1))
                    else:
                        yield ended
        finally:
            self._call_off()

    def _free(self) -> list[str]:
        """A worker for every task that could begin now, the least busy first."""
        busy = Counter(errand.worker for errand in self._running.values())
        rooms = [
            (number, address)
            for address, threads in sorted(self._admission.threads.items())
            for number in range(busy[address], threads)
        ]
        return [address for _, address in sorted(rooms)]

    def _submit(
        self, function: Callable[..., Answer], task: tuple[Any, ...], place: int, deaths: int, worker: str
    ) -> None:
        future = self._client.submit(
            answer_in_child, self._current, function, task, workers=[worker], allow_other_workers=False, pure=False
        )
        self._running[future] = _Errand(place=place, worker=worker, deaths=deaths)
        future.add_done_callback(self._ended.put)

    def _next(self) -> list[tuple[_Errand, Ended[Any]]]:
        """What ends next, or what a worker that has gone had; nothing, where nothing happens for a while."""
        check()
        ended: list[tuple[_Errand, Ended[Any]]] = []
        try:
            future = self._ended.get(timeout=WAKE_S)
            while True:
                errand = self._running.pop(future, None)
                if errand is not None:  # else it was called off
                    ended.append((errand, self._outcome(future, errand)))
                future = self._ended.get_nowait()
        except Empty:
            pass
        if time.monotonic() - self._looked_s > LOOK_S:
            ended += self._look()
        return ended

    def _look(self) -> list[tuple[_Errand, Ended[Any]]]:
        """The tasks of workers that have gone."""
        self._admission.look()
        self._looked_s = time.monotonic()
        present = self._admission.threads
        if present:
            self._served_s = self._looked_s
        elif self._looked_s - self._served_s > self._absence_s:
            raise PlannerError(
                f"{self._admission.scheduler}: no worker is left. {self._admission.why_none()}".strip(),
                hint=AGAIN,
            )
        orphans = [future for future, errand in self._running.items() if errand.worker not in present]
        errands = [(future, self._running.pop(future)) for future in orphans]
        for future, _ in errands:
            future.cancel()
        return [(errand, _death(errand)) for _, errand in errands]

    def _outcome(self, future: Future[Any], errand: _Errand) -> Ended[Any]:
        if future.status == "finished":
            answer = future.result()
            if isinstance(answer, ChildDeath):
                return Ended(place=errand.place, death=answer.reason)
            return Ended(place=errand.place, answer=answer)
        if future.status == "error":
            error = future.exception()
            if isinstance(error, KilledWorker | UnwantedError):
                return _death(errand)
            return Ended(place=errand.place, error=error)
        if self._client.status != "running":
            raise lost(self._admission.scheduler)
        return _death(errand)  # cancelled: its worker, or somebody else, has called it off

    def _call_off(self) -> None:
        for future in self._running:
            future.cancel()
        self._running.clear()


def _death(errand: _Errand) -> Ended[Any]:
    return Ended(place=errand.place, death=f"its worker {errand.worker} has gone")
