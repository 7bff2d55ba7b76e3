"""A router's choice by layers: pools, servers and ranks as it sees them, and what it takes to be there.

What a router counts by itself is counted here, each copy of it apart: from the choice until the first or the last token
of a request. What engines alone know (`Counted.WORK`) is asked of them.
Sources: facts on promises and routers; HAProxy's source, lb_fwlc.c (leastconn); Mitzenmacher 2001 (the better of two).
"""

from collections.abc import Callable, Sequence
from random import Random

from planner.domain.serving.routers import Counted, Endpoints, Freed, Layers, RouterLayer, Rule
from planner.replay.routing.choosers import Drawn, InTurn
from planner.replay.stations.decode import DecodeServer
from planner.replay.stations.mixed import MixedServer
from planner.replay.stations.prefill import PrefillServer

Taker = PrefillServer | MixedServer
Server = Taker | DecodeServer


class Endpoint:
    """An endpoint of a layer. `counted[copy]`: what that copy of the router takes to be there (requests, tokens or
    bytes); `servers`: those behind it; `rank` -1: whichever; `below`: the choice among what is behind it."""

    __slots__ = ("below", "counted", "rank", "servers", "weight")

    def __init__(self, servers: Sequence[Server], weight: float, copies: int, rank: int = -1) -> None:
        self.servers, self.weight, self.rank = servers, weight, rank
        self.counted = [0] * copies
        self.below: Choice | None = None

    @property
    def alive(self) -> bool:
        """Whether anybody behind it answers."""
        return any(server.alive for server in self.servers)


class Choice:
    """The choice of one layer among its endpoints."""

    __slots__ = ("_chooser", "_random", "_seen", "_seen_at", "alive", "endpoints", "layer", "load_of")

    def __init__(self, layer: RouterLayer, endpoints: Sequence[Endpoint], random: Random) -> None:
        self.layer, self.endpoints, self._random = layer, endpoints, random
        self.load_of = _load_of(layer)
        self.refresh()

    def refresh(self) -> None:
        """A server died or came back."""
        self.alive = [endpoint for endpoint in self.endpoints if endpoint.alive]
        weights = [endpoint.weight if self.layer.by_speed else 1.0 for endpoint in self.alive]
        self._chooser = _weighing(self.layer, weights, self._random)
        self._seen: list[list[float]] = [[] for _ in range(self.layer.copies)]
        self._seen_at = [0.0] * self.layer.copies
        for endpoint in self.endpoints:
            if endpoint.below is not None:
                endpoint.below.refresh()

    def pick(self, now: float) -> tuple[Endpoint, int]:
        """(the endpoint of the next request, the copy of the router that it came to)."""
        copies = self.layer.copies
        copy = self._random.randrange(copies) if copies > 1 else 0
        if len(self.alive) == 1:
            return self.alive[0], copy
        return self.alive[self._place(now, copy)], copy

    def _place(self, now: float, copy: int) -> int:
        if self.layer.rule is Rule.LEAST_LOADED:
            return self._lowest(self._loads(now, copy))
        assert self._chooser is not None, "draws and turns go by weights"
        first = self._chooser.pick()
        if self.layer.rule is not Rule.BETTER_OF_TWO:
            return first
        other = self._chooser.pick()
        if self.layer.age_ms:
            loads = self._loads(now, copy)
            return other if loads[other] < loads[first] else first
        alive, load_of = self.alive, self.load_of
        return other if load_of(alive[other], copy) < load_of(alive[first], copy) else first

    def _loads(self, now: float, copy: int) -> list[float]:
        load_of = self.load_of
        if not self.layer.age_ms:
            return [load_of(endpoint, copy) for endpoint in self.alive]
        if not self._seen[copy] or now >= self._seen_at[copy] + self.layer.age_ms:
            self._seen[copy] = [load_of(endpoint, copy) for endpoint in self.alive]
            self._seen_at[copy] = now
        return self._seen[copy]

    def _lowest(self, loads: list[float]) -> int:
        lowest = min(loads)
        first = loads.index(lowest)
        # Counts are small whole numbers and often equal, and programs go round among equals. Work hardly ever is.
        if self.layer.counts is Counted.WORK or loads.count(lowest) == 1:
            return first
        return self._random.choice([place for place, load in enumerate(loads) if load == lowest])


def _weighing(layer: RouterLayer, weights: Sequence[float], random: Random) -> Drawn | InTurn | None:
    if not weights or layer.rule is Rule.LEAST_LOADED:
        return None
    return InTurn(weights) if layer.rule is Rule.IN_TURN else Drawn(weights, random)


def _load_of(layer: RouterLayer) -> Callable[[Endpoint, int], float]:
    if layer.counts is Counted.WORK:
        return _work if layer.by_speed else _tokens
    if not layer.by_speed:
        return _counted
    return _connections if layer.counts is Counted.REQUESTS else _weighed


def _work(endpoint: Endpoint, _copy: int) -> float:
    server = endpoint.servers[0]
    return server.load if isinstance(server, DecodeServer) else server.work


def _tokens(endpoint: Endpoint, _copy: int) -> float:
    server = endpoint.servers[0]
    if isinstance(server, DecodeServer):
        return server.load * server.places
    return server.work * server.speed


def _counted(endpoint: Endpoint, copy: int) -> float:
    return endpoint.counted[copy]


def _weighed(endpoint: Endpoint, copy: int) -> float:
    return endpoint.counted[copy] / endpoint.weight


def _connections(endpoint: Endpoint, copy: int) -> float:
    # As HAProxy's leastconn has it: of those that are busy, with the next one counted in.
    count = endpoint.counted[copy]
    return (count + 1) / endpoint.weight if count else 0.0


def choice_of(layers: Layers, pools: Sequence[Sequence[tuple[Server, float]]], random: Random) -> Choice:
    """The choice of the first layer over pools of (server, weight), with those of the other layers below it."""
    layer, rest = layers[0], layers[1:]
    endpoints = []
    for members in _parted(layer, pools):
        servers, weight = [server for server, _ in members], sum(weight for _, weight in members)
        ranks = range(servers[0].ranks) if layer.among is Endpoints.RANK else (-1,)
        for rank in ranks:
            endpoint = Endpoint(servers, weight / len(ranks), layer.copies, rank)
            if rest and not by_engine(rest):
                endpoint.below = choice_of(rest, [members], random)
            endpoints.append(endpoint)
    return Choice(layer, endpoints, random)


def _parted(
    layer: RouterLayer, pools: Sequence[Sequence[tuple[Server, float]]]
) -> list[Sequence[tuple[Server, float]]]:
    if layer.among is Endpoints.POOL:
        return [pool for pool in pools if pool]
    return [[member] for pool in pools for member in pool]


def by_engine(layers: Layers) -> bool:
    """Whether what is left to choose is a rank of a server, which its engine or its queues decide."""
    return (
        len(layers) == 1 and layers[0].among is Endpoints.RANK and layers[0].counts in (Counted.NOTHING, Counted.WORK)
    )


class Ledger:
    """What a router takes to be where, request by request. `prompts`, `bodies`: tokens of each prompt, and as many
    bytes as its body has, in tokens."""

    __slots__ = ("_bodies", "_entries", "_prompts")

    def __init__(self, prompts: Sequence[int], bodies: Sequence[int]) -> None:
        self._prompts, self._bodies = prompts, bodies
        self._entries: dict[int, list[tuple[Freed, Endpoint, int, int]]] = {}

    def choose(self, choice: Choice | None, request: int, now: float) -> Endpoint:
        """The endpoint that the last layer chooses; each layer counts the request where it sends it."""
        assert choice is not None, "a router has a layer"
        while True:
            endpoint, copy = choice.pick(now)
            self._enter(choice.layer, endpoint, copy, request)
            if endpoint.below is None:
                return endpoint
            choice = endpoint.below

    def _enter(self, layer: RouterLayer, endpoint: Endpoint, copy: int, request: int) -> None:
        if layer.counts in (Counted.NOTHING, Counted.WORK):
            return
        amounts = {Counted.TOKENS: self._prompts, Counted.BYTES: self._bodies}
        amount = amounts[layer.counts][request] if layer.counts in amounts else 1
        endpoint.counted[copy] += amount
        self._entries.setdefault(request, []).append((layer.freed, endpoint, copy, amount))

    def free(self, request: int, moment: Freed | None = None) -> None:
        """The request came to this moment; None: it is lost."""
        entries = self._entries.pop(request, None)
        if entries is None:
            return
        later = [entry for entry in entries if moment is not None and entry[0] is not moment]
        for freed, endpoint, copy, amount in entries:
            if moment is None or freed is moment:
                endpoint.counted[copy] -= amount
        if later:
            self._entries[request] = later
