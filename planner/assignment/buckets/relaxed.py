"""What no pools of a partition can exceed: servers divisible, so only the best rate per unit of a stock counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulp

from planner.assignment.buckets.change_rows import change_rows
from planner.assignment.buckets.offer import BucketOffer, BucketOption, Partition, Place, columns_of, places_of
from planner.assignment.buckets.uplink_rows import uplink_rows
from planner.assignment.relaxation import LEAST_RPS as NOTHING
from planner.assignment.relaxation import aim, within_share
from planner.domain import AssignmentSettings, ObjectiveSettings
from planner.errors import InfeasibleError
from planner.milp import solve


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaxedBuckets:
    """The relaxation of one partition: `value` in the objective's unit, `rate_rps`, and prices: `worth[place]` of one
    more request/s of the bucket's capacity, `toll[t]` of a unit of a stock."""

    value: float
    rate_rps: float
    worth: Mapping[Place, float]
    toll: tuple[float, ...]


def relaxed_buckets(
    offer: BucketOffer, partition: Partition, objective: ObjectiveSettings, settings: AssignmentSettings
) -> RelaxedBuckets | None:
    """What no pools of this partition can exceed; None where they cannot serve."""
    programme = _Relaxed(offer, partition, objective, scaled=objective.kind.row.per_charge)
    model, rate, scale = programme.model, programme.rate, programme.scale
    # A ratio as a linear programme (Charnes and Cooper): all counts by a scale at which the charge is 1.
    if objective.kind.row.per_charge:
        model.setObjective(1 * rate)
        model += programme.cost() <= 1, "charge"
        model += rate - objective.target_rps * scale >= 0, "target"
    else:
        aim(model, objective, rate, programme.cost())
    try:
        solve(model, settings)
    except InfeasibleError:
        return None
    if not (rate.varValue or 0.0) > NOTHING:
        return None
    # A dual's sign follows the sense of its row and of the programme; a price has none.
    price = {name: abs(row.pi or 0.0) for name, row in model.constraints.items()}
    return RelaxedBuckets(
        value=float(pulp.value(model.objective)),
        rate_rps=float(rate.varValue or 0.0),
        worth={place: price[row_of(place)] for place in places_of(partition)},
        toll=tuple(price[f"offered_{t}"] for t in range(len(offer.counts))),
    )


def relaxed_touched(
    offer: BucketOffer,
    partition: Partition,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    *,
    value: float,
    within: float,
) -> float | None:
    """GPUs that any pools of this partition touch which come within a share of `value`; None: none come so near."""
    programme = _Relaxed(offer, partition, ObjectiveSettings())
    programme.model.sense = pulp.LpMinimize
    programme.model.setObjective(1 * programme.change.gpus)
    within_share(programme.model, objective, value, within, programme.rate, programme.cost())
    try:
        solve(programme.model, settings)
    except InfeasibleError:
        return None
    return float(pulp.value(programme.change.gpus) or 0.0)


class _Relaxed:
    """One partition's servers, divisible: started ones by the best rate per unit of a stock. `scaled`: all counts are
    multiplied with a variable, `scale`."""

    def __init__(
        self, offer: BucketOffer, partition: Partition, objective: ObjectiveSettings, *, scaled: bool = False
    ) -> None:
        self.offer = offer
        self.model = pulp.LpProblem("relaxed", pulp.LpMinimize if objective.minimises else pulp.LpMaximize)
        self.rate = pulp.LpVariable("rate", lowBound=0)
        self.units = {key: pulp.LpVariable(f"units_{n}", lowBound=0) for n, key in enumerate(_units(offer, partition))}
        self.scale = pulp.LpVariable("scale", lowBound=0) if scaled else 1
        for place in places_of(partition):
            rates = [
                (v, option.rate_rps) for (other, option), v in self.units.items() if place in offer.served_by(other)
            ]
            served = pulp.LpAffineExpression(rates)
            self.model += served - offer.probabilities[place] * self.rate >= 0, row_of(place)
        for t, count in enumerate(offer.counts):
            used = pulp.LpAffineExpression(
                [(v, option.use) for (_, option), v in self.units.items() if option.stock == t]
            )
            self.model += used - count * self.scale <= 0, f"offered_{t}"
        self.change = change_rows(self.model, offer, self.units, relaxed=True, scale=self.scale)
        uplink_rows(self.model, offer, partition, self.units, self.rate, scale=self.scale, relaxed=True)

    def cost(self) -> pulp.LpAffineExpression:
        """USD/hour, or W, with the weight of the change."""
        charges = self.offer.charges
        rent = pulp.LpAffineExpression([(v, charges[o.stock] * o.use) for (_, o), v in self.units.items()])
        return rent + self.offer.terms.usd_weight * self.change.usd


def row_of(place: Place) -> str:
    """Name of the constraint that a bucket is served."""
    return f"serve_{place[0].value}_{place[1]}"


def _units(offer: BucketOffer, partition: Partition) -> list[tuple[Place, BucketOption]]:
    """Servers that run already, and of each stock on each bucket a unit with the best rate and the least start of any
    server that may be started."""
    best: dict[tuple[int, Place], BucketOption] = {}
    running = []
    for place, option in columns_of(offer, partition):
        if option.deployed is not None:
            running.append((place, option))
            continue
        other = best.get((option.stock, place))
        rate, start = option.rate_rps / option.use, option.start_usd / option.use
        # Best rate and least start may be of different servers: none does better in either, so the bound holds.
        best[option.stock, place] = BucketOption(
            stock=option.stock,
            use=1,
            server=0,
            kind=0,
            rate_rps=max(rate, 0.0 if other is None else other.rate_rps),
            start_usd=start if other is None else min(start, other.start_usd),
        )
    return [*((place, unit) for (_, place), unit in best.items()), *running]


def relaxed_values(
    offer: BucketOffer, partitions: Sequence[Partition], objective: ObjectiveSettings, settings: AssignmentSettings
) -> dict[Partition, float]:
    """Bounds of the partitions that can serve."""
    values = ((partition, relaxed_buckets(offer, partition, objective, settings)) for partition in partitions)
    return {partition: relaxed.value for partition, relaxed in values if relaxed is not None}
