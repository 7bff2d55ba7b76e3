"""Servers of a pool made ready, and what of a prompt they have to compute: alike for whoever drives them, virtual time
or a clock."""

from collections.abc import Callable, Sequence
from typing import Protocol

from planner.domain.fleet import ReplayFleet
from planner.domain.layout import Phase
from planner.replay.curves import nearest_rows
from planner.replay.requests import Events, RequestLog, RequestTable
from planner.replay.stations.caches import Stores
from planner.replay.stations.decode import DecodeServer
from planner.replay.stations.mixed import MixedServer
from planner.replay.stations.prefill import PrefillServer
from planner.replay.stations.usage import Usage

Taker = PrefillServer | MixedServer
Handed = Callable[[float, int, PrefillServer, int], None]
Done = Callable[[float, int], None]


class PlayedRun(Protocol):
    """What measures ask of a run, whoever chose the servers: its requests and their log, the interval that each was
    sent to, and what every pool's servers did."""

    @property
    def requests(self) -> RequestTable:
        """As they came."""

    @property
    def log(self) -> RequestLog:
        """What became of them."""

    @property
    def sent_to(self) -> Sequence[int]:
        """Numbers of intervals."""

    @property
    def usages(self) -> list[list[Usage]]:
        """Of every pool's servers."""


def server_of(
    fleet: ReplayFleet,
    number: int,
    state: tuple[RequestTable, RequestLog, Events],
    mean_prompt: int,
    handed: Handed,
    done: Done,
    taken_in: Callable[[int], None] = lambda _: None,
    stores: Stores | None = None,
) -> Taker | DecodeServer:
    """One server of the pool with that number. `handed` hears of prompts that a prefill server took in, `taken_in` of
    those that a server of both phases did, `done` of answers that end; `mean_prompt` tokens are what its speed is told
    for; `stores`: tiers that it shares with others."""
    pool = fleet.pools[number]
    if pool.phase is Phase.DECODE:
        return DecodeServer(number, pool, *state, done)
    curve = pool.prompts if pool.phase is Phase.PREFILL else pool.chunks
    assert curve is not None, "servers that take prompts in have curves of them"
    # Routers know one speed a server: that with the mean prompt.
    row = nearest_rows(curve.lengths, [mean_prompt])[0]
    if pool.phase is Phase.PREFILL:
        return PrefillServer(number, pool, *state, handed, row, stores)
    return MixedServer(number, pool, *state, done, row, taken_in, stores)


def fresh_tokens(
    fleet: ReplayFleet, requests: RequestTable, log: RequestLog, server: Taker, rank: int, request: int
) -> float:
    """Tokens of a prompt that are in no cache, at least one; its blocks are then in the rank's caches. The log is told
    what was found, and how much of it is loaded from which tier."""
    tokens, pool = requests.prompt[request], fleet.pools[server.pool]
    if not server.caches or requests.blocks is None:
        if not pool.hit_shares:
            return tokens
        fresh = max(1.0, tokens * (1 - pool.hit_shares[requests.row[request]]))
        log.hits[request] = int(tokens - fresh)
        return fresh
    caches, blocks = server.caches[rank], requests.blocks_of(request)
    size, levels = requests.blocks.block_tokens, caches.levels_of(blocks)
    # The last token is computed in any case: the answer's first one comes out of it.
    hit = min(len(levels) * size, tokens - 1) // pool.hit_tokens * pool.hit_tokens
    caches.use(blocks, size)
    log.hits[request] = hit
    for place, tier in enumerate(pool.tiers, 1):
        # of the last block only what the hit has of it
        loaded = (min(size, hit - k * size) for k, level in enumerate(levels) if level == place)
        log.loads[tier.name][request] = sum(max(0, tokens) for tokens in loaded)
    return tokens - hit
