"""Divisors of an island's size: the degrees that parallel configurations are made of."""

from math import isqrt


def divisors(number: int) -> list[int]:
    """Divisors, ascending."""
    small = [k for k in range(1, isqrt(number) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})
