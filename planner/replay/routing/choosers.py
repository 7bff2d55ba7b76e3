"""How a router chooses among servers, one class a way. A way sees servers' speed, queue and work, as real routers do.

Sources: facts on routers; Vvedenskaya 1996, Mitzenmacher 2001 (the better of two).
"""

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heapify, heapreplace
from itertools import accumulate
from operator import attrgetter
from random import Random
from typing import Protocol

from planner.domain import RouterPolicy


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


_WORK = attrgetter("work")


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
