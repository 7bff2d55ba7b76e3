"""How the search went: every layout tried, round by round."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from planner.domain import Plan, SearchRecord, Trial
from planner.report.kit import style
from planner.report.kit.bands import banded_rate
from planner.report.kit.quantities import significant
from planner.report.plan.certificate import rate_bound

HEIGHT_IN = 5.0


def draw(plan: Plan) -> Figure:
    """Throughput against iteration: trials as dots, each round's span and mean, the best so far."""
    figure = style.blank(HEIGHT_IN)
    axes = figure.add_subplot()
    style.titled(figure, plan, "throughput of the layouts tried")
    axes.set_xlabel("search iteration (rounds of layouts)")
    axes.set_ylabel("replayed rate (requests/s)" if plan.search.replayed else "throughput (requests/s)")
    if plan.search.trials:
        _rounds(axes, plan.search)
        _best(axes, plan)
        _bound(axes, plan)
        _failures(axes, plan.search)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.margins(x=0.03)
        axes.set_ylim(bottom=0)
        style.legend_beside(axes)
    else:
        style.nothing_to_show(axes, "no search was made")
    return figure


def _rounds(axes: Axes, record: SearchRecord) -> None:
    served = [t for t in record.judged if record.judged_rps(t) > 0]
    iterations = sorted({t.iteration for t in served})
    rates = {i: [record.judged_rps(t) for t in served if t.iteration == i] for i in iterations}
    if any(len(layouts) > 1 for layouts in rates.values()):
        _spans(axes, rates)
    x, y = [t.iteration for t in served], [record.judged_rps(t) for t in served]
    axes.scatter(x, y, s=13, color=style.palette()[0], linewidths=0, alpha=0.75, label="one layout")


def _spans(axes: Axes, rates: Mapping[int, Sequence[float]]) -> None:
    """Each round from its lowest to its highest rate, and the means."""
    colour = style.palette()[0]
    low, high = [min(r) for r in rates.values()], [max(r) for r in rates.values()]
    axes.fill_between(list(rates), low, high, color=colour, alpha=0.13, linewidth=0, label="round: lowest to highest")
    axes.vlines(list(rates), low, high, color=colour, alpha=0.35, linewidth=1.0)
    means = [sum(r) / len(r) for r in rates.values()]
    axes.plot(list(rates), means, color=colour, linestyle="--", linewidth=1.2, label="round: mean")


def _best(axes: Axes, plan: Plan) -> None:
    best = plan.search.best_by_iteration()
    axes.plot(range(len(best)), best, color=style.ink(), linewidth=1.8, drawstyle="steps-post", label="best so far")
    winner = next((t for t in plan.search.trials if t.index == plan.search.best_trial), None)
    if winner:
        mark_plan(axes, winner.iteration, plan.search.judged_rps(winner), winner.index)
        _band(axes, plan, winner)


def mark_plan(axes: Axes, x: float, rate_rps: float, trial: int) -> None:
    """A star where the trial lies that became the plan."""
    axes.scatter(
        [x],
        [rate_rps],
        marker="*",
        s=150,
        color=style.palette()[1],
        edgecolors=style.ink(),
        linewidths=0.7,
        zorder=5,
        label=f"the plan (trial {trial})",
    )


def _band(axes: Axes, plan: Plan, winner: Trial) -> None:
    """Where the plan's rate may come to lie; placed on nodes, it may not be the one that the search saw."""
    banded = banded_rate(plan)
    if banded is not None and not plan.search.replayed:
        style.rate_bar(axes, winner.iteration, banded)


def _bound(axes: Axes, plan: Plan) -> None:
    bound = rate_bound(plan)
    if bound is not None:
        label = f"no layout serves more ({significant(bound)})"
        axes.axhline(bound, color=style.ink(), linewidth=1.1, linestyle=(0, (6, 2, 1, 2)), label=label)


def _failures(axes: Axes, record: SearchRecord) -> None:
    failed = [t.iteration for t in record.judged if record.judged_rps(t) <= 0]
    if failed:
        axes.scatter(
            failed,
            [0.0] * len(failed),
            marker="x",
            s=32,
            color=style.ALARM,
            clip_on=False,
            zorder=6,
            label=f"failed or serves nothing ({len(failed)})",
        )
