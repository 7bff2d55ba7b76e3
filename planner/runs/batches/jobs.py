"""Jobs of a batch: what is to be planned, what decides its result, how it ended; and who executes them.

What is remembered is known by the content of its files, and a few of them at a time.

What a batch guarantees, whatever executes it:

- A job is a frozen record of plain values: it can be sent to another process, or to another machine that sees the same
  files.
- Its `content` is a digest of everything that decides the plan: the scenario with every key and every file that it
  draws on, the engine, and the versions of the planner and of the libraries that shape its numbers. Jobs of equal
  content give equal plans. Not in it, as they change no figure: the number
  of processes, the names and comments of files, and where the run is written.
- A job's run folder is there whole or not at all. Who executes a job twice writes the same bytes, but for CPU-seconds
  that were measured, and for the names and digests of input files.
- An outcome comes for every job, failures among them; a job that fails, or is killed, leaves the others alone.
"""

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from planner import files
from planner.domain import InputHash, LengthProfile, RequestTrace, Scenario
from planner.domain.comparisons import PlanFigures
from planner.errors import InputError
from planner.files.scenario.settings import Setting
from planner.files.tables.workloads import files_of_workload, read_workload
from planner.plans.provenance import versions
from planner.workload import summarize

MOST_WORKLOADS = 4
"""Remembered at a time: a trace of a million requests has some 24 MB."""


class _Same:
    """A trace that equals itself alone: to compare a million requests would take longer than it saves."""

    def __init__(self, trace: RequestTrace) -> None:
        self.trace = trace

    def __hash__(self) -> int:
        return id(self.trace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.trace is self.trace


def load_scenario_again(path: Path, settings: Sequence[Setting] = ()) -> Scenario:
    """As `files.load_scenario`, for one job after the other. Raises InputError."""
    return files.load_scenario(path, lambda trace: _counted(_Same(trace)), settings, _read_requests)


def _read_requests(path: Path) -> tuple[LengthProfile | RequestTrace, tuple[InputHash, ...]]:
    return _read(path, tuple(files.input_hash(file).sha256 for file in files_of_workload(path)))


@lru_cache(maxsize=MOST_WORKLOADS)
def _read(path: Path, _contents: tuple[str, ...]) -> tuple[LengthProfile | RequestTrace, tuple[InputHash, ...]]:
    return read_workload(path)


@lru_cache(maxsize=MOST_WORKLOADS)
def _counted(same: _Same) -> LengthProfile:
    return summarize(same.trace)


ENGINE = "vllm"
_TABLES = ("workload", "model", "cost", "ranges")
"""What tables of rates rest on, beside the GPU types; in the order of what takes longest to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A scenario file, its run folder, and what the command line changes. None keeps the scenario's own value, or that
    of the search in the folder where the job resumes one.

    `settings`: keys of the scenario that are set anew. `content`: digest of what decides the result, as `content_of`
    works it out; a job that has one is refused where the scenario is not that any more (empty: not worked out), and
    resumes an unfinished search in its folder. `kin`: digest of what its tables rest on; jobs of the same are best done
    by the same worker, one after the other. `figures`: whether the run has pictures, which take longer than
    a small plan.
    """

    scenario: Path | None
    folder: Path
    force: bool = False
    seed: int | None = None
    processes: int | None = None
    engine: str | None = None
    settings: tuple[Setting, ...] = ()
    content: str = ""
    kin: str = ""
    figures: bool = True

    @property
    def name(self) -> str:
        """The job's name before anything is read."""
        return self.scenario.stem if self.scenario else self.folder.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job ended: `status` is the exit status it would have alone, `message` its error, or what was different.

    `low_rps`, `high_rps`: P10 and P90 of the throughput, where its estimates have bands. `figures`: of the plan, for
    tables of many. `worker_died`: the job did not fail, who executed it did; `unwritable`: the disk is full, or may not
    be written. `cpu_s`, `wall_s`: what the job took where it was executed.
    """

    scenario: str
    folder: str
    status: int
    message: str = ""
    throughput_rps: float | None = None
    low_rps: float | None = None
    high_rps: float | None = None
    prefill_rps: float | None = None
    decode_rps: float | None = None
    price_usd_per_hour: float | None = None
    price_usd_per_million_tokens: float | None = None
    warnings: tuple[str, ...] = ()
    figures: PlanFigures | None = None
    worker_died: bool = False
    unwritable: bool = False
    cpu_s: float = field(default=0.0, compare=False)
    wall_s: float = field(default=0.0, compare=False)


def read_job(job: Job) -> Scenario:
    """The scenario of the job's file, with its settings; the process of a batch reads a workload once. InputError."""
    assert job.scenario is not None
    if job.content:
        return load_scenario_again(job.scenario, job.settings)
    return files.load_scenario(job.scenario, summarize, job.settings)


def altered(scenario: Scenario, job: Job) -> Scenario:
    """The scenario with what the command line changes."""
    search = scenario.search
    seed = search.seed if job.seed is None else job.seed
    processes = search.processes if job.processes is None else job.processes
    engine = scenario.engine if job.engine in (None, scenario.engine.name) else files.load_engine(job.engine)
    return replace(scenario, search=replace(search, seed=seed, processes=processes), engine=engine)


def content_of(scenario: Scenario, engine: str) -> str:
    """Digest (SHA-256, hexadecimal) of everything that decides the plan of `scenario`, as the module says."""
    return _content(_document(scenario), engine)


def _document(scenario: Scenario) -> Mapping[str, object]:
    return files.scenario_document(replace(scenario, search=replace(scenario.search, processes=1)))


def _content(document: Mapping[str, object], engine: str) -> str:
    return _digest({"scenario": document, "engine": engine, "versions": versions()})


def _digest(document: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def with_content(job: Job) -> Job:
    """The job with the digest of what its scenario says now, and of what its tables rest on. Raises InputError."""
    assert job.scenario is not None
    scenario = altered(load_scenario_again(job.scenario, job.settings), job)
    document = _document(scenario)
    content = _content(document, job.engine or scenario.engine.name or ENGINE)
    return replace(job, content=content, kin=_digest({key: document.get(key) for key in _TABLES}))


def require_content(job: Job, scenario: Scenario, engine: str) -> None:
    """InputError where the job was meant for another scenario than its file holds by now."""
    if job.content and job.content != content_of(scenario, engine):
        raise InputError(
            f"{job.scenario}: must be as it was when the jobs were made, was changed since.",
            hint="Run the batch again with --resume: only what is missing or changed is planned.",
        )


class Executor(Protocol):
    """Executes jobs.

    An implementation yields one outcome a job, in the order in which they end, failures among them: a job whose worker
    dies is a failure of its own. Closing the generator, or an interrupt in it, ends what is under way; then run folders
    are whole or not there, and searches have their journals.
    """

    def run(self, jobs: Sequence[Job], /) -> Generator[Outcome, None, None]:
        """Outcomes as they come."""
