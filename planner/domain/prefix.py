"""Prefix caches: what a trace tells of prompts that begin alike, and what of it a cache finds."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.slo import LONGEST_PROMPT, EndToken, FirstToken

BLOCK_TOKENS = 512
"""Tokens of a block in Mooncake's traces, which gave the form its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBlocks:
    """Prompts cut into blocks of `block_tokens` tokens, the last one perhaps shorter.

    Blocks of one id have the same text, and the same text before them. `ids` of all requests stand behind each other;
    those of request i end before `ends[i]`.
    """

    block_tokens: int
    ids: Sequence[int]
    ends: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixReuse:
    """What one prefix cache would have found of a trace's prompts, by their length and its size.

    `shares[i][k]`: share of the tokens of prompts of `starts[i]` <= tokens < `starts[i + 1]` that a cache of
    `cache_tokens[k]` tokens holds when they come; the last column is of a cache without bounds. `prompt_tokens[i]`: all
    tokens of these prompts. Sizes and lengths ascend, shares grow with the size, 0 <= share < 1.
    """

    block_tokens: int
    cache_tokens: tuple[int, ...]
    starts: tuple[int, ...]
    prompt_tokens: tuple[int, ...]
    shares: tuple[tuple[float, ...], ...]

    @property
    def mean_shares(self) -> tuple[float, ...]:
        """Of all prompts' tokens, at every size and without bounds."""
        total = sum(self.prompt_tokens)
        columns = zip(*self.shares, strict=True)
        return tuple(sum(n * x for n, x in zip(self.prompt_tokens, column, strict=True)) / total for column in columns)


class CacheRate(StrEnum):
    """`auto`: hit shares follow from the trace's reuse and the cache that a server has."""

    AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeHits:
    """Share of prompts of `start` <= tokens < `end` that is in the prefix cache."""

    start: FirstToken = 0
    end: EndToken = LONGEST_PROMPT
    share: Annotated[float, Bounds(low=0, below=1), Key("of a prompt, found in the prefix cache")]


KvCacheRate = float | CacheRate | tuple[RangeHits, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPrefixes:
    """What `auto` draws on: the reuse of the trace, its mean prompt (tokens) and its rate (requests/s, None: unknown).

    `gpus`: GPUs of each type whose servers share the prompts out without heed to prefixes; empty where the router sends
    a prompt to where its prefix is.
    """

    reuse: PrefixReuse
    mean_prompt: float
    arrival_rps: float | None
    gpus: tuple[tuple[str, int], ...] = ()
