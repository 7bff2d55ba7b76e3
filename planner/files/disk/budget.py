"""The budget of whatever comes in from outside, beside the sizes in bytes of `opening`.

How much a packed file may grow, how many lines may be empty, how many digits a whole number may have, how deep a
document may be nested, how many values it and each of its lists may hold, how many columns a table may have.

A few bytes can stand for hours of work otherwise. What is refused here is refused before that work is done.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from planner.errors import InputError

DEEPEST = 100
"""Mappings and lists in one another: Kubernetes' own definitions have some 40."""
MOST_DIGITS = 40
"""Of a whole number: 128 bits have 39."""
MOST_COLUMNS = 100_000
"""Of a table."""
BYTES_A_VALUE = 64
"""YAML takes a hundred times as long as JSON for a value: a document has at most its bytes over this many of them, what
aliases stand for counted each time."""

MOST_PLAIN = 125_000
"""Values of one YAML list that are no mappings, and keys of one mapping: rows of a cluster are mappings, and more of
anything else nobody writes."""

MEANT = "Give the file that was meant; requests belong in a trace of their own (CSV), which may be longer."
"""What to do about a document that is too large."""

_MOST_EMPTY = 100_000
_MOST_BLANKS = 2**20
_MOST_GROWTH, _SLACK = 1100, 4 * 2**20  # gzip's own limit is 1032, which repetitive traces come near to
_NOTHING = " \t\r\n,;|"
"""What an empty line may have: blanks, and separators without cells."""

_TO_ZEROS = bytes(48 if 48 <= byte < 58 else 32 for byte in range(256))
_ZEROS = b"0" * (MOST_DIGITS + 1)
_TO_STEPS = bytes(1 if byte in b"{[" else 255 for byte in range(256))  # 255 is -1 of eight bits
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b'{}[]"')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?')


def too_deep(file: str) -> InputError:
    """The error of a document with more mappings and lists in one another than `DEEPEST`."""
    return InputError(
        f"{file}: is nested too deeply: at most {DEEPEST} lists and mappings may stand in one another.",
        hint="Flatten the file.",
    )


def too_many_values(file: str, limit: int) -> InputError:
    """The error of a YAML text with more values than `limit`."""
    return InputError(
        f"{file}: must hold at most {limit:,} values, what aliases (*) stand for counted each time; holds more.",
        hint=MEANT,
    )


def require_json_shape(text: str | bytes, file: str) -> None:
    """InputError of JSON that is nested too deeply, or holds a whole number of more digits than `MOST_DIGITS`."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    if data.count(b"{") + data.count(b"[") > DEEPEST and _depth(data) > DEEPEST:
        raise too_deep(file)
    if len(data) > MOST_DIGITS and _ZEROS in data.translate(_TO_ZEROS):
        _require_short_numbers(data.decode("utf-8", "replace"), file)


def _depth(data: bytes) -> int:
    """Of brackets outside of texts."""
    brackets = data.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NO_BRACKETS).replace(b'""', b"")
    if b'"' in brackets:
        brackets = b"".join(brackets.split(b'"')[::2])
    steps = np.frombuffer(brackets.translate(_TO_STEPS), dtype=np.int8)
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


def _require_short_numbers(text: str, file: str) -> None:
    name = "a number"
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word[0] == '"':
            name = word[1:-1]
        elif len(word) > MOST_DIGITS and word.isdigit():
            line = text.count("\n", 0, token.start()) + 1
            raise InputError(
                f"{file}: line {line}: {name:.60} must be a whole number of at most {MOST_DIGITS} digits, got one of "
                f"{len(word):,} digits.",
                hint="Correct the value; all of the file should be numbers of ordinary size.",
            )


class Growth:
    """What a packed file has grown to so far."""

    def __init__(self, path: Path, most_bytes: int | None = None) -> None:
        """`most_bytes`: bytes that it may have, whatever it was packed to."""
        self._path, self._most = path, most_bytes
        self._size, self._packed, self._excess = 0, 0, 0

    def take(self, size: int, packed: int) -> None:
        """So many bytes more, of `packed` bytes read up to now. InputError where a stretch of it has grown by more than
        any writing of people and programs does."""
        self._size += size
        self._excess = max(0, self._excess + size - _MOST_GROWTH * (packed - self._packed))
        self._packed = packed
        if self._excess > _SLACK:
            raise InputError(
                f"{self._path}: must unpack to at most {_MOST_GROWTH} times its size; a stretch of it unpacks to more.",
                hint="Unpack it and look at it; a plain file may be repetitive.",
            )
        if self._most is not None and self._size > self._most:
            raise InputError(
                f"{self._path}: must have at most {self._most >> 20} MiB unpacked, has more.",
                hint="Give the file that was meant.",
            )


def with_few_empty(lines: Iterable[str], origin: object) -> Iterator[str]:
    """The lines of a table. InputError where far more of them are empty than not: some are fine while others say
    something."""
    empty = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip(_NOTHING):
            empty += 1
            if 2 * empty - number > _MOST_EMPTY:
                raise InputError(
                    f"{origin}: must have a row a line; {empty:,} of its first {number:,} lines are empty.",
                    hint="Take the empty lines out: `grep -v '^[[:space:],;]*$' FILE > trace.csv`.",
                )
        yield line


class Blanks:
    """Blanks in a row."""

    def __init__(self, path: Path) -> None:
        self._path, self._blanks = path, 0

    def look(self, piece: str) -> None:
        """The next piece of a text. InputError where there are more blanks in a row than anybody writes."""
        self._blanks = self._blanks + len(piece) if piece.isspace() else 0
        if self._blanks > _MOST_BLANKS:
            raise InputError(
                f"{self._path}: must have requests; it has more than {_MOST_BLANKS >> 20} MiB of blanks in a row.",
                hint="Give a trace: CSV or JSON lines with arrival time, input tokens and output tokens.",
            )
