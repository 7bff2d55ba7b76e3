"""Jobs on this machine: in processes of their own, or one after the other in this one.

A process takes one job at a time, and another when that has ended: a job that kills its process takes no other with it.
"""

import multiprocessing
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from planner.errors import EXIT_FAILURE, EXIT_INTERRUPTED, InputError
from planner.processes.interrupts import Interrupts, heeded
from planner.processes.workers import deaf_to_interrupts, end_with_parent
from planner.runs.batches.jobs import Job, Outcome
from planner.runs.batches.running import failure, outcome_of

PATIENCE_S = 10.0
"""How long a worker may take to end with its best so far; a solver deep in a branch tree may take longer, and is not
waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalExecutor:
    """At most `workers` processes, each started when there is a job for it. InputError: fewer than one."""

    workers: int

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"processes: must be at least 1, got {self.workers}.", hint="Give one or more.")

    def run(self, jobs: Sequence[Job], /) -> Generator[Outcome, None, None]:
        """Outcomes as jobs end; see `Executor`."""
        waiting = list(reversed(jobs))
        idle: list[_Worker] = []
        busy: dict[Connection, tuple[Job, _Worker]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.workers:
                    worker, job = idle.pop() if idle else _Worker(), waiting.pop()
                    worker.take(job)
                    busy[worker.answers] = (job, worker)
                for ready in wait(list(busy)):
                    assert isinstance(ready, Connection)
                    job, worker = busy.pop(ready)
                    outcome, alive = worker.answer(job)
                    if alive and waiting:
                        idle.append(worker)
                    else:
                        worker.dismiss()
                    yield outcome
        finally:
            _stop(worker.process for worker in [*idle, *(worker for _, worker in busy.values())])


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialExecutor:
    """One job after the other in this very process: for programs that start no others. An interrupt is raised."""

    def run(self, jobs: Sequence[Job], /) -> Generator[Outcome, None, None]:
        """Outcomes as jobs end; see `Executor`."""
        for job in jobs:
            outcome = outcome_of(job)
            yield outcome
            if outcome.status == EXIT_INTERRUPTED:  # a search that made a run of its best so far
                raise KeyboardInterrupt


def run_scenarios(jobs: Sequence[Job], workers: int) -> Generator[Outcome, None, None]:
    """Run `jobs`, at most `workers` at once; outcomes come as they end, failures among them."""
    return LocalExecutor(workers=workers).run(jobs)


class _Worker:
    """A process, with a line to hand it jobs and one for its answers."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        receives, self._jobs = context.Pipe(duplex=False)
        self.answers, answering = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(target=_work, args=(receives, answering))
        with deaf_to_interrupts():
            self.process.start()
        receives.close()
        answering.close()

    def take(self, job: Job) -> None:
        """Hand it a job; one that cannot take it answers nothing, which is seen when its answer is waited for."""
        with suppress(BrokenPipeError):
            self._jobs.send(job)

    def answer(self, job: Job) -> tuple[Outcome, bool]:
        """Its outcome, and whether the process goes on."""
        try:
            outcome = self.answers.recv()
        except EOFError:
            self.process.join()
            reason = f"its process ended without an answer (exit code {self.process.exitcode})"
            return failure(job, EXIT_FAILURE, reason, worker_died=True), False
        assert isinstance(outcome, Outcome)
        return outcome, True

    def dismiss(self) -> None:
        """No further job: the process ends."""
        self._jobs.close()
        self.process.join()
        self.answers.close()


def _stop(processes: Iterable[BaseProcess]) -> None:
    stopped = list(processes)
    for process in stopped:
        process.terminate()
    for process in stopped:
        process.join(PATIENCE_S)
        process.kill()
        process.join()


def _work(jobs: Connection, answers: Connection) -> None:
    """A worker's whole life. Whatever goes wrong becomes an outcome, or an end that the parent reports."""
    end_with_parent()
    while True:
        try:
            job = jobs.recv()
        except EOFError:  # no further job
            return
        with heeded() as interrupts:
            outcome = _outcome_of(job, interrupts)
            try:
                answers.send(outcome)
            except BrokenPipeError:  # nobody listens any more
                return
        if interrupts.number is not None:
            return


def _outcome_of(job: Job, interrupts: Interrupts) -> Outcome:
    try:
        return outcome_of(job)
    except KeyboardInterrupt:
        return failure(job, interrupts.status, "interrupted")
