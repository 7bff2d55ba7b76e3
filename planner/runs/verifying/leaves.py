"""Where two documents, tables or texts differ, leaf by leaf; and a saved plan's question from its scenario's file."""

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import Any

from planner import files
from planner.domain import Scenario
from planner.domain.comparisons import Difference, Verification
from planner.domain.plan import Plan
from planner.errors import InputError
from planner.files.disk.folders import PLAN_FILE
from planner.files.disk.names import shipped_scenarios
from planner.files.scenario.settings import Setting
from planner.workload import summarize

SAME = 1e-9
"""Relative difference of figures that another processor's rounding may leave."""
MISSING, NOTHING = "(missing)", "(nothing)"
_ABSENT = object()
_LONGEST = 100
_MOST_LINES = 20_000
"""Beyond these, lines are paired as they stand."""


def document_differences(file: str, written: Any, due: Any, *, free: frozenset[str] = frozenset()) -> list[Difference]:
    """Of two documents of plain values. `free`: names of keys that hold what was measured."""
    return [
        Difference(file=file, key=key, written=_shown(actual), due=_shown(expected))
        for key, actual, expected in _leaves("", written, due, free)
    ]


def _leaves(path: str, written: Any, due: Any, free: frozenset[str]) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(written, dict) and isinstance(due, dict):
        for key in dict.fromkeys((*due, *written)):
            if key not in free:
                below = f"{path}.{key}" if path else str(key)
                yield from _leaves(below, written.get(key, _ABSENT), due.get(key, _ABSENT), free)
    elif isinstance(written, list) and isinstance(due, list):
        for row, (actual, expected) in enumerate(zip_longest(written, due, fillvalue=_ABSENT)):
            yield from _leaves(f"{path}.{row}", actual, expected, free)
    elif not _alike(written, due):
        yield path, written, due


def _alike(written: Any, due: Any) -> bool:
    if _is_number(written) and _is_number(due):
        return math.isclose(written, due, rel_tol=SAME, abs_tol=SAME * SAME) or (
            math.isnan(written) and math.isnan(due)
        )
    return type(written) is type(due) and bool(written == due)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return MISSING if value is _ABSENT else _short(json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def file_differences(file: str, written: bytes | None, due: bytes | None) -> list[Difference]:
    """Of a file, by what its name says it is; None: it is not there, or should not be."""
    if written is None or due is None:
        actual, expected = (
            NOTHING if content is None else f"a file of {len(content)} bytes" for content in (written, due)
        )
        return [Difference(file=file, key="", written=actual, due=expected)]
    if written == due:
        return []
    try:
        texts = written.decode(), due.decode()
    except UnicodeDecodeError:
        return [_of_bytes(file, written, due)]
    if file.endswith(".json"):
        with_values = _parsed(texts[0]), _parsed(texts[1])
        if _ABSENT not in with_values:
            return document_differences(file, *with_values)
    if file.endswith(".csv"):
        return table_differences(file, *texts)
    return _line_differences(file, *texts) or [_of_bytes(file, written, due)]


def _of_bytes(file: str, written: bytes, due: bytes) -> Difference:
    actual, expected = (f"SHA-256 {hashlib.sha256(content).hexdigest()[:16]}" for content in (written, due))
    return Difference(file=file, key="", written=actual, due=expected)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return _ABSENT


def table_differences(file: str, written: str, due: str) -> list[Difference]:
    """Of two CSV tables, cell by cell; numbers are the same however they are spelled."""
    tables = [list(csv.reader(io.StringIO(text, newline=""))) for text in (written, due)]
    header = tables[1][0] if tables[1] else []
    differences = []
    for number, (actual, expected) in enumerate(zip_longest(*tables, fillvalue=list[str]())):
        for column, cells in enumerate(zip_longest(actual, expected, fillvalue=_ABSENT)):
            if not _same_cell(*cells):
                name = header[column] if column < len(header) else f"column {column + 1}"
                texts = [MISSING if cell is _ABSENT else _short(str(cell)) for cell in cells]
                differences.append(
                    Difference(file=file, key=f"line {number + 1}, {name}", written=texts[0], due=texts[1])
                )
    return differences


def _same_cell(written: Any, due: Any) -> bool:
    if written == due or written is _ABSENT or due is _ABSENT:
        return bool(written == due)
    try:
        return _alike(float(written), float(due))
    except ValueError:
        return False


def _line_differences(file: str, written: str, due: str) -> list[Difference]:
    actual, expected = written.splitlines(), due.splitlines()
    if len(actual) == len(expected) or max(len(actual), len(expected)) > _MOST_LINES:
        pairs = list(zip_longest(enumerate(actual, start=1), expected))
        numbered = [(pair[0] if pair else len(actual), pair[1] if pair else None, line) for pair, line in pairs]
        return [
            Difference(file=file, key=f"line {number}", written=texts[0], due=texts[1])
            for number, first, second in numbered
            if first != second
            for texts in (_around(first, second),)
        ]
    differences = []
    for kind, a, b, c, d in SequenceMatcher(None, actual, expected, autojunk=False).get_opcodes():
        if kind != "equal":
            texts = _around("\n".join(actual[a:b]) or None, "\n".join(expected[c:d]) or None)
            differences.append(Difference(file=file, key=f"line {a + 1}", written=texts[0], due=texts[1]))
    return differences


def _around(written: str | None, due: str | None) -> tuple[str, str]:
    """Both lines, from shortly before the first letter that differs."""
    if written is None or due is None:
        return (MISSING if written is None else _short(written), MISSING if due is None else _short(due))
    pairs = enumerate(zip(written, due, strict=False))
    first = next((place for place, (a, b) in pairs if a != b), min(len(written), len(due)))
    start = max(0, first - _LONGEST // 2) if max(len(written), len(due)) > _LONGEST else 0
    before = "... " if start else ""
    return before + _short(written[start:]), before + _short(due[start:])


FLAGS = ("seed", "processes")
"""Of `search`: keys that flags of `planner plan` set, which nothing in a run tells of."""

_QUESTION = "plan.json: scenario: taken as the question"
ELSEWHERE = f"{_QUESTION}, as another plan was changed for it"
NO_FILE = f"{_QUESTION}; its file is not at hand (--scenario FILE, and --set as it was planned with)"
_SETTINGS = "settings"


def question_verified(
    saved: Plan, run: Path, scenario: Path | None, settings: tuple[Setting, ...] = (), *, near: bool = False
) -> Verification:
    """The scenario and the digests of its inputs, against its file; where none is given, one of that name beside the
    run, in the current folder or among those that are shipped."""
    inputs = dict(saved.provenance.input_hashes)
    path = scenario or at_hand(saved, run)
    if near or path is None or (scenario is None and _SETTINGS in inputs):
        return Verification(files=(), differences=(), unchecked=(ELSEWHERE if near else NO_FILE,))
    try:
        read = files.load_scenario(path, summarize, settings)
    except InputError:
        if scenario is not None:
            raise
        return Verification(files=(), differences=(), unchecked=(NO_FILE,))
    return _held_against(saved.scenario, _placed_as(read, saved.scenario), path, by_name=scenario is not None)


def at_hand(saved: Plan, run: Path) -> Path | None:
    """A scenario file of the name that the plan has first among its inputs."""
    names = [name for name, _ in saved.provenance.input_hashes][:1]
    folders = (Path.cwd(), run.absolute(), *list(run.absolute().parents)[:2])
    paths = [folder / name for folder in folders for name in names if name.lower().endswith((".yaml", ".yml", ".json"))]
    paths += [path for path in shipped_scenarios().values() if path.name in names]
    return next((path for path in paths if path.is_file()), None)


def _placed_as(read: Scenario, saved: Scenario) -> Scenario:
    """With the cluster on which the plan was put later, and its files among the inputs."""
    if saved.cluster is None or read.cluster is not None:
        return read
    names = {item.name for item in read.inputs}
    further = tuple(item for item in saved.inputs if item.name not in names)
    return replace(read, cluster=saved.cluster, placement=saved.placement, inputs=(*read.inputs, *further))


def _held_against(saved: Scenario, read: Scenario, path: Path, *, by_name: bool) -> Verification:
    """Differences where the file is the very one, or was named; else it may be another by now."""
    alike = replace(read, search=replace(read.search, seed=saved.search.seed, processes=saved.search.processes))
    documents = files.scenario_document(saved), files.scenario_document(alike)
    keys = document_differences(PLAN_FILE, *documents)
    hashes = [{item.name: item.sha256 for item in scenario.inputs} for scenario in (saved, read)]
    changed = hashes[0].get(path.name) != hashes[1].get(path.name)
    if keys and changed and not by_name:
        return Verification(files=(), differences=(), unchecked=(f"{_QUESTION}; {path} is another by now",))
    digests = document_differences(PLAN_FILE, *hashes)
    flags = [
        f"plan.json: scenario.search.{key}: {getattr(saved.search, key)}, as a flag of `planner plan` may set it"
        for key in FLAGS
        if getattr(saved.search, key) != getattr(read.search, key)
    ]
    below = [_below("scenario", row) for row in keys] + [_below("provenance.inputs_sha256", row) for row in digests]
    return Verification(files=(), differences=tuple(below), unchecked=tuple(flags))


def _below(key: str, row: Difference) -> Difference:
    return replace(row, key=f"{key}.{row.key}")
