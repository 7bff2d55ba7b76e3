"""Ids of the blocks of prompts, as Mooncake publishes them; and of their parts, as RAGPulse does.

An id stands for a block's text and all the text before it, and is a whole number or a text. Ids under several names are
of parts of any length: how many tokens a cache would find of such prompts is not known, only how often a part came
before.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.domain import PromptBlocks
from planner.domain.workload import PartReuse
from planner.errors import InputError

IDS = "hash_ids"
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

    @property
    def any(self) -> bool:
        """Whether a row had ids of blocks."""
        return bool(self._ids)

    def take(self, number: int, ids: object) -> None:
        """The ids of row `number`; other things than a list or lists by part say nothing of blocks."""
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
                seen = self._parts_seen.setdefault(name, set())
                for part in map(_id, ids):
                    self._part_ids[name] += 1
                    self._parts_again[name] += part in seen
                    seen.add(part)

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
        ends = np.frombuffer(self._ends, dtype=np.int64)
        counts = np.diff(ends, prepend=0)[rows - 1]
        tokens = np.asarray(input_tokens, dtype=np.int64)
        wrong = np.flatnonzero((counts < tokens // block_tokens) | (counts > -(-tokens // block_tokens)))
        if len(wrong):
            place = int(wrong[np.argmin(rows[wrong])])
            raise InputError(
                f"{self._origin}: row {rows[place]}, key {IDS} must have an id for each block of {block_tokens} "
                f"tokens, {tokens[place] / block_tokens:.2f} blocks of {tokens[place]} tokens, got {counts[place]} "
                "ids.",
                hint="Give the tokens of a block: `planner workload summarize trace.jsonl --block-tokens 64 --out "
                "trace.yaml`, in a scenario `workload: {kind: trace, file: trace.jsonl, block_tokens: 64}`.",
            )
        if len(rows) == len(ends) and (rows[1:] > rows[:-1]).all():
            return PromptBlocks(block_tokens=block_tokens, ids=self._ids, ends=self._ends)
        ids, moved = np.frombuffer(self._ids, dtype=np.int64), array("q")
        for end, count in zip(ends[rows - 1].tolist(), counts.tolist(), strict=True):
            moved.frombytes(ids[end - count : end].tobytes())
        return PromptBlocks(block_tokens=block_tokens, ids=moved, ends=array("q", np.cumsum(counts).tobytes()))


def _id(block: object) -> int:
    """An id of at most 63 bits, the same for the same block."""
    if isinstance(block, int) and not isinstance(block, bool):
        return block if -_LARGEST_ID <= block < _LARGEST_ID else _id(str(block))
    if isinstance(block, str):
        return int.from_bytes(
            hashlib.blake2b(block.encode(errors="surrogatepass"), digest_size=8).digest(), signed=True
        )
    raise TypeError
