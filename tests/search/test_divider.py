"""The divider: the paper's rules, and the roundings against every possible division."""

import time
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planner.proposing.search.divider import divide, skew_of

totals = st.integers(0, 400)
targets = st.integers(0, 130)
leasts = st.integers(1, 12)
skews = st.one_of(st.just(0.0), st.floats(-5, 5))


@given(totals, targets, skews, leasts)
def test_every_gpu_is_used_in_islands_of_the_least_size(total: int, target: int, skew: float, least: int) -> None:
    found = divide(total, target, skew, least)
    assert len(found) == min(target, total // least)
    if found:
        assert sum(found) == total
        assert min(found) >= least


@given(totals, st.integers(1, 130), leasts)
def test_without_skew_islands_differ_by_one_gpu_at_most(total: int, target: int, least: int) -> None:
    found = divide(total, target, 0.0, least)
    assert not found or max(found) - min(found) <= 1


@given(totals, targets, st.floats(0.001, 5), leasts)
def test_positive_skew_favours_later_islands_and_negative_earlier(
    total: int, target: int, skew: float, least: int
) -> None:
    assert list(divide(total, target, skew, least)) == sorted(divide(total, target, skew, least))
    fallen = divide(total, target, -skew, least)
    assert list(fallen) == sorted(fallen, reverse=True)


@given(totals, st.integers(2, 20), st.floats(0.5, 4), leasts)
def test_more_skew_never_shrinks_the_largest_by_more_than_rounding(
    total: int, target: int, skew: float, least: int
) -> None:
    found, further = divide(total, target, skew, least), divide(total, target, skew + 1, least)
    assert not found or max(further) >= max(found) - 1


@pytest.mark.parametrize(("total", "target", "least"), [(100, 0, 2), (0, 5, 2), (7, 3, 8), (1, 1, 2)])
def test_nothing_to_divide_gives_no_island(total: int, target: int, least: int) -> None:
    assert divide(total, target, 1.0, least) == ()


@given(total=st.integers(1, 400), skew=st.floats(-5, 5))
def test_one_island_takes_everything(total: int, skew: float) -> None:
    assert divide(total, 1, skew, 1) == (total,)


def test_opposite_skews_are_not_mirror_images() -> None:
    """k^5 grows fast at its end, k^-5 falls fast at its start: 64 GPUs as 1 + 5 + 19 + 39 or as 57 + 5 + 2 + ..."""
    up, down = divide(64, 4, 5.0, 1), divide(64, 4, -5.0, 1)
    assert sum(up) == sum(down) == 64
    assert sorted(up) != sorted(down)
    assert max(down) > max(up)


def test_figure_4_8_by_hand() -> None:
    """100 GPUs, 5 islands of 2 or more: 90 to share. Skew 1: 6, 12, 18, 24, 30. Skew 2: 90/55 of 1, 4, 9, 16, 25."""
    assert divide(100, 5, 0.0, 2) == (20, 20, 20, 20, 20)
    assert divide(100, 5, 1.0, 2) == (8, 14, 20, 26, 32)
    assert divide(100, 5, -1.0, 2) == (41, 22, 15, 12, 10)
    assert divide(100, 5, 2.0, 2) == (4, 8, 17, 28, 43)


def compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    """Every way to share `total` over `parts`."""
    return [(*head, total - sum(head)) for head in product(range(total + 1), repeat=parts - 1) if sum(head) <= total]


@pytest.mark.parametrize("parts", [2, 3, 4])
@pytest.mark.parametrize("skew", [-5.0, -2.3, -0.4, 0.0, 0.7, 1.0, 3.1, 5.0])
def test_rounding_is_the_division_nearest_to_the_ideal_one(parts: int, skew: float) -> None:
    """Largest remainders minimise the squared distance to the ideal shares among all divisions of whole GPUs."""
    for spare in range(0, 15):
        weights = [k**skew for k in range(1, parts + 1)]
        ideal = [spare * w / sum(weights) for w in weights]

        def distance(shares: tuple[int, ...], wanted: list[float] = ideal) -> float:
            return sum((share - want) ** 2 for share, want in zip(shares, wanted, strict=True))

        found = tuple(size - 3 for size in divide(3 * parts + spare, parts, skew, 3))
        assert distance(found) == pytest.approx(min(map(distance, compositions(spare, parts))), abs=1e-9)


def distance(skew: float, sizes: list[int], total: int, least: int) -> int:
    """Sum of absolute differences of sorted sizes."""
    found = sorted(divide(total, len(sizes), skew, least))
    return sum(abs(a - b) for a, b in zip(found, sorted(sizes), strict=True))


@given(st.integers(1, 256), st.integers(1, 64), skews, leasts)
@example(128, 64, 0.0009765625, 1)
@example(256, 40, -4.999, 2)
@example(97, 13, 1e-7, 3)
def test_the_inverse_finds_every_division_again(total: int, target: int, skew: float, least: int) -> None:
    sizes = list(divide(total, target, skew, least))
    found = skew_of(sizes, total, least, (-5, 5))
    assert -5 <= found <= 5
    if sizes:
        assert distance(found, sizes, total, least) == 0


@given(st.integers(8, 128), st.integers(2, 30), st.floats(0, 1), st.sampled_from([(0.5, 3.0), (-2.0, 5.0), (-4.0, -1)]))
def test_the_inverse_stays_in_a_range_of_skews(total: int, target: int, at: float, range_: tuple[float, float]) -> None:
    sizes = list(divide(total, target, range_[0] + at * (range_[1] - range_[0]), 2))
    found = skew_of(sizes, total, 2, range_)
    assert range_[0] <= found <= range_[1]
    assert distance(found, sizes, total, 2) == 0


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_sizes_that_no_skew_gives_come_as_near_as_a_fine_scan(parts: int) -> None:
    scan = [float(skew) for skew in np.linspace(-5, 5, 2001)]
    known = {skew: divide(2 * parts + 11, parts, skew, 2) for skew in scan}
    for shares in compositions(11, parts):
        sizes = [2 + share for share in shares]
        best = min(sum(abs(a - b) for a, b in zip(sorted(k), sorted(sizes), strict=True)) for k in known.values())
        assert distance(skew_of(sizes, 2 * parts + 11, 2, (-5, 5)), sizes, 2 * parts + 11, 2) <= best


def test_the_inverse_is_quick() -> None:
    """Also for sizes that no skew gives: two large islands among small ones (CPU-seconds, the best of five)."""
    spent = []
    for _ in range(5):
        start = time.process_time()
        skew_of([2] * 40 + [24, 24], 128, 2, (-5, 5))
        spent.append(time.process_time() - start)
    assert min(spent) < 0.02
