"""Encodings: whatever the point, a layout that the inventory allows, and one representative a layout."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_cases import inventory, islands, search, sizes, used

from planner.domain import Layout, SearchMethod, SizeSet, admits
from planner.domain.stocks import stocks_of
from planner.errors import InputError
from planner.proposing.search import space_of
from planner.proposing.search.space import DirectSpace, DividerSpace, Space

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


@st.composite
def fleets(draw: st.DrawFn) -> tuple[Space, dict[str, float]]:
    """A divider that also chooses how many GPUs it spends, and a point."""
    settings = search(SearchMethod.DIVIDER, min_island_size=draw(st.integers(1, 9)))
    box = space_of(inventory(COUNTS), settings, rents=True)
    axes = len(box.parameters)
    return box, point_in(box, draw(st.lists(st.floats(0, 1), min_size=axes, max_size=axes)))


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Any layout of the inventory."""
    made: list[tuple[str, int]] = []
    for gpu, total in COUNTS.items():
        left = total
        while left and draw(st.integers(0, 5)):
            made.append((gpu, draw(st.integers(1, left))))
            left -= made[-1][1]
    return islands(*made)


@given(st.one_of(boxes(SearchMethod.DIVIDER), boxes(SearchMethod.DIRECT), fleets()))
def test_every_layout_of_the_space_is_encoded_exactly(drawn: tuple[Space, dict[str, float]]) -> None:
    box, point = drawn
    layout = box.layout(point)
    encoded = box.encode(layout)
    assert box.layout(encoded) == layout
    assert box.canonical(encoded) == encoded
    assert set(encoded) == {axis.name for axis in box.parameters}
    assert all(axis.low <= encoded[axis.name] <= axis.high for axis in box.parameters)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rents", [False, True])
@given(data=st.data())
def test_any_layout_has_a_point_near_it(method: SearchMethod, rents: bool, data: st.DataObject) -> None:
    """As many islands, as far as the space goes; of the inventory, and of the least size."""
    least, slots = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 8))
    box = space_of(inventory(COUNTS), search(method, min_island_size=least, slots=slots), rents)
    layout = data.draw(layouts())
    point = box.encode(layout)
    assert box.canonical(point) == point
    assert all(axis.low <= point[axis.name] <= axis.high for axis in box.parameters)
    near = box.layout(point)
    for gpu, total in COUNTS.items():
        wanted = [size for size in sizes(layout, gpu) if size >= least]
        found = sizes(near, gpu)
        assert sum(found) <= total
        assert len(found) == min(len(wanted), slots if method is SearchMethod.DIRECT else total // least)
        if method is SearchMethod.DIRECT:
            assert found == sorted(wanted)[len(wanted) - len(found) :]
        elif rents:
            assert sum(found) == sum(wanted)
        else:
            assert sum(found) == (total if wanted else 0)


@st.composite
def node_spaces(draw: st.DrawFn, method: SearchMethod) -> tuple[Mapping[str, int], Space, dict[str, float]]:
    """Any inventory of hosts and racks whose islands are whole nodes, its space and a point."""
    counts = {
        "H200": draw(st.integers(16, 90)),
        "GB200-NVL72": draw(st.integers(1, 400)),
        "H20": draw(st.integers(1, 15)),
    }
    settings = search(
        method, min_island_size=draw(st.integers(1, 16)), slots=draw(st.integers(2, 8)), sizes=SizeSet.WHOLE_NODES
    )
    box = space_of(inventory(counts), settings, rents=draw(st.booleans()))
    axes = len(box.parameters)
    return counts, box, point_in(box, draw(st.lists(st.floats(0, 1), min_size=axes, max_size=axes)))


@pytest.mark.parametrize("method", METHODS)
@given(data=st.data())
def test_points_stand_for_islands_of_whole_nodes_exactly(method: SearchMethod, data: st.DataObject) -> None:
    counts, box, point = data.draw(node_spaces(method))
    layout, representative = box.layout(point), box.canonical(point)
    assert all(used(layout).get(gpu, 0) <= count for gpu, count in counts.items())
    for item in inventory(counts).items:
        for size in sizes(layout, item.gpu.name):
            assert admits(SizeSet.WHOLE_NODES, item.gpu, size)
            assert size >= box.min_island_size
    assert box.layout(representative) == layout
    assert box.canonical(representative) == representative
    encoded = box.encode(layout)
    assert box.layout(encoded) == layout
    assert box.canonical(encoded) == encoded
    for coordinates in (representative, encoded):
        assert set(coordinates) == {axis.name for axis in box.parameters}
        assert all(axis.low <= coordinates[axis.name] <= axis.high for axis in box.parameters)


@given(hosts=st.lists(st.integers(1, 8), max_size=8), racks=st.lists(st.sampled_from([1, 7, 18, 36]), max_size=8))
def test_slots_stand_for_every_layout_of_whole_nodes(hosts: list[int], racks: list[int]) -> None:
    counts = {"H200": 8 * 64, "GB200-NVL72": 4 * 36 * 8}
    box = space_of(inventory(counts), search(SearchMethod.DIRECT, slots=8, sizes=SizeSet.WHOLE_NODES))
    layout = islands(*(("H200", 8 * n) for n in hosts), *(("GB200-NVL72", 4 * n) for n in racks))
    assert box.layout(box.encode(layout)) == layout


@pytest.mark.parametrize(
    ("gpu", "count", "stocks"),
    [
        ("H200", 64, [(8, 8, 1)]),
        ("H200", 16, [(8, 2, 1)]),
        ("H200", 20, [(8, 2, 1), (2, 2, 2)]),  # the GPUs beside whole hosts: equal parts of one
        ("H200", 12, [(4, 3, 2)]),
        ("H200", 8, [(4, 2, 2)]),  # a single host: an island for each phase
        ("H200", 7, [(2, 3, 2)]),
        ("H200", 1, [(1, 1, 2)]),
        ("GB200-NVL72", 72, [(4, 18, 18)]),
        ("GB200-NVL72", 6, [(2, 3, 2)]),
    ],
)
def test_the_units_of_whole_nodes(gpu: str, count: int, stocks: list[tuple[int, int, int]]) -> None:
    settings = search(sizes=SizeSet.WHOLE_NODES, min_island_size=1)
    units = [(stock.unit, stock.units, stock.group) for stock in settings.stocks(inventory({gpu: count}))]
    assert units == stocks


def test_whole_nodes_by_hand() -> None:
    counts = {"H200": 32, "GB200-NVL72": 150}
    settings = search(SearchMethod.DIVIDER, sizes=SizeSet.WHOLE_NODES)
    box = space_of(inventory(counts), settings)
    assert [(axis.name, axis.high) for axis in box.parameters if axis.whole] == [
        ("islands_H200", 4),
        ("islands_GB200_NVL72", 37),
        ("islands_GB200_NVL72_2", 1),  # two GPUs beside 37 trays, in an island of at least two
    ]
    decoded = {
        (2, 0.0, 0): islands(("H200", 16), ("H200", 16)),
        (3, 5.0, 0): islands(("H200", 8), ("H200", 8), ("H200", 16)),
        (0, 0.0, 1): islands(("GB200-NVL72", 144)),  # a tray stays idle: beyond a rack there are whole racks
        (0, 0.0, 2): islands(("GB200-NVL72", 72), ("GB200-NVL72", 72)),
        (0, 5.0, 3): islands(("GB200-NVL72", 28), ("GB200-NVL72", 48), ("GB200-NVL72", 72)),
    }
    for (hosts, skew, racks), layout in decoded.items():
        point = {axis.name: 0.0 for axis in box.parameters}
        point |= {"islands_H200": hosts, "skew_H200": skew, "islands_GB200_NVL72": racks, "skew_GB200_NVL72": skew}
        assert box.layout(point) == layout
        assert box.layout(box.encode(layout)) == layout


def test_whole_nodes_and_parts_of_one_are_admitted() -> None:
    host, rack = (item.gpu for item in inventory({"H200": 1, "GB200-NVL72": 1}).items)
    whole_nodes = {gpu.name: [n for n in range(1, 150) if admits(SizeSet.WHOLE_NODES, gpu, n)] for gpu in (host, rack)}
    assert whole_nodes["H200"][:7] == [1, 2, 4, 8, 16, 24, 32]
    assert whole_nodes["GB200-NVL72"] == [1, 2, *range(4, 73, 4), 144]


@pytest.mark.parametrize(
    ("name", "counts"), [("H200", (*range(1, 34), 64)), ("GB200-NVL72", (2, 7, 8, 71, 72, 75, 150))]
)
def test_the_largest_island_of_a_stock_is_the_largest_that_is_admitted(name: str, counts: tuple[int, ...]) -> None:
    for count in counts:
        (item,) = inventory({name: count}).items
        stocks = list(stocks_of(item, SizeSet.WHOLE_NODES, 1))
        admitted = [size for size in range(1, count + 1) if admits(SizeSet.WHOLE_NODES, item.gpu, size)]
        assert stocks[0].largest_island == max(admitted)


def test_a_rented_fleet_by_hand() -> None:
    box = space_of(inventory({"H20": 16}), search(SearchMethod.DIVIDER, min_island_size=4), rents=True)
    assert [(axis.name, axis.low, axis.high) for axis in box.parameters] == [
        ("islands_H20", 0, 4),
        ("skew_H20", -5, 5),
        ("gpus_H20", 0, 16),
    ]
    decoded = {
        (2.0, 0.0, 10.0): islands(("H20", 5), ("H20", 5)),
        (4.0, 0.0, 9.6): islands(("H20", 5), ("H20", 5)),
        (1.0, 3.0, 7.0): islands(("H20", 7)),
        (3.0, 0.0, 3.0): islands(),
        (0.0, 0.0, 16.0): islands(),
    }
    for values, layout in decoded.items():
        assert box.layout(dict(zip(("islands_H20", "skew_H20", "gpus_H20"), values, strict=True))) == layout


def test_names_that_differ_in_punctuation_alone_stay_apart() -> None:
    counts = {"A-B": 8, "A_B": 12, "A.B": 16, "A_B_2": 20}
    for method, rents in product(METHODS, (False, True)):
        box = space_of(inventory(counts), search(method, slots=2), rents)
        names = [axis.name for axis in box.parameters]
        assert len(set(names)) == len(names)
        assert all(name.isidentifier() for name in names)
        layout = islands(("A-B", 8), ("A_B", 12), ("A.B", 16), ("A_B_2", 20))
        assert box.layout(box.encode(layout)) == layout


def test_skews_stay_in_their_range() -> None:
    settings = replace(search(SearchMethod.DIVIDER), least_skew=1.0, skew=3.0)
    box = space_of(inventory(COUNTS), settings)
    assert {(axis.low, axis.high) for axis in box.parameters if axis.name.startswith("skew")} == {(1.0, 3.0)}
    rng = np.random.default_rng(0)
    for point in [*box.spread(9, rng), *(box.sample(rng) for _ in range(9)), box.encode(islands(("H20", 40)))]:
        assert all(1 <= value <= 3 for name, value in point.items() if name.startswith("skew"))


@pytest.mark.parametrize("method", METHODS)
def test_even_fractions_are_even_over_the_space(method: SearchMethod) -> None:
    """`at` of uniform fractions has the distribution of `sample`: means and deviations of each axis agree."""
    box, rng = space(method, slots=3), np.random.default_rng(0)
    count = 4000
    here = [list(box.at(row.tolist()).values()) for row in rng.random((count, len(box.parameters)))]
    there = [list(box.sample(rng).values()) for _ in range(count)]
    width = np.array([axis.high - axis.low for axis in box.parameters])
    assert (np.abs(np.mean(here, axis=0) - np.mean(there, axis=0)) <= 0.03 * width).all()
    assert (np.abs(np.std(here, axis=0) - np.std(there, axis=0)) <= 0.03 * width).all()


@pytest.mark.parametrize(("counts", "slots", "refused"), [
    ({"H200": 8}, 1, True),
    ({"H200": 8, "H20": 3}, 1, True),
    ({"H200": 8}, 2, False),
    ({"H200": 8, "H20": 4}, 1, False),
    ({"H200": 7}, 1, False),
])  # fmt: skip
def test_one_slot_for_two_phases_is_refused(counts: dict[str, int], slots: int, refused: bool) -> None:
    """But not where more slots would not help: an island of 7 GPUs in 4s stays one."""
    if not refused:
        assert space(SearchMethod.DIRECT, counts=counts, least=4, slots=slots).parameters
        return
    with pytest.raises(InputError) as caught:
        space(SearchMethod.DIRECT, counts=counts, least=4, slots=slots)
    assert all(word in caught.value.message for word in ("search.slots", "search.min_island_size", "H200", "got 1"))
    assert "search.slots" in caught.value.hint
    assert space(SearchMethod.DIVIDER, counts=counts, least=4, slots=slots).parameters


@given(boxes(SearchMethod.DIVIDER))
def test_divider_points_use_every_gpu_or_none_of_a_type(drawn: tuple[Space, dict[str, float]]) -> None:
    box, point = drawn
    assert isinstance(box, DividerSpace)
    layout = box.layout(point)
    held = used(layout)
    for gpu, total in COUNTS.items():
        assert held.get(gpu, 0) in (0, total)
        assert min(sizes(layout, gpu), default=box.min_island_size) >= box.min_island_size


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
        assert min(sizes(layout, gpu), default=box.min_island_size) >= box.min_island_size


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
    assert all(sum(representative[name] for name in limit.names) <= limit.upper for limit in box.limits)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [1, 5, 16, 33])
def test_samples_and_spreads_lie_in_the_space(method: SearchMethod, count: int) -> None:
    box, rng = space(method), np.random.default_rng(0)
    points = [*box.spread(count, rng), *(box.sample(rng) for _ in range(count))]
    assert len(points) == 2 * count
    for point in points:
        assert all(axis.low <= point[axis.name] <= axis.high for axis in box.parameters)
        assert all(sum(point[name] for name in limit.names) <= limit.upper + 1e-9 for limit in box.limits)
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
