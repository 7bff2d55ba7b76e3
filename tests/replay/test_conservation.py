"""No request is lost or served twice, moments come in order, work is what came, and Little's law holds at stations."""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from drawn_fleets import Case, cases
from hypothesis import given
from hypothesis import strategies as st

from planner.domain import RouterPolicy, behaviour_of
from planner.domain.arrivals import Failure, ReplaySettings
from planner.domain.layout import Phase
from planner.replay import engine as engines
from planner.replay.engine import Engine
from planner.replay.requests import Events
from planner.replay.stations.decode import DecodeServer

POLICIES = st.sampled_from(list(RouterPolicy))
CLOSE_MS = 1e-6
MOMENTS = ("started", "prefilled", "arrived", "placed", "first", "ended")


class Watched(Engine):
    """Counts how often each request ends."""

    def __init__(self, case: Case, of: ReplaySettings) -> None:
        self.ends: Counter[int] = Counter()
        super().__init__(case.fleet, case.requests, of, 0)

    def _done(self, now: float, request: int) -> None:
        self.ends[request] += 1
        super()._done(now, request)


def check_moments(engine: Watched, case: Case) -> None:
    count = len(case.prompt)
    assert engine.ends == Counter(range(count))
    assert engine.finished == count
    columns = [np.array(case.arrival_ms), *(np.array(getattr(engine.log, name)) for name in MOMENTS)]
    for name, (before, after) in zip(MOMENTS, pairwise(columns), strict=True):
        assert np.isfinite(after).all(), name
        assert (before <= after + CLOSE_MS).all(), name


@given(case=cases(), policy=POLICIES)
def test_every_request_is_served_once_and_its_moments_are_in_order(case: Case, policy: RouterPolicy) -> None:
    engine = Watched(case, ReplaySettings(router=behaviour_of(policy), overflow_ms=20.0))
    engine.run()
    check_moments(engine, case)
    check_work(engine, case)


@given(case=cases(), policy=POLICIES, data=st.data())
def test_failures_lose_no_request(case: Case, policy: RouterPolicy, data: st.DataObject) -> None:
    islands = st.sampled_from([pool.island for pool in case.fleet.pools])
    failures = data.draw(
        st.lists(
            st.builds(
                Failure,
                island=islands,
                at_s=st.floats(0, 5),
                servers=st.lists(st.tuples(islands, st.integers(0, 3)), max_size=3).map(tuple),
                back_after_s=st.sampled_from([None, 0.0, 0.003, 0.5, 4.0]),
            ),
            min_size=1,
            max_size=4,
        )
    )
    engine = Watched(case, ReplaySettings(router=behaviour_of(policy), failures=tuple(failures)))
    engine.run()
    check_moments(engine, case)


def check_work(engine: Engine, case: Case) -> None:
    """Tokens taken in are those that came, and passes gave the tokens of the answers."""
    log = engine.log
    for number, (pool, usages) in enumerate(zip(case.fleet.pools, engine.usages, strict=True)):
        mine = [request for request, of in enumerate(log.prefill) if of == number]
        answered = [request for request, of in enumerate(log.decode) if of == number]
        again = sum(log.preempted[request] for request in answered)
        assert sum(usage.preempted for usage in usages) == again
        if pool.phase is not Phase.DECODE and not again:
            assert sum(usage.tokens for usage in usages) * pool.ranks == pytest.approx(
                sum(case.prompt[request] for request in mine)
            )
        if pool.phase is not Phase.PREFILL and not again:
            residence = sum(log.ended[request] - log.placed[request] for request in answered)
            assert sum(usage.batch_ms for usage in usages) * pool.ranks == pytest.approx(residence, abs=CLOSE_MS)
    last = max(log.ended)
    assert all(usage.busy_ms <= last + CLOSE_MS for usages in engine.usages for usage in usages)


class Integrals(Events):
    """Events that integrate over time how many requests every server has."""

    __slots__ = ("clock", "counts_of", "sums")

    def __init__(self) -> None:
        super().__init__()
        self.clock = 0.0
        self.counts_of: Any = None
        self.sums: list[float] = []

    def until(self, moment: float) -> None:
        while self._heap and self._heap[0][0] < moment:
            following = self._heap[0][0]
            self._pass_to(following)
            super().until(np.nextafter(following, np.inf))
        if np.isfinite(moment):
            self._pass_to(moment)

    def _pass_to(self, moment: float) -> None:
        counts = self.counts_of()
        self.sums = self.sums or [0.0] * len(counts)
        self.sums = [total + count * (moment - self.clock) for total, count in zip(self.sums, counts, strict=True)]
        self.clock = moment


@given(case=cases(), policy=POLICIES)
def test_littles_law(case: Case, policy: RouterPolicy) -> None:
    """Requests at the stations of a pool, over time, are the times that requests spent there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "Events", Integrals)
        engine = Engine(case.fleet, case.requests, ReplaySettings(router=behaviour_of(policy)), 0)
    events, servers = engine._events, engine._servers
    assert isinstance(events, Integrals)
    events.counts_of = lambda: [sum(_here(server) for server in of_pool) for of_pool in servers]
    engine.run()
    log, arrival = engine.log, case.arrival_ms
    for number, (pool, integral) in enumerate(zip(case.fleet.pools, events.sums, strict=True)):
        if pool.phase is Phase.PREFILL:
            times = [log.prefilled[k] - arrival[k] for k, of in enumerate(log.prefill) if of == number]
        elif pool.phase is Phase.DECODE:
            times = [log.ended[k] - log.arrived[k] for k, of in enumerate(log.decode) if of == number]
        else:
            times = [log.ended[k] - arrival[k] for k, of in enumerate(log.decode) if of == number]
        assert integral == pytest.approx(sum(times), rel=1e-9, abs=1e-3), pool.phase


def _here(server: Any) -> float:
    if isinstance(server, DecodeServer):
        return server.load * server.places - server.coming
    return float(server.queue)


@given(case=cases(), policy=POLICIES)
def test_prefill_servers_are_busy_for_their_steps(case: Case, policy: RouterPolicy) -> None:
    """A step takes 5 ms, and 0.1 ms a token of the mean of the fullest and the average rank."""
    engine = Engine(case.fleet, case.requests, ReplaySettings(router=behaviour_of(policy)), 0)
    engine.run()
    for number, (pool, usages) in enumerate(zip(case.fleet.pools, engine.usages, strict=True)):
        if pool.phase is Phase.PREFILL:
            tokens = sum(length for length, of in zip(case.prompt, engine.log.prefill, strict=True) if of == number)
            fixed_ms = 5.0 * sum(usage.steps for usage in usages)
            busy_ms = sum(usage.busy_ms for usage in usages) * pool.pace * pool.stages
            assert busy_ms >= fixed_ms + 0.1 * tokens / pool.ranks - CLOSE_MS
            assert busy_ms <= fixed_ms + 0.1 * tokens * (1 + 1 / pool.ranks) / 2 + CLOSE_MS
