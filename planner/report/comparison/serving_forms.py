"""Forms of serving under several bounds on TPOT, as a table, a plot and a report."""

from itertools import pairwise
from typing import TYPE_CHECKING

from planner.domain import (
    PURE_FORMS,
    BucketPool,
    FormComparison,
    FormPoint,
    Phase,
    Scenario,
    ServingForm,
)
from planner.domain.serving.routing import SPLIT_BIAS
from planner.report.buckets.view import transfer_text
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.plots import Kind, Plot, Series, chart_of, series_of
from planner.report.kit.quantities import counted, percent, rate, significant
from planner.report.kit.tables import Column, Frame, fields, table_of
from planner.report.kit.tree import DataTable, Page, paragraphs, section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMS = (*PURE_FORMS, ServingForm.AUTO)
NAMES = {ServingForm.SPLIT: "split", ServingForm.AGGREGATED: "aggregated", ServingForm.AUTO: "free choice"}
INFEASIBLE, LATE = "infeasible", "none found"
WORTH_TELLING = 0.01
"""Share by which a free choice must be better to be told."""


def serving_frame(comparison: FormComparison) -> Frame:
    """One row a bound (ms) and form, those between the bounds that were asked for among them; rates in requests/s."""
    return table_of(_POINT, comparison.points).frame()


def serving_page(comparison: FormComparison, scenario: Scenario) -> Page:
    """The comparison: rates of each form, and its pools."""
    notes = paragraphs(_RATES, *_own_ranges(scenario), *_unfinished(comparison))
    rates = (_rates(comparison), *notes, *listed(_reasons(comparison, scenario)))
    return Page(
        title=f"Forms of serving: {scenario.name}",
        verdict=f"**{headline(comparison)}**",
        lead=paragraphs(*conclusions(comparison)[1:]),
        sections=(
            section("charts-of-it", "Charts", *map(chart_of, serving_plots(comparison))),
            section("rates", "Rates", *rates),
            section("pools", "Pools", _pools(comparison)),
        ),
    )


_RATES = (
    "Requests/s of the whole mix; each is an exact plan of that form under that bound on TPOT, the other service "
    "levels as in the scenario. Free choice (`serving: auto`) may put pools of both forms beside each other. Split "
    f"ones have to win by {percent(SPLIT_BIAS)}, the cost model's bias towards them and their hand-over."
)


def serving_plots(comparison: FormComparison) -> tuple[Plot, ...]:
    """Requests/s of each form of serving over the bound on TPOT, and where the better form changes."""
    changes = [(f"change at {significant(change.at_ms, 2)} ms", change.at_ms) for change in comparison.changes]
    bounds = [] if comparison.own_ms is None else [("the scenario's bound", comparison.own_ms)]
    return (
        Plot(
            name="rate-over-tpot",
            title="Best rate of each form against the bound on TPOT",
            says="Where a line is higher, that form of serving does more under that bound.",
            kind=Kind.LINES,
            x="bound on TPOT (ms)",
            y="rate of the whole mix (requests/s)",
            series=tuple(_form(comparison, form) for form in FORMS),
            marks=(*changes, *bounds),
            logarithmic="x",
            rest="serving.csv",
        ),
    )


def _form(comparison: FormComparison, form: ServingForm) -> Series:
    points = [(point.tpot_ms, point.rate_rps) for point in comparison.of(form)]
    return series_of(NAMES[form], points, tone="faint" if form is ServingForm.AUTO else "")


def serving_figure(comparison: FormComparison, scenario: Scenario) -> "Figure":
    """Rate of each form against the bound on TPOT."""
    from planner.report.kit.stills import still  # noqa: PLC0415  # matplotlib takes a second to load

    words = "best rate of each form against the bound on TPOT"
    return still(scenario.name, words, serving_plots(comparison), "")


def conclusions(comparison: FormComparison) -> list[str]:
    """Which form is better where, what a free choice adds, and what splitting costs: a sentence each."""
    return [headline(comparison), _free_choice(comparison), *_transfer(comparison)]


def headline(comparison: FormComparison) -> str:
    """Which form is the better one, by bound on TPOT, in a sentence."""
    edges = [None, *(change.at_ms for change in comparison.changes), None]
    solved = sorted({point.tpot_ms for point in comparison.points})
    clauses = []
    for low, high in pairwise(edges):
        inside = [ms for ms in solved if (low is None or ms > low) and (high is None or ms < high)]
        clauses.append(_clause(comparison, inside, _span(comparison, low, high)))
    return f"By bound on TPOT: {'; '.join(clauses)}."


def _span(comparison: FormComparison, low: float | None, high: float | None) -> str:
    """`from 20 to 55 ms`, two digits: changes are known to 5 %."""
    if low is None and high is None:
        return f"from {comparison.bounds_ms[0]:g} to {comparison.bounds_ms[-1]:g} ms"
    if low is None or high is None:
        return f"from {significant(low, 2)} ms on" if low is not None else f"up to {significant(high or 0.0, 2)} ms"
    return f"from {significant(low, 2)} to {significant(high, 2)} ms"


def _clause(comparison: FormComparison, bounds_ms: list[float], span: str) -> str:
    """Who is the better choice within some bounds, with the rates where it is ahead by most."""
    best = comparison.best(bounds_ms[0])
    if best is None:
        return f"{span} neither form serves"
    other = next(form for form in PURE_FORMS if form is not best)
    leads = {ms: (comparison.at(ms, best).rate_rps, comparison.at(ms, other).rate_rps) for ms in bounds_ms}
    at = max(leads, key=lambda ms: leads[ms][0] - leads[ms][1])
    more, less = leads[at]
    words = "splitting pays" if best is ServingForm.SPLIT else "aggregated pools are the better choice"
    against = significant(less) if less else "none"
    return f"{span} {words} ({significant(more)} against {against} requests/s at {significant(at)} ms)"


def _free_choice(comparison: FormComparison) -> str:
    """What the choice adds to the better form, where it does most; and where it falls short of it."""
    gains = {}
    for ms in comparison.bounds_ms:
        best = comparison.best(ms)
        if best is not None:
            gains[ms] = comparison.at(ms, ServingForm.AUTO).rate_rps / comparison.at(ms, best).rate_rps - 1
    best_ms, worst_ms = (pick(gains, key=lambda ms: gains[ms], default=None) for pick in (max, min))
    if best_ms is None or worst_ms is None:
        return "A free choice serves under none of these bounds where neither form does."
    sentence = "A free choice serves no more than the better form"
    if gains[best_ms] >= WORTH_TELLING:
        phases = {pool.phase for pool in comparison.at(best_ms, ServingForm.AUTO).pools}
        how = ", with pools of both forms beside each other" if Phase.MIXED in phases and len(phases) > 1 else ""
        sentence = (
            f"A free choice serves up to {percent(gains[best_ms])} more than the better form (at {best_ms:g} ms){how}"
        )
    if gains[worst_ms] <= -WORTH_TELLING:
        sentence += f"; at {worst_ms:g} ms it falls {percent(-gains[worst_ms])} short, as queues are foreseen roughly"
    return f"{sentence}."


def _transfer(comparison: FormComparison) -> list[str]:
    """What splitting costs under the scenario's own bound."""
    if comparison.transfer is None:
        return []
    where = "without a bound on TPOT" if comparison.own_ms is None else f"under {comparison.own_ms:g} ms TPOT"
    return [f"KV transfer of split pools {where}: {transfer_text(comparison.transfer)}."]


def _rates(comparison: FormComparison) -> DataTable:
    def bound(ms: float) -> str:
        return f"{ms:g} (the scenario's)" if ms == comparison.own_ms else f"{ms:g}"

    def of(form: ServingForm) -> Column[float]:
        def cell(ms: float) -> str:
            bold = "**" * (form is comparison.best(ms))
            return f"{bold}{rate_words(comparison.at(ms, form))}{bold}"

        return Column(NAMES[form].capitalize(), cell, str)

    return table_of((Column("TPOT bound (ms)", bound, right=True), *map(of, FORMS)), comparison.bounds_ms).block()


def rate_words(point: FormPoint) -> str:
    """The rate, or why there is none in a word."""
    if point.rate_rps:
        return rate(point.rate_rps)
    return LATE if point.late else INFEASIBLE


def pool_words(pools: tuple[BucketPool, ...]) -> str:
    """`prefill 2 × 2 H100; decode 1 × 4 H100`: servers and GPUs of each, buckets taken together."""
    parts = []
    for phase in Phase:
        counts: dict[tuple[int, str], int] = {}
        for pool in (pool for pool in pools if pool.phase is phase):
            key = (pool.server.parallel.devices, pool.gpu)
            counts[key] = counts.get(key, 0) + pool.count
        if counts:
            parts.append(f"{phase.value} " + ", ".join(f"{n} × {size} {gpu}" for (size, gpu), n in counts.items()))
    return "; ".join(parts)


def _pools(comparison: FormComparison) -> DataTable:
    points = (comparison.at(ms, form) for ms in comparison.bounds_ms for form in FORMS)
    return table_of(_SERVED, (point for point in points if point.rate_rps)).block()


def _reason(point: FormPoint) -> str:
    return point.why.partition("\n")[0]


_POINT: tuple[Column[FormPoint], ...] = (
    *fields("tpot_ms", "serving=form", "rate_rps", "bound_rps", "gap"),
    Column("pools", lambda point: pool_words(point.pools)),
    Column("why", _reason),
)
_SERVED: tuple[Column[FormPoint], ...] = (
    Column("TPOT bound (ms)", lambda point: point.tpot_ms, "{:g}".format),
    Column("Form", lambda point: NAMES[point.form]),
    Column("Requests/s", lambda point: point.rate_rps, rate),
    Column("Bound", lambda point: point.bound_rps, rate),
    Column("Gap", lambda point: max(0.0, point.gap), lambda gap: f"{100 * gap:.1f} %"),
    Column("Servers × GPUs", lambda point: pool_words(point.pools)),
)


def _reasons(comparison: FormComparison, scenario: Scenario) -> list[str]:
    """Why a form serves nothing, under the loosest bound where it does not."""
    last = {form: [point for point in comparison.of(form) if not point.rate_rps][-1:] for form in PURE_FORMS}
    return [
        f"{NAMES[form].capitalize()} pools serve nothing under {significant(point.tpot_ms)} ms: "
        f"{escaped(_reason(point).removeprefix(f'scenario {scenario.name}: '))}"
        for form, points in last.items()
        for point in points
    ]


def _own_ranges(scenario: Scenario) -> list[str]:
    if all(limits.tpot_ms is None for limits in scenario.slo.ranges):
        return []
    return ["Bounds on TPOT in `slo.ranges` are kept as they are."]


def _unfinished(comparison: FormComparison) -> list[str]:
    if comparison.unasked:
        bounds = counted(len(comparison.unasked), "further bound")
        return [f"**Interrupted**: {bounds} up to {comparison.unasked[-1]:g} ms were not looked at."]
    return ["**Interrupted**: changes were not narrowed down."] if comparison.interrupted else []
