"""The prefix cache of a rank: blocks of prompts, the least recently used ones go first.

A prompt finds its leading blocks up to the first that is missing; then all its blocks are the last used, the first of
them last, as engines give up the end of a prompt before its beginning.
"""

from collections import OrderedDict
from collections.abc import Sequence


class PrefixCache:
    """At most `tokens` tokens in whole blocks."""

    __slots__ = ("_blocks", "_tokens")

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def matched(self, blocks: Sequence[int]) -> int:
        """Leading blocks that are here."""
        stored, count = self._blocks, 0
        for block in blocks:
            if block not in stored:
                break
            count += 1
        return count

    def use(self, blocks: Sequence[int], block_tokens: int) -> None:
        """Take the blocks in."""
        stored = self._blocks
        for block in reversed(blocks):
            stored[block] = None
            stored.move_to_end(block)
        block_limit = self._tokens // block_tokens
        while len(stored) > block_limit:
            stored.popitem(last=False)

    def clear(self) -> None:
        """All is lost."""
        self._blocks.clear()
