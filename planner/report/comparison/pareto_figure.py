"""Several goals: the layouts tried, those that none beats, and how much these cover round by round."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from planner.domain import Goal, Plan, Trial
from planner.report.comparison.pareto import frontier_trials
from planner.report.kit import style
from planner.report.kit.bands import banded_rate

HEIGHT_IN = 6.6
SHADES = "cividis"  # even in lightness, for every colour vision
PAIR = 2

_AXES = {
    Goal.RATE: ("rate of the whole mix (requests/s)", 1.0),
    Goal.PRICE: ("price (USD/hour)", 1.0),
    Goal.WATTS: ("highest draw (kW)", 1e-3),
    Goal.HEADROOM: ("headroom at the demanded rate (%)", 100.0),
    Goal.CHANGES: ("islands changed", 1.0),
    Goal.CHANGE_COST: ("cost of the change (USD)", 1.0),
}


def draw(plan: Plan) -> Figure:
    """Rate against the other goals, two in a panel: one along the axis, one by colour; below, the hypervolume."""
    figure = style.blank(HEIGHT_IN)
    style.titled(figure, plan, "layouts that no other beats in every goal")
    others: list[Goal] = [goal for goal in plan.scenario.objective.goals if goal is not Goal.RATE]
    pairs = [others[k : k + PAIR] for k in range(0, len(others), PAIR)]
    grid = figure.add_gridspec(2, len(pairs), height_ratios=(2, 1))
    panels = [figure.add_subplot(grid[0, k]) for k in range(len(pairs))]
    for axes, pair in zip(panels, pairs, strict=True):
        _panel(figure, axes, plan, pair)
    if len(others) == 1:
        _stairs(panels[0], plan, others[0])
    panels[0].set_ylabel(_AXES[Goal.RATE][0])
    handles, labels = panels[0].get_legend_handles_labels()
    below = figure.add_subplot(grid[1, :])
    _hypervolume(below, plan)
    figure.legend(handles, labels, loc="outside right center")
    return figure


def _values(trials: list[Trial], goal: Goal) -> list[float]:
    return [dict(trial.goals)[goal.value] * _AXES[goal][1] for trial in trials]


def _panel(figure: Figure, axes: Axes, plan: Plan, pair: list[Goal]) -> None:
    front = frontier_trials(plan)
    unbeaten = {trial.index for trial in front}
    beaten = [t for t in plan.search.trials if t.goals and t.throughput_rps > 0 and t.index not in unbeaten]
    along, shade = pair[0], pair[1] if len(pair) == PAIR else None
    axes.scatter(
        _values(beaten, along), _values(beaten, Goal.RATE), s=12, color=style.IDLE, linewidths=0, label="beaten"
    )
    colours = {"color": style.palette()[0]} if shade is None else {"c": _values(front, shade), "cmap": SHADES}
    dots = axes.scatter(
        _values(front, along),
        _values(front, Goal.RATE),
        s=34,
        edgecolors=style.ink(),
        linewidths=0.4,
        zorder=4,
        label="not beaten",
        **colours,
    )
    if shade is not None:
        figure.colorbar(dots, ax=axes, label=_AXES[shade][0], pad=0.02)
    chosen = [trial for trial in front if trial.index == plan.search.best_trial]
    axes.scatter(
        _values(chosen, along),
        _values(chosen, Goal.RATE),
        marker="*",
        s=210,
        color=style.palette()[1],
        edgecolors=style.ink(),
        linewidths=0.7,
        zorder=5,
        label=f"the plan (trial {plan.search.best_trial})",
    )
    banded = banded_rate(plan)
    if banded is not None and chosen:
        style.rate_bar(axes, _values(chosen, along)[0], banded)
    axes.set_xlabel(_AXES[along][0])
    axes.margins(x=0.05, y=0.08)
    axes.set_ylim(bottom=0)


def _stairs(axes: Axes, plan: Plan, along: Goal) -> None:
    """What the frontier of two goals reaches."""
    front = sorted(frontier_trials(plan), key=lambda trial: dict(trial.goals)[along.value])
    # where less is better the frontier steps to the right, to the next dot; else to the left
    kind = "steps-pre" if along.maximised else "steps-post"
    axes.plot(
        _values(front, along),
        _values(front, Goal.RATE),
        color=style.palette()[0],
        linewidth=1.2,
        drawstyle=kind,
        alpha=0.6,
        label="best for its value",
    )


def _hypervolume(axes: Axes, plan: Plan) -> None:
    rounds = [(r.iteration, r.hypervolume) for r in plan.search.rounds if r.hypervolume is not None]
    axes.set_xlabel("search iteration (rounds of layouts)")
    axes.set_ylabel("hypervolume (requests/s)")
    axes.set_title("what the frontier covers: requests/s times the other goals' shares of their range")
    if not rounds:
        style.nothing_to_show(axes, "not recorded")
        return
    axes.plot(
        [iteration for iteration, _ in rounds],
        [volume for _, volume in rounds],
        color=style.ink(),
        linewidth=1.8,
        marker="o",
        markersize=3.5,
        drawstyle="steps-post",
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.margins(x=0.03, y=0.12)
    axes.set_ylim(bottom=0)
