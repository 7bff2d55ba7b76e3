"""The stations of a rehearsal, driven by a clock, do what the replay's do: where a router has no choice, both tell the
same moments, however rarely the clock is looked at."""

import asyncio
import random
from dataclasses import replace

import pytest
from fleets import decode_pool, fleet, mixed_pool, prefill_pool, run, table

from planner.domain.arrivals import ReplaySettings, Requests
from planner.domain.fleet import ReplayFleet
from planner.domain.serving.routers import behaviour_of
from planner.domain.serving.routing import RouterPolicy
from planner.domain.workload import PromptBlocks
from planner.replay.stations.decode import DecodeServer
from planner.runs.rehearsal.attempts import Attempt, AttemptTable
from planner.runs.rehearsal.stations import ClockedStations

COUNT = 60
SPLIT = fleet([prefill_pool(ranks=2, sent_ms=7.0), decode_pool(ranks=2, batch=3)])
MIXED = fleet([mixed_pool(ranks=2, batch=6, first_ms=3.0)])


class HandClock:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.now_ms, self.slower = 0.0, 1.0

    def set_pace(self, slower: float) -> None:
        """As it is put."""
        self.slower = slower

    def wall_s(self, _moment_ms: float) -> float:
        """Never: whoever holds it looks by himself."""
        return 1e12


def drawn(seed: int) -> Requests:
    draw = random.Random(seed)
    moments = sorted(draw.uniform(0.0, 4000.0) for _ in range(COUNT))
    prompts, answers = ([draw.randint(1, longest) for _ in range(COUNT)] for longest in (1500, 40))
    return Requests(name="drawn", arrival_ms=moments, prompt_tokens=prompts, answer_tokens=answers)


async def clocked(of: ReplayFleet, requests: Requests) -> tuple[ClockedStations, list[Attempt]]:
    """All requests at the first server of each pool, by a hand clock."""
    clock = HandClock()
    stations = ClockedStations(of, AttemptTable(requests, of.lengths), clock)  # type: ignore[arg-type]
    attempts = []
    for number, arrival_ms in enumerate(requests.arrival_ms):
        clock.now_ms = arrival_ms
        first = stations.servers[0][0]
        assert not isinstance(first, DecodeServer)
        attempts.append(stations.take(first, number, None))
        if len(stations.servers) > 1:
            decoder = stations.servers[1][0]
            assert isinstance(decoder, DecodeServer)
            stations.receive(attempts[-1], decoder)
    clock.now_ms = 1e9
    stations.quicken(1.0)
    return stations, attempts


@pytest.mark.parametrize("of", [SPLIT, MIXED], ids=["split", "mixed"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_clock_and_a_replay_tell_the_same_moments(of: ReplayFleet, seed: int) -> None:
    requests = drawn(seed)
    settings = ReplaySettings(router=behaviour_of(RouterPolicy.ROUND_ROBIN))
    replayed = run(of, table(requests.arrival_ms, requests.prompt_tokens, requests.answer_tokens), settings).log
    stations, attempts = asyncio.run(clocked(of, requests))
    for name in ("started", "prefilled", "arrived", "placed", "first", "ended"):
        assert getattr(stations.log, name).tolist() == pytest.approx(getattr(replayed, name).tolist()), name
    assert [attempt.ended.result() for attempt in attempts] == pytest.approx(replayed.ended.tolist())
    assert [attempt.first.result() for attempt in attempts] == pytest.approx(replayed.first.tolist())


def test_a_request_sent_again_is_a_row_of_its_own_and_a_dead_server_loses_what_it_has() -> None:
    async def lose() -> tuple[list[Attempt], ClockedStations]:
        clock = HandClock()
        stations = ClockedStations(SPLIT, AttemptTable(drawn(0), SPLIT.lengths), clock)  # type: ignore[arg-type]
        prefill, decode = stations.servers[0][0], stations.servers[1][0]
        assert not isinstance(prefill, DecodeServer)
        assert isinstance(decode, DecodeServer)
        waiting, handed = stations.take(prefill, 5, None), stations.take(prefill, 3, 1)
        clock.now_ms = 3000.0
        fresh = stations.take(prefill, 5, 0)  # by now the others are taken in
        stations.lose(prefill)
        stations.receive(handed, decode)  # too late: its cache died with its server
        stations.come_back(prefill)
        again = stations.take(prefill, 5, None)
        stations.receive(again, decode)
        clock.now_ms = 1e9
        stations.quicken(1.0)
        return [waiting, handed, fresh, again], stations

    (waiting, handed, fresh, again), stations = asyncio.run(lose())
    assert waiting.prefilled.result() < 3000.0
    assert handed.first.result() != handed.first.result()  # NaN: lost
    assert fresh.prefilled.result() != fresh.prefilled.result()
    assert again.ended.result() > again.first.result() > 3000.0
    assert stations.table.numbers == [5, 3, 5, 5]


def test_an_attempt_has_the_blocks_of_its_request() -> None:
    blocks = PromptBlocks(block_tokens=16, ids=list(range(COUNT)), ends=list(range(1, COUNT + 1)))
    attempts = AttemptTable(replace(drawn(0), blocks=blocks), SPLIT.lengths)
    rows = [attempts.begin(number, 0.0) for number in (7, 3, 7)]
    assert [list(attempts.blocks_of(row)) for row in rows] == [[7], [3], [7]]


@pytest.mark.parametrize(("rank", "at_once"), [(1, 2), (None, 4)])
def test_sequences_of_a_rank_wait_for_a_place_there(rank: int | None, at_once: int) -> None:
    of = fleet([prefill_pool(ranks=2), decode_pool(ranks=2, batch=2)])
    requests = replace(drawn(0), prompt_tokens=[100] * COUNT, answer_tokens=[10] * COUNT)

    async def placed() -> list[float]:
        clock = HandClock()
        stations = ClockedStations(of, AttemptTable(requests, of.lengths), clock)  # type: ignore[arg-type]
        prefill, decode = stations.servers[0][0], stations.servers[1][0]
        assert not isinstance(prefill, DecodeServer)
        assert isinstance(decode, DecodeServer)
        for number in range(4):
            stations.receive(stations.take(prefill, number, number % 2), decode, rank)
        clock.now_ms = 1e9
        stations.quicken(1.0)
        return stations.log.placed.tolist()

    moments = sorted(asyncio.run(placed()))
    assert sum(moment < moments[0] + 50.0 for moment in moments) == at_once  # an answer takes ten passes of 10 ms
