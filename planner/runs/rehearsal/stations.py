"""The replay's own stations, driven by a clock: what a rehearsal and a replay have alike. Whom a request comes to is
not decided here; real routers do that.

Events happen at their exact moments of plan time, however late the process looks at them; only what is said of them is
late then, and how late is measured where it is said.
"""

import asyncio
from math import inf, isnan

from planner.domain.fleet import ReplayFleet
from planner.replay.curves import between
from planner.replay.engine import Network
from planner.replay.requests import Events
from planner.replay.stations.caches import stores_of
from planner.replay.stations.decode import DecodeServer
from planner.replay.stations.prefill import PrefillServer
from planner.replay.stations.serving import Taker, fresh_tokens, server_of
from planner.replay.stations.usage import Usage
from planner.runs.rehearsal.attempts import Attempt, AttemptLog, AttemptTable
from planner.runs.rehearsal.clock import PlanClock


class ClockedStations:
    """All servers of a fleet. `servers[pool][number]`; `table`, `log`: of attempts."""

    def __init__(self, fleet: ReplayFleet, table: AttemptTable, clock: PlanClock) -> None:
        self.fleet, self.table, self.clock = fleet, table, clock
        self.log = AttemptLog(fleet.tiers)
        self._events = Events()
        self._network = Network(fleet)
        self._attempts: dict[int, Attempt] = {}
        self._awaiting: dict[int, Attempt] = {}  # first tokens are to come
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = inf
        prompts = table.requests.prompt_tokens
        mean, state = int(sum(prompts) / max(1, len(prompts))), (table, self.log, self._events)
        stores = stores_of(fleet)
        self.servers = [
            [
                server_of(fleet, pool, state, mean, self._handed, self._done, stores=stores)
                for _ in range(fleet.pools[pool].servers)
            ]
            for pool in range(len(fleet.pools))
        ]
        self._numbers = {server: k for k, server in enumerate(s for servers in self.servers for s in servers)}

    @property
    def usages(self) -> list[list[Usage]]:
        """Of every pool's servers."""
        return [[server.usage for server in servers] for servers in self.servers]

    def take(self, server: Taker, number: int, rank: int | None) -> Attempt:
        """A request's prompt comes to a server; `rank`: whose endpoint it came to, None: ranks take turns."""
        now = self._advance()
        row = self.table.begin(number, now)
        self.log.begin()
        attempt = self._attempts[row] = Attempt(row)
        at_rank = server.rank_in_turn() if rank is None else rank
        self.log.prefill[row] = server.pool
        if isinstance(server, PrefillServer):
            attempt.sender, attempt.sender_rank, attempt.sender_deaths = server, at_rank, server.deaths
        else:
            self.log.decode[row] = server.pool
            self._awaiting[row] = attempt
        server.add(now, row, at_rank, fresh_tokens(self.fleet, self.table, self.log, server, at_rank, row))
        self._wake()
        return attempt

    def receive(self, attempt: Attempt, target: DecodeServer, rank: int | None = None) -> None:
        """A decode server asks for an attempt's cache: it is sent as soon as the prompt is taken in. `rank`: which is
        to answer, None: the emptiest."""
        now = self._advance()
        attempt.target, attempt.target_rank = target, -1 if rank is None else rank
        self.log.decode[attempt.row] = target.pool
        self._awaiting[attempt.row] = attempt
        if attempt.prefilled.done():
            self._send(now, attempt)
        self._wake()

    def lose(self, server: Taker | DecodeServer) -> None:
        """A server dies, with all that is there."""
        now = self._advance()
        for row in server.lose(now):
            self._forget(row)
        self._wake()

    def come_back(self, server: Taker | DecodeServer) -> None:
        """A server answers again."""
        server.come_back(self._advance())

    def quicken(self, slower: float) -> None:
        """From now on plan time runs so many times as slowly as the wall's."""
        self.clock.set_pace(slower)
        self.close()
        self._wake()

    def close(self) -> None:
        """Nothing happens any more."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None

    def _forget(self, row: int) -> None:
        self._awaiting.pop(row, None)
        if row in self._attempts:
            self._attempts.pop(row).lose()

    def _advance(self) -> float:
        now = self.clock.now_ms
        self._events.until(now)
        return now

    def _handed(self, now: float, row: int, server: PrefillServer, rank: int) -> None:  # noqa: ARG002  (the seam's)
        """A prompt is taken in."""
        attempt = self._attempts.get(row)
        if attempt is None:
            return
        attempt.reach(attempt.prefilled, now)
        if attempt.target is not None:
            self._send(now, attempt)

    def _send(self, now: float, attempt: Attempt) -> None:
        """A cache goes over the network, unless nobody is there to receive it."""
        sender, target = attempt.sender, attempt.target
        assert sender is not None, "caches come from prefill servers"
        assert target is not None, "caches go to decode servers"
        if not target.alive:
            self._forget(attempt.row)
            return
        pool, tokens = self.fleet.pools[sender.pool], self.table.prompt[attempt.row]
        assert pool.prompts is not None, "prefill servers have curves of their steps"
        sent_ms = between(pool.prompts.lengths, pool.sent_ms, tokens)
        nic = (self._numbers[sender], attempt.sender_rank)
        received_ms = self._network.sent(now, nic, sent_ms, (sender.pool, target.pool), tokens)
        target.expect(1)
        self._events.at(received_ms, self._received, (attempt, target.deaths))

    def _received(self, now: float, transfer: tuple[Attempt, int]) -> None:
        attempt, target_deaths = transfer
        sender, target = attempt.sender, attempt.target
        assert sender is not None, "as it was sent"
        assert target is not None, "as it was sent"
        if sender.deaths == attempt.sender_deaths and target.deaths == target_deaths:
            target.add(now, attempt.row, attempt.target_rank)
        else:
            target.expect(-1)
            self._forget(attempt.row)

    def _done(self, moment_ms: float, row: int) -> None:
        """The last token comes at a moment that may be ahead."""
        self._events.at(moment_ms, self._ended, row)

    def _ended(self, now: float, row: int) -> None:
        attempt = self._attempts.pop(row, None)
        if attempt is not None:
            self._awaiting.pop(row, None)
            attempt.reach(attempt.first, self.log.first[row])
            attempt.reach(attempt.ended, now)

    def _wake(self) -> None:
        """Say which first tokens are there, and look again when the next thing happens."""
        now = self._advance()
        next_ms, first = self._events.next_ms, self.log.first
        for row, attempt in [*self._awaiting.items()]:
            moment = first[row]
            if isnan(moment):
                continue
            if moment <= now:
                del self._awaiting[row]
                attempt.reach(attempt.first, moment)
            else:
                next_ms = min(next_ms, moment)
        self._set_alarm(next_ms)

    def _set_alarm(self, moment_ms: float) -> None:
        """Look again at that moment, or earlier where that is asked for already."""
        if self._alarm is not None and self._alarm_ms <= moment_ms:
            return
        self.close()
        if moment_ms < inf:
            self._alarm_ms = moment_ms
            self._alarm = asyncio.get_running_loop().call_at(self.clock.wall_s(moment_ms), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._wake()
