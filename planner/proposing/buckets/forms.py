"""Which form of serving the pools of a plan have, and other pools beside those that the programme calls the best.

Aggregated pools are solved for alone, and then all pools: those of which some are split must win by more than the cost
model's bias towards them.

The programme prices the queue of a pool as if its bucket were served by such servers alone, and looks at the loss of
the nodes of one pool at a time. Where pools of both forms share a bucket, where the form itself decides how far the
price of its queue is off, and where a loss takes nodes of several pools, pools of a lower value may serve more.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product

from planner.assignment import BucketAnswer, BucketOffer, Partition, best_pools, relaxed_values
from planner.domain import (
    PHASES,
    PURE_FORMS,
    AssignmentSettings,
    FormChoice,
    ObjectiveSettings,
    Phase,
    ServingForm,
    worth_of,
)
from planner.domain.serving.routing import SPLIT_BIAS
from planner.errors import InfeasibleError, SolverError

SECONDS = 5.0
NEAR = 0.85
"""Pools that cannot come nearer to the best than this are left out."""
MOST_UNIFORM = 6
"""Choices of a GPU type for each phase that are tried where a router does not see speed."""


def other_answers(
    offer: BucketOffer,
    best: BucketAnswer,
    partitions: Sequence[Partition],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> Iterator[tuple[BucketOffer, BucketAnswer]]:
    """The best pools that are all split, where some of `best` are and others not; and where a loss is to be survived,
    those that survive it whatever pools it takes nodes of. All with as many buckets as `best`, and with what they were
    chosen from; none where fleets are compared by what they cost."""
    if objective.minimises or objective.kind.row.per_charge:
        return
    limits = replace(settings, work_limit=min(SECONDS, settings.work_limit))
    alike = [partition for partition in partitions if partition.counts == best.partition.counts]
    jointly = [(replace(offer, jointly=True), alike)] if offer.survive else []
    phases = {pool.place[0] for pool in best.pools}
    beside = Phase.MIXED in phases and len(phases) > 1
    split = list(dict.fromkeys(partition._replace(mixed=()) for partition in alike))
    for chosen, among in (*([(offer.of_phases(PHASES), split)] if beside else []), *jointly):
        bounds = relaxed_values(chosen, among, objective, limits)
        near = {partition: value for partition, value in bounds.items() if value >= NEAR * best.value}
        try:
            if near:
                yield chosen, best_pools(chosen, list(near), objective, limits, relaxed=near)
        except (InfeasibleError, SolverError):
            continue


def uniform_answers(
    offer: BucketOffer,
    best: BucketAnswer,
    partitions: Sequence[Partition],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    *,
    phases: Collection[Phase],
    above_rps: float,
) -> Iterator[tuple[BucketOffer, BucketAnswer]]:
    """The best pools of one GPU type in each of `phases`, in which the router parts requests otherwise than by speed:
    the programme does not see what it gives up of unlike servers. Of as many buckets as `best`, and of those alone
    whose bound is above what `best` serves together (`above_rps`)."""
    if objective.minimises or objective.kind.row.per_charge:
        return
    limits = replace(settings, work_limit=min(SECONDS, settings.work_limit))
    alike = [partition for partition in partitions if partition.counts == best.partition.counts]
    types = {phase: {pool.option.stock for pool in best.pools if pool.place[0] is phase} for phase in phases}
    mixed = {phase: sorted(stocks) for phase, stocks in types.items() if len(stocks) > 1}
    for chosen in islice(product(*mixed.values()), MOST_UNIFORM if mixed else 0):
        stocks = dict(zip(mixed, chosen, strict=True))
        options = {
            place: tuple(option for option in row if option.stock == stocks.get(place[0], option.stock))
            for place, row in offer.options.items()
        }
        uniform = replace(offer, options=options)
        bounds = relaxed_values(uniform, alike, objective, limits)
        near = {partition: value for partition, value in bounds.items() if value > above_rps}
        try:
            if near:
                yield uniform, best_pools(uniform, list(near), objective, limits, relaxed=near)
        except (InfeasibleError, SolverError):
            continue


def value_to_beat(aggregated: Sequence[float], objective: ObjectiveSettings) -> float | None:
    """What pools must be better than, in the objective's unit, to be worth more than aggregated ones that are solved
    for; None where there are none."""
    if not aggregated:
        return None
    best = min(aggregated) if objective.minimises else max(aggregated)
    return best / worth_of(1.0, ServingForm.SPLIT, minimises=objective.minimises)


def chosen_form(
    values: Mapping[ServingForm, float], bounds: Mapping[ServingForm, float], objective: ObjectiveSettings
) -> FormChoice:
    """The better form of those that have a value, in the objective's unit; `bounds` of those that serve at all."""
    sign, minimises = (-1.0 if objective.minimises else 1.0), objective.minimises
    chosen = max(values, key=lambda form: sign * worth_of(values[form], form, minimises=minimises))
    (other,) = (form for form in PURE_FORMS if form is not chosen)
    return FormChoice(
        chosen=chosen,
        other=other,
        margin=SPLIT_BIAS,
        own_bound=bounds.get(chosen, values[chosen]),
        other_value=values.get(other),
        other_bound=bounds.get(other),
    )
