"""Rate against price as a table, a page and a figure. matplotlib is loaded with the figure, not with this file."""

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.domain import CostMode, Frontier, FrontierPoint, Scenario
from planner.report.comparison.price_plots import frontier_plots
from planner.report.comparison.rate_words import likelihood
from planner.report.kit.bands import LEFT_OUT, rate_with
from planner.report.kit.frames import Frame
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import counted, money, percent, rate, whole
from planner.report.kit.tables import Column, entries, fields, of_part, table_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def frontier_page(frontier: Frontier, scenario: Scenario) -> str:
    """The frontier as Markdown, ending in a newline."""
    best, last = frontier.most_per_dollar, frontier.points[-1]
    parts = [
        f"# Frontier: {escaped(scenario.name)}",
        f"**Of these points, {_mix(best)} serve most per USD**{_likely(best)}: {_words(best)}. "
        f"The most found is {_words(last)}.",
        *_reference(scenario),
        _table(frontier),
        "Each row is the best layout found for a budget; no layout of that budget serves more than the bound, under "
        "this model. Budgets whose layout serves no more than a cheaper one are left out. Watts are of the rented GPUs "
        "at full load.",
        *_bands(frontier),
        *_unsolved(frontier),
        *_unasked(frontier),
        "![Rate against price, and the mix at each point](frontier.png)",
    ]
    return "\n\n".join(parts) + "\n"


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
    return ["> **Warning: reference mode.** The rates follow the published paper and simulator and are not physical."]


def _table(frontier: Frontier) -> str:
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
    return table_of(columns, points).markdown()


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
