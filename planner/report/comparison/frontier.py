"""Rate against price as a table, a page, plots and figures. matplotlib is loaded with the first figure."""

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.domain import CostMode, Frontier, FrontierPoint, Scenario
from planner.report.comparison.side_by_side import likelihood
from planner.report.kit.markdown import escaped
from planner.report.kit.plots import Kind, Plot, Series, chart_of, series_of
from planner.report.kit.quantities import LEFT_OUT, counted, money, percent, rate, rate_with, significant, whole
from planner.report.kit.tables import Column, Frame, entries, fields, of_part, table_of
from planner.report.kit.tree import DataTable, Page, paragraphs, section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAND = "P10–P90"


def frontier_plots(frontier: Frontier, scenario: Scenario) -> tuple[Plot, ...]:
    """Requests/s of the best layout at each price, its band, the bound and the demand; GPUs by type at each price."""
    return (_rate_plot(frontier, scenario), _fleet_plot(frontier))


def _rate_plot(frontier: Frontier, scenario: Scenario) -> Plot:
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
    per_dollar = frontier.most_per_dollar
    star = series_of(
        f"most per USD ({whole(per_dollar.requests_per_usd)} requests)",
        [(per_dollar.price_usd_per_hour, per_dollar.rate_rps)],
        tone="chosen",
        kind=Kind.DOTS,
    )
    demand = scenario.objective.demand_rps or scenario.workload.arrival_rps or 0.0
    return Plot(
        name="rate-over-price",
        title="Rate over price",
        says=f"Most requests per USD at {per_dollar.price_usd_per_hour:,.2f} USD/hour: "
        f"{significant(per_dollar.rate_rps)} requests/s.",
        kind=Kind.LINES,
        x="price (USD/hour)",
        y="rate of the whole mix (requests/s)",
        series=(best, bound, star),
        interval=BAND,
        bounds=((f"demand ({significant(demand)})", demand),) if demand else (),
        rest="frontier.csv",
    )


def _fleet_plot(frontier: Frontier) -> Plot:
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


def frontier_frame(frontier: Frontier) -> Frame:
    """One row a point; `gpus_<type>`: how many of the type are rented."""
    gpus = entries(lambda point: point.gpus, frontier.points, "gpus_")
    return table_of((*_POINT, *gpus, *_ODDS), frontier.points).frame()


_POINT = fields(
    *("budget_usd_per_hour", "price_usd_per_hour", "rate_rps", "bound_rps", "gap", "requests_per_usd", "watts"),
)
_ODDS: tuple[Column[FrontierPoint], ...] = (
    *fields("layout=layout.label"),
    *of_part(lambda point: point.band, fields("low_rps", "high_rps")),
    *fields("most_per_usd_probability"),
)


def frontier_page(frontier: Frontier, scenario: Scenario) -> Page:
    """The frontier, and how its points are to be read."""
    best, last = frontier.most_per_dollar, frontier.points[-1]
    after = paragraphs(_ROWS, *_bands(frontier), *_unsolved(frontier), *_unasked(frontier))
    return Page(
        title=f"Frontier: {scenario.name}",
        verdict=f"**Of these points, {_mix(best)} serve most per USD**{_likely(best)}: {_words(best)}. "
        f"The most found is {_words(last)}.",
        sections=(
            section("charts-of-it", "Charts", *map(chart_of, frontier_plots(frontier, scenario))),
            section("points", "Points", *paragraphs(*_reference(scenario)), _table(frontier), *after),
        ),
    )


_ROWS = (
    "Each row is the best layout found for a budget; no layout of that budget serves more than the bound, under this "
    "model. Budgets whose layout serves no more than a cheaper one are left out. Watts are of the rented GPUs at full "
    "load."
)


def _likely(point: FrontierPoint) -> str:
    probability = point.most_per_usd_probability
    return "" if probability is None else f" as predicted ({likelihood(probability)})"


def _words(point: FrontierPoint) -> str:
    banded = rate_with(point.rate_rps, point.band)
    served = f"about {banded}" if banded else rate(point.rate_rps)
    each = banded.figure_like(point.requests_per_usd) if banded else whole(point.requests_per_usd)
    return f"{served} requests/s for {money(point.price_usd_per_hour)} USD/hour, {each} requests per USD"


def _mix(point: FrontierPoint) -> str:
    return ", ".join(f"{count:,} {escaped(gpu)}" for gpu, count in point.gpus if count)


def _reference(scenario: Scenario) -> list[str]:
    if scenario.cost.mode is not CostMode.REFERENCE:
        return []
    return ["**Warning: reference mode.** The rates follow the published paper and simulator and are not physical."]


def _table(frontier: Frontier) -> DataTable:
    points, best = frontier.points, frontier.most_per_dollar
    likely: Column[FrontierPoint] = Column(
        "Likely the most per USD", lambda point: point.most_per_usd_probability, percent
    )
    columns: tuple[Column[FrontierPoint], ...] = (
        Column("USD/hour", lambda point: point.price_usd_per_hour, money),
        Column("Requests/s", _with_band, str),
        Column("Bound", lambda point: point.bound_rps, rate),
        Column("Gap", lambda point: max(0.0, point.gap), lambda gap: f"{100 * gap:.1f} %"),
        Column("Requests per USD", lambda point: _bold(whole(point.requests_per_usd), point is best), str),
        *([] if points[0].most_per_usd_probability is None else [likely]),
        *(replace(column, text=whole) for column in entries(lambda point: point.gpus, points)),
        Column("kW", lambda point: point.watts / 1000, "{:.1f}".format),
    )
    return table_of(columns, points).block()


def _with_band(point: FrontierPoint) -> str:
    banded = rate_with(point.rate_rps, point.band)
    return f"{rate(point.rate_rps)} ({banded.range})" if banded else rate(point.rate_rps)


def _bold(text: str, bold: bool) -> str:
    return f"**{text}**" if bold else text


def _bands(frontier: Frontier) -> list[str]:
    if frontier.points[0].band is None:
        return []
    return [
        f"In brackets {LEFT_OUT}. Points that rest on the same GPU types err alike, so their order is firmer than "
        "their rates; the column of likelihoods counts that in."
    ]


def _unasked(frontier: Frontier) -> list[str]:
    if not frontier.unasked:
        return []
    return [
        f"**Interrupted**: {counted(len(frontier.unasked), 'further budget')} up to {money(frontier.unasked[-1])} "
        "USD/hour were not looked at."
    ]


def _unsolved(frontier: Frontier) -> list[str]:
    if not frontier.unsolved:
        return []
    budgets = ", ".join(money(budget) for budget in frontier.unsolved)
    return [
        f"For {counted(len(frontier.unsolved), 'budget')} no layout was found within the work limit ({budgets} "
        "USD/hour): raise search.work\\_limit."
    ]


def frontier_figure(frontier: Frontier, scenario: Scenario) -> "Figure":
    """Rate against price under its bound; below, the GPUs rented at each point."""
    from planner.report.kit.stills import still  # noqa: PLC0415  # matplotlib takes a second to load
    from planner.report.kit.style import warning  # noqa: PLC0415  # as above

    words = f"requests/s against price{warning(scenario)}"
    return still(scenario.name, words, frontier_plots(frontier, scenario), "")
