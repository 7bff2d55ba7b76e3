"""The router: by prompt length to an interval's servers, and among them by its layers.

Where pools that do both phases stand beside split ones, each kind gets its share of the interval's requests by turns,
and the layers choose within the kind. A cache is handed to the decode server that the layers of decode choose.
Sources: facts on routers.
"""

from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b
from math import ceil, exp, log
from operator import attrgetter, itemgetter
from random import Random

from planner.domain.arrivals import ReplaySettings
from planner.domain.fleet import Interval, PoolShare, ReplayFleet
from planner.domain.layout import Phase
from planner.domain.serving.routers import Counted, Freed, Layers, RouterLayer
from planner.replay.requests import RequestTable
from planner.replay.routing.choosers import InTurn
from planner.replay.routing.layers import Choice, Ledger, Server, Taker, by_engine, choice_of
from planner.replay.stations.decode import DecodeServer
from planner.replay.stations.mixed import MixedServer

_WORK = attrgetter("work")
_FIRST = itemgetter(0)
_LEAST_WEIGHT = 1e-9
_TOO_MUCH = 2.0  # times the mean work: a server with the longest match is passed over from here on
# Of a prompt: a shorter match is what many prompts share, and would send all of them to the server that had it first.
_LEAST_MATCH = 0.5
_Pools = Sequence[Sequence[tuple[Server, float]]]


def _late(session: int, place: int, rank: int) -> float:
    """A draw from an exponential distribution that is the same whenever it is asked for."""
    drawn = int.from_bytes(blake2b(f"{session} {place} {rank}".encode(), digest_size=7).digest())
    return -log((drawn + 1) / 2**56)


class TakerGroup:
    """Servers of one kind that take the prompts of an interval in, by pool with their weights."""

    __slots__ = ("_emptiest", "_of_sessions", "_weights", "alive", "choice", "servers")

    def __init__(self, layers: Layers, pools: _Pools, random: Random) -> None:
        self.servers = [server for pool in pools for server, _ in pool if not isinstance(server, DecodeServer)]
        self._weights = [weight for pool in pools for server, weight in pool if not isinstance(server, DecodeServer)]
        self.choice = choice_of(layers, pools, random)
        last = layers[-1]
        self._emptiest = by_engine((last,)) and last.counts is Counted.WORK
        self.refresh()

    def refresh(self) -> None:
        """A server died or came back."""
        self.alive = [server for server in self.servers if server.alive]
        self.choice.refresh()
        self._of_sessions: dict[int, tuple[Taker, int]] = {}

    def of_session(self, session: int) -> tuple[Taker, int]:
        """Server and rank that a session is hashed to, by weight: only sessions of servers that die are moved."""
        chosen = self._of_sessions.get(session)
        if chosen is None:
            places = enumerate(zip(self.servers, self._weights, strict=True))
            ranks = [
                (_late(session, place, rank) * server.ranks / max(weight, _LEAST_WEIGHT), server, rank)
                for place, (server, weight) in places
                if server.alive
                for rank in range(server.ranks)
            ]
            _, server, rank = min(ranks, key=_FIRST)
            chosen = self._of_sessions[session] = (server, rank)
        return chosen

    def rank_of(self, server: Taker) -> int:
        """The rank of a server that was chosen as such."""
        if server.ranks == 1:
            return 0
        return server.emptiest_rank() if self._emptiest else server.rank_in_turn()


class Route:
    """One interval: groups by kind with their turns, decode servers, and the groups of longer intervals."""

    __slots__ = ("_kinds", "decode", "decode_alive", "decode_choice", "end", "groups", "longer")

    def __init__(self, end: int, groups: list[TakerGroup], shares: list[float]) -> None:
        self.end = end
        self.groups = groups
        self._kinds = InTurn(shares) if len(groups) > 1 else None
        self.decode: list[DecodeServer] = []
        self.decode_alive: list[DecodeServer] = []
        self.decode_choice: Choice | None = None
        self.longer: list[TakerGroup] = []

    def refresh(self) -> None:
        """A server died or came back."""
        self.decode_alive = [server for server in self.decode if server.alive]
        if self.decode_choice is not None:
            self.decode_choice.refresh()
        for group in self.groups:
            group.refresh()

    def group(self) -> TakerGroup | None:
        """Whose turn it is; None where nobody is alive."""
        group = self.groups[0] if self._kinds is None else self.groups[self._kinds.pick()]
        if self._serves(group):
            return group
        return next((other for other in self.groups if self._serves(other)), None)

    def _serves(self, group: TakerGroup) -> bool:
        """Whether anybody of a group is alive, and somebody who decodes what it takes in."""
        return bool(group.alive and (self.decode_alive or isinstance(group.alive[0], MixedServer)))


class Router:
    """Chooses servers; asks nothing but what a router sees."""

    def __init__(
        self,
        fleet: ReplayFleet,
        settings: ReplaySettings,
        servers: Sequence[Sequence[Server]],
        requests: RequestTable,
        random: Random,
    ) -> None:
        self._behaviour = settings.router
        self._requests = requests
        self._overflow_ms = settings.overflow_ms
        self._starts = [interval.start for interval in fleet.intervals]
        self._routes = [self._route(fleet, interval, servers, random) for interval in fleet.intervals]
        for number, route in enumerate(self._routes):
            route.longer = [group for later in self._routes[number + 1 :] for group in later.groups]
        sizes = self._sizes(settings.length_spread, random)
        self.numbers = list(map(self.interval_of, sizes))
        self._ledger = Ledger(requests.prompt, sizes)

    def _route(
        self, fleet: ReplayFleet, interval: Interval, servers: Sequence[Sequence[Server]], random: Random
    ) -> Route:
        behaviour = self._behaviour
        kinds: dict[bool, list[PoolShare]] = {}
        for row in interval.prefill:
            kinds.setdefault(fleet.pools[row.pool].phase is Phase.MIXED, []).append(row)
        groups, shares = [], []
        for mixed, rows in kinds.items():
            layers = behaviour.mixed if mixed else behaviour.prefill
            groups.append(TakerGroup(layers, _weighed(layers[0], rows, servers), random))
            shares.append(sum(row.share for row in rows))
        route = Route(interval.end, groups, shares)
        for row in interval.decode:
            route.decode += [server for server in servers[row.pool] if isinstance(server, DecodeServer)]
        if route.decode:
            route.decode_choice = choice_of(
                behaviour.decode, _weighed(behaviour.decode[0], interval.decode, servers), random
            )
        route.refresh()
        return route

    def interval_of(self, tokens: int) -> int:
        """The number of a prompt's interval; -1: nobody takes it."""
        number = bisect_right(self._starts, tokens) - 1
        return number if number >= 0 and tokens < self._routes[number].end else -1

    def _sizes(self, spread: float, random: Random) -> list[int]:
        """What the router takes each prompt's length for; at most the longest that somebody takes."""
        prompts = self._requests.prompt
        if not spread:
            return prompts
        last = self._routes[-1].end - 1
        return [min(last, round(tokens * exp(random.gauss(0.0, spread)))) for tokens in prompts]

    def refresh(self) -> None:
        """A server died or came back."""
        for route in self._routes:
            route.refresh()

    def freed(self, request: int, moment: Freed | None) -> None:
        """A request has its first or last token; None: it is lost, or begins anew."""
        self._ledger.free(request, moment)

    def taker(self, request: int, now: float) -> tuple[Taker, int] | None:
        """Server and rank that take a prompt in; None where nobody is alive."""
        route = self._routes[self.numbers[request]]
        group = route.group()
        if group is None:
            return None
        if self._behaviour.prefixes and group.alive[0].caches:
            return self._by_prefix(group, request, now)
        if self._behaviour.sessions and self._requests.sessions is not None:
            return group.of_session(self._requests.sessions[request])
        server, rank = self._by_layers(group, request, now)
        if self._behaviour.overflows and server.work > self._overflow_ms and route.longer:
            others = [other for longer in route.longer for other in longer.alive]
            best = min([server, *others], key=_WORK)
            server, rank = best, rank if best is server else group.rank_of(best)
        return server, rank

    def _by_layers(self, group: TakerGroup, request: int, now: float) -> tuple[Taker, int]:
        endpoint = self._ledger.choose(group.choice, request, now)
        server = endpoint.servers[0]
        assert not isinstance(server, DecodeServer), "decode servers take no prompts in"
        return server, endpoint.rank if endpoint.rank >= 0 else group.rank_of(server)

    def _by_prefix(self, group: TakerGroup, request: int, now: float) -> tuple[Taker, int]:
        blocks = self._requests.blocks_of(request)
        best, chosen = max(1, ceil(_LEAST_MATCH * len(blocks))), None
        mean = sum(map(_WORK, group.alive)) / len(group.alive)
        for server in group.alive:
            if server.work > _TOO_MUCH * mean and len(group.alive) > 1:
                continue
            for rank, cache in enumerate(server.caches):
                matched = cache.matched(blocks)
                if matched > best or (matched == best and (chosen is None or server.work < chosen[0].work)):
                    best, chosen = matched, (server, rank)
        return self._by_layers(group, request, now) if chosen is None else chosen

    def answerer(self, request: int, now: float) -> DecodeServer | None:
        """The server that decodes; None where nobody is alive."""
        route = self._routes[self.numbers[request]]
        if not route.decode_alive:
            return None
        server = self._ledger.choose(route.decode_choice, request, now).servers[0]
        assert isinstance(server, DecodeServer), "caches go to decode servers"
        return server


def _weighed(layer: RouterLayer, rows: Sequence[PoolShare], servers: Sequence[Sequence[Server]]) -> _Pools:
    """The servers of each pool, each with its weight where the layer counts and there is one, else with its part of the
    pool's share."""
    weighs = layer.weighs and all(row.weight for row in rows)
    return [
        [(server, row.weight if weighs else row.share / len(servers[row.pool])) for server in servers[row.pool]]
        for row in rows
    ]
