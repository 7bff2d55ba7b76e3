"""Encodings: whatever the point, a layout that the inventory allows, and one representative a layout."""

from collections.abc import Mapping
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_cases import inventory, islands, search, sizes, used

from planner.domain import SearchMethod
from planner.errors import InputError
from planner.search import space_of
from planner.search.space import DirectSpace, DividerSpace, Space

COUNTS = {"H200": 64, "H20": 40, "GB200-NVL72": 72}
METHODS = (SearchMethod.DIVIDER, SearchMethod.DIRECT)


def space(method: SearchMethod, *, least: int = 2, slots: int = 4, counts: Mapping[str, int] = COUNTS) -> Space:
    return space_of(inventory(counts), search(method, min_island_size=least, slots=slots))


def point_in(box: Space, fractions: list[float]) -> dict[str, float]:
    """A point of the box at the given fractions of its axes."""
    return {
        axis.name: axis.low + (axis.high - axis.low) * fraction
        for axis, fraction in zip(box.parameters, fractions, strict=True)
    }


@st.composite
def boxes(draw: st.DrawFn, method: SearchMethod) -> tuple[Space, dict[str, float]]:
    box = space(method, least=draw(st.integers(1, 9)), slots=draw(st.integers(1, 8)))
    axes = len(box.parameters)
    return box, point_in(box, draw(st.lists(st.floats(0, 1), min_size=axes, max_size=axes)))


@given(boxes(SearchMethod.DIVIDER))
def test_divider_points_use_every_gpu_or_none_of_a_type(drawn: tuple[Space, dict[str, float]]) -> None:
    box, point = drawn
    assert isinstance(box, DividerSpace)
    layout = box.layout(point)
    held = used(layout)
    for gpu, total in COUNTS.items():
        assert held.get(gpu, 0) in (0, total)
        assert min(sizes(layout, gpu), default=box.least) >= box.least


@given(boxes(SearchMethod.DIRECT))
def test_direct_points_stay_within_the_inventory(drawn: tuple[Space, dict[str, float]]) -> None:
    """The whole box, and so points that break the sum constraint too."""
    box, point = drawn
    assert isinstance(box, DirectSpace)
    layout = box.layout(point)
    held = used(layout)
    for gpu, total in COUNTS.items():
        assert held.get(gpu, 0) <= total
        assert len(sizes(layout, gpu)) <= box.slots
        assert min(sizes(layout, gpu), default=box.least) >= box.least


@pytest.mark.parametrize("method", METHODS)
@given(data=st.data())
def test_the_representative_stands_for_the_same_layout(method: SearchMethod, data: st.DataObject) -> None:
    box, point = data.draw(boxes(method))
    representative = box.canonical(point)
    assert box.layout(representative) == box.layout(point)
    assert box.canonical(representative) == representative
    assert set(representative) == {axis.name for axis in box.parameters}
    assert all(axis.low <= representative[axis.name] <= axis.high for axis in box.parameters)


@given(boxes(SearchMethod.DIRECT), st.randoms(use_true_random=False))
def test_slots_are_exchangeable(drawn: tuple[Space, dict[str, float]], shuffler: Random) -> None:
    box, point = drawn
    shuffled = dict(point)
    for limit in box.limits:
        values = [point[name] for name in limit.names]
        shuffler.shuffle(values)
        shuffled.update(zip(limit.names, values, strict=True))
    assert box.canonical(shuffled) == box.canonical(point)
    assert box.layout(shuffled) == box.layout(point)


@given(boxes(SearchMethod.DIRECT))
def test_representatives_keep_the_sum_constraint(drawn: tuple[Space, dict[str, float]]) -> None:
    box, point = drawn
    representative = box.canonical(point)
    assert len(box.limits) == len(COUNTS)
    assert all(sum(representative[name] for name in limit.names) <= limit.most for limit in box.limits)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [1, 5, 16, 33])
def test_samples_and_spreads_lie_in_the_space(method: SearchMethod, count: int) -> None:
    box, rng = space(method), np.random.default_rng(0)
    points = [*box.spread(count, rng), *(box.sample(rng) for _ in range(count))]
    assert len(points) == 2 * count
    for point in points:
        assert all(axis.low <= point[axis.name] <= axis.high for axis in box.parameters)
        assert all(sum(point[name] for name in limit.names) <= limit.most + 1e-9 for limit in box.limits)
    assert len({tuple(point.values()) for point in points}) == 2 * count


@pytest.mark.parametrize("method", METHODS)
def test_samples_follow_the_generator(method: SearchMethod) -> None:
    box = space(method)

    def drawn(seed: int) -> list[dict[str, float]]:
        rng = np.random.default_rng(seed)
        return [*box.spread(4, rng), box.sample(rng)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_divider_counts_reach_both_ends_of_their_axis() -> None:
    box = space(SearchMethod.DIVIDER, counts={"H20": 16}, least=4)
    count, skew = box.parameters
    assert (count.high, skew.low, skew.high) == (4, -5, 5)
    assert box.layout({count.name: 0.0, skew.name: 0.0}) == islands()
    assert box.layout({count.name: 4.0, skew.name: 5.0}) == islands(*[("H20", 4)] * 4)
    assert box.layout({count.name: 1.6, skew.name: 0.0}) == islands(("H20", 8), ("H20", 8))  # rounded to two
    rng = np.random.default_rng(0)
    assert {box.sample(rng)[count.name] for _ in range(200)} == {0, 1, 2, 3, 4}


def test_direct_slots_by_hand() -> None:
    box = space(SearchMethod.DIRECT, counts={"H20": 16}, least=4, slots=3)
    names = [axis.name for axis in box.parameters]
    decoded = {
        (3.4, 8.6, 0.0): islands(("H20", 9)),
        (4.0, 8.6, 0.0): islands(("H20", 9), ("H20", 4)),
        (4.0, 8.0, 4.0): islands(("H20", 8), ("H20", 4), ("H20", 4)),
        (16.0, 16.0, 16.0): islands(("H20", 16)),
        (10.0, 10.0, 0.0): islands(("H20", 10), ("H20", 6)),
        (13.0, 13.0, 0.0): islands(("H20", 13)),
        (0.0, 0.0, 0.0): islands(),
    }
    for values, layout in decoded.items():
        assert box.layout(dict(zip(names, values, strict=True))) == layout


@pytest.mark.parametrize("method", METHODS)
def test_types_with_too_few_gpus_are_left_out(method: SearchMethod) -> None:
    box = space(method, counts={"H200": 8, "H20": 3}, least=4)
    assert {axis.name.split("_")[1] for axis in box.parameters} == {"H200"}


@pytest.mark.parametrize("method", [*METHODS, SearchMethod.RANDOM])
def test_an_inventory_without_a_single_island_is_refused(method: SearchMethod) -> None:
    with pytest.raises(InputError) as caught:
        space(method, counts={"H200": 3, "H20": 2}, least=4)
    assert "search.min_island_size" in caught.value.message
    assert caught.value.hint
