"""What a prompt takes of a rank that answers others at the same time.

| symbol | meaning | unit |
|---|---|---|
| o, j, b | server (shape, budget), range, sequences of an attention group | |
| B | budget: prompt tokens that a pass takes in at most | tokens |
| s[j], S[j], N[j] | mean and longest prompt of a range, less what the prefix cache holds; mean answer | tokens |
| g | tokens that a pass yields a sequence | tokens |
| q | prompts that begin a pass: b g / N[j] | 1 |
| c | tokens of a chunk: min(B, s max(1, q)) where there is one rank | tokens |
| d, e | ranks of a server; passes with a chunk on some rank: 1 - exp(-d q max(1, s / B)) | 1 |
| a, f | tokens of it on the mean rank: q s / e; on the fullest: max(s, a + min(s, sqrt(2 ln d a s))) | tokens |
| T(b), T(c), T(b, c) | a pass with sequences, with a chunk, with both (`planner.cost.mixed`) | ms |

Where d > 1: c = (a + f) / 2, and e / q passes a prompt take the place of s/c: ranks do not begin prompts together.
added = s/c (T(c) + T(b, c) - T(b)) / 2: half of the engines' steps mix both, half take prompts in apart
squared = s/c (T(c)^2 + T(b, c)^2 - T(b)^2) / 2, and cubed alike: what is left of a pass that a prompt meets follows
taken_in = max(ceil(S / B), S / c) T(c): the longest prompt of the range
busy = s/B (T(B) + T(b, B)) / 2: where prompts wait for each other, passes are full
Sequences are half-way through the answers of their range, with the cache of its mean prompt.
Source: facts on aggregated serving.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from planner.cost.arrays import Array, Numbers, ceil_divide
from planner.cost.device import CostContext
from planner.cost.grid import Degrees
from planner.cost.mixed import Passes, added_ms, mixed_cost
from planner.cost.prefix_hits import fresh_tokens, hit_shares, uneven, with_points
from planner.cost.serving.buckets import Buckets
from planner.cost.serving.cache_reads import CacheReads
from planner.cost.serving.decode_servers import contexts_of
from planner.cost.serving.remembered import remembered
from planner.domain import ParallelConfig, Phase

_AT_ONCE = 100000
"""Servers times ranges times batches that are priced together: of more, arrays leave the processor's cache, and pricing
takes several times as long."""


_BY_RANGE = ("fresh", "fresh_squared", "link_ms")  # alike at every batch


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTimes:
    """By server, range and batch, shape (servers, ranges, batches): `added_ms`, `taken_in_ms` and `busy_ms` (ms),
    `squared` (ms^2) and `cubed` (ms^3). By server and range, one row where it is the same of all: `fresh` and
    `fresh_squared`, mean and mean square of s, and `link_ms`, what a prompt takes of a GPU's link to the tiers below
    its memory."""

    added_ms: Array
    squared: Array
    cubed: Array
    taken_in_ms: Array
    busy_ms: Array
    fresh: Array
    fresh_squared: Array
    link_ms: Array

    @classmethod
    @remembered()
    def of(
        cls,
        context: CostContext,
        options: Sequence[tuple[ParallelConfig, int]],
        buckets: Buckets,
        batches: Sequence[int],
    ) -> "PromptTimes":
        """`options`: shape of a copy without stages, token budget of a rank and pass."""
        prompts = buckets.prompts[None]
        degrees = Degrees.of([shape for shape, _ in options])
        hits = hit_shares(context, prompts, degrees, Phase.MIXED)
        by_server = np.ndim(hits) > 0 and len(np.asarray(hits)) > 1
        servers = max(1, _AT_ONCE // (len(buckets.prompts) * len(batches)))
        blocks = [slice(first, first + servers) for first in range(0, len(options), servers)]
        parts = [
            _of_block(context, options[rows], np.asarray(hits)[rows] if by_server else hits, buckets, batches)
            for rows in blocks
        ]
        fresh = fresh_tokens(prompts, hits)
        times = replace(cls.joined(parts), fresh=fresh, fresh_squared=fresh**2 * uneven(context, prompts, hits))
        reads = CacheReads.of(context, prompts, degrees, np.asarray(hits), Phase.MIXED)
        return times if reads is None else times._reading(reads, buckets)

    def _reading(self, reads: CacheReads, buckets: Buckets) -> "PromptTimes":
        """The same where what is cached is read first: passes are no fuller than the link lets them be."""
        exposed = reads.exposed_ms(self.taken_in_ms.min(axis=-1)) * buckets.longest / buckets.prompts
        return replace(
            self,
            taken_in_ms=self.taken_in_ms + exposed[..., None],
            busy_ms=np.maximum(self.busy_ms, reads.link_ms[..., None]),
            link_ms=reads.link_ms,
        )

    @classmethod
    def between(
        cls,
        context: CostContext,
        options: Sequence[tuple[ParallelConfig, int]],
        buckets: Buckets,
        batches: Sequence[int],
        places: Sequence[int],
    ) -> "PromptTimes":
        """Of `batches` those alone that stand at `places`; of the others nothing is known (nan)."""
        known = cls.of(context, options, buckets, tuple(batches[place] for place in places))
        spread = {}
        for name in (field.name for field in fields(cls) if field.name not in _BY_RANGE):
            times = getattr(known, name)
            spread[name] = np.full((*times.shape[:-1], len(batches)), np.nan)
            spread[name][..., list(places)] = times
        return replace(known, **spread)

    def at_pace(self, pace: float) -> "PromptTimes":
        """The same where every pass is so many times as fast."""
        return replace(
            self,
            added_ms=self.added_ms / pace,
            squared=self.squared / pace**2,
            cubed=self.cubed / pace**3,
            taken_in_ms=self.taken_in_ms / pace,
            busy_ms=self.busy_ms / pace,
        )

    def among(self, rows: Sequence[int]) -> "PromptTimes":
        """Some of the servers."""
        chosen = list(rows)
        return replace(
            self,
            added_ms=self.added_ms[chosen],
            squared=self.squared[chosen],
            cubed=self.cubed[chosen],
            taken_in_ms=self.taken_in_ms[chosen],
            busy_ms=self.busy_ms[chosen],
            **{name: rows if len(rows) == 1 else rows[chosen] for name, rows in self._by_range.items()},
        )

    @property
    def _by_range(self) -> dict[str, Array]:
        return {name: getattr(self, name) for name in _BY_RANGE}

    @classmethod
    def joined(cls, parts: Sequence["PromptTimes"]) -> "PromptTimes":
        """Those of all parts, whose ranges are the same; where a row of prompts is the same of all, it stays one."""
        names = [
            field.name for field in fields(cls) if len(getattr(parts[0], field.name)) > 1 or field.name not in _BY_RANGE
        ]
        return replace(parts[0], **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def _of_block(
    context: CostContext,
    options: Sequence[tuple[ParallelConfig, int]],
    hits: Numbers,
    buckets: Buckets,
    batches: Sequence[int],
) -> PromptTimes:
    """Of some servers, which find `hits` of the prompts."""
    degrees = Degrees.of([shape for shape, _ in options])
    budget = np.array([float(tokens) for _, tokens in options])[:, None, None]
    prompts = buckets.prompts[None]
    of_prompt = fresh_tokens(prompts, hits)
    grid, fresh = np.array(batches, dtype=float), of_prompt[..., None]
    begun = grid * context.settings.drafting.gain / buckets.answers[None, :, None]
    chunk, passes = _chunks(begun, fresh, budget, degrees.dp[..., None])
    shape = chunk.shape

    def ms(sequences: Array, tokens: Array) -> Array:
        passes = Passes(
            tp=degrees.tp[..., None],
            dp=degrees.dp[..., None],
            sequences=sequences,
            cached=contexts_of(buckets)[None, :, None],
            chunk=tokens,
            prompt=buckets.prompts[None, :, None],
            hit=with_points(hits),
        )
        return np.asarray(mixed_cost(context, passes).total_ms)

    none = np.zeros((1, 1, 1))
    alone, apart, mixed = ms(grid, none), ms(none, chunk), ms(grid, chunk)
    # Half of the steps mix both, half take prompts in apart, as with `added_ms`.
    full = np.broadcast_to((ms(none, budget) + ms(grid, budget)) / 2, shape)
    longest = buckets.longest[None, :, None] * fresh / prompts[..., None]
    return PromptTimes(
        added_ms=passes * added_ms(alone, apart, mixed),
        squared=passes * added_ms(alone**2, apart**2, mixed**2),
        cubed=passes * added_ms(alone**3, apart**3, mixed**3),
        taken_in_ms=np.maximum(ceil_divide(longest, budget), longest / np.maximum(chunk, fresh / passes)) * apart,
        busy_ms=fresh / budget * full,
        fresh=of_prompt,
        fresh_squared=of_prompt**2,
        link_ms=np.zeros((1, len(buckets.prompts))),
    )


def fuller(begun: Array, fresh: Array, largest: Array, budget: Array, ranks: Array) -> Array:
    """Chunks of prompts of several lengths over those of as many alike (>= 1): long ones fill one rank of several.

    `begun`: q of the mix; `fresh`: its mean prompt; `largest`: the prompt that one of its tokens is of in the mean."""
    alike, _ = _chunks(begun, fresh, budget, ranks)
    mixed, _ = _chunks(begun, fresh, budget, ranks, largest)
    return np.asarray(mixed / alike)


def _chunks(
    begun: Array, fresh: Array, budget: Array, ranks: Array, largest: Array | None = None
) -> tuple[Array, Array]:
    """(tokens of a chunk in a pass that has any, such passes for each prompt); `begun`: q. Arrays broadcast.

    One rank: c, s / c. Of several each begins prompts when it likes, and all wait for the pass: e of the passes have a
    chunk on some rank, of a tokens on the mean rank, f on the fullest; they count as their mean."""
    piece = np.minimum(fresh, budget)
    coming = begun * fresh / piece
    # Exact where prompts are rare, where 1 - exp would lose its digits.
    some = -np.expm1(-ranks * coming)
    mean_rank = np.minimum(begun * fresh / some, budget)
    part = piece if largest is None else np.minimum(largest, budget)
    spread = np.minimum(part, np.sqrt(2 * np.log(ranks) * mean_rank * part))
    fullest = np.minimum(budget, np.maximum(piece, mean_rank + spread))
    alone = np.minimum(budget, fresh * np.maximum(1.0, begun))
    chunk = np.where(ranks > 1, (mean_rank + fullest) / 2, alone)
    return chunk, np.where(ranks > 1, np.maximum(some / begun, fresh / budget), fresh / alone)
