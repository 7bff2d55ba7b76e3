"""All mistakes of a document in one error.

A reader stops at the first mistake it meets. What it says is written down, the faulty value is left out or another
stands in for it, and the document is read again, until nothing is wrong or nothing more can be told. A complaint that
may only follow from a value that stands in for another is not passed on: once the first mistakes are mended, it shows
whether it holds. Sound documents are read once.
"""

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

import yaml

from planner.errors import ABSENT, FaultyKeyError, InputError, PlannerError, SeveralMistakesError
from planner.files.sections import Section

MOST_MISTAKES = 20
"""So many are told at once."""
_MOST_READINGS = 3 * MOST_MISTAKES
_MOST_PLACED = 100_000
"""A second's work; errors in longer texts name no lines."""
_ITEMS_READ = 200_000
"""Items of lists at the top, over all readings: of a cluster of 40,000 nodes the first few mistakes are told."""

Item = TypeVar("Item")


def read_all(
    document: Section,
    read: Callable[[Section], Item],
    *,
    stand_ins: Mapping[str, object] | None = None,
    rests_on: Mapping[str, Collection[str]] | None = None,
) -> Item:
    """What `read` makes of a document. InputError with every mistake, each with its line where that is known.

    `stand_ins`: sound values of keys at the top that must be there. `rests_on`: key at the top -> other such keys whose
    values its rules look at.
    """
    try:
        return read(document)
    except InputError as error:
        raise _Search(document, read, stand_ins or {}, rests_on or {}).all_of(error) from None


class _Search:
    """The mistakes of one document, and what stands in for the values."""

    def __init__(
        self,
        document: Section,
        read: Callable[[Section], object],
        stand_ins: Mapping[str, object],
        rests_on: Mapping[str, Collection[str]],
    ) -> None:
        self.document = document
        self.read = read
        self.stand_ins = stand_ins
        self.rests_on = rests_on
        self.excused: dict[str, dict[str, object]] = {}
        self.paths: list[str] = []
        self.mistakes: list[PlannerError] = []

    def all_of(self, first: InputError) -> PlannerError:
        """The only mistake as it is, or one error with all."""
        error: InputError | None = first
        for _ in range(min(_MOST_READINGS, 1 + _ITEMS_READ // _items(self.document))):
            if error is None or len(self.mistakes) == MOST_MISTAKES or not self._noted(error):
                break
            error = self._next()
        return self._joined()

    def _next(self) -> InputError | None:
        """What a reader says of the document as it is excused; None: nothing."""
        try:
            self.read(self.document.excusing(self.excused))
        except InputError as error:
            return error
        except Exception:  # noqa: BLE001  (no mistake of the document: values that stand in for others led there)
            return None
        return None

    def _noted(self, error: InputError) -> bool:
        """Whether reading may go on: the mistake is written down, and its value excused."""
        if not isinstance(error, FaultyKeyError) or not error.key:
            if not self.mistakes:
                self.mistakes.append(error)
            return False
        path = _joined_path(error.section_path, error.key)
        if not self._follows(error, path):
            self.mistakes.append(error)
            self.paths.append(path)
        return self._excuse(error)

    def _follows(self, error: FaultyKeyError, path: str) -> bool:
        """Whether what is wrong may only follow from a mistake that is written down already."""
        if any(_is_below(path, other) or _is_below(other, path) for other in self.paths):
            return True
        if error.missing and difflib.get_close_matches(error.key, self._unknown(error.section_path), cutoff=0.5):
            return True  # it is there, misspelt
        if error.by_itself:
            return False
        top = _top(path)
        near = (error.section_path, *self.rests_on.get(top, ()))
        return any(_top(other) == top or _top(other) in near for other in self.paths)

    def _unknown(self, section_path: str) -> list[str]:
        """Keys of a section that nobody knows."""
        faulty = [error for error in self.mistakes if isinstance(error, FaultyKeyError)]
        return [error.key for error in faulty if error.unknown and error.section_path == section_path]

    def _excuse(self, error: FaultyKeyError) -> bool:
        """Put something in the value's place; where it is there already, in that of the section around it."""
        place = error.section_path, error.key
        stand_in = self.stand_ins.get(error.key, ABSENT) if not error.section_path else ABSENT
        stand_in = error.stand_in if stand_in is ABSENT else stand_in
        while place[1]:
            before = self.excused.get(place[0], {})
            if place[1] not in before or (before[place[1]] is ABSENT and stand_in is not ABSENT):
                self.excused.setdefault(place[0], {})[place[1]] = stand_in
                return True
            place = _above(place[0])
            stand_in = ABSENT if place[0] else self.stand_ins.get(place[1], ABSENT)
        return False

    def _joined(self) -> PlannerError:
        lines = key_lines(self.document.document_text)
        rows = self.document.document_text.splitlines()
        placed = [(_line(lines, error), error) for error in self.mistakes]
        if len(placed) == 1:
            line, error = placed[0]
            if line:
                error.where = f"line {line}: {rows[line - 1].strip()[:80]}"
            return error
        placed.sort(key=lambda item: item[0] or 10**9)
        more = ", and perhaps more" if len(placed) == MOST_MISTAKES else ""
        items = [f"  {_item(error, line, self.document.file)}" for line, error in placed]
        return SeveralMistakesError(
            "\n".join([f"{self.document.file}: {len(placed)} mistakes{more}:", *items]),
            hint="Mend them all; nothing was read of it.",
            mistakes=tuple(error for _, error in placed),
        )


def _items(document: Section) -> int:
    """How long its lists are together, at least 1: what reading it costs."""
    return 1 + sum(len(value) for value in document.plain().values() if isinstance(value, list))


def _item(error: PlannerError, line: int, file: str) -> str:
    text = str(error).removeprefix(f"{file}: ").replace("\n", "\n    ")
    return f"line {line}: {text}" if line else text


def _line(lines: Mapping[str, int], error: PlannerError) -> int:
    """Its line, or that of the section that lacks it; 0 where neither is known."""
    if not isinstance(error, FaultyKeyError):
        return 0
    path = _joined_path(error.section_path, error.key)
    return lines.get(path) or lines.get(error.section_path, 0)


def _joined_path(section_path: str, key: str) -> str:
    return f"{section_path}.{key}" if section_path and not key.startswith("[") else f"{section_path}{key}"


def _above(section_path: str) -> tuple[str, str]:
    """The section in which a section stands, and its key or place there; both empty at the top."""
    if section_path.endswith("]"):
        head, _, index = section_path.rpartition("[")
        return head, f"[{index}"
    head, _, key = section_path.rpartition(".")
    return head, key


def _top(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _is_below(path: str, other: str) -> bool:
    """Whether they are the same, or `path` is part of what `other` holds."""
    return path == other or path.startswith((f"{other}.", f"{other}["))


def key_lines(text: str) -> Mapping[str, int]:
    """Path of each key and item (`search.iterations`, `nodes[3]`) -> its line, from 1. Empty where the text is too long
    or no YAML (JSON is)."""
    if not text or text.count("\n") + text.count(",") > _MOST_PLACED:
        return {}
    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    try:
        node = yaml.compose(text, Loader=loader)
        return {} if node is None else dict(_node_lines(node, "", set()))
    except (yaml.YAMLError, RecursionError):
        return {}


def _node_lines(node: Any, path: str, earlier: set[int]) -> Iterator[tuple[str, int]]:
    """`seen`: nodes that were met; what an alias stands for has its lines where it is written, and there alone."""
    if id(node) in earlier:
        return
    earlier.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = f"{path}.{key.value}" if path else str(key.value)
            yield below, key.start_mark.line + 1
            yield from _node_lines(value, below, earlier)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield f"{path}[{index}]", value.start_mark.line + 1
            yield from _node_lines(value, f"{path}[{index}]", earlier)
