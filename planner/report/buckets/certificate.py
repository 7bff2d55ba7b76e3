"""How far pools are from the best that can be deployed, and what being deployable costs, in words."""

from collections.abc import Iterator

from planner.domain import Certificate, Plan
from planner.report.kit.quantities import rate

CLOSE = 0.05
"""Up to this gap pools are called close to the best; beyond it the page says what would close it."""

STOPPED = "time limit"
"""How a note tells that a solver was stopped."""

_SAID = "the bound is of pools that can be deployed"
"""A note that the words here make plain."""


def bucket_certificate(plan: Plan, certificate: Certificate, goal: str, bound: str) -> str:
    """Both bounds in a sentence each. `goal`: what was asked for and what the plan has of it (empty: rates); `bound`:
    what no deployable pools better, with its unit. Empty where neither is known."""
    notes = [note for note in certificate.note.split("; ") if note and note != _SAID]
    parts = [
        _of_deployable(plan, certificate, goal, bound),
        _deployability(plan, certificate),
        f"Note: {'; '.join(notes)}." if notes else "",
    ]
    return " ".join(part for part in parts if part)


def _of_deployable(plan: Plan, certificate: Certificate, goal: str, bound: str) -> str:
    gap = certificate.objective_gap
    if gap is None:
        return ""
    limit = "none serve more than" if not goal else "none have more than"
    if plan.scenario.objective.minimises:
        limit = "none do with less than"
    if gap > CLOSE:
        words = "not shown to be close to the best deployable pools"
        away = f"{limit} {bound}, {percent(gap)} away. {_remedy(plan, certificate)}"
        return f"{goal}, **{words}**: {away}" if goal else f"**{words.capitalize()}**: {away}"
    words = f"within {percent(gap)} of the best deployable pools"
    return f"{goal}, **{words}**: {limit} {bound}." if goal else f"**{words.capitalize()}**: {limit} {bound}."


def _deployability(plan: Plan, certificate: Certificate) -> str:
    """What no layout does, deployable or not; it is of the plan's own GPUs."""
    if certificate.gap is None or certificate.bound_rps is None:
        return ""
    queues = ", a bound that sees no queues" if plan.scenario.slo.bounds_anything else ""
    return (
        f"Being deployable costs at most {percent(certificate.gap)}: no layout of any size and routing serves more "
        f"than {rate(certificate.bound_rps)} requests/s{queues}."
    )


def _remedy(plan: Plan, certificate: Certificate) -> str:
    return f"What may close the gap: {', '.join(_closers(plan, certificate))}."


def _closers(plan: Plan, certificate: Certificate) -> Iterator[str]:
    search, scenario = plan.scenario.search, plan.scenario
    if STOPPED in certificate.note:
        yield f"more time (a `search.work_limit` above {search.work_limit:g})"
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
