"""Requests as JSON: an object a line (JSON lines), or objects in an array.

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353, 2354]}
    [{"created": 1700000000, "usage": {"prompt_tokens": 10, "completion_tokens": 5}}, ...]

Keys of objects in objects become columns, named `usage.prompt_tokens`; lists are no columns.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.budget import MOST_COLUMNS
from planner.files.disk.opening import MIB, MOST_OF_A_LINE, text_lines, text_pieces
from planner.files.tables.traces.block_ids import IDS, BlockIds

_LOOKED_AT = 1000
"""Requests whose keys make the header: the first ones may lack some, as failed ones do."""

_DEEPEST = 5
_WRAPPERS = ("data", "results", "items", "rows", "records", "requests", "observations")
_BLANKS = re.compile(r"[ \t\r\n,]*")
_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRows:
    """Rows of JSON, a request an object."""

    path: Path
    ids: BlockIds
    places: Mapping[str, _Path]
    form: str
    is_array: bool

    @classmethod
    def of(cls, path: Path, ids: BlockIds, packed: str, *, is_array: bool) -> "JsonRows":
        """The columns that the first requests have."""
        places: dict[str, _Path] = {}
        for request in islice(_requests(path, is_array=is_array), _LOOKED_AT):
            for keys in _scalars(request):
                places.setdefault(".".join(keys), keys)
            if len(places) > MOST_COLUMNS:
                raise InputError(
                    f"{path}: must have at most {MOST_COLUMNS:,} keys in its requests, has more.",
                    hint="Give one request an object, each with the same keys.",
                )
        form = f"{'a JSON array' if is_array else 'JSON lines'}{packed}"
        return cls(path=path, ids=ids, places=places, form=form, is_array=is_array)

    @property
    def names(self) -> Sequence[str]:
        """The columns."""
        return list(self.places)

    def narrowed(self, names: Sequence[str]) -> tuple[Sequence[str], Iterator[Sequence[str]]]:
        """The cells of these columns."""
        return names, self._rows([self.places[name] for name in names])

    def _rows(self, columns: Sequence[_Path]) -> Iterator[Sequence[str]]:
        self.ids.restart()
        for number, request in enumerate(_requests(self.path, is_array=self.is_array), start=1):
            self.ids.take(number, request.get(IDS))
            yield [_cell(_value(request, keys)) for keys in columns]


def _requests(path: Path, *, is_array: bool) -> Iterator[Mapping[str, object]]:
    return _array(path) if is_array else _lines(path)


def _lines(path: Path) -> Iterator[Mapping[str, object]]:
    lines = (line for line in text_lines(path) if line.strip())
    for number, line in enumerate(lines, start=1):
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict):
            hint = "Give one request a line."
            if line.strip() in ("{", '{"data": [', '{"data":['):
                hint += f" Of requests in an object or over several lines make lines: {_unwrap('data')}."
            raise InputError(f"{path}: row {number} must be a JSON object, got {line.strip()!r:.80}.", hint=hint)
        if number == 1:
            _require_unwrapped(path, request)
        yield request


def _require_unwrapped(path: Path, request: Mapping[str, object]) -> None:
    """InputError of an object that holds all requests, as answers of an API do."""
    for key in _WRAPPERS:
        rows = request.get(key)
        if isinstance(rows, list) and rows and isinstance(rows[0], dict):
            raise InputError(
                f"{path}: row 1 must be a request, is an object that holds a list of {len(rows)} in its key {key}.",
                hint=f"Give that list: {_unwrap(key)}.",
            )


def _unwrap(key: str) -> str:
    return f"`jq -c '.{key}[]' FILE > trace.jsonl`"


def _array(path: Path) -> Iterator[Mapping[str, object]]:
    """The objects of an array of any length, one at a time."""
    decode = json.JSONDecoder().raw_decode
    pieces = text_pieces(path)
    text, place, number = next(pieces).lstrip()[1:], 0, 0
    while True:
        place = _BLANKS.match(text, place).end()  # type: ignore[union-attr]  # it matches nothing, too
        request: object = None
        if text[place : place + 1] == "]":
            return
        try:
            if text[place : place + 1] == "{":
                request, place = decode(text, place)
        except (ValueError, RecursionError):
            request = None
        if isinstance(request, dict):
            number += 1
            yield request
            continue
        piece = next(pieces, "")
        if not piece or text[place : place + 1] not in ("{", "") or len(text) - place > MOST_OF_A_LINE:
            raise _no_object(path, number + 1, text[place : place + 80])
        text, place = text[place:] + piece, 0


def _no_object(path: Path, number: int, text: str) -> InputError:
    return InputError(
        f"{path}: row {number} of the array must be a JSON object of at most {MOST_OF_A_LINE // MIB} MiB, got "
        f"{text!r}.",
        hint="Give an array of requests that ends with ].",
    )


def _scalars(value: object, keys: _Path = ()) -> Iterator[_Path]:
    """The ways to what is neither a list nor an object."""
    if isinstance(value, dict) and len(keys) < _DEEPEST:
        for key, inner in value.items():
            yield from _scalars(inner, (*keys, key))
    elif not isinstance(value, list | dict):
        yield keys


def _value(request: Mapping[str, object], keys: _Path) -> object:
    value: object = request
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _cell(value: object) -> str:
    return "" if value is None or isinstance(value, list | dict | bool) else str(value)
