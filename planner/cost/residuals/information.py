"""What a benchmark run would tell of a decision, before it is made (preposterior analysis), in draws of paces.

| symbol | meaning | unit |
|---|---|---|
| z[k, m] | normal score of the pace of a GPU type in a phase, m, in draw k (`pace_draws`) | 1 |
| C[m, n] | correlation of the scores, R of `pace_draws` | 1 |
| r[m] | correlation of what two runs of one configuration show (`TOLD`, by the band's relation; of decode and | 1 |
|      | aggregated serving: of prefill too few were left out) | |
| e[m] | deviation of what a run shows around z[m]: sqrt(1 / r^2 - 1), so that the two correlate by r | 1 |
| V[k, l] | value of decision l in draw k | of the objective |
| y | what runs show: N(0, C + diag(e^2)) of those that are made | 1 |

Paces are known functions of their scores, so what is known of them after a run follows by Bayes in the scores, and
E[V | y] is the mean over draws at the weights prod_m phi((y[m] - z[k, m]) / e[m]). The worth of runs is
mean_y max_l E[V_l | y] - max_l mean_y E[V_l | y], at most the regret of deciding now, mean_k max_l V - max_l mean_k V.
Of few draws a run that has nothing to do with the machines seems to be worth something, too: what such runs seem worth
beside those chosen is taken off. Source: Raiffa and Schlaifer, Applied Statistical Decision Theory, 1961 (expected
value of sample information).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from planner.cost.arrays import Array
from planner.cost.residuals.band_table import TOLD
from planner.cost.residuals.pace_draws import Key, correlations, normal_scores, uniform_draws
from planner.domain import Band, Relation
from planner.domain.serving.doubt import AlikeErrors

OUTCOMES = 512
BY_CHANCE = 16
"""Runs of nothing that are tried for what they seem to be worth."""
ROUNDING = 1e-9
"""Of a value: what is worth less is rounding."""


def shown_noise(band: Band) -> float:
    """e of a run of servers whose rates have this band."""
    r = TOLD[band.relation if band.relation in TOLD else Relation.SAME]
    return math.sqrt(1 / r**2 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A run chosen: what it is of, and what it is worth beyond those chosen before it, in the values' unit."""

    key: Key
    worth: float


@dataclass(frozen=True)
class Decisions:
    """Decisions judged in draws. `table`: V, a row a draw, a column a decision; `scores`, `noises`: z and e of the GPU
    types and phases that may be measured."""

    table: Sequence[Sequence[float]] | Array
    scores: Mapping[Key, Array]
    noises: Mapping[Key, float]
    seed: int = 0
    alike: Sequence[AlikeErrors] = ()

    @cached_property
    def values(self) -> Array:
        """V."""
        return np.asarray(self.table, dtype=np.float64)

    @property
    def means(self) -> Array:
        """Of each decision."""
        return np.asarray(self.values.mean(axis=0))

    @cached_property
    def regret(self) -> float:
        """What deciding now is expected to lose against knowing every pace."""
        return max(0.0, float(self.values.max(axis=1).mean() - self.means.max()))

    def worth(self, keys: Sequence[Key]) -> float:
        """What runs of these are worth together; from 0 to the regret."""
        worth = 0.0
        for number in range(len(keys)):
            before, after = keys[:number], keys[: number + 1]
            chance = self._by_chance(before, self.noises[keys[number]])
            worth += max(0.0, self._gain(after) - self._gain(before) - chance)
        return min(worth, self.regret)

    def best_runs(self, count: int, net: Callable[[Key, float], float]) -> list[Choice]:
        """Up to `count` runs, one after the other: each has the greatest `net` of what it is worth beside those before
        it, the first of equals. Those that are worth nothing are left out."""
        chosen: list[Choice] = []
        for _ in range(min(count, len(self.noises))):
            before = [choice.key for choice in chosen]
            so_far = sum(choice.worth for choice in chosen)
            worths = {key: self.worth([*before, key]) - so_far for key in self.noises if key not in before}
            useful = [key for key in worths if worths[key] > ROUNDING * abs(float(self.means.max()))]
            if not useful:
                break
            key = max(useful, key=lambda key: net(key, worths[key]))
            chosen.append(Choice(key=key, worth=worths[key]))
        return chosen

    def _gain(self, keys: Sequence[Key], others: Sequence[tuple[Array, float]] = ()) -> float:
        """mean_y max_l - max_l mean_y of these draws; `others`: scores and e of runs that are of no machine."""
        columns = [*((self.scores[key], self.noises[key]) for key in keys), *others]
        if not columns:
            return 0.0
        shown = correlations(keys, self.alike).reshape(len(keys), len(keys))
        covariance = np.eye(len(columns))
        covariance[: len(keys), : len(keys)] = shown
        noises = np.array([noise for _, noise in columns])
        root = np.linalg.cholesky(covariance + np.diag(noises**2))
        outcomes = _normals(len(columns), self.seed) @ root.T
        scores = np.stack([column for column, _ in columns], axis=1)
        logs = -0.5 * (((outcomes[:, None, :] - scores[None, :, :]) / noises) ** 2).sum(axis=2)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        expected = weights @ self.values / weights.sum(axis=1, keepdims=True)
        return float(expected.max(axis=1).mean() - expected.mean(axis=0).max())

    def _by_chance(self, keys: Sequence[Key], noise: float) -> float:
        """What a further run of nothing seems to be worth, so noisy."""
        rng, draws = np.random.default_rng(self.seed), len(self.values)
        even = normal_scores((np.arange(draws) + 0.5) / draws)
        gains = [self._gain(keys, [(rng.permutation(even), noise)]) for _ in range(BY_CHANCE)]
        return max(0.0, float(np.mean(gains)) - self._gain(keys))


@lru_cache(maxsize=16)
def _normals(columns: int, seed: int) -> Array:
    """OUTCOMES standard normal rows, spread evenly."""
    return normal_scores(uniform_draws(OUTCOMES, columns, seed))
