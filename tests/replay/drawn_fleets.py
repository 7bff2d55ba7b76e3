"""Fleets and requests that hypothesis draws."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from fleets import LENGTHS, LONGEST, answers, decode_pool, mixed_pool, prefill_pool, room, table
from hypothesis import strategies as st

from planner.domain.fleet import Interval, PoolShare, ReplayFleet, ReplayPool
from planner.domain.layout import Phase
from planner.replay.requests import RequestTable

MOST_TOKENS = 700  # of a prompt and its answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A fleet and its requests."""

    fleet: ReplayFleet
    arrival_ms: tuple[float, ...]
    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def requests(self) -> RequestTable:
        """Anew for each run."""
        return table(self.arrival_ms, self.prompt, self.answer)


@st.composite
def pools(draw: st.DrawFn) -> tuple[ReplayPool, ...]:
    """One to four pools that together serve requests; rooms from just enough for the longest sequence."""
    kinds = draw(st.lists(st.sampled_from(["split", "mixed"]), min_size=1, max_size=2))
    drawn: list[ReplayPool] = []
    for number, kind in enumerate(kinds):
        servers, ranks = draw(st.integers(1, 3)), draw(st.integers(1, 4))
        kv = room(draw(st.sampled_from([1.01, 1.7, 1e6])) * MOST_TOKENS)
        curve = answers(10.0, draw(st.sampled_from([0.0, 0.5])), draw(st.sampled_from([0.0, 0.002])))
        batch, budget = draw(st.integers(1, 6)), draw(st.sampled_from([50, 256, 2000]))
        if kind == "mixed":
            drawn.append(
                mixed_pool(
                    servers=servers,
                    ranks=ranks,
                    budget=budget,
                    batch=batch,
                    curve=curve,
                    kv=kv,
                    island=f"mixed {number}",
                )
            )
        else:
            stages, pace = draw(st.integers(1, 2)), draw(st.sampled_from([0.7, 1.0]))
            drawn.append(
                prefill_pool(
                    servers=servers,
                    ranks=ranks,
                    budget=budget,
                    stages=stages,
                    pace=pace,
                    sent_ms=4.0,
                    island=f"prefill {number}",
                )
            )
            servers, ranks = draw(st.integers(1, 3)), draw(st.integers(1, 4))
            drawn.append(
                decode_pool(
                    servers=servers,
                    ranks=ranks,
                    batch=batch,
                    curve=curve,
                    kv=kv,
                    redo_ms=0.01,
                    island=f"decode {number}",
                )
            )
    return tuple(drawn)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Fleets with one or two intervals, and 40 to 80 requests, some of them at once."""
    fleet_pools = draw(pools())
    cuts = draw(st.sampled_from([(), (90,)]))
    edges = [0, *cuts, LONGEST + 1]
    taking = [n for n, pool in enumerate(fleet_pools) if pool.phase is not Phase.DECODE]
    decoding = [n for n, pool in enumerate(fleet_pools) if pool.phase is Phase.DECODE]

    def shares(numbers: list[int]) -> tuple[PoolShare, ...]:
        weights = [draw(st.integers(1, 5)) for _ in numbers]
        return tuple(PoolShare(pool=n, share=w / sum(weights)) for n, w in zip(numbers, weights, strict=True))

    intervals = tuple(
        Interval(start=start, end=end, prefill=shares(taking), decode=shares(decoding))
        for start, end in pairwise(edges)
    )
    uplinks = draw(st.sampled_from([(), (("P", 40.0), ("D", 20.0))]))
    rng, count = np.random.default_rng(draw(st.integers(0, 10**6))), draw(st.integers(40, 80))
    gaps = np.where(rng.random(count) < 0.2, 0.0, rng.exponential(draw(st.sampled_from([10.0, 100.0])), count))
    return Case(
        fleet=ReplayFleet(
            name="drawn",
            model="drawn",
            pools=fleet_pools,
            intervals=intervals,
            kv_gb=tuple(0.001 * tokens for tokens in LENGTHS),
            uplinks=uplinks,
        ),
        arrival_ms=tuple(gaps.cumsum().tolist()),
        prompt=tuple(rng.integers(1, 600, count).tolist()),
        answer=tuple(rng.geometric(0.05, count).clip(1, 99).tolist()),
    )
