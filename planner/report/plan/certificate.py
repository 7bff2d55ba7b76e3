"""How far a plan is from the best possible, in words: one bound a page; of pools, what being deployable costs, too."""

import re
from collections.abc import Callable, Iterator
from functools import partial

from planner.domain import Bound, Certificate, Plan, ServingForm, SizeSet
from planner.domain.serving.routing import class_of_pools
from planner.report.kit.quantities import money, rate, whole
from planner.report.kit.quantities import percent as whole_percent

CLOSE_POOLS = 0.05
"""Up to this gap pools are called close to the best; beyond it the page says what would close it."""

STOPPED = "work limit"
"""How a note tells that a solver was stopped."""

_PLAIN_NOTE = re.compile("the bound is of .*pools that can be deployed")
"""A note that the words here make plain."""


def bucket_certificate(
    plan: Plan, certificate: Certificate, goal: str, bound: str, in_unit: Callable[[float], str]
) -> str:
    """Both bounds in a sentence each, and what the other form of serving would do. `goal`: what was asked for and what
    the plan has of it (empty: rates); `bound`: what no deployable pools better; `in_unit` writes values of the
    objective. Empty where nothing is known."""
    notes = [note for note in certificate.note.split("; ") if note and not _PLAIN_NOTE.fullmatch(note)]
    parts = [
        _of_deployable(plan, certificate, goal, bound),
        forms_sentence(plan, in_unit),
        _deployability(plan, certificate),
        f"Note: {'; '.join(notes)}." if notes else "",
    ]
    return " ".join(part for part in parts if part)


def _of_deployable(plan: Plan, certificate: Certificate, goal: str, bound: str) -> str:
    gap = certificate.objective_gap
    if gap is None:
        return ""
    forms = plan.outlook.forms
    pools = f"the best deployable {class_of_pools(plan.scenario.serving_form, forms)}"
    limit = "none serve more than" if not goal else "none have more than"
    if plan.scenario.objective.minimises:
        limit = "none do with less than"
    if gap > CLOSE_POOLS:
        words = f"not shown to be close to {pools}"
        away = f"{limit} {bound}, {percent(gap)} away. {_pool_remedy(plan, certificate)}"
        return f"{goal}, **{words}**: {away}" if goal else f"**{words.capitalize()}**: {away}"
    words = f"within {percent(gap)} of {pools}"
    return f"{goal}, **{words}**: {limit} {bound}." if goal else f"**{words.capitalize()}**: {limit} {bound}."


def forms_sentence(plan: Plan, in_unit: Callable[[float], str]) -> str:
    """What the other form of serving would do, and the margin that split pools must win by; that they were not looked
    at, where something of the scenario keeps pools split. Empty where the form was asked for."""
    scenario, forms = plan.scenario, plan.outlook.forms
    if forms is None:
        beyond = scenario.beyond_mixed
        return f"Only split pools were looked at: {beyond} knows no others." if beyond and plan.form.row.pooled else ""
    reach = "take" if scenario.objective.minimises else "reach"
    margin = f"{whole_percent(forms.margin)}, the cost model's bias towards them"
    if forms.chosen is ServingForm.SPLIT:
        if forms.other_value is None:
            return "Prefill and decode are split: aggregated pools serve nothing here."
        other = f"aggregated pools {reach} {in_unit(forms.other_value)}"
        return f"Prefill and decode are split: {other}, and split ones win by more than {margin}."
    if forms.other_value is not None:
        other = f"split ones {reach} {in_unit(forms.other_value)}"
    elif forms.other_bound is not None:
        than = "less than" if scenario.objective.minimises else "more than"
        other = f"no split ones {reach} {than} {in_unit(forms.other_bound)}"
    else:
        return "Pools are aggregated: split ones serve nothing here."
    return f"Pools are aggregated: {other}, and they have to win by {margin}."


def _deployability(plan: Plan, certificate: Certificate) -> str:
    """What no layout does, deployable or not; it is of the plan's own GPUs."""
    if certificate.gap is None or certificate.bound_rps is None:
        return ""
    queues = ", a bound that sees no queues" if plan.scenario.slo.bounds_anything else ""
    limit = f"layout of any size and routing serves more than {rate(certificate.bound_rps)} requests/s{queues}."
    if certificate.objective_gap is None:  # of several goals: rate was given up for others, too
        return f"No {limit}"
    return f"Being deployable costs at most {percent(certificate.gap)}: no {limit}"


def _pool_remedy(plan: Plan, certificate: Certificate) -> str:
    return f"What may close the gap: {', '.join(_pool_closers(plan, certificate))}."


def _pool_closers(plan: Plan, certificate: Certificate) -> Iterator[str]:
    search, scenario = plan.scenario.search, plan.scenario
    if STOPPED in certificate.note:
        yield f"more work (a `search.work_limit` above {search.work_limit:g})"
    if search.gap > CLOSE_POOLS / 10:
        yield f"a `search.gap` below {search.gap:g}"
    if scenario.simplicity > 0:
        yield "`simplicity: 0`"
    if scenario.most_buckets == scenario.routing.most:
        yield f"more buckets (`routing.most` above {scenario.most_buckets})"
    else:
        yield "more buckets (a `deploy.router` that counts tokens, such as llm-d)"
    if STOPPED not in certificate.note:
        yield f"a `search.work_limit` above {search.work_limit:g}"


def percent(gap: float) -> str:
    """A gap of 1 in percent, to a tenth."""
    return f"{100 * max(gap, 0.0):.1f} %"


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
