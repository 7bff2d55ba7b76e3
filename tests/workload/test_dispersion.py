"""The index of dispersion for counts, where it is known."""

import numpy as np
import pytest

from planner.errors import InputError
from planner.workload import count_dispersion


def test_even_arrivals_have_none() -> None:
    assert count_dispersion(np.arange(1000) + 0.0, [5.0, 20.0]) == (0.0, 0.0)


def test_counts_by_hand() -> None:
    """Windows of 1 s hold 3, 1, 0, ... requests: ten windows, mean 0.4, sum of squares 10."""
    assert count_dispersion([0.1, 0.2, 0.3, 1.5], [1.0], span_s=10.0)[0] == pytest.approx((10 - 10 * 0.16) / 9 / 0.4)


def test_groups_of_k_at_random_have_k() -> None:
    """A compound Poisson process: E[K^2] / E[K]."""
    random = np.random.default_rng(1)
    arrivals = np.repeat(np.cumsum(random.exponential(1.0, 50_000)), 7)
    assert count_dispersion(arrivals, [3.0, 30.0]) == pytest.approx((7, 7), rel=0.06)


def test_order_and_origin_do_not_matter() -> None:
    arrivals = np.random.default_rng(2).random(500) * 100
    assert count_dispersion(arrivals[::-1] + 0.0, [2.0]) == count_dispersion(np.sort(arrivals), [2.0])
    assert count_dispersion(arrivals + 1e6, [2.0]) == pytest.approx(count_dispersion(arrivals, [2.0]), rel=0.05)


@pytest.mark.parametrize("window", [0.0, -1.0, float("nan"), float("inf"), 11.0, 1e-12])
def test_windows_that_tell_nothing_are_refused(window) -> None:
    with pytest.raises(InputError, match="must fit 10 to 100,000,000 times into their 99 s"):
        count_dispersion(range(100), [window])


@pytest.mark.parametrize("arrivals", [[], [1.0], [1.0, float("nan")]])
def test_arrivals_that_tell_nothing_are_refused(arrivals) -> None:
    with pytest.raises(InputError, match="must be at least 2 finite times"):
        count_dispersion(arrivals, [1.0])
    with pytest.raises(InputError, match="times into their 0 s"):
        count_dispersion([3.0, 3.0], [1.0])
