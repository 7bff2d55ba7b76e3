"""What no pools of a partition can exceed: servers divisible, so only the best rate per unit of a stock counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulp

from planner.assignment.aim import aim
from planner.assignment.buckets.offer import BucketOffer, Partition, Place, columns_of, places_of
from planner.assignment.solver import solve
from planner.domain import AssignmentSettings, ObjectiveSettings
from planner.errors import InfeasibleError

NOTHING = 1e-5  # a rate below this is the solver's tolerance


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
    best = _best_per_unit(offer, partition)
    model = pulp.LpProblem("relaxed", pulp.LpMinimize if objective.minimises else pulp.LpMaximize)
    rate = pulp.LpVariable("rate", lowBound=0)
    units = {key: pulp.LpVariable(f"units_{n}", lowBound=0) for n, key in enumerate(best)}
    scale = pulp.LpVariable("scale", lowBound=0) if objective.kind.row.per_charge else None
    for place in places_of(partition):
        served = pulp.LpAffineExpression([(units[key], best[key]) for key in best if place in offer.served_by(key[1])])
        model += served - offer.probabilities[place] * rate >= 0, row_of(place)
    for t, count in enumerate(offer.counts):
        used = pulp.LpAffineExpression([(units[key], 1.0) for key in best if key[0] == t])
        model += used - (count * scale if scale is not None else count) <= 0, f"offered_{t}"
    cost = pulp.LpAffineExpression([(units[key], offer.charges[key[0]]) for key in best])
    if scale is not None:
        model.setObjective(1 * rate)
        model += cost <= 1, "charge"
        model += rate - objective.target_rps * scale >= 0, "target"
    else:
        aim(model, objective, rate, cost)
    try:
        solve(model, settings)
    except InfeasibleError:
        return None
    if not (rate.varValue or 0.0) > NOTHING:
        return None
    price = {name: abs(row.pi or 0.0) for name, row in model.constraints.items()}
    return RelaxedBuckets(
        value=float(pulp.value(model.objective)),
        rate_rps=float(rate.varValue or 0.0),
        worth={place: price[row_of(place)] for place in places_of(partition)},
        toll=tuple(price[f"offered_{t}"] for t in range(len(offer.counts))),
    )


def row_of(place: Place) -> str:
    """Name of the constraint that a bucket is served."""
    return f"serve_{place[0].value}_{place[1]}"


def _best_per_unit(offer: BucketOffer, partition: Partition) -> dict[tuple[int, Place], float]:
    """The best rate per unit of each stock on each bucket."""
    best: dict[tuple[int, Place], float] = {}
    for place, option in columns_of(offer, partition):
        key = (option.stock, place)
        best[key] = max(best.get(key, 0.0), option.rate_rps / option.use)
    return best


def relaxed_values(
    offer: BucketOffer, partitions: Sequence[Partition], objective: ObjectiveSettings, settings: AssignmentSettings
) -> dict[Partition, float]:
    """Bounds of the partitions that can serve."""
    values = ((partition, relaxed_buckets(offer, partition, objective, settings)) for partition in partitions)
    return {partition: relaxed.value for partition, relaxed in values if relaxed is not None}
