"""How far a plan is from the best possible, in words: one bound a page, that of the objective asked for."""

from planner.domain import Certificate, ObjectiveKind, Plan
from planner.report.quantities import money, rate, whole

_BEST = {
    ObjectiveKind.BUDGET: "The most requests/s for a rent of at most {budget} USD/hour",
    ObjectiveKind.TARGET: "The cheapest fleet for {target} requests/s",
    ObjectiveKind.PER_DOLLAR: "The most requests per USD",
    ObjectiveKind.WATTS: "The least watts for {target} requests/s",
}
_UNKNOWN = "How far this is from the best possible is not known."


def certificate_text(plan: Plan) -> list[str]:
    """One paragraph: within how much of the best possible the plan is; nothing where it carries no certificate."""
    certificate = plan.certificate
    if certificate is None:
        return []
    said = _objective(plan, certificate) if plan.scenario.objective.kind in _BEST else _rate(plan, certificate)
    return [" ".join([said or _UNKNOWN, *([f"Note: {certificate.note}."] if certificate.note else [])])]


def _rate(plan: Plan, certificate: Certificate) -> str:
    """Of several goals, the rate alone has a bound, that of the fleet chosen."""
    gap, bound = certificate.objective_gap, certificate.objective_bound
    if gap is None or bound is None:
        gap, bound = certificate.gap, certificate.bound_rps
    if gap is None or bound is None:
        return ""
    fleet = "these GPUs" if plan.scenario.objective.rents else "this inventory"
    return (
        f"**Within {_percent(gap)} of the best possible layout** of {fleet} under this model: none serves more "
        f"than {rate(bound)} requests/s."
    )


def _objective(plan: Plan, certificate: Certificate) -> str:
    objective = plan.scenario.objective
    if certificate.objective_gap is None or certificate.objective_bound is None:
        return ""
    asked = _BEST[objective.kind].format(budget=money(objective.budget_usd_per_hour), target=rate(objective.target_rps))
    value = _value(objective.kind, certificate.objective_value)
    bound = _value(objective.kind, certificate.objective_bound)
    limit = "none does with less than" if objective.minimises else "none has more than"
    return (
        f"{asked}: {value}, **within {_percent(certificate.objective_gap)} of the best possible** under this model: "
        f"{limit} {bound}."
    )


def _value(kind: ObjectiveKind, value: float) -> str:
    match kind:
        case ObjectiveKind.TARGET:
            return f"{money(value)} USD/hour"
        case ObjectiveKind.WATTS:
            return f"{whole(value)} W"
        case ObjectiveKind.PER_DOLLAR:
            return f"{rate(value)} requests/s per USD/hour"
        case _:
            return f"{rate(value)} requests/s"


def _percent(gap: float) -> str:
    return f"{100 * max(gap, 0.0):.1f} %"
