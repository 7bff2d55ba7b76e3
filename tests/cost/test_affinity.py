"""What several caches find of prompts that are shared out, and the load that is left uneven, against caches that are
replayed one by one: Mooncake's requests, and sessions that are drawn."""

import random
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from reference_data import reference_path

from planner.cost.affinity import CHOICES, Choice, capacity, found_by
from planner.domain import PrefixReuse, PromptBlocks, RequestTrace, RouterPolicy
from planner.domain.workload import SessionTurns
from planner.files import read_trace
from planner.workload import summarize
from planner.workload.prefix_affinity import sessions_of

BLOCK = 512
BUSY = 0.9
SERVERS = (1, 8, 64)


def drawn(requests: int = 5000, seed: int = 1) -> RequestTrace:
    """Sessions that grow behind one of four system prompts, which are chosen by Zipf's law."""
    rng, blocks = random.Random(seed), iter(range(10**9))
    systems = [[next(blocks) for _ in range(size)] for size in (2, 1, 4, 2)]
    turns: list[tuple[float, int, list[int], int]] = []
    begun = 0.0
    session = 0
    while len(turns) < requests:
        begun += rng.expovariate(1 / 5)
        text, moment = list(rng.choices(systems, [1, 1 / 2, 1 / 3, 1 / 4])[0]), begun
        for _ in range(min(30, int(rng.paretovariate(1.2)))):
            text = text + [next(blocks) for _ in range(rng.choice([1, 1, 2, 3, 6]))]
            turns.append((moment, len(text) * BLOCK - rng.randrange(BLOCK), text, session))
            moment += rng.expovariate(1 / 60)
        session += 1
    turns.sort(key=lambda turn: turn[0])
    ends = np.cumsum([len(text) for _, _, text, _ in turns]).tolist()
    return RequestTrace(
        name="drawn",
        arrival_s=[moment - turns[0][0] for moment, *_ in turns],
        input_tokens=[tokens for _, tokens, *_ in turns],
        output_tokens=[1] * len(turns),
        blocks=PromptBlocks(block_tokens=BLOCK, ids=[b for _, _, text, _ in turns for b in text], ends=ends),
        sessions=SessionTurns(ids=[number for *_, number in turns], pause_s=[0.0] * len(turns)),
    )


@cache
def trace_of(name: str) -> RequestTrace:
    if name == "drawn":
        return drawn()
    return read_trace(reference_path("mooncake/conversation_1500.jsonl.gz"), time_unit="ms")


@cache
def reuse_of(name: str) -> PrefixReuse:
    reuse = summarize(trace_of(name)).prefix
    assert reuse is not None
    return reuse


class Lru:
    """Blocks, the last used ones last. As prompts' beginnings are used later than their ends, halving finds a match."""

    def __init__(self, tokens: int) -> None:
        self.places, self.blocks = tokens // BLOCK, OrderedDict[int, None]()

    def matched(self, ids: Sequence[int]) -> int:
        low, high = 0, len(ids)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if ids[middle] in self.blocks else (low, middle)
        return low

    def use(self, ids: Sequence[int]) -> None:
        for block in reversed(ids):
            self.blocks[block] = None
            self.blocks.move_to_end(block)
        while len(self.blocks) > self.places:
            self.blocks.popitem(last=False)


def replayed(
    trace: RequestTrace, choice: Choice, servers: int, tokens: int, lacking: float, seed: int = 0
) -> tuple[float, float]:
    """(share found, mean work over that of the fullest server). Servers work off what is not found while prompts come
    at random; `lacking`: share that is expected not to be found, which sets how fast they come."""
    rng, sessions, where = random.Random(seed), sessions_of(trace), dict[int, int]()
    caches, work, total = [Lru(tokens) for _ in range(servers)], [0.0] * servers, [0.0] * servers
    pause = lacking * sum(trace.input_tokens) / len(trace.input_tokens) / servers / BUSY

    def least(among: Sequence[int]) -> int:
        lowest = min(work[server] for server in among)
        return rng.choice([server for server in among if work[server] == lowest])

    def followed(ids: Sequence[int], prompt: int) -> int:
        both, matched = choice is Choice.BOTH, [each.matched(ids) for each in caches]
        limit = 2 * sum(work) / servers if both and servers > 1 else float("inf")
        willing = [server for server in range(servers) if work[server] <= limit]
        best = max((matched[server] for server in willing), default=0)
        if not best or (both and best * BLOCK < prompt / 2):
            return least(range(servers))
        return least([server for server in willing if matched[server] == best])

    hits = start = 0
    for prompt, end, session in zip(trace.input_tokens, trace.blocks.ends, sessions, strict=True):
        ids, start = trace.blocks.ids[start:end], end
        gap = rng.expovariate(1 / pause)
        work = [max(0.0, each - gap) for each in work]
        if choice is Choice.LOAD:
            server = least(range(servers))
        elif choice is Choice.DRAWN:
            server = rng.randrange(servers)
        elif choice is Choice.SESSION:
            server = where.setdefault(session, rng.randrange(servers))
        else:
            server = followed(ids, prompt)
        matched = min(caches[server].matched(ids) * BLOCK, prompt - 1)
        hits += matched
        work[server] += prompt - matched
        total[server] += prompt - matched
        caches[server].use(ids)
    return hits / sum(trace.input_tokens), sum(total) / servers / max(total)


def said(name: str, choice: Choice, servers: int, tokens: int) -> float:
    reuse = reuse_of(name)
    assert reuse.affinity is not None
    of = found_by(reuse.affinity, choice, servers * tokens, servers)
    single = float(of.single)
    bounded = np.interp(np.log(min(single, reuse.cache_tokens[-1])), np.log(reuse.cache_tokens), reuse.mean_shares[:-1])
    return float(of.part) * (reuse.mean_shares[-1] if single == float("inf") else float(bounded))


@pytest.mark.parametrize("choice", [Choice.LOAD, Choice.DRAWN, Choice.SESSION, Choice.BOTH])
@pytest.mark.parametrize("tokens", [2**18, 2**20])
@pytest.mark.parametrize("name", ["mooncake", "drawn"])
def test_servers_find_what_replayed_caches_find(name: str, tokens: int, choice: Choice) -> None:
    for servers in SERVERS:
        expected = said(name, choice, servers, tokens)
        measured, _ = replayed(trace_of(name), choice, servers, tokens, 1 - expected)
        assert expected == pytest.approx(measured, abs=0.03), servers


@pytest.mark.parametrize(("name", "servers"), [("mooncake", 2), ("mooncake", 16), ("drawn", 16)])
def test_by_prefix_what_many_share_meets_one_cache(name: str, servers: int) -> None:
    """All of Mooncake's requests begin with one block: one server has all of the work."""
    expected = said(name, Choice.PREFIX, servers, 2**20)
    measured, left = replayed(trace_of(name), Choice.PREFIX, servers, 2**20, 1 - expected)
    assert expected == pytest.approx(measured, abs=0.03)
    evenness = float(capacity(reuse_of(name).affinity, Choice.PREFIX, servers * 2**20, servers))
    assert evenness == pytest.approx(left, abs=0.03)
    if name == "mooncake":
        assert evenness == pytest.approx(1 / servers)


@pytest.mark.parametrize("choice", [Choice.LOAD, Choice.DRAWN, Choice.SESSION, Choice.BOTH])
def test_load_is_as_uneven_as_in_replay(choice: Choice) -> None:
    """The mean over seeds, as sessions that are hashed are a matter of luck."""
    affinity = reuse_of("mooncake").affinity
    for servers in (2, 8):
        seeds = range(6 if choice is Choice.SESSION else 3)
        left = [replayed(trace_of("mooncake"), choice, servers, 2**20, 0.8, seed)[1] for seed in seeds]
        expected = float(capacity(affinity, choice, servers * 2**20, servers))
        assert expected == pytest.approx(np.mean(left), rel=0.07), servers


@pytest.mark.parametrize("choice", list(Choice))
def test_one_server_is_what_the_table_of_reuse_says(choice: Choice) -> None:
    kept = np.array([1e4, 1e6, 1e9])
    of = found_by(reuse_of("drawn").affinity, choice, kept, 1)
    assert of.single.tolist() == kept.tolist()
    assert of.part.tolist() == [1, 1, 1]
    assert capacity(reuse_of("drawn").affinity, choice, kept, 1).tolist() == [1, 1, 1]


def test_more_servers_of_as_much_memory_find_no_more_and_heeding_sessions_no_less() -> None:
    for kept in (2.0**18, 2.0**21, 2.0**24):
        by = {
            choice: [said("mooncake", choice, servers, int(kept / servers)) for servers in (1, 2, 4, 8, 16, 32, 64)]
            for choice in (Choice.LOAD, Choice.SESSION)
        }
        assert by[Choice.LOAD] == sorted(by[Choice.LOAD], reverse=True)
        assert all(load <= session + 1e-3 for load, session in zip(*by.values(), strict=True))


def test_where_less_is_found_long_sessions_weigh_more() -> None:
    affinity = reuse_of("drawn").affinity
    assert affinity.sessions.equal < affinity.fresh.equal / 2
    left = capacity(affinity, Choice.SESSION, np.array([1.0, 1e6, 1e8, 1e12]), 8)
    assert left.tolist() == sorted(left)
    assert left[0] < left[-1] - 0.1


def test_shapes_broadcast() -> None:
    affinity = reuse_of("mooncake").affinity
    kept, servers = np.array([[1e6], [1e7]]), np.array([1.0, 4.0, 8.0])
    of = found_by(affinity, Choice.BOTH, kept, servers)
    assert of.single.shape == of.part.shape == capacity(affinity, Choice.BOTH, kept, servers).shape == (2, 3)
    alone = found_by(affinity, Choice.BOTH, 1e7, 8.0)
    assert of.part[1, 2] == float(alone.part)
    assert of.single[1, 2] == float(alone.single)


def test_every_policy_of_routers_is_one_of_the_choices() -> None:
    assert set(CHOICES) == set(RouterPolicy)
