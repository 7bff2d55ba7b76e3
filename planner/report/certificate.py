"""How far a plan is from the best possible, in words."""

from collections.abc import Iterator

from planner.domain import Bound, Certificate, ObjectiveKind, Plan, SearchMethod, SizeSet
from planner.report.quantities import money, rate, whole

CLOSE = 0.1
"""Up to this gap a plan is called close to the best possible; beyond it nobody knows which of the two is at fault."""

CLOSER = 0.01
TIME_LIMIT = "time limit"
"""What the note of a certificate says where the solver was stopped."""

_BEST = {
    ObjectiveKind.BUDGET: "The most requests/s for a rent of at most {budget} USD/hour",
    ObjectiveKind.TARGET: "The cheapest fleet for {target} requests/s",
    ObjectiveKind.PER_DOLLAR: "The most requests per USD",
    ObjectiveKind.WATTS: "The least watts for {target} requests/s",
}


def certificate_text(plan: Plan) -> list[str]:
    """One paragraph: within how much of the best possible the plan is; nothing where it carries no certificate."""
    found = plan.certificate
    if found is None:
        return []
    text = [*_objective(plan, found), *_rate(plan, found)]
    if found.note:
        text.append(f"Note: {found.note}.")
    return [" ".join(text)] if text else []


def _rate(plan: Plan, found: Certificate) -> list[str]:
    if found.gap is None or found.bound_rps is None:
        return ["How far this is from the best possible layout is not known."]
    fleet = "these GPUs" if plan.scenario.objective.rents else "this inventory"
    if found.gap <= CLOSE:
        return [
            f"**Within {_percent(found.gap)} of the best possible layout** of {fleet} under this model: none serves "
            f"more than {rate(found.bound_rps)} requests/s."
        ]
    return [
        f"**Not shown to be close to the best possible layout** of {fleet} under this model: none serves more than "
        f"{rate(found.bound_rps)} requests/s, and this plan {_percent(found.gap)} less than that.",
        *_of_sizes(plan, found, found.bound_rps),
        *_remedy(plan, found),
    ]


def _of_sizes(plan: Plan, found: Certificate, bound_rps: float) -> list[str]:
    """The closer bound of the island sizes that the exact method was held to."""
    closer = found.objective_bound
    if plan.scenario.objective.kind is not ObjectiveKind.RATE or closer is None or closer > bound_rps * (1 - CLOSER):
        return []
    return [f"Of the island sizes chosen none serves more than {rate(closer)} requests/s."]


def _remedy(plan: Plan, found: Certificate) -> list[str]:
    """What would close a large gap, or tell whose it is; nothing where that is not known."""
    closers = list(_closers(plan, found))
    return [f"What may close the gap: {', '.join(closers)}."] if closers else []


def _closers(plan: Plan, found: Certificate) -> Iterator[str]:
    search, slo = plan.scenario.search, plan.scenario.slo
    if search.method is SearchMethod.EXACT:
        if search.sizes is not SizeSet.ALL:
            yield "`search.sizes: all` (the bound is of islands of every size)"
        if TIME_LIMIT in found.note:
            yield f"a `search.time_limit_s` above {search.time_limit_s:g}"
    else:
        yield f"`search.method: exact`, or more than {search.iterations} `search.iterations`"
        if search.bound is Bound.FAST:
            yield "`search.bound: tight`"
    if slo.ttft_ms is not None or any(one.ttft_ms is not None for one in slo.ranges):
        yield "a larger `slo.ttft_ms` (the bound does not see queues)"


def _objective(plan: Plan, found: Certificate) -> list[str]:
    objective = plan.scenario.objective
    if (
        objective.kind in (ObjectiveKind.RATE, ObjectiveKind.PLACED)
        or found.objective_gap is None
        or found.objective_bound is None
    ):
        return []
    asked = _BEST[objective.kind].format(budget=money(objective.budget_usd_per_hour), target=rate(objective.target_rps))
    value, bound = (_value(objective.kind, v) for v in (found.objective_value, found.objective_bound))
    if found.objective_gap <= CLOSE:
        return [f"{asked}: {value}, within {_percent(found.objective_gap)} of the best possible, {bound}."]
    return [
        f"{asked}: {value}, not shown to be close to the best possible; proven is that none does better than {bound}, "
        f"{_percent(found.objective_gap)} away.",
        *_remedy(plan, found),
    ]


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
