"""Requests as JSON: an object a line (JSON lines), or objects in an array; and ids of blocks of their prompts.

An id stands for a block's text and all the text before it, and is a whole number or a text. Ids under several names are
of parts of any length: how many tokens a cache would find of such prompts is not known, only how often a part came
before.

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353, 2354]}
    [{"created": 1700000000, "usage": {"prompt_tokens": 10, "completion_tokens": 5}}, ...]

Keys of objects in objects become columns, named `usage.prompt_tokens`; lists are no columns.
"""

import hashlib
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.domain import BLOCK_TOKENS, PromptBlocks
from planner.domain.workload import PartReuse
from planner.errors import InputError
from planner.files.disk.budget import MOST_COLUMNS
from planner.files.disk.opening import MIB, MOST_OF_A_LINE, text_lines, text_pieces

IDS = "hash_ids"
BLOCK_KEYS = ("block_tokens", "block_size")
"""Under either a row may tell the tokens of its blocks."""

_LARGEST_ID = 2**63


class BlockIds:
    """Ids of the prompts of `origin`, row by row."""

    def __init__(self, origin: object) -> None:
        self._origin = origin
        self.restart()

    def restart(self) -> None:
        """Forget all rows."""
        self._ids, self._ends = array("q"), array("q")
        self._part_ids: Counter[str] = Counter()
        self._parts_seen: dict[str, set[int]] = {}
        self._parts_again: Counter[str] = Counter()
        self._told_tokens: dict[object, int] = {}

    @property
    def any(self) -> bool:
        """Whether a row had ids of blocks."""
        return bool(self._ids)

    def take(self, number: int, ids: object, block_tokens: object = None) -> None:
        """The ids of row `number`; other things than a list or lists by part say nothing of blocks. `block_tokens`: of
        each, where the row tells it. InputError where it is not that of the rows before."""
        if block_tokens is not None:
            self._told_tokens.setdefault(block_tokens, number)
            if len(self._told_tokens) > 1:
                (told, first), *_ = self._told_tokens.items()
                raise InputError(
                    f"{self._origin}: row {number}, key {BLOCK_KEYS[0]} (or {BLOCK_KEYS[1]}) must be the same in all "
                    f"rows, {told} as in row {first}, got {block_tokens!r:.80}.",
                    hint="Give traces of blocks of one size each.",
                )
        try:
            if isinstance(ids, list):
                self._ids.extend(map(_id, ids))
            elif isinstance(ids, dict):
                self._take_parts(ids)
        except TypeError:
            raise InputError(
                f"{self._origin}: row {number}, key {IDS} must be whole numbers or texts, got {ids!r:.80}.",
                hint="Mend or drop the row.",
            ) from None
        self._ends.append(len(self._ids))

    def _take_parts(self, parts: Mapping[str, object]) -> None:
        for name, ids in parts.items():
            if isinstance(ids, list):
                ids_seen = self._parts_seen.setdefault(name, set())
                for part in map(_id, ids):
                    self._part_ids[name] += 1
                    self._parts_again[name] += part in ids_seen
                    ids_seen.add(part)

    @property
    def parts(self) -> tuple[PartReuse, ...]:
        """How often each part came before, in the order of the rows."""
        return tuple(
            PartReuse(name=name, ids=count, again=self._parts_again[name]) for name, count in self._part_ids.items()
        )

    def blocks(self, input_tokens: Sequence[int], rows: NDArray[np.int64], block_tokens: int) -> PromptBlocks | None:
        """The blocks of `rows` (the first is 1), in that order; None of a trace without ids.

        `input_tokens` of these rows. InputError names the first prompt whose ids are not one a block.
        """
        if not self._ids:
            return None
        block_tokens = self._block_tokens(block_tokens)
        ends = np.frombuffer(self._ends, dtype=np.int64)
        counts = np.diff(ends, prepend=0)[rows - 1]
        tokens = np.asarray(input_tokens, dtype=np.int64)
        wrong = np.flatnonzero((counts < tokens // block_tokens) | (counts > -(-tokens // block_tokens)))
        if len(wrong):
            place = int(wrong[np.argmin(rows[wrong])])
            raise InputError(
                f"{self._origin}: row {rows[place]}, key {IDS} must have an id for each block of {block_tokens} "
                f"tokens, {tokens[place] / block_tokens:.2f} blocks of {tokens[place]} tokens, got {counts[place]} "
                f"ids{': more reuse than there are tokens' * bool(counts[place] > -(-tokens[place] // block_tokens))}.",
                hint="Give the tokens of a block: `planner workload summarize trace.jsonl --block-tokens 64 --out "
                "trace.yaml`, in a scenario `workload: {kind: trace, file: trace.jsonl, block_tokens: 64}`.",
            )
        if len(rows) == len(ends) and (rows[1:] > rows[:-1]).all():
            return PromptBlocks(block_tokens=block_tokens, ids=self._ids, ends=self._ends)
        ids, moved = np.frombuffer(self._ids, dtype=np.int64), array("q")
        for end, count in zip(ends[rows - 1].tolist(), counts.tolist(), strict=True):
            moved.frombytes(ids[end - count : end].tobytes())
        return PromptBlocks(block_tokens=block_tokens, ids=moved, ends=array("q", np.cumsum(counts).tobytes()))

    def _block_tokens(self, stated: int) -> int:
        """Tokens of a block as rows tell it, else as `stated`. InputError where the two differ."""
        for told, row in self._told_tokens.items():
            if not isinstance(told, int) or told < 1 or stated not in (told, BLOCK_TOKENS):
                raise InputError(
                    f"{self._origin}: row {row}, key {BLOCK_KEYS[0]} (or {BLOCK_KEYS[1]}) must be the tokens of a block"
                    f"{f', {stated} as stated' * (stated != BLOCK_TOKENS)}, got {told!r:.80}.",
                    hint="Leave --block-tokens (`block_tokens`) out where the trace tells it.",
                )
            return told
        return stated


def _id(block: object) -> int:
    """An id of at most 63 bits, the same for the same block."""
    if isinstance(block, int) and not isinstance(block, bool):
        return block if -_LARGEST_ID <= block < _LARGEST_ID else _id(str(block))
    if isinstance(block, str):
        return int.from_bytes(
            hashlib.blake2b(block.encode(errors="surrogatepass"), digest_size=8).digest(), signed=True
        )
    raise TypeError


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
            self.ids.take(number, request.get(IDS), _first_told(request))
            yield [_cell(_value(request, keys)) for keys in columns]


def _first_told(request: Mapping[str, object]) -> object:
    """Tokens of a block; None where a request has no ids, or does not tell."""
    return next((request[key] for key in BLOCK_KEYS if key in request), None) if request.get(IDS) else None


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
