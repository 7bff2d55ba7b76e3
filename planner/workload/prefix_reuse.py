"""What a prefix cache of any size would have found of a trace's prompts.

| symbol | meaning | unit |
|---|---|---|
| C | blocks that the cache holds; the least recently used ones go | 1 |
| d | blocks used since this one was, each counted once (LRU stack distance) | 1 |
| m(C) | leading blocks of a prompt, all with d < C | 1 |
| s, b | tokens of the prompt, of a block | tokens |

A prompt finds min(b m(C), s - 1) tokens: engines match whole blocks from the first on until one is missing, and take in
at least one token. Then all its blocks are the last used, the first of them last: engines give up the end of a prompt
before its beginning. One pass in the order of arrival tells m(C) of every C at once (Mattson 1970): a Fenwick tree over
the order of use counts d, so a trace of B blocks takes B log B steps: 1 CPU-s for the 288 500 of Mooncake's hour, half
a minute for 6.4 million of 200 000 requests.

Memory: 8 bytes a block of the trace, and 0.3 GB at most for the `MOST_BLOCKS` blocks last used; what was used before
them counts as forgotten. So a cache "without bounds" holds 537 million tokens at 512 a block, 38 TB of a DeepSeek-V3.
Blocks count whole: engines match pages of 1 to 64 tokens and find up to a block more.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise

from planner.domain import PrefixReuse, PromptBlocks, RequestTrace

CACHE_TOKENS = tuple(2**k for k in range(14, 27))
"""From 16 thousand tokens, less than a prompt may have, to 67 million, what a rack with host memory keeps."""

MOST_BLOCKS = 2**20
_FEWEST_PLACES = 4096
_PARTS = 1_000_000  # of a share; more would say what no trace knows


class UseOrder:
    """Blocks in the order of their last use, the `limit` last of them."""

    def __init__(self, limit: int = MOST_BLOCKS) -> None:
        self._limit = limit
        self._places: dict[int, int] = {}  # in the order of use, as a block that is used again is put in anew
        self._tree: list[int] = []
        self._last = 0
        self._renumber()

    def depth(self, block: int) -> int | None:
        """How many blocks were used since this one was; None of a block that is new or forgotten."""
        place = self._places.get(block)
        if place is None:
            return None
        tree, before = self._tree, 0
        while place:
            before += tree[place]
            place &= place - 1
        return len(self._places) - before

    def use(self, block: int) -> None:
        """Make the block the one last used."""
        place = self._places.pop(block, 0)
        if place:
            self._add(place, -1)
        if self._last + 1 >= len(self._tree):
            self._renumber()
        self._last += 1
        self._places[block] = self._last
        self._add(self._last, 1)

    def _add(self, place: int, change: int) -> None:
        tree, end = self._tree, len(self._tree)
        while place < end:
            tree[place] += change
            place += place & -place

    def _renumber(self) -> None:
        """Places 1, 2, ... in the order of use, with room for as many more."""
        blocks = list(self._places)[-self._limit :]
        self._places = {block: place for place, block in enumerate(blocks, start=1)}
        self._last = live = len(blocks)
        room = max(_FEWEST_PLACES, 2 * live)
        self._tree = [max(0, min(place, live) - (place & (place - 1))) for place in range(room + 1)]


def prefix_reuse(trace: RequestTrace, cache_tokens: Sequence[int] = CACHE_TOKENS) -> PrefixReuse | None:
    """Hit shares by prompt length (a row for each power of two) at `cache_tokens` and without bounds.

    None of a trace without hashes of its blocks. Requests are in the order of arrival.
    """
    blocks = trace.blocks
    if blocks is None:
        return None
    sizes = [tokens // blocks.block_tokens for tokens in cache_tokens]
    prompt_tokens: defaultdict[int, int] = defaultdict(int)
    cached: defaultdict[int, list[int]] = defaultdict(lambda: [0] * (len(sizes) + 1))
    order = UseOrder()
    for prompt, ids in zip(trace.input_tokens, _by_request(blocks), strict=True):
        row = int(prompt).bit_length() - 1
        prompt_tokens[row] += int(prompt)
        sums = cached[row]
        for column, matched in enumerate(accumulate(_matched(order, ids, sizes))):
            sums[column] += min(matched * blocks.block_tokens, int(prompt) - 1)
    rows = sorted(prompt_tokens)
    return PrefixReuse(
        block_tokens=blocks.block_tokens,
        cache_tokens=tuple(cache_tokens),
        starts=tuple(2**row for row in rows),
        prompt_tokens=tuple(prompt_tokens[row] for row in rows),
        shares=tuple(tuple(_share(tokens, prompt_tokens[row]) for tokens in cached[row]) for row in rows),
    )


def _by_request(blocks: PromptBlocks) -> Iterator[Sequence[int]]:
    return (blocks.ids[start:end] for start, end in pairwise(chain((0,), blocks.ends)))


def _matched(order: UseOrder, ids: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Leading blocks that a cache of each size finds and the next smaller one does not; then they are all used."""
    matched, deepest = [0] * (len(sizes) + 1), 0
    for block in ids:
        depth = order.depth(block)
        if depth is None:
            break
        deepest = max(deepest, depth)
        matched[bisect_right(sizes, deepest)] += 1
    for block in reversed(ids):
        order.use(block)
    return matched


def _share(tokens: int, of_tokens: int) -> float:
    """Rounded down, so that it stays below 1 and grows with the size as the tokens do."""
    return (tokens * _PARTS // of_tokens) / _PARTS
