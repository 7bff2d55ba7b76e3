"""How far a plan is from the best possible, in words: one bound a page, that of the objective asked for."""

from collections.abc import Iterator
from functools import partial

from planner.domain import Bound, Certificate, Plan, SizeSet
from planner.report.buckets.certificate import STOPPED, bucket_certificate, percent
from planner.report.kit.quantities import money, rate, whole

CLOSE = 0.1
"""Up to this gap a plan is called close to the best possible; beyond it nobody knows which of the two is at fault."""

_FIGURES = {"USD/hour": money, "W": whole}
"""How figures of a unit are written; others are rates."""

_UNKNOWN = "How far this is from the best possible is not known."


def certificate_text(plan: Plan) -> list[str]:
    """One paragraph: within how much of the best possible the plan is; nothing where it carries no certificate."""
    certificate = plan.certificate
    if certificate is None:
        return []
    if plan.form.row.pooled:
        return [_of_pools(plan, certificate) or _UNKNOWN]
    sentence = _objective(plan, certificate) if plan.scenario.objective.kind.row.best else _rate(plan, certificate)
    return [" ".join([sentence or _UNKNOWN, *([f"Note: {certificate.note}."] if certificate.note else [])])]


def _of_pools(plan: Plan, certificate: Certificate) -> str:
    row, bound = plan.scenario.objective.kind.row, certificate.objective_bound
    goal = f"{_goal(plan)}: {_value(row.unit, certificate.objective_value)}" if row.best else ""
    in_unit = partial(_value, row.unit)
    return bucket_certificate(plan, certificate, goal, "" if bound is None else in_unit(bound), in_unit)


def _goal(plan: Plan) -> str:
    objective = plan.scenario.objective
    return objective.kind.row.best.format(
        budget=money(objective.budget_usd_per_hour), target=rate(objective.target_rps)
    )


def _rate(plan: Plan, certificate: Certificate) -> str:
    """Of several goals, the rate alone has a bound, that of the fleet chosen."""
    gap, bound = certificate.objective_gap, certificate.objective_bound
    if gap is None or bound is None:
        gap, bound = certificate.gap, certificate.bound_rps
    if gap is None or bound is None:
        return ""
    fleet = "these GPUs" if plan.scenario.objective.rents else "this inventory"
    if gap > CLOSE:
        return (
            f"**Not shown to be close to the best possible layout** of {fleet} under this model: none serves more than "
            f"{rate(bound)} requests/s, and this plan {percent(gap)} less than that.{_remedy(plan, certificate)}"
        )
    return (
        f"**Within {percent(gap)} of the best possible layout** of {fleet} under this model: none serves more "
        f"than {rate(bound)} requests/s."
    )


def _remedy(plan: Plan, certificate: Certificate) -> str:
    """What would close a large gap, or show where it comes from; nothing where that is not known."""
    closers = list(_closers(plan, certificate))
    return f" What may close the gap: {', '.join(closers)}." if closers else ""


def _closers(plan: Plan, certificate: Certificate) -> Iterator[str]:
    search, slo = plan.scenario.search, plan.scenario.slo
    if search.method.row.solves:
        if search.sizes is not SizeSet.ALL:
            yield "`search.sizes: all`"
        if STOPPED in certificate.note:
            yield f"a `search.work_limit` above {search.work_limit:g}"
    else:
        yield f"`search.method: exact`, or more than {search.iterations} `search.iterations`"
        if search.bound is Bound.FAST:
            yield "`search.bound: tight`"
    if slo.ttft_ms is not None or any(level.ttft_ms is not None for level in slo.ranges):
        yield "a larger `slo.ttft_ms` (the bound does not see queues)"


def _objective(plan: Plan, certificate: Certificate) -> str:
    objective, row = plan.scenario.objective, plan.scenario.objective.kind.row
    if certificate.objective_gap is None or certificate.objective_bound is None:
        return ""
    goal = _goal(plan)
    value = _value(row.unit, certificate.objective_value)
    bound = _value(row.unit, certificate.objective_bound)
    limit = "none does with less than" if objective.minimises else "none has more than"
    if certificate.objective_gap > CLOSE:
        return (
            f"{goal}: {value}, **not shown to be close to the best possible** under this model: {limit} {bound}, "
            f"{percent(certificate.objective_gap)} away.{_remedy(plan, certificate)}"
        )
    return (
        f"{goal}: {value}, **within {percent(certificate.objective_gap)} of the best possible** under this model: "
        f"{limit} {bound}."
    )


def _value(unit: str, value: float) -> str:
    return f"{_FIGURES.get(unit, rate)(value)} {unit}"


def rate_bound(plan: Plan) -> float | None:
    """Requests/s that no layout of the search can pass: the objective's own bound where that is a rate.

    None where none is known: of rented fleets `bound_rps` is that of the plan's own GPUs, and rates of replays
    have no bound.
    """
    certificate, objective = plan.certificate, plan.scenario.objective
    row = objective.kind.row
    if certificate is None or plan.search.replayed:
        return None
    if certificate.objective_bound is not None and row.unit == "requests/s" and not row.several:
        return certificate.objective_bound
    return None if objective.rents else certificate.bound_rps
