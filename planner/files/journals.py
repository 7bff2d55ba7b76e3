"""The journal of a search on disk: what it has done, so that a later process can go on from there.

`search/journal.jsonl` in the run's folder: a header (format, versions, scenario, engine), then a line for each round
proposed and each trial judged, in the order of their happening. A line holds a checksum of itself and is on the disk
before the search goes on. One that a kill cut short is the last, without its end, and counts as never written; its
work is done again. `search/experiment.json` is the experiment as its library saves it.
"""

import fcntl
import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from planner.domain import InputHash, Judged, LengthProfile, Proposed, RequestTrace, Scenario
from planner.errors import InputError
from planner.files.folders import (
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
from planner.files.interrupts import held_back
from planner.files.opening import MOST_OF_A_LIST, read_bytes, require_regular
from planner.files.scenario_documents import scenario_document
from planner.files.scenarios import scenario_from_document
from planner.files.search_documents import judged_document, proposed_document, read_judged, read_proposed

FORMAT = 1
EARLIER_EXPERIMENT = f"earlier-{EXPERIMENT_FILE}"
Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undertaking:
    """What a journal is of. `versions`: planner, Python and libraries; `engine`: of the manifests."""

    scenario: Scenario
    versions: tuple[tuple[str, str], ...]
    engine: str


def scenario_hash(scenario: Scenario) -> str:
    """SHA-256 of all that decides a search: the scenario spelt out, less its input files' names and `processes`."""
    document: Document = scenario_document(scenario)
    search = {key: value for key, value in document["search"].items() if key != "processes"}
    text = json.dumps({**document, "search": search}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Journal:
    """A `SearchJournal` in the folder of a run, which no other planner can open meanwhile."""

    def __init__(self, folder: Path, undertaking: Undertaking, descriptor: int, made: Path) -> None:
        self.undertaking = undertaking
        self._folder = folder
        self._search = place_of(folder) / SEARCH_FOLDER
        self._made = made
        self._descriptor = descriptor
        self._whole = True
        self._proposed: list[Proposed] = []
        self._judged: list[Judged] = []
        self._announced = 0

    @classmethod
    def begin(cls, folder: Path, undertaking: Undertaking, *, force: bool = False) -> Self:
        """A new journal in `folder`, made with its parents where it is not there.

        Raises InputError where it holds a run or an unfinished search and `force` is not given, holds anything else,
        cannot be written, or is another planner's at this moment. What it holds stays until the run is written.
        """
        with errors_told(folder):
            place = place_of(folder)
            made = to_be_made(place)
            with entered(place), held_back():
                refuse_what_is_there(folder, place, force=force)
                search = place / SEARCH_FOLDER
                search.mkdir(parents=True, exist_ok=True)
                _set_aside(search)
                descriptor = _created(search / JOURNAL_FILE, _line("header", _header(undertaking)))
            return cls(folder, undertaking, descriptor, made or search)

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
            rows = _rows(path, descriptor)
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

    def proposed(self, iteration: int) -> Proposed | None:
        """The layouts of a round, if it had been chosen before."""
        return self._proposed[iteration] if iteration < len(self._proposed) else None

    def judged(self, index: int) -> Judged | None:
        """A trial, if it had been evaluated before."""
        return self._judged[index] if index < len(self._judged) else None

    def keep_proposed(self, proposed: Proposed) -> None:
        """A round begins. InputError where the disk does not take it."""
        self._keep("proposed", proposed_document(proposed))
        self._proposed.append(proposed)

    def keep_judged(self, judged: Judged) -> None:
        """An evaluation has ended. InputError where the disk does not take it."""
        self._keep("judged", judged_document(judged))
        self._judged.append(judged)

    def keep_experiment(self, document: bytes) -> None:
        """The experiment as its library saves it, in place of the one before."""
        path = self._search / EXPERIMENT_FILE
        with self._writing():
            fresh = path.with_name(f".{path.name}")
            _write_all(fresh, document)
            fresh.replace(path)

    def remains(self, *, interrupted: bool) -> dict[str, bytes]:
        """What the finished run keeps (path below its folder -> content): all that the search would need to go on
        where it was interrupted, else the experiment alone."""
        names = [EXPERIMENT_FILE, *([JOURNAL_FILE] if interrupted else [])]
        paths = [path for path in map(self._search.joinpath, names) if path.exists()]
        return {f"{SEARCH_FOLDER}/{path.name}": read_bytes(path, most=MOST_OF_A_LIST) for path in paths}

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
            _append(self._descriptor, _line(kind, row))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with errors_told(self._folder), held_back():
                yield
        except InputError:
            self._whole = False
            raise

    def _recall(self, path: Path, number: int, row: Document) -> None:
        """Take up a line of a process before: rounds in order, each with its trials."""
        try:
            if "proposed" in row:
                proposed = read_proposed(row["proposed"])
                fits = proposed.iteration == len(self._proposed) and len(self._judged) == self._announced
                self._proposed.append(proposed)
                self._announced += len(proposed.proposals)
            else:
                judged = read_judged(row["judged"])
                fits = judged.trial.index == len(self._judged) < self._announced
                self._judged.append(judged)
        except (KeyError, TypeError, ValueError, AttributeError):
            fits = False
        if not fits:
            raise _damaged(path, number, "does not follow from the lines before it")


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
        "inputs_sha256": [[one.name, one.sha256] for one in scenario.inputs],
        "scenario": scenario_document(scenario),
    }


def _undertaking(folder: Path, path: Path, rows: list[Document], versions: tuple[tuple[str, str], ...]) -> Undertaking:
    header = rows[0].get("header", {})
    if header.get("format") != FORMAT:
        raise _damaged(path, 1, f"must be a header of format {FORMAT}, came {header.get('format')!r}")
    _require_versions(folder, header["versions"], dict(versions))
    scenario = scenario_from_document(
        header["scenario"], origin=f"{path}: line 1: scenario", base=path.parent, summarize=_no_trace
    )
    inputs = tuple(InputHash(name=name, sha256=digest) for name, digest in header["inputs_sha256"])
    _require_facts(folder, inputs, scenario)
    scenario = replace(scenario, inputs=inputs)
    if scenario_hash(scenario) != header["scenario_sha256"]:
        raise _damaged(path, 1, "its scenario is not the one that it gives the SHA-256 of")
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
    known = {(one.name, one.sha256) for one in begun}
    names = {one.name for one in begun}
    for one in scenario.inputs[1:]:  # the first is the document's own
        if one.name in names and (one.name, one.sha256) not in known:
            came = ", ".join(other.sha256 for other in begun if other.name == one.name)
            raise InputError(
                f"{folder}: {one.name} is not the file that its search was begun with: SHA-256 {one.sha256}, "
                f"then {came}.",
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
        _lock(descriptor)
        _append(descriptor, line)
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
        _lock(descriptor)
        if not os.path.samestat(os.fstat(descriptor), path.stat()):
            raise BlockingIOError  # another planner has just put its run in place
    except (BlockingIOError, FileNotFoundError):
        os.close(descriptor)
        raise at_work(folder) from None
    return descriptor


def _lock(descriptor: int) -> None:
    """BlockingIOError where another planner holds it. A file system without locks lets everybody in."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return


def _line(kind: str, row: Document) -> bytes:
    return (json.dumps({kind: row, "crc32": _checksum({kind: row})}) + "\n").encode()


def _checksum(row: Document) -> str:
    return f"{zlib.crc32(json.dumps(row).encode()):08x}"


def _append(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
    os.fsync(descriptor)


def _write_all(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        _append(descriptor, data)
    finally:
        os.close(descriptor)


def _rows(path: Path, descriptor: int) -> list[Document]:
    """The whole lines; what a kill left of one more is cut off."""
    data = read_bytes(path, most=MOST_OF_A_LIST)
    *lines, torn = data.split(b"\n")
    if not lines:
        raise _damaged(path, 1, "is not whole")
    rows = [_row(path, number, line) for number, line in enumerate(lines, start=1)]
    if torn:
        os.ftruncate(descriptor, len(data) - len(torn))
        os.fsync(descriptor)
    return rows


def _row(path: Path, number: int, line: bytes) -> Document:
    try:
        row = json.loads(line)
        checksum = row.pop("crc32")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise _damaged(path, number, "is no line of a journal") from None
    if checksum != _checksum(row):
        raise _damaged(path, number, "is not as it was written")
    return dict(row)


def _damaged(path: Path, number: int, what: str) -> InputError:
    return InputError(
        f"{path}: line {number}: {what}.",
        hint="Restore the file, or begin anew: `planner plan SCENARIO --out DIR --force`.",
    )
