"""Requests as JSON lines, as Mooncake publishes them: an object a line, with the ids of the prompt's blocks.

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353, 2354]}

An id stands for a block's text and all the text before it, and is a whole number or a text. Ids under several names, as
in RAGPulse's traces, are of parts of any length: what a cache finds of such prompts is not known, and they are passed
over.
"""

import hashlib
import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.domain import PromptBlocks
from planner.errors import InputError
from planner.files.disk.opening import text_lines

IDS = "hash_ids"
_LARGEST_ID = 2**63


def is_json_trace(path: Path) -> bool:
    """Whether the name is that of JSON lines, packed or not."""
    return path.name.lower().endswith((".jsonl", ".jsonl.gz"))


class BlockIds:
    """Ids of the blocks of the prompts of `path`, row by row."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids, self._ends = array("q"), array("q")

    def take(self, number: int, ids: object) -> None:
        """The ids of row `number`; other things than a list say nothing of blocks."""
        if isinstance(ids, list):
            try:
                self._ids.extend(map(_id, ids))
            except TypeError:
                raise InputError(
                    f"{self._path}: row {number}, key {IDS} must be whole numbers or texts, got {ids!r:.80}.",
                    hint="Mend or drop the row.",
                ) from None
        self._ends.append(len(self._ids))

    def blocks(
        self, input_tokens: Sequence[int], order: NDArray[np.intp] | None, block_tokens: int
    ) -> PromptBlocks | None:
        """The blocks in the order of arrival; None of a trace without ids.

        `input_tokens` in the order of rows; `order`: the rows as they arrived, None where that is the same. InputError
        names the first prompt whose ids are not one a block.
        """
        if not self._ids:
            return None
        ends = np.frombuffer(self._ends, dtype=np.int64)
        counts = np.diff(ends, prepend=0)
        tokens = np.asarray(input_tokens, dtype=np.int64)
        wrong = np.flatnonzero((counts < tokens // block_tokens) | (counts > -(-tokens // block_tokens)))
        if len(wrong):
            row = int(wrong[0])
            raise InputError(
                f"{self._path}: row {row + 1}, key {IDS} must have an id for each block of {block_tokens} tokens, "
                f"{tokens[row] / block_tokens:.2f} blocks of {tokens[row]} tokens, got {counts[row]} ids.",
                hint="Give the tokens of a block: `planner workload summarize --block-tokens 64`, in a scenario "
                "`workload: {kind: trace, file: trace.jsonl, block_tokens: 64}`.",
            )
        if order is None:
            return PromptBlocks(block_tokens=block_tokens, ids=self._ids, ends=self._ends)
        ids, moved = np.frombuffer(self._ids, dtype=np.int64), array("q")
        for row in order.tolist():
            moved.frombytes(ids[ends[row] - counts[row] : ends[row]].tobytes())
        return PromptBlocks(block_tokens=block_tokens, ids=moved, ends=array("q", np.cumsum(counts[order]).tobytes()))


def _id(block: object) -> int:
    """An id of at most 63 bits, the same for the same block."""
    if isinstance(block, int) and not isinstance(block, bool):
        return block if -_LARGEST_ID <= block < _LARGEST_ID else _id(str(block))
    if isinstance(block, str):
        return int.from_bytes(
            hashlib.blake2b(block.encode(errors="surrogatepass"), digest_size=8).digest(), signed=True
        )
    raise TypeError


def json_cells(path: Path, ids: BlockIds) -> Iterator[list[str]]:
    """A header, and the row of each line, as a CSV file would have them; lists and mappings are left out, and `ids`
    takes those of blocks. InputError names the first line that is no object."""
    names: list[str] = []
    number = 0
    for line in text_lines(path):
        if not line.strip():
            continue
        number += 1
        request = _request(path, number, line)
        if number == 1:
            names = [name for name, value in request.items() if not isinstance(value, list | dict)]
            yield names
        ids.take(number, request.get(IDS))
        yield [_cell(request.get(name)) for name in names]


def _request(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise InputError(
            f"{path}: row {number} must be a JSON object, got {line.strip()!r:.80}.", hint="Give one request a line."
        )
    return request


def _cell(value: object) -> str:
    return "" if value is None or isinstance(value, list | dict | bool) else str(value)
