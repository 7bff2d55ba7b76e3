"""What a prefix cache would have found of a trace's prompts: of any size, and of any patience with blocks unused.

| symbol | meaning | unit |
|---|---|---|
| C, T | blocks that the cache holds, the least recently used ones go; seconds after which a block unused goes | 1, s |
| t | place in the order of use: prompts in the order of arrival, the blocks of each from the last to the first | 1 |
| p(t) | place of the use before, of the same block; -1: there is none | 1 |
| a | place of the prompt's own first use | 1 |
| d | blocks used since this one was, each counted once (LRU stack distance) | 1 |
| m(C), m(T) | leading blocks of a prompt, all with d < C; all used at most T seconds before | 1 |
| s, b | tokens of the prompt, of a block | tokens |

A prompt finds min(b m, s - 1) tokens: engines match whole blocks from the first on until one is missing, and take in at
least one token. Then all its blocks are the last used, the first of them last: engines give up the end of a prompt
before its beginning. Time counts from arrival to arrival.

One pass tells m of every C and every T at once (Mattson 1970). A block's distance is the number of uses between p and a
that are the first of their block behind p:

    d = #{t < a : p(t) < p} - (p + 1)

as every one of the p + 1 uses up to p has its own p(t) below p. The numbers on the right are counted for all blocks
together, a bit of p after the other (see `_below`), so a trace of B blocks takes log2 B passes over arrays of B: 13
CPU-s for 9.6 million blocks of 400 000 requests.
Without bounds means what it says: nothing is forgotten.

Memory: about 100 bytes a block of the trace while it is worked out. Blocks count whole: engines match pages of 1 to 64
tokens and find up to a block more.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.domain import PrefixReuse, PromptBlocks, RequestTrace
from planner.domain.workload import TimedReuse

CACHE_TOKENS = tuple(2**k for k in range(14, 27))
"""From 16 thousand tokens, less than a prompt may have, to 67 million, what a rack with host memory keeps."""

TIMEOUTS_S = (10.0, 60.0, 300.0, 3600.0)
"""From what device memory may keep to what the longest lived caches of providers do."""

_RATIO_PARTS = 1000
_PARTS = 1_000_000  # of a share; more would say what no trace knows

Places = NDArray[np.int64]


def prefix_reuse(trace: RequestTrace, cache_tokens: Sequence[int] = CACHE_TOKENS) -> PrefixReuse | None:
    """Hit shares by prompt length (a row for each power of two) at `cache_tokens` and without bounds.

    None of a trace without hashes of its blocks. Requests are in the order of arrival.
    """
    return None if trace.blocks is None else _by_size(_Leading.of(trace, trace.blocks), cache_tokens)


def reuse_curves(
    trace: RequestTrace, cache_tokens: Sequence[int] = CACHE_TOKENS
) -> tuple[PrefixReuse | None, TimedReuse | None]:
    """Hit shares by size as `prefix_reuse` has them, and by time unused, of one pass. None without hashes; the second
    also where all requests came at once."""
    if trace.blocks is None:
        return None, None
    leading, times = _Leading.of(trace, trace.blocks), np.asarray(trace.arrival_s, dtype=float)
    timed = _by_time(leading, times, TIMEOUTS_S) if np.ptp(times) > 0 else None
    return _by_size(leading, cache_tokens), timed


def at_sizes(reuse: PrefixReuse, cache_tokens: Sequence[int]) -> PrefixReuse:
    """The columns of these sizes, which it must have, and that without bounds."""
    columns = [*(reuse.cache_tokens.index(tokens) for tokens in cache_tokens), len(reuse.cache_tokens)]
    shares, unevenness = (
        tuple(tuple(row[column] for column in columns) for row in table) for table in (reuse.shares, reuse.unevenness)
    )
    return replace(reuse, cache_tokens=tuple(cache_tokens), shares=shares, unevenness=unevenness)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leading:
    """Blocks that came before, of each prompt the first ones up to one that did not, in the order of prompts.

    `prompts`: tokens of all prompts; `request`: whose block it is; `last_used_by`: the request that used it last;
    `distance`: blocks used since.
    """

    block_tokens: int
    prompts: Places
    request: NDArray[np.int32]
    last_used_by: NDArray[np.int32]
    distance: Places

    @classmethod
    def of(cls, trace: RequestTrace, blocks: PromptBlocks) -> "_Leading":
        ends = np.asarray(blocks.ends, dtype=np.int64)
        starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
        owner = np.repeat(np.arange(len(ends), dtype=np.int32), ends - starts)
        in_use = starts[owner] + ends[owner] - 1 - np.arange(len(owner))  # its own inverse
        before = _uses_before(np.asarray(blocks.ids, dtype=np.int64)[in_use])
        last = before[in_use]
        while len(again := np.flatnonzero(last >= starts[owner])):
            last[again] = before[last[again]]  # an id that stands twice in a prompt
        places = _at_front(last >= 0, starts, ends, owner)
        last, request = last[places], owner[places]
        return cls(
            block_tokens=blocks.block_tokens,
            prompts=np.asarray(trace.input_tokens, dtype=np.int64),
            request=request,
            last_used_by=owner[last],
            distance=_below(before, starts[request], last) - (last + 1),
        )

    def tokens_found(self, first_column: Places, columns: int) -> Iterator[Places]:
        """Tokens that every prompt finds, for one column after the other; a block is found from `first_column` on."""
        until_here = np.maximum.accumulate(self.request * np.int64(columns + 1) + first_column) % (columns + 1)
        for column in range(columns):
            matched = np.bincount(self.request[until_here <= column], minlength=len(self.prompts))
            yield np.minimum(matched * self.block_tokens, self.prompts - 1)


def _by_size(leading: _Leading, cache_tokens: Sequence[int]) -> PrefixReuse:
    row_of = np.frexp(leading.prompts)[1] - 1
    rows, row_of = np.unique(row_of, return_inverse=True)
    totals = _sums(leading.prompts, row_of, len(rows))
    sizes = [tokens // leading.block_tokens for tokens in cache_tokens]
    first_column = np.searchsorted(sizes, leading.distance, side="right")
    columns, uneven = [], []
    for tokens in leading.tokens_found(first_column, len(sizes) + 1):
        columns.append(_sums(tokens, row_of, len(rows)))
        uneven.append(_unevenness(1 - tokens / leading.prompts, row_of, len(rows)))
    return PrefixReuse(
        block_tokens=leading.block_tokens,
        cache_tokens=tuple(cache_tokens),
        starts=tuple(2 ** int(row) for row in rows),
        prompt_tokens=tuple(totals),
        shares=tuple(tuple(_share(tokens[row], total) for tokens in columns) for row, total in enumerate(totals)),
        unevenness=tuple(tuple(column[row] for column in uneven) for row in range(len(rows))),
    )


def _unevenness(fresh: NDArray[np.float64], row_of: Places, rows: int) -> list[float]:
    """Mean square over squared mean of the shares of prompts that are not found, of every row; rounded up."""
    prompts, sums, squares = (
        np.bincount(row_of, weights=weights, minlength=rows) for weights in (None, fresh, fresh**2)
    )
    return [
        max(1.0, math.ceil(ratio * _RATIO_PARTS) / _RATIO_PARTS) for ratio in (prompts * squares / sums**2).tolist()
    ]


def _by_time(leading: _Leading, arrival_s: NDArray[np.float64], timeouts_s: Sequence[float]) -> TimedReuse:
    unused_s = arrival_s[leading.request] - arrival_s[leading.last_used_by]
    first_column = np.searchsorted(timeouts_s, unused_s, side="left")
    total = int(leading.prompts.sum())
    shares = (_share(int(tokens.sum()), total) for tokens in leading.tokens_found(first_column, len(timeouts_s)))
    return TimedReuse(timeouts_s=tuple(timeouts_s), shares=tuple(shares))


def _sums(tokens: Places, row_of: Places, rows: int) -> list[int]:
    sums = np.zeros(rows, dtype=np.int64)
    np.add.at(sums, row_of, tokens)
    return [int(value) for value in sums]


def _uses_before(ids: Places) -> Places:
    """Place of the use before, of the same id; -1: there is none."""
    order = np.argsort(ids, kind="stable")
    is_again = ids[order[1:]] == ids[order[:-1]]
    before = np.full(len(ids), -1, dtype=np.int64)
    before[order[1:][is_again]] = order[:-1][is_again]
    return before


def _at_front(came_before: NDArray[np.bool_], starts: Places, ends: Places, owner: NDArray[np.int32]) -> Places:
    """Places of the blocks that came before, as all in front of them in their prompt did."""
    new = np.flatnonzero(~came_before)
    first_new = np.append(new, len(owner))[np.searchsorted(new, starts)]
    return np.flatnonzero(np.arange(len(owner)) < np.minimum(first_new, ends)[owner])


def _below(values: Places, ends: Places, limits: Places) -> Places:
    """How many of the first `ends[k]` values are below `limits[k]`, for every k. Values from -1 on, limits from 0 on.

    Values are put in order bit by bit, the highest first, so that those with the bits that a limit has so far stand
    next to each other, from `low` up to `high`; of these the ones with a 0 where the limit has a 1 are below it. This
    is a wavelet matrix (Claude, Navarro and Ordonez, Information Systems 47, 2015), built and asked a level at a time.
    """
    sorted_values, limit = (values + 1).astype(np.int32), (limits + 1).astype(np.int32)
    low, high = np.zeros(len(ends), dtype=np.int32), ends.astype(np.int32)
    below = np.zeros(len(ends), dtype=np.int64)
    for bit in reversed(range(len(values).bit_length())):
        is_zero = (sorted_values >> bit) & 1 == 0
        zeros = np.zeros(len(sorted_values) + 1, dtype=np.int32)
        np.cumsum(is_zero, out=zeros[1:])
        low_zeros, high_zeros = zeros[low], zeros[high]
        has_one = (limit >> bit) & 1 == 1
        below[has_one] += (high_zeros - low_zeros)[has_one]
        low = np.where(has_one, zeros[-1] + low - low_zeros, low_zeros)
        high = np.where(has_one, zeros[-1] + high - high_zeros, high_zeros)
        sorted_values = np.concatenate((sorted_values[is_zero], sorted_values[~is_zero]))
    return below


def _share(tokens: int, of_tokens: int) -> float:
    """Rounded down, so that it stays below 1 and grows with the size as the tokens do."""
    return (tokens * _PARTS // of_tokens) / _PARTS
