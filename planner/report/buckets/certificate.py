"""How far pools are from the best that can be deployed, and what being deployable costs, in words."""

import re
from collections.abc import Callable, Iterator

from planner.domain import Certificate, Plan, ServingForm
from planner.domain.serving.routing import class_of_pools
from planner.report.kit.quantities import percent as whole_percent
from planner.report.kit.quantities import rate

CLOSE = 0.05
"""Up to this gap pools are called close to the best; beyond it the page says what would close it."""

STOPPED = "work limit"
"""How a note tells that a solver was stopped."""

_SAID = re.compile("the bound is of .*pools that can be deployed")
"""A note that the words here make plain."""


def bucket_certificate(
    plan: Plan, certificate: Certificate, goal: str, bound: str, in_unit: Callable[[float], str]
) -> str:
    """Both bounds in a sentence each, and what the other form of serving would do. `goal`: what was asked for and what
    the plan has of it (empty: rates); `bound`: what no deployable pools better; `in_unit` writes values of the
    objective. Empty where nothing is known."""
    notes = [note for note in certificate.note.split("; ") if note and not _SAID.fullmatch(note)]
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
    if gap > CLOSE:
        words = f"not shown to be close to {pools}"
        away = f"{limit} {bound}, {percent(gap)} away. {_remedy(plan, certificate)}"
        return f"{goal}, **{words}**: {away}" if goal else f"**{words.capitalize()}**: {away}"
    words = f"within {percent(gap)} of {pools}"
    return f"{goal}, **{words}**: {limit} {bound}." if goal else f"**{words.capitalize()}**: {limit} {bound}."


def forms_sentence(plan: Plan, in_unit: Callable[[float], str]) -> str:
    """What the other form of serving would do, and the margin that split pools must win by; that they were not looked
    at, where something of the scenario keeps pools split. Empty where the form was asked for."""
    scenario, forms = plan.scenario, plan.outlook.forms
    if forms is None:
        told = scenario.beyond_mixed
        return f"Only split pools were looked at: {told} knows no others." if told and plan.form.row.pooled else ""
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


def _remedy(plan: Plan, certificate: Certificate) -> str:
    return f"What may close the gap: {', '.join(_closers(plan, certificate))}."


def _closers(plan: Plan, certificate: Certificate) -> Iterator[str]:
    search, scenario = plan.scenario.search, plan.scenario
    if STOPPED in certificate.note:
        yield f"more work (a `search.work_limit` above {search.work_limit:g})"
    if search.gap > CLOSE / 10:
        yield f"a `search.gap` below {search.gap:g}"
    if scenario.simplicity > 0:
        yield "`simplicity: 0`"
    yield f"more buckets (`routing.most` above {scenario.routing.most})"
    if STOPPED not in certificate.note:
        yield f"a `search.work_limit` above {search.work_limit:g}"


def percent(gap: float) -> str:
    """A gap of 1 in percent, to a tenth."""
    return f"{100 * max(gap, 0.0):.1f} %"
