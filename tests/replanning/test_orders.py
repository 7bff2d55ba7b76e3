"""The order of stops and starts: fewest steps against all sequences, the beam against all steps, spare GPUs."""

import itertools
import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.replanning.rollouts import orders
from planner.replanning.rollouts.orders import Group, Order, Stage, best_rate_rps, fewest_steps, spare_gpus


def drawn(seed: int, most: int = 2) -> Order:
    """Two buckets; servers of both GPU types and of two sizes, each with a rate of its own. The tables differ in which
    bucket servers are in."""
    rng = random.Random(seed)
    stops, starts = groups = [
        tuple(
            Group(gpu=rng.choice("AAB"), gpus=rng.choice([1, 2]), count=rng.randint(1, most))
            for _ in range(rng.randint(1, 2))
        )
        for _ in range(2)
    ]
    gpus = [{gpu: sum(g.gpus * g.count for g in side if g.gpu == gpu) for gpu in "AB"} for side in groups]
    free = {gpu: max(0, gpus[1][gpu] - gpus[0][gpu]) + rng.choice([0, 0, 1]) for gpu in "AB"}
    stay = [rng.randint(1, 3), rng.randint(1, 3)]
    buckets_of = [(0, 0), (0, 0), (1, 1), (1, 1), (0, 1), (1, 0)]
    rates = [[(rng.randint(1, 5), *rng.choice(buckets_of)) for _ in side] for side in groups]

    def rate_rps(stopped: tuple[int, ...], started: tuple[int, ...], new_table: bool) -> float:
        buckets = [float(rate) for rate in stay]
        running = [g.count - x for g, x in zip(stops, stopped, strict=True)], list(started)
        for side, counts in zip(rates, running, strict=True):
            for (rate, old, new), count in zip(side, counts, strict=True):
                buckets[new if new_table else old] += rate * count
        return min(buckets)

    order = Order(stops=stops, starts=starts, free=free, rate_rps=rate_rps, floor_rps=0.0)
    lower = min(rate_rps(s.stopped, s.started, s.new_table) for s in (order.first, order.last))
    return replace(order, floor_rps=rng.choice([0.8, 1.0, 1.3]) * lower)


def serves(order: Order, before: Stage, after: Stage) -> bool:
    """By the rules of the file's head, written down anew."""
    if before.new_table and not after.new_table:
        return False
    pairs = zip((*before.stopped, *before.started), (*after.stopped, *after.started), strict=True)
    if any(was > now for was, now in pairs):
        return False
    if order.rate_rps(after.stopped, before.started, after.new_table) < order.floor_rps - 1e-9:
        return False
    for gpu in "AB":
        begun = [
            now - was for g, was, now in zip(order.starts, before.started, after.started, strict=True) if g.gpu == gpu
        ]
        used = sum(g.gpus * n for g, n in zip(order.starts, after.started, strict=True) if g.gpu == gpu)
        gone = sum(g.gpus * n for g, n in zip(order.stops, after.stopped, strict=True) if g.gpu == gpu)
        if any(begun) and used - gone > order.free[gpu]:
            return False
    return True


def stages_of(order: Order) -> list[Stage]:
    ranges = [range(group.count + 1) for group in (*order.stops, *order.starts)]
    split = len(order.stops)
    return [
        Stage(stopped=tuple(counts[:split]), started=tuple(counts[split:]), new_table=table)
        for counts in itertools.product(*ranges)
        for table in (False, True)
    ]


def fewest_of_all(order: Order) -> int | None:
    """Breadth first over every pair of stages."""
    stages, reached, layer, steps = stages_of(order), {order.first}, [order.first], 0
    moves = (order.last.stopped, order.last.started)
    while layer:
        if any((stage.stopped, stage.started) == moves for stage in layer):
            return steps
        layer = [s for s in stages if s not in reached and any(serves(order, before, s) for before in layer)]
        reached.update(layer)
        steps += 1
    return None


SEEDS = range(24)


@pytest.mark.parametrize("seed", SEEDS)
def test_as_few_steps_as_any_sequence_has(seed: int) -> None:
    order = drawn(seed)
    steps = fewest_steps(order)
    assert (None if steps is None else len(steps)) == fewest_of_all(order)


def test_some_of_those_problems_are_infeasible_and_some_take_several_steps() -> None:
    counts = [fewest_of_all(drawn(seed)) for seed in range(60)]
    assert None in counts
    assert max(count for count in counts if count is not None) >= 3


@given(st.integers(0, 10_000))
def test_every_step_keeps_the_rules(seed: int) -> None:
    order = drawn(seed, most=3)
    steps = fewest_steps(order)
    for before, after in itertools.pairwise([order.first, *(steps or [])]):
        assert serves(order, before, after)
    if steps:
        assert order.ends(steps[-1])


@pytest.mark.parametrize("seed", range(100, 112))
def test_likely_steps_are_as_few_as_all_steps_give(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    order = drawn(seed, most=4)
    exact = fewest_steps(order)
    monkeypatch.setattr(orders, "MOST_SEARCHED", 0)
    likely = fewest_steps(order)
    assert (exact is None) == (likely is None)
    assert likely is None or exact is None or len(likely) == len(exact)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_rate_can_be_had_and_no_higher_one(seed: int) -> None:
    order = drawn(seed)
    best = best_rate_rps(order)
    assert fewest_of_all(replace(order, floor_rps=best)) is not None
    assert fewest_of_all(replace(order, floor_rps=best * 1.001 + 1e-6)) is None


def test_the_best_rate_of_large_problems_is_near_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [order for seed in SEEDS if fewest_steps(order := drawn(seed)) is None]
    exact = [best_rate_rps(order) for order in problems]
    monkeypatch.setattr(orders, "MOST_WALKED", 0)
    for order, best in zip(problems, exact, strict=True):
        assert best_rate_rps(order) == pytest.approx(best, abs=order.floor_rps / 1000)


def test_lent_gpus_do_and_a_server_fewer_does_not() -> None:
    compared = 0
    for seed in range(200):
        order = drawn(seed)
        if fewest_steps(order) is not None:
            continue
        for gpu, count in spare_gpus(order).items():
            unit = math.gcd(*(group.gpus for group in order.starts if group.gpu == gpu))
            more = {**order.free, gpu: order.free[gpu] + count}
            less = {**order.free, gpu: order.free[gpu] + count - unit}
            if len(spare_gpus(order)) == 1:
                assert fewest_of_all(replace(order, free=more)) is not None
                assert fewest_of_all(replace(order, free=less)) is None
                compared += 1
    assert compared


def test_new_servers_start_first_where_there_is_room() -> None:
    """One bucket, four servers replaced by as many with room for all: none stops before all are there."""
    order = Order(
        stops=(Group(gpu="A", gpus=8, count=4),),
        starts=(Group(gpu="A", gpus=8, count=4),),
        free={"A": 32},
        rate_rps=lambda stopped, started, _: float(4 - stopped[0] + started[0]),
        floor_rps=4.0,
    )
    steps = fewest_steps(order)
    assert steps is not None
    assert [(step.stopped, step.started) for step in steps] == [((0,), (4,)), ((4,), (4,))]


def test_without_room_a_quarter_at_a_time() -> None:
    order = Order(
        stops=(Group(gpu="A", gpus=8, count=8),),
        starts=(Group(gpu="A", gpus=8, count=8),),
        free={"A": 0},
        rate_rps=lambda stopped, started, _: float(8 - stopped[0] + started[0]),
        floor_rps=6.0,
    )
    steps = fewest_steps(order)
    assert steps is not None
    assert len(steps) == 4


def test_types_that_hold_more_than_there_is_may_shrink() -> None:
    """GPUs of type B were given back: what stops needs no room, what starts on A is not held up by B."""
    order = Order(
        stops=(Group(gpu="B", gpus=1, count=2),),
        starts=(Group(gpu="A", gpus=1, count=1),),
        free={"A": 1, "B": -2},
        rate_rps=lambda stopped, started, _: 3.0 - stopped[0] + started[0],
        floor_rps=1.0,
    )
    assert fewest_steps(order) is not None


@pytest.mark.parametrize("seed", range(0, 24, 3))
def test_where_the_beam_ends_single_steps_lead_on(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be left at best can be asked for: there are steps whenever the best share is high enough."""
    order = drawn(seed, most=3)
    reached = best_rate_rps(order) >= order.floor_rps - 1e-9
    monkeypatch.setattr(orders, "MOST_SEARCHED", 0)
    monkeypatch.setattr(orders, "_beamed", lambda *_: None)
    stages = fewest_steps(order)
    assert (stages is not None) is reached
    if stages:
        assert all(serves(order, before, after) for before, after in itertools.pairwise([order.first, *stages]))
        assert order.ends(stages[-1])
