"""The router: by prompt length to an interval's servers, and among them by its policy, one class a way of choosing.

Where pools that do both phases stand beside split ones, each kind gets its share of the interval's requests by turns,
and the policy chooses within the kind. A cache is handed to the decode server with the fewest sequences for its places,
or as the policy draws.

A way sees servers' speed, queue and work, as real routers do.
Sources: facts on routers; Vvedenskaya 1996, Mitzenmacher 2001 (the better of two).
"""

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heapify, heapreplace
from itertools import accumulate
from math import exp
from operator import attrgetter
from random import Random
from typing import Protocol

from planner.domain import RouterPolicy
from planner.domain.arrivals import ReplaySettings
from planner.domain.fleet import Interval, PoolShare, ReplayFleet
from planner.domain.layout import Phase
from planner.replay.requests import RequestTable
from planner.replay.stations.decode import DecodeServer
from planner.replay.stations.mixed import MixedServer
from planner.replay.stations.prefill import PrefillServer


class Server(Protocol):
    """What a router sees of a server. `work`: ms; `queue`: requests; `speed`: prompt tokens a ms."""

    @property
    def alive(self) -> bool:
        """Whether it answers."""

    @property
    def work(self) -> float:
        """ms."""

    @property
    def queue(self) -> int:
        """Requests."""

    @property
    def speed(self) -> float:
        """Prompt tokens a ms."""


class Chooser(Protocol):
    """One way of choosing among servers that are alive."""

    def pick(self) -> int:
        """The place of the chosen server."""


class Drawn:
    """At random, by weight."""

    def __init__(self, weights: Sequence[float], random: Random) -> None:
        self._sums = list(accumulate(weights))
        self._random = random
        self._last = len(weights) - 1

    def pick(self) -> int:
        """A draw."""
        # Rounding may put a draw at the very end of the sums, behind the last.
        return min(bisect_right(self._sums, self._random.random() * self._sums[-1]), self._last)


class InTurn:
    """One after the other, each as often as its weight says (stride scheduling, Waldspurger 1995)."""

    def __init__(self, weights: Sequence[float]) -> None:
        heaviest = max(weights)
        self._strides = [heaviest / weight if weight > 0 else float("inf") for weight in weights]
        # Half a stride: turns come as by Sainte-Lague, which favours neither heavy nor light ones.
        self._turns = [(stride / 2, place) for place, stride in enumerate(self._strides)]
        heapify(self._turns)

    def pick(self) -> int:
        """The next one."""
        turn, place = self._turns[0]
        heapreplace(self._turns, (turn + self._strides[place], place))
        return place


class BetterOfTwo(Drawn):
    """Of two drawn by weight the one with less work."""

    def __init__(self, servers: Sequence[Server], weights: Sequence[float], random: Random) -> None:
        super().__init__(weights, random)
        self._servers = servers

    def pick(self) -> int:
        """The better of two draws."""
        first, other = super().pick(), super().pick()
        return other if self._servers[other].work < self._servers[first].work else first


class Shortest:
    """The fewest requests for its speed."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers

    def pick(self) -> int:
        """The shortest queue."""
        queues = [server.queue / server.speed for server in self._servers]
        return queues.index(min(queues))


class LeastWork:
    """The least outstanding work for its speed."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers

    def pick(self) -> int:
        """The least work."""
        work = list(map(_WORK, self._servers))
        return work.index(min(work))


class Alike:
    """A server to a router that knows nothing of speed: work is its tokens, and weight and speed are every other's."""

    speed = 1.0

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def alive(self) -> bool:
        """Whether it answers."""
        return self._server.alive

    @property
    def work(self) -> float:
        """Tokens."""
        return self._server.work * self._server.speed

    @property
    def queue(self) -> int:
        """Requests."""
        return self._server.queue


def blind_chooser_of(policy: RouterPolicy, servers: Sequence[Server], random: Random) -> Chooser:
    """The way that a policy chooses where a router takes all servers to be equally fast."""
    return chooser_of(policy, [Alike(server) for server in servers], [1.0] * len(servers), random)


def chooser_of(policy: RouterPolicy, servers: Sequence[Server], weights: Sequence[float], random: Random) -> Chooser:
    """The way that a policy chooses among servers of such weights."""
    if policy is RouterPolicy.POWER_OF_TWO:
        return BetterOfTwo(servers, weights, random)
    if policy is RouterPolicy.SHORTEST_QUEUE:
        return Shortest(servers)
    return by_weight(policy, weights, random) or LeastWork(servers)


def by_weight(policy: RouterPolicy, weights: Sequence[float], random: Random) -> Chooser | None:
    """The way of a policy that looks at weights alone; None of the others."""
    if policy is RouterPolicy.RANDOM:
        return Drawn(weights, random)
    return InTurn(weights) if policy is RouterPolicy.ROUND_ROBIN else None


Taker = PrefillServer | MixedServer
_LOAD = attrgetter("load")
_WORK = attrgetter("work")
_RANKS_IN_TURN = frozenset(RouterPolicy) - {
    RouterPolicy.LEAST_WORK,
    RouterPolicy.OVERFLOW,
    RouterPolicy.PREFIX_AWARE,
}
_TOO_MUCH = 2.0  # times the mean work: a server with the longest match is passed over from here on


class TakerGroup:
    """Servers of one kind that take the prompts of an interval in."""

    __slots__ = ("_arguments", "_chooser", "_settings", "alive", "servers")

    def __init__(self, settings: ReplaySettings, servers: list[Taker], weights: list[float], random: Random) -> None:
        self.servers = servers
        self._settings = settings
        self._arguments = (weights, random)
        self.refresh()

    def refresh(self) -> None:
        """A server died or came back."""
        weights, random = self._arguments
        policy = self._settings.policy
        pairs = [(s, w) for s, w in zip(self.servers, weights, strict=True) if s.alive]
        self.alive: list[Taker] = [server for server, _ in pairs]
        if pairs and self._settings.blind_to_speed:
            self._chooser: Chooser = blind_chooser_of(policy, self.alive, random)
        elif pairs:
            self._chooser = chooser_of(policy, self.alive, [weight for _, weight in pairs], random)

    def pick(self) -> Taker:
        """The server of the next request."""
        return self.alive[self._chooser.pick()] if len(self.alive) > 1 else self.alive[0]


class Route:
    """One interval: groups by kind with their turns, decode servers, and the groups of longer intervals."""

    __slots__ = ("_kinds", "decode", "decode_alive", "decode_turns", "end", "groups", "longer")

    def __init__(self, end: int, groups: list[TakerGroup], shares: list[float]) -> None:
        self.end = end
        self.groups = groups
        self._kinds = InTurn(shares) if len(groups) > 1 else None
        self.decode: list[DecodeServer] = []
        self.decode_alive: list[DecodeServer] = []
        self.decode_turns: Chooser | None = None
        self.longer: list[TakerGroup] = []

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
        servers: Sequence[Sequence[Taker | DecodeServer]],
        requests: RequestTable,
        random: Random,
    ) -> None:
        policy = settings.policy
        self._settings = settings
        self._policy = policy
        self._requests = requests
        self._overflow_ms = settings.overflow_ms
        self._ranks_in_turn = policy in _RANKS_IN_TURN
        self._starts = [interval.start for interval in fleet.intervals]
        self._routes = [self._route(fleet, interval, servers, random) for interval in fleet.intervals]
        for number, route in enumerate(self._routes):
            route.longer = [group for later in self._routes[number + 1 :] for group in later.groups]
        self.numbers = self._numbers(settings.length_spread, random)

    def _route(
        self,
        fleet: ReplayFleet,
        interval: Interval,
        servers: Sequence[Sequence[Taker | DecodeServer]],
        random: Random,
    ) -> Route:
        kinds: dict[bool, list[PoolShare]] = {}
        for row in interval.prefill:
            kinds.setdefault(fleet.pools[row.pool].phase is Phase.MIXED, []).append(row)
        groups, shares = [], []
        for rows in kinds.values():
            takers = [server for row in rows for server in servers[row.pool] if not isinstance(server, DecodeServer)]
            weights = [row.share / len(servers[row.pool]) for row in rows for _ in servers[row.pool]]
            groups.append(TakerGroup(self._settings, takers, weights, random))
            shares.append(sum(row.share for row in rows))
        route = Route(interval.end, groups, shares)
        for row in interval.decode:
            route.decode += [server for server in servers[row.pool] if isinstance(server, DecodeServer)]
        route.decode_alive = list(route.decode)
        if len(route.decode) > 1:
            weights = [row.share / len(servers[row.pool]) for row in interval.decode for _ in servers[row.pool]]
            route.decode_turns = by_weight(self._policy, weights, random)
        return route

    def interval_of(self, tokens: int) -> int:
        """The number of a prompt's interval; -1: nobody takes it."""
        number = bisect_right(self._starts, tokens) - 1
        return number if number >= 0 and tokens < self._routes[number].end else -1

    def _numbers(self, spread: float, random: Random) -> list[int]:
        """The interval that each request is sent to; where the router takes a length for what it is not, the nearest
        that there is."""
        prompts = self._requests.prompt
        if not spread or len(self._routes) == 1:
            return list(map(self.interval_of, prompts))
        last = self._routes[-1].end - 1
        return [self.interval_of(min(last, round(tokens * exp(random.gauss(0.0, spread))))) for tokens in prompts]

    def refresh(self) -> None:
        """A server died or came back."""
        for route in self._routes:
            route.decode_alive = [server for server in route.decode if server.alive]
            for group in route.groups:
                group.refresh()

    def taker(self, request: int) -> tuple[Taker, int] | None:
        """Server and rank that take a prompt in; None where nobody is alive."""
        route = self._routes[self.numbers[request]]
        group = route.group()
        if group is None:
            return None
        if self._policy is RouterPolicy.PREFIX_AWARE and group.alive[0].caches:
            return self._by_prefix(group, request)
        server = group.pick()
        if self._policy is RouterPolicy.OVERFLOW and server.work > self._overflow_ms and route.longer:
            others = [other for longer in route.longer for other in longer.alive]
            server = min([server, *others], key=_WORK)
        if server.ranks == 1:
            return server, 0
        return server, server.rank_in_turn() if self._ranks_in_turn else server.emptiest_rank()

    def _by_prefix(self, group: TakerGroup, request: int) -> tuple[Taker, int]:
        blocks = self._requests.blocks_of(request)
        best, chosen = 0, None
        mean = sum(map(_WORK, group.alive)) / len(group.alive)
        for server in group.alive:
            if server.work > _TOO_MUCH * mean and len(group.alive) > 1:
                continue
            for rank, cache in enumerate(server.caches):
                matched = cache.matched(blocks)
                if matched > best:
                    best, chosen = matched, (server, rank)
        if chosen is not None:
            return chosen
        server = group.pick()
        return server, server.emptiest_rank()

    def answerer(self, request: int) -> DecodeServer | None:
        """The server that decodes; None where nobody is alive."""
        route = self._routes[self.numbers[request]]
        if route.decode_turns is not None:
            # Turns go on over the dead, so that shares stay as they are; a dead one's turn goes by load.
            server = route.decode[route.decode_turns.pick()]
            if server.alive:
                return server
        return min(route.decode_alive, key=_LOAD) if route.decode_alive else None
