"""Rate against price as a table, a page and a figure. matplotlib is loaded with the figure, not with this file."""

from typing import TYPE_CHECKING

from planner.domain import CostMode, Frontier, FrontierPoint, Scenario
from planner.report.comparison.price_plots import frontier_plots
from planner.report.comparison.rate_words import likelihood
from planner.report.kit.bands import LEFT_OUT, rate_with
from planner.report.kit.frames import Frame, tabled
from planner.report.kit.markdown import escaped, table
from planner.report.kit.quantities import counted, money, percent, rate, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def frontier_frame(frontier: Frontier) -> Frame:
    """One row a point; `gpus_<type>`: how many of the type are rented."""
    return tabled([_row(point) for point in frontier.points])


def _row(point: FrontierPoint) -> dict[str, object]:
    return {
        "budget_usd_per_hour": point.budget_usd_per_hour,
        "price_usd_per_hour": point.price_usd_per_hour,
        "rate_rps": point.rate_rps,
        "bound_rps": point.bound_rps,
        "gap": point.gap,
        "requests_per_usd": point.requests_per_usd,
        "watts": point.watts,
        **{f"gpus_{gpu}": count for gpu, count in point.gpus},
        "layout": point.layout.label,
        "low_rps": point.band.low_rps if point.band else None,
        "high_rps": point.band.high_rps if point.band else None,
        "most_per_usd_probability": point.most_per_usd_probability,
    }


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
    types = [gpu for gpu, _ in frontier.points[0].gpus]
    likely = ["Likely the most per USD"] if frontier.points[0].most_per_usd_probability is not None else []
    header = ["USD/hour", "Requests/s", "Bound", "Gap", "Requests per USD", *likely, *map(escaped, types), "kW"]
    best = frontier.most_per_dollar
    return table(header, [_line(point, point is best) for point in frontier.points], "r" * len(header))


def _line(point: FrontierPoint, best: bool) -> list[str]:
    per_usd, likely = whole(point.requests_per_usd), point.most_per_usd_probability
    banded = rate_with(point.rate_rps, point.band)
    return [
        money(point.price_usd_per_hour),
        f"{rate(point.rate_rps)} ({banded.range})" if banded else rate(point.rate_rps),
        rate(point.bound_rps),
        f"{100 * max(0.0, point.gap):.1f} %",
        f"**{per_usd}**" if best else per_usd,
        *([] if likely is None else [percent(likely)]),
        *(whole(count) for _, count in point.gpus),
        f"{point.watts / 1000:.1f}",
    ]


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

    mode = " [reference mode: not physical]" if scenario.cost.mode is CostMode.REFERENCE else ""
    return still(scenario.name, f"requests/s against price{mode}", frontier_plots(frontier, scenario), "")
