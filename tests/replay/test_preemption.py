"""Rooms for KV caches: never overfull after they were looked at; first in, first out; the youngest leaves."""

import numpy as np
import pytest
from fleets import answers, decode_pool, fleet, mixed_pool, prefill_pool, room, run, table
from hypothesis import given
from hypothesis import strategies as st

from planner.domain.fleet import ReplayPool
from planner.replay.stations.batch import Batch

PROMPTS = (40, 40, 40)


def tight(pool: ReplayPool, prompts: tuple[int, ...], tokens: tuple[int, ...]) -> tuple[list[int], list[float]]:
    """(how often each request lost its place, when it ended); all come at once."""
    pools = [pool] if pool.chunks is not None else [prefill_pool(budget=10**6), pool]
    log = run(fleet(pools), table([0.0] * len(prompts), prompts, tokens)).log
    return list(log.preempted), list(log.ended)


@pytest.mark.parametrize("kind", [decode_pool, mixed_pool])
def test_the_youngest_gives_up_its_place(kind: type) -> None:
    """Three sequences of 40 GB grow by one a pass in a room of 150: it is full after ten passes, and two go on."""
    lost, ended = tight(kind(kv=room(150.5), batch=8), PROMPTS, (30, 30, 30))
    assert lost == [0, 0, 1]
    assert ended[0] == ended[1] < ended[2]


def test_a_single_sequence_keeps_its_place_beyond_the_room() -> None:
    lost, _ = tight(decode_pool(kv=room(50.0)), (40,), (30,))
    assert lost == [0]


def test_who_lost_its_place_is_taken_in_anew_before_others_and_at_its_price() -> None:
    """Contexts of 50 tokens at 2 ms each: a tenth of a second in which nobody is answered."""
    prompts, tokens = (*PROMPTS, 40, 40), (30, 30, 30, 30, 30)
    free, _ = tight(decode_pool(kv=room(150.5)), prompts, tokens), None
    priced, _ = tight(decode_pool(kv=room(150.5), redo_ms=2.0), prompts, tokens), None
    assert free[0] == priced[0]
    assert sum(free[0]) > 0
    assert free[1] == sorted(free[1])
    assert priced[1][-1] - free[1][-1] >= 2.0 * 40 * sum(priced[0])


def test_places_are_given_first_in_first_out() -> None:
    """A long prompt at the head waits for room, and short ones behind it wait with it."""
    pools = [prefill_pool(budget=10**6, base_ms=1e-3, ms_per_token=0.0), decode_pool(kv=room(1000.0), batch=8)]
    prompts, tokens = [600, 300, 600, 10, 10], [20, 90, 5, 5, 5]
    log = run(fleet(pools), table([0.0, 1.0, 2.0, 3.0, 4.0], prompts, tokens)).log
    placed = list(log.placed)
    assert placed == sorted(placed)
    assert placed[2] >= log.ended[0]
    assert placed[3] == placed[2]


@given(
    seed=st.integers(0, 10**6),
    ranks=st.integers(1, 4),
    share=st.sampled_from([1.1, 1.6, 3.0]),
    mixed=st.booleans(),
)
def test_a_room_is_never_overfull_after_it_was_looked_at(seed: int, ranks: int, share: float, mixed: bool) -> None:
    rng = np.random.default_rng(seed)
    prompts, tokens = rng.integers(1, 300, 80).tolist(), rng.integers(1, 120, 80).tolist()
    kv, curve = room(share * 420), answers(10.0, 0.3)
    pool = (mixed_pool if mixed else decode_pool)(ranks=ranks, batch=6, kv=kv, curve=curve)
    most: list[float] = []

    class Checked(Batch):
        __slots__ = ()

        def measure(self) -> None:
            super().measure()
            most.extend(self.used_gb(rank) for rank in range(self.ranks) if self.counts[rank] > 1)

        def until_change(self) -> int:
            passes = super().until_change()
            for rank in range(self.ranks):  # until the pass before the next look
                before = self._used[rank] + self._growth[rank] * (self.passes + passes - 1)
                if self.counts[rank] > 1:
                    most.append(before)
            return passes

    with pytest.MonkeyPatch.context() as patch:
        for module in ("decode", "mixed"):
            patch.setattr(f"planner.replay.stations.{module}.Batch", Checked)
        pools = [pool] if mixed else [prefill_pool(), pool]
        run(fleet(pools), table(rng.exponential(15, 80).cumsum().tolist(), prompts, tokens))
    assert max(most, default=0.0) <= kv.free_gb + 1e-6


def test_an_engine_of_drafts_gives_as_many_tokens_after_a_preemption() -> None:
    """A pass yields 1.8 tokens: the passes that remain are those that remained."""
    curve = answers(10.0, gain=1.8)
    lost, ended = tight(decode_pool(kv=room(150.5), curve=curve), PROMPTS, (30, 30, 30))
    assert lost == [0, 0, 1]
    passes = -(-30 // 1.8)
    assert ended[0] - ended[1] == 0
    held = next(k for k in range(30) if 3 * (40 + 1.8 * k) > 150.5)
    first_ms = 5.0 + 0.1 * 120
    assert ended[2] == pytest.approx(first_ms + 10.0 * (passes + passes - held), abs=1e-6)
