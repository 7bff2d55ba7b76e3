"""Pools that are chosen before it is known how fast servers are: a programme in two stages.

| symbol | meaning | unit |
|---|---|---|
| z[o, B] | servers, integer: chosen once, as in `programme` | 1 |
| s, n | draw of how fast servers are, how many draws | 1 |
| R[o, B, s] | rate of one server of the option within the levels in the draw | requests/s |
| lambda[s] | rate of the whole in the draw, requests routed anew | requests/s |
| best[s] | what no pools exceed in the draw | requests/s |
| t, u[s], b[s] | the measure or its threshold, what a draw falls short of it, whether it may | requests/s, 1 |
| T | what t cannot exceed | requests/s |

drawn_<s>_<phase>_<B>  sum_o R z >= lambda[s] P(B)       stocks, survival, uplinks: as in `programme`, as predicted
cvar                   t - sum_s u / (0.2 n), u >= t - lambda, u >= 0: most
p10                    t, with t - T b in the place of lambda, sum_s b <= floor((1 - sure) n): most
regret                 sum_s (1 - lambda / best) / n, lambda <= best: least

Where one draw is no faster than another for any server, it may be the first to miss t: draws that cannot decide P10 so
are left out, and nothing is lost (`deciding_draws`).
What survives a loss or fits an uplink is judged as predicted: at a rate no lower than the measure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pulp

from planner.assignment.buckets.offer import (
    BucketAnswer,
    BucketOffer,
    BucketOption,
    Partition,
    Place,
    PoolCount,
    columns_of,
    places_of,
)
from planner.assignment.buckets.programme import LEAST_WORK, SLACK, PoolProgramme, proves
from planner.domain import AssignmentSettings, ObjectiveSettings
from planner.domain.serving.doubt import WORST, Risk, RiskMeasure
from planner.errors import InfeasibleError, SolverError
from planner.milp import Meter, solve

Column = tuple[Place, BucketOption]
Array = np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnOffer:
    """An offer whose servers are not known to be so fast. `rates`: of one server of every option (requests/s), a number
    a draw; `best_rps`: what no pools exceed in each draw, which regret asks for."""

    offer: BucketOffer
    rates: Mapping[Column, Array]
    best_rps: tuple[float, ...] = ()

    @property
    def draws(self) -> int:
        """How many draws there are."""
        return len(next(iter(self.rates.values()), ()))

    def at(self, draw: int) -> BucketOffer:
        """What is offered in one draw, as if it were known."""
        options = {
            place: tuple(replace(option, rate_rps=float(self.rates[place, option][draw])) for option in row)
            for place, row in self.offer.options.items()
        }
        return replace(self.offer, options=options)

    def rates_rps(self, partition: Partition, pools: Sequence[PoolCount]) -> Array:
        """What pools serve of the whole in every draw, requests routed anew."""
        served = []
        for place in places_of(partition):
            serving = [pool for pool in pools if place in self.offer.served_by(pool.place)]
            rates = [pool.count * self.rates[pool.place, pool.option] for pool in serving]
            served.append(np.sum(rates, axis=0) / self.offer.probabilities[place] if rates else np.zeros(self.draws))
        return np.asarray(np.min(served, axis=0))

    def value(self, risk: Risk, partition: Partition, pools: Sequence[PoolCount]) -> float:
        """The measure of what pools serve."""
        return risk.of(self.rates_rps(partition, pools).tolist(), self.best_rps)


def doubted_pools(
    drawn: DrawnOffer, partitions: Sequence[Partition], risk: Risk, settings: AssignmentSettings
) -> BucketAnswer:
    """The pools that are best by the measure, of any of `partitions`, to `settings.gap` where `settings.work_limit`
    allows; value and bound in the measure's unit. Raises InfeasibleError where nothing serves, SolverError where
    nothing was found within the limit."""
    search = _Search(drawn, risk, settings)
    # its programme is hard, and the mean of the worst draws is near it: solved for at once
    if risk.measure is RiskMeasure.P10:
        mean_of_worst = replace(risk, measure=RiskMeasure.CVAR)
        search.start_from(doubted_pools(drawn, partitions, mean_of_worst, settings))
    relaxed = {partition: _relaxed(drawn, partition, risk, settings) for partition in partitions}
    bounds = {partition: value for partition, value in relaxed.items() if value is not None}
    for partition in sorted(bounds, key=lambda one: search.loss(bounds[one])):
        search.try_partition(partition, bounds[partition])
    return search.answer()


class _Search:
    """The best pools so far, and what those of partitions that were looked at cannot pass."""

    def __init__(self, drawn: DrawnOffer, risk: Risk, settings: AssignmentSettings) -> None:
        self._drawn, self._risk, self._settings = drawn, risk, settings
        self._best: BucketAnswer | None = None
        self._bounds: list[float] = []
        self._late: SolverError | None = None
        self._meter = Meter(settings.work_limit)

    def loss(self, value: float) -> float:
        """A value as a number that is the less the better."""
        return value if self._risk.minimised else -value

    def start_from(self, answer: BucketAnswer) -> None:
        """Pools that were chosen by another measure."""
        self._best = replace(answer, value=self._drawn.value(self._risk, answer.partition, answer.pools))

    def try_partition(self, partition: Partition, bound: float) -> None:
        """Its best pools, where they may be better than the best so far; `bound`: of divisible servers."""
        best, gap = self._best, self._settings.gap
        if best is None or self.loss(bound) < self.loss(best.value) - gap * abs(best.value):
            bound = self._solved(partition, bound, None if best is None else best.value)
        self._bounds.append(bound)

    def _solved(self, partition: Partition, bound: float, than: float | None) -> float:
        """What the pools of a partition cannot pass."""
        limits = replace(self._settings, work_limit=max(LEAST_WORK, self._meter.remaining / 2))
        try:
            answer = _DoubtedProgramme(self._drawn, partition, self._risk, than).answer(limits, self._meter)
        except InfeasibleError:
            return bound if than is None else than
        except SolverError as error:
            self._late = error
            return bound
        if self._best is None or self.loss(answer.value) < self.loss(self._best.value):
            self._best = answer
        return max(bound, answer.bound, key=self.loss)

    def answer(self) -> BucketAnswer:
        """The best pools with the bound of all. Raises as `doubted_pools` does."""
        if self._best is None:
            nothing = InfeasibleError("buckets: no pools serve in so many draws as count.", hint="Offer more GPUs.")
            raise self._late or nothing
        bound = min([*self._bounds, self._best.value], key=self.loss)
        bound += (-1 if self._risk.minimised else 1) * SLACK * abs(bound)
        if self._drawn.best_rps:
            known = self._risk.of(self._drawn.best_rps, self._drawn.best_rps)
            bound = min(max(bound, known, key=self.loss), self._best.value, key=self.loss)
        proven = proves(self._best.value, bound, self._settings.gap)
        return replace(self._best, bound=bound, proven=proven)


def _relaxed(drawn: DrawnOffer, partition: Partition, risk: Risk, settings: AssignmentSettings) -> float | None:
    """The programme with servers that can be divided; None where nothing serves."""
    programme = _DoubtedProgramme(drawn, partition, risk)
    for variable in programme.model.variables():
        variable.cat = pulp.LpContinuous
    try:
        solve(programme.model, settings)
    except InfeasibleError:
        return None
    return programme.measured(float(pulp.value(programme.model.objective)))


class _DoubtedProgramme(PoolProgramme):
    """One partition's servers, and what they serve in every draw; `than`: a value that is to be reached."""

    def __init__(self, drawn: DrawnOffer, partition: Partition, risk: Risk, than: float | None = None) -> None:
        super().__init__(drawn.offer, partition, ObjectiveSettings())
        self._drawn, self._risk = drawn, risk
        limits = self._limits_rps()
        aims = {RiskMeasure.P10: self._p10, RiskMeasure.CVAR: self._cvar, RiskMeasure.REGRET: self._regret}
        aim, rate = aims[risk.measure](limits)
        self.model.sense = pulp.LpMinimize if risk.minimised else pulp.LpMaximize
        self.model.setObjective(aim)
        if than is not None:  # what is known already ends most branches at once
            aim_than = than - self.measured(0.0)
            self.model += (aim <= aim_than if risk.minimised else aim >= aim_than), "better"
        if drawn.offer.survive or drawn.offer.uplinks is not None:
            self.model += self.rate - rate >= 0, "as_predicted"

    def measured(self, objective: float) -> float:
        """The measure of an objective: a solver's bound knows no constants, so that of regret is added here."""
        best = self._drawn.best_rps
        return objective + sum(most > 0 for most in best) / len(best) if self._risk.minimised else objective

    def answer(self, settings: AssignmentSettings, meter: Meter) -> BucketAnswer:
        """The pools with the measure of what they serve, from whole servers. Raises as `solved` does."""
        answer = self.solved(settings, meter)
        value = self._drawn.value(self._risk, self.partition, answer.pools)
        return replace(answer, value=value, bound=self.measured(answer.bound))

    def _limits_rps(self) -> Array:
        """What all GPUs of every stock would serve of the slowest place, in every draw."""
        served = []
        for place in places_of(self.partition):
            best: dict[int, Array] = {}
            for (home, option), _ in self.servers.items():
                if place in self.offer.served_by(home):
                    rate = self._drawn.rates[home, option] / option.use
                    best[option.stock] = np.maximum(best.get(option.stock, np.zeros(len(rate))), rate)
            of_stocks = [self.offer.counts[stock] * rate for stock, rate in best.items()]
            served.append(np.sum([np.zeros(self._drawn.draws), *of_stocks], axis=0) / self.offer.probabilities[place])
        return np.asarray(np.min(served, axis=0))

    def _served(self, place: Place, draw: int) -> pulp.LpAffineExpression:
        """What the servers of a place serve in a draw, of the whole."""
        chance = self.offer.probabilities[place]
        return pulp.LpAffineExpression(
            [
                (count, float(self._drawn.rates[home, option][draw]) / chance)
                for (home, option), count in self.servers.items()
                if place in self.offer.served_by(home)
            ]
        )

    def _rates(self, limits: Array) -> list[pulp.LpVariable]:
        """lambda of every draw."""
        rates = []
        for draw, limit in enumerate(limits):
            rate = pulp.LpVariable(f"drawn_{draw}", 0, float(limit))
            for place in places_of(self.partition):
                self.model += self._served(place, draw) - rate >= 0, f"drawn_{draw}_{place[0].value}_{place[1]}"
            rates.append(rate)
        return rates

    def _cvar(self, limits: Array) -> tuple[pulp.LpAffineExpression, pulp.LpAffineExpression]:
        threshold, rates = pulp.LpVariable("threshold", 0, float(limits.max())), self._rates(limits)
        short = []
        for draw, rate in enumerate(rates):
            short.append(pulp.LpVariable(f"short_{draw}", lowBound=0))
            self.model += short[-1] + rate - threshold >= 0, f"short_of_{draw}"
        value = threshold - pulp.lpSum(short) * (1 / (WORST * len(rates)))
        return value, value

    def _regret(self, limits: Array) -> tuple[pulp.LpAffineExpression, pulp.LpAffineExpression]:
        best, count = np.array(self._drawn.best_rps), len(self._drawn.best_rps)
        rates = self._rates(np.minimum(limits, best))
        missed = [(rate, -1 / (count * float(most))) for rate, most in zip(rates, best, strict=True) if most > 0]
        return pulp.LpAffineExpression(missed), pulp.lpSum(rates) * (1 / count)

    def _p10(self, limits: Array) -> tuple[pulp.LpAffineExpression, pulp.LpAffineExpression]:
        may_miss = self._risk.may_miss(len(limits))
        highest = float(np.sort(limits)[may_miss])
        reached = pulp.LpVariable("reached", 0, highest)
        must, may = deciding_draws(self._rates_by_column(), may_miss)
        misses = {draw: pulp.LpVariable(f"misses_{draw}", cat=pulp.LpBinary) for draw in may}
        for draw in (*must, *may):
            for place in places_of(self.partition):
                short = highest * misses[draw] if draw in misses else 0.0
                row = self._served(place, draw) + short - reached >= 0
                self.model += row, f"drawn_{draw}_{place[0].value}_{place[1]}"
        self.model += pulp.lpSum(misses.values()) <= may_miss, "misses"
        return 1 * reached, 1 * reached

    def _rates_by_column(self) -> Array:
        """Rates, a row an option and a column a draw."""
        keys = [key for key in columns_of(self.offer, self.partition) if key in self.servers]
        return np.array([self._drawn.rates[key] for key in keys]).reshape(len(keys), self._drawn.draws)


def deciding_draws(rates: Array, may_miss: int) -> tuple[list[int], list[int]]:
    """Draws that decide a rate which all but `may_miss` reach: (those that must reach it, those that may miss it).

    A draw is slower than another where no option (row) is faster in it; of equal ones the first is. Whatever pools are
    chosen, some best choice of misses takes slower draws first. So who is faster than `may_miss` draws or more must
    reach the rate, and who is faster than more than that follows: one of those slower ones must reach it, too.
    """
    draws = rates.shape[1]
    slower = (rates[:, :, None] <= rates[:, None, :]).all(axis=0)  # [i, j]: i is no faster than j
    equal = slower & slower.T
    slower &= ~equal | (np.arange(draws)[:, None] < np.arange(draws)[None, :])
    before = slower.sum(axis=0)
    must = [draw for draw in range(draws) if before[draw] == may_miss]
    return must, [draw for draw in range(draws) if before[draw] < may_miss]
