"""The divider: how many islands of one type, and how uneven.

| symbol | meaning | unit |
|---|---|---|
| I, I_min | GPUs of the type, fewest GPUs of an island | 1 |
| n | target number of islands | 1 |
| s | skew: island k of the n gets a remainder in proportion to k^s | 1 |

Source: Rignall 2025, section 4.9.2.
"""

from math import floor

EVEN = 1e-9


def divide(total: int, target: int, skew: float, least: int) -> tuple[int, ...]:
    """Island sizes, by island index: they sum to `total`, each at least `least`, min(target, total // least) of them.

    What is left above `least` each is shared out in proportion to k**skew by largest remainders (ties to the lower
    index). Empty where `target` is 0 or `total` < `least`.
    """
    count = min(target, total // least)
    if count <= 0:
        return ()
    spare = total - count * least
    weights = [1.0 if abs(skew) < EVEN else float(k) ** skew for k in range(1, count + 1)]
    whole_weight = sum(weights)
    ideal = [spare * weight / whole_weight for weight in weights]
    whole = [floor(x) for x in ideal]
    by_remainder = sorted(range(count), key=lambda k: (whole[k] - ideal[k], k))
    raised = set(by_remainder[: spare - sum(whole)])
    return tuple(least + whole[k] + (k in raised) for k in range(count))
