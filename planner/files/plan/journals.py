"""The journal of a search on disk: what it has done, so that a later process can go on from there.

`search/journal.jsonl` in the run's folder: a header (format, versions, scenario, engine), then a line for each round
proposed and each trial judged, in the order of their happening. A resume adds a header where the scenario has changed
in keys that do not decide the search, and tells which evaluations that broke off are made `again`. A line holds a
checksum of itself and is on the disk before the search goes on. One that a kill cut short is the last, without its end,
and counts as never written; its work is done again. `search/experiment.json` is the experiment as its library saves it.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from planner.domain import InputHash, Judged, LengthProfile, Proposed, RequestTrace, Scenario, Trial
from planner.errors import InputError
from planner.files.disk.folders import (
    EXPERIMENT_FILE,
    JOURNAL_FILE,
    SEARCH_FOLDER,
    at_work,
    entered,
    errors_told,
    place_of,
    refuse_what_is_there,
    remove_empty,
    sync,
    to_be_made,
)
from planner.files.disk.opening import MOST_OF_A_LIST, read_bytes, require_regular
from planner.files.plan.journal_lines import Document, append, damaged, line_of, lock, rows_of, write_all
from planner.files.plan.plan_document import judged_document, read_judged
from planner.files.records import load_record, record_document
from planner.files.scenario.scenario_documents import scenario_document, scenario_hash
from planner.files.scenario.scenarios import scenario_from_document
from planner.processes.interrupts import held_back

FORMAT = 2
EARLIER_EXPERIMENT = f"earlier-{EXPERIMENT_FILE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undertaking:
    """What a journal is of. `versions`: planner, Python and libraries; `engine`: of the manifests."""

    scenario: Scenario
    versions: tuple[tuple[str, str], ...]
    engine: str


class Journal:
    """A `SearchJournal` in the folder of a run, which no other planner can open meanwhile."""

    def __init__(self, folder: Path, undertaking: Undertaking, descriptor: int, topmost: Path) -> None:
        self.undertaking = undertaking
        self._folder = folder
        self._search = place_of(folder) / SEARCH_FOLDER
        self._made = topmost
        self._descriptor = descriptor
        self._whole = True
        self._proposed: list[Proposed] = []
        self._judged: list[Judged | None] = []  # None: to be judged again
        self._announced = 0

    @classmethod
    def begin(cls, folder: Path, undertaking: Undertaking, *, force: bool = False) -> Self:
        """A new journal in `folder`, made with its parents where it is not there.

        Raises InputError where it holds a run or an unfinished search and `force` is not given, holds anything else,
        cannot be written, or is another planner's at this moment. What it holds stays until the run is written.
        """
        with errors_told(folder):
            place = place_of(folder)
            topmost = to_be_made(place)
            with entered(place), held_back():
                refuse_what_is_there(folder, place, force=force)
                search = place / SEARCH_FOLDER
                search.mkdir(parents=True, exist_ok=True)
                _set_aside(search)
                descriptor = _created(search / JOURNAL_FILE, line_of("header", _header(undertaking)))
            return cls(folder, undertaking, descriptor, topmost or search)

    @classmethod
    def reopen(cls, folder: Path, versions: tuple[tuple[str, str], ...]) -> Self:
        """The journal of the unfinished search in `folder`.

        Raises InputError where there is none, another planner holds it, it is damaged, or it was begun with other
        versions than `versions` or with other facts than those that its scenario's names lead to now.
        """
        with errors_told(folder):
            place = place_of(folder)
            path = place / SEARCH_FOLDER / JOURNAL_FILE
            recover(folder)
            descriptor = _opened(folder, path)
        try:
            rows = rows_of(path, descriptor)
            undertaking = _undertaking(folder, path, rows, versions)
            journal = cls(folder, undertaking, descriptor, place)
            for number, row in enumerate(rows[1:], start=2):
                journal._recall(path, number, row)
        except BaseException:
            os.close(descriptor)
            raise
        return journal

    @property
    def empty(self) -> bool:
        """Whether there is nothing to go on from."""
        return not self._proposed

    @property
    def rounds(self) -> tuple[tuple[Trial, ...], ...]:
        """The trials of each round that was judged to its end."""
        trials = iter(self._judged)
        rounds = [[next(trials, None) for _ in proposed.proposals] for proposed in self._proposed]
        return tuple(tuple(judgement.trial for judgement in judged if judgement) for judged in rounds if all(judged))

    @property
    def evaluations(self) -> int:
        """How many need not be made again."""
        return sum(judged is not None for judged in self._judged)

    def adopt(self, undertaking: Undertaking) -> None:
        """From here on the search is that of another scenario (or engine), which no key that decides it tells apart.
        InputError where the disk does not take it."""
        if undertaking != self.undertaking:
            self._keep("header", _header(undertaking))
        self.undertaking = undertaking  # equal ones may differ in the trace, which no file holds

    def forget(self, indices: Iterable[int]) -> None:
        """These trials are to be judged again. InputError where the disk does not take it."""
        again = list(indices)
        if again:
            self._keep("again", {"indices": again})
            self._forget(again)

    def _forget(self, indices: Iterable[int]) -> None:
        for index in indices:
            self._judged[index] = None

    def proposed(self, iteration: int) -> Proposed | None:
        """The layouts of a round, if it had been chosen before."""
        return self._proposed[iteration] if iteration < len(self._proposed) else None

    def judged(self, index: int) -> Judged | None:
        """A trial, if it had been evaluated before."""
        return self._judged[index] if index < len(self._judged) else None

    def keep_proposed(self, proposed: Proposed) -> None:
        """A round begins. InputError where the disk does not take it."""
        self._keep("proposed", record_document(proposed))
        self._announce(proposed)

    def keep_judged(self, judged: Judged) -> None:
        """An evaluation has ended. InputError where the disk does not take it."""
        self._keep("judged", judged_document(judged))
        self._take(judged)

    def keep_experiment(self, document: bytes) -> None:
        """The experiment as its library saves it, in place of the one before."""
        path = self._search / EXPERIMENT_FILE
        with self._writing():
            fresh = path.with_name(f".{path.name}")
            write_all(fresh, document)
            fresh.replace(path)

    def remains(self, *, interrupted: bool) -> dict[str, bytes]:
        """What the finished run keeps (path below its folder -> content): all that the search would need to go on
        where it was interrupted, else the experiment alone."""
        names = [EXPERIMENT_FILE, *([JOURNAL_FILE] if interrupted else [])]
        paths = [path for path in map(self._search.joinpath, names) if path.exists()]
        return {f"{SEARCH_FOLDER}/{path.name}": read_bytes(path, most_bytes=MOST_OF_A_LIST) for path in paths}

    def discard(self) -> None:
        """Leave the folder as if the search had never begun; but not where the disk refused what was to be kept."""
        if not self._whole:
            return
        with suppress(OSError), held_back():
            earlier, experiment = self._search / EARLIER_EXPERIMENT, self._search / EXPERIMENT_FILE
            experiment.unlink(missing_ok=True)
            if earlier.exists():
                earlier.replace(experiment)
            (self._search / JOURNAL_FILE).unlink()
            remove_empty(self._search, self._made)

    def close(self) -> None:
        """Let go of the folder; another planner may have it."""
        os.close(self._descriptor)

    def _keep(self, kind: str, row: Document) -> None:
        with self._writing():
            append(self._descriptor, line_of(kind, row))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with errors_told(self._folder), held_back():
                yield
        except InputError:
            self._whole = False
            raise

    def _take(self, judged: Judged) -> bool:
        """A new trial, or one that was to be judged again; whether there is a place for it."""
        index = judged.trial.index
        if index < len(self._judged):
            fits = self._judged[index] is None
            self._judged[index] = judged
        else:
            fits = index == len(self._judged) < self._announced
            self._judged.append(judged)
        return fits

    def _recall(self, path: Path, number: int, row: Document) -> None:
        """Take up a line of a process before: rounds in order, each with its trials."""
        try:
            if "proposed" in row:
                proposed = load_record(Proposed, row["proposed"])
                judged = len(self._judged) - self._judged.count(None)
                fits = proposed.iteration == len(self._proposed) and judged == self._announced
                self._announce(proposed)
            elif "judged" in row:
                fits = self._take(read_judged(row["judged"]))
            elif "again" in row:
                fits = all(self._judged[index] is not None for index in row["again"]["indices"])
                self._forget(row["again"]["indices"])
            else:
                fits = row.keys() == {"header"}  # the last of them was read before
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            fits = False
        if not fits:
            raise damaged(path, number, "does not follow from the lines before it")

    def _announce(self, proposed: Proposed) -> None:
        self._proposed.append(proposed)
        self._announced += len(proposed.proposals)


def recover(folder: Path) -> None:
    """Put back what a planner killed while it put a run into `folder` had moved aside."""
    with errors_told(folder):
        place = place_of(folder)
        if place.parent.is_dir():
            with entered(place):
                pass


def holds_search(folder: Path) -> bool:
    """Whether there is an unfinished search in `folder`."""
    return (folder / SEARCH_FOLDER / JOURNAL_FILE).exists()


def _header(undertaking: Undertaking) -> Document:
    scenario = undertaking.scenario
    return {
        "format": FORMAT,
        "versions": dict(undertaking.versions),
        "engine": undertaking.engine,
        "scenario_sha256": scenario_hash(scenario),
        "inputs_sha256": [[file.name, file.sha256] for file in scenario.inputs],
        "scenario": scenario_document(scenario),
    }


def _undertaking(folder: Path, path: Path, rows: list[Document], versions: tuple[tuple[str, str], ...]) -> Undertaking:
    """What the last header says; all must be of the same search."""
    headers = {number: row["header"] for number, row in enumerate(rows, start=1) if "header" in row}
    for number, header in {1: {}, **headers}.items():
        if header.get("format") != FORMAT:
            raise damaged(path, number, f"must be a header of format {FORMAT}, got {header.get('format')!r}")
        if header["scenario_sha256"] != headers[1]["scenario_sha256"]:
            raise damaged(path, number, "its scenario is that of another search")
    number, header = max(headers.items())
    _require_versions(folder, header["versions"], dict(versions))
    scenario = scenario_from_document(
        header["scenario"], origin=f"{path}: line {number}: scenario", base=path.parent, summarize=_no_trace
    )
    inputs = tuple(InputHash(name=name, sha256=digest) for name, digest in header["inputs_sha256"])
    _require_facts(folder, inputs, scenario)
    scenario = replace(scenario, inputs=inputs)
    if scenario_hash(scenario) != header["scenario_sha256"]:
        raise damaged(path, number, "its scenario is not the one that it gives the SHA-256 of")
    return Undertaking(scenario=scenario, versions=versions, engine=header["engine"])


def _require_versions(folder: Path, begun: dict[str, str], here: dict[str, str]) -> None:
    """Another version may choose or judge otherwise: the plan would be neither the one nor the other."""
    names = dict.fromkeys([*begun, *here])
    missing = "not installed"
    differing = [
        f"{name} {begun.get(name, missing)} (here {here.get(name, missing)})"
        for name in names
        if begun.get(name) != here.get(name)
    ]
    if differing:
        raise InputError(
            f"{folder}: its search was begun with other versions: {', '.join(differing)}.",
            hint="Go on with those versions, or begin anew: `planner plan SCENARIO --out DIR --force`.",
        )


def _require_facts(folder: Path, begun: tuple[InputHash, ...], scenario: Scenario) -> None:
    """GPU, model and workload files that the scenario names must still be those of the search."""
    hashes = {(file.name, file.sha256) for file in begun}
    names = {file.name for file in begun}
    for file in scenario.inputs[1:]:  # the first is the document's own
        if file.name in names and (file.name, file.sha256) not in hashes:
            digests = ", ".join(other.sha256 for other in begun if other.name == file.name)
            raise InputError(
                f"{folder}: {file.name} is not the file that its search was begun with: SHA-256 {file.sha256}, "
                f"then {digests}.",
                hint="Restore the file, or begin anew: `planner plan SCENARIO --out DIR --force`.",
            )


def _no_trace(trace: RequestTrace) -> LengthProfile:
    raise InputError(f"workload {trace.name}: a journal must hold its workload in full.", hint="Begin anew.")


def _set_aside(search: Path) -> None:
    """The experiment of a search given up goes; that of a finished run stays until another run takes its place."""
    experiment = search / EXPERIMENT_FILE
    if (search / JOURNAL_FILE).exists():
        experiment.unlink(missing_ok=True)
    elif experiment.exists():
        experiment.replace(search / EARLIER_EXPERIMENT)


def _created(path: Path, line: bytes) -> int:
    """A journal with its header, there whole or not at all; locked for as long as the descriptor is open."""
    fresh = path.with_name(f".{path.name}")
    descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
    try:
        lock(descriptor)
        append(descriptor, line)
        fresh.replace(path)
        for folder in path.parents[:3]:
            sync(folder)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _opened(folder: Path, path: Path) -> int:
    try:
        require_regular(path)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{folder}: holds no unfinished search.", hint=f"Begin one: `planner plan SCENARIO --out {folder}`."
        ) from None
    try:
        lock(descriptor)
        if not os.path.samestat(os.fstat(descriptor), path.stat()):
            raise BlockingIOError  # another planner has just put its run in place
    except (BlockingIOError, FileNotFoundError):
        os.close(descriptor)
        raise at_work(folder) from None
    return descriptor
