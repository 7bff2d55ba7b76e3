"""What ranks find of earlier prompts: in a cache of their own and in tiers below it, and when it is there.

Every level has the blocks that were used last; a prompt finds its leading blocks up to the first that no level has,
each in the fastest level that has it. All its blocks are then the last used on every level, the first of them last, as
engines give up the end of a prompt before its beginning: what is computed is written to the tiers at once, and what is
found is touched there, too. A prompt's blocks count as there when it comes, as a rank takes the next one in after it.

| symbol | meaning | unit |
|---|---|---|
| n | layers of the model, whose caches are loaded one after the other | 1 |
| L | what is found, over the GPU's own link | ms |
| C | computing the rest of the prompt by itself, in full steps | ms |

Loads begin when a prompt is queued, and go over the way of their tier and, of other tiers than the first, over that of
the first, the GPU's own link. Each way carries one load after the other at its full rate; a load has ended when its
slowest part has. A layer is computed while the next ones are loaded: max(L, C) + min(L, C) / n from the beginning on,
which is to begin min(L, C) (1 - 1 / n) before the load ends. Sources: SGLang, HiCache System Design (prefetching of
what is queued, overlap by layers, write_through); vLLM, docs on KV offloading (LRU over offloaded blocks, touched by
every request that has them).
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from planner.domain.fleet import ReplayFleet, ReplayPool


class PrefixCache:
    """At most `tokens` tokens in whole blocks."""

    __slots__ = ("_blocks", "_tokens")

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, block: int) -> bool:
        return block in self._blocks

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


Stores = Mapping[str, PrefixCache]


def stores_of(fleet: ReplayFleet) -> Stores:
    """Tiers that all servers share, by name; as large as the pool says in whose form the least fits."""
    shared = [tier for pool in fleet.pools for tier in pool.tiers if tier.shared]
    return {name: PrefixCache(min(t.tokens for t in shared if t.name == name)) for name in {t.name for t in shared}}


class RankCaches:
    """Levels of a rank, its own cache first, then tiers; `stores`: those that it shares with others."""

    __slots__ = ("_free_ms", "_layers", "_levels", "_own", "_tiers")

    def __init__(self, pool: ReplayPool, stores: Stores) -> None:
        self._tiers, self._layers = pool.tiers, pool.layers
        tiers = [stores[tier.name] if tier.shared else PrefixCache(tier.tokens) for tier in pool.tiers]
        self._levels = (PrefixCache(pool.cache_tokens), *tiers)
        self._own = self._levels[: 1 + sum(not tier.shared for tier in pool.tiers)]
        self._free_ms = [0.0] * len(pool.tiers)

    def matched(self, blocks: Sequence[int]) -> int:
        """Leading blocks that are here and not with every other server, too: what a router would send a prompt for."""
        if len(self._own) == 1:
            return self._own[0].matched(blocks)
        return len(_levels_of(self._own, blocks))

    def levels_of(self, blocks: Sequence[int]) -> list[int]:
        """Of each leading block that is found the level, 0 for the rank's own cache."""
        if len(self._levels) == 1:
            return [0] * self._levels[0].matched(blocks)
        return _levels_of(self._levels, blocks)

    def use(self, blocks: Sequence[int], block_tokens: int) -> None:
        """Take the blocks in, on every level."""
        for level in self._levels:
            level.use(blocks, block_tokens)

    def ready_ms(self, now: float, tokens: Sequence[int], alone_ms: float) -> float:
        """When a prompt may be computed of which so many tokens are loaded from each tier, in `alone_ms` of its own."""
        done, link_ms = now, 0.0
        for place, tier in enumerate(self._tiers):
            if not tokens[place]:
                continue
            begin = now + tier.latency_ms
            over_link = tokens[place] * self._tiers[0].ms_per_token
            done = max(done, self._carried(0, begin, over_link))
            link_ms += over_link
            if place:
                done = max(done, self._carried(place, begin, tokens[place] * tier.ms_per_token))
        return max(now, done - min(link_ms, alone_ms) * (1 - 1 / self._layers))

    def _carried(self, way: int, begin: float, length_ms: float) -> float:
        self._free_ms[way] = done = max(begin, self._free_ms[way]) + length_ms
        return done

    def clear(self) -> None:
        """The server dies, and what is nowhere else is lost."""
        for level in self._own:
            level.clear()
        self._free_ms = [0.0] * len(self._free_ms)


def _levels_of(levels: Sequence[PrefixCache], blocks: Sequence[int]) -> list[int]:
    places = []
    for block in blocks:
        place = next((place for place, level in enumerate(levels) if block in level), -1)
        if place < 0:
            break
        places.append(place)
    return places
