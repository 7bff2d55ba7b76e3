"""Plots of a frontier (rate over price, the mix of GPUs) and of forms of serving (rate over the bound on TPOT)."""

from typing import TYPE_CHECKING

from planner.domain import FormComparison, Frontier, Scenario, ServingForm
from planner.report.comparison.serving_forms import FORMS, NAMES
from planner.report.kit.html.plots import Kind, Plot, Series, series_of
from planner.report.kit.quantities import significant, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAND = "P10–P90"


def frontier_plots(frontier: Frontier, scenario: Scenario) -> tuple[Plot, ...]:
    """Requests/s of the best layout at each price, its band, the bound and the demand; GPUs by type at each price."""
    return (_rates(frontier, scenario), _mix(frontier))


def _rates(frontier: Frontier, scenario: Scenario) -> Plot:
    points = frontier.points
    bands = [point.band for point in points]
    best = series_of(
        "best layout found",
        [(point.price_usd_per_hour, point.rate_rps) for point in points],
        low=tuple(band.low_rps if band else None for band in bands),
        high=tuple(band.high_rps if band else None for band in bands),
    )
    # of any price up to a budget, that budget's bound holds
    ends = [
        (points[0].price_usd_per_hour, points[0].bound_rps),
        *((p.budget_usd_per_hour, p.bound_rps) for p in points),
    ]
    bound = series_of("bound: no layout serves more", ends, tone="bound", stepped=True)
    most = frontier.most_per_dollar
    star = series_of(
        f"most per USD ({whole(most.requests_per_usd)} requests)",
        [(most.price_usd_per_hour, most.rate_rps)],
        tone="chosen",
        kind=Kind.DOTS,
    )
    demand = scenario.objective.demand_rps or scenario.workload.arrival_rps or 0.0
    return Plot(
        name="rate-over-price",
        title="Rate over price",
        says=f"Most requests per USD at {most.price_usd_per_hour:,.2f} USD/hour: {significant(most.rate_rps)} "
        "requests/s.",
        kind=Kind.LINES,
        x="price (USD/hour)",
        y="rate of the whole mix (requests/s)",
        series=(best, bound, star),
        interval=BAND,
        bounds=((f"demand ({significant(demand)})", demand),) if demand else (),
        rest="frontier.csv",
    )


def _mix(frontier: Frontier) -> Plot:
    types = [gpu for gpu, _ in frontier.points[0].gpus]
    prices = tuple(f"{point.price_usd_per_hour:,.2f}" for point in frontier.points)
    return Plot(
        name="gpus-over-price",
        title="GPUs rented at each price",
        says="Which GPU types the best layout of each budget rents.",
        kind=Kind.STACKED,
        x="price (USD/hour)",
        y="GPUs rented",
        series=tuple(
            Series(name=gpu, x=prices, y=tuple(float(dict(point.gpus)[gpu]) for point in frontier.points), gpu=gpu)
            for gpu in types
        ),
        rest="frontier.csv",
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
