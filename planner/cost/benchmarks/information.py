"""What measurements are worth to a decision, before they are made: preposterior analysis over draws.

| symbol | meaning | unit |
|---|---|---|
| V[k, l] | value of decision l where the machines are as in draw k | of the objective |
| y[k, m] | what measurement m shows in draw k: the log of a rate | 1 |
| e | noise of a measurement, NOISE | 1 |
| E | covariance over what is measured of the values that are then expected | of the objective, squared |
| S | covariance of the values over the draws | of the objective, squared |

Deciding now regrets R = mean_k max_l V - max_l mean_k V. After measurements the expected values are normal around their
means (linear regression of V on y + e), E = cov(V, y) (cov(y) + e^2)^-1 cov(y, V), and the regret that is expected to
go is mean max_l N(mean V, E) - max_l mean V, at most R. Of K draws p measurements explain p / (K - 1) of S by chance
alone, which is taken off, as an adjusted R^2 does: E - p / (K - 1 - p) (S - E), where it is positive.
Source: Raiffa and Schlaifer, Applied Statistical Decision Theory, 1961 (expected value of sample information).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.cost.arrays import Array

Table = Sequence[Sequence[float]]

NOISE = 0.05
"""Standard deviation of the log of a rate from run to run on one machine."""

_HALF_SAMPLES = 2048
_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A measurement chosen: its position, and by how much it reduces the regret beyond those chosen before it."""

    measurement: int
    reduction: float


def regret(values: Table) -> float:
    """R: what deciding now is expected to lose against knowing the machines. Rows are draws, columns decisions."""
    table = _array(values)
    return max(0.0, float(table.max(axis=1).mean() - table.mean(axis=0).max()))


def reduction(values: Table, shown: Table, measured: Sequence[int], noise: float = NOISE) -> float:
    """The part of the regret that is expected to go with these columns of `shown` measured; from 0 to R."""
    table, signals = _array(values), _array(shown)[:, list(measured)]
    if not len(measured):
        return 0.0
    means = table.mean(axis=0)
    expected = _expected(table - means, signals - signals.mean(axis=0), noise)
    gain = float((means + _normals(expected)).max(axis=1).mean() - means.max())
    return min(max(0.0, gain), regret(values))


def choose_measurements(values: Table, shown: Table, count: int, noise: float = NOISE) -> tuple[Choice, ...]:
    """Up to `count` measurements, each the one that reduces the regret most after those before it; the first of
    equals. Those that reduce nothing are left out."""
    chosen: list[Choice] = []
    columns = len(shown[0])
    for _ in range(min(count, columns)):
        before = [choice.measurement for choice in chosen]
        so_far = sum(choice.reduction for choice in chosen)
        others = [m for m in range(columns) if m not in before]
        gains = {m: reduction(values, shown, [*before, m], noise) - so_far for m in others}
        best = max(others, key=lambda m: gains[m])
        if not gains[best] > 0:
            break
        chosen.append(Choice(measurement=best, reduction=gains[best]))
    return tuple(chosen)


def _array(rows: Table) -> Array:
    return np.asarray(rows, dtype=np.float64)


def _expected(off: Array, signals: Array, noise: float) -> Array:
    """E, less what chance explains; both arguments are centred."""
    draws, measured = signals.shape
    free = draws - 1
    cross = off.T @ signals / free
    explained = cross @ np.linalg.solve(signals.T @ signals / free + noise**2 * np.eye(measured), cross.T)
    by_chance = measured / max(1, free - measured)
    return np.asarray(explained - by_chance * (off.T @ off / free - explained))


def _normals(covariance: Array) -> Array:
    """Samples of N(0, covariance), each with its opposite: their mean is 0, so that knowing more never looks worse."""
    values, vectors = np.linalg.eigh(covariance)
    # Rounding may leave small eigenvalues below 0.
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    half = np.random.default_rng(_SEED).standard_normal((_HALF_SAMPLES, len(values))) @ root.T
    return np.concatenate([half, -half])
