"""What simplicity costs: rate against kinds of servers, a line for each number of buckets."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from planner.domain import Plan, SimplerPlan
from planner.report.buckets.view import bucket_plan, useful_simpler
from planner.report.kit import style
from planner.report.kit.quantities import counted, significant

HEIGHT_IN = 5.0
MARKERS = ("o", "s", "D", "^", "v", "P")


def draw(plan: Plan) -> Figure:
    """Each simpler or less simple plan as a point, the plan as a star, the bounds as lines."""
    figure = style.blank(HEIGHT_IN)
    axes = figure.add_subplot()
    style.titled(figure, plan, "what a simpler plan would serve")
    rows = useful_simpler(plan)
    for place, (label, series) in enumerate(_series(rows).items()):
        colour = style.palette()[place % len(style.palette())]
        marker = MARKERS[place % len(MARKERS)]
        kinds, rates = [row.kinds for row in series], [row.rate_rps for row in series]
        axes.plot(kinds, rates, color=colour, marker=marker, markersize=6, linewidth=1.2, label=label)
    _star(axes, rows)
    _bounds(axes, plan)
    axes.set_xlabel("kinds of servers (GPU type and configuration)")
    axes.set_ylabel("rate of the whole mix (requests/s)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.margins(x=0.08)
    axes.set_ylim(bottom=0)
    style.legend_beside(axes)
    return figure


def _series(rows: tuple[SimplerPlan, ...]) -> Mapping[str, list[SimplerPlan]]:
    """Rows by their numbers of buckets, fewest first."""
    series: dict[str, list[SimplerPlan]] = {}
    for row in sorted(rows, key=lambda row: (row.prefill_buckets, row.decode_buckets, row.kinds, row.pools)):
        prefill = counted(row.prefill_buckets, "bucket")
        series.setdefault(f"{prefill} of prefill, {row.decode_buckets} of decode", []).append(row)
    return series


def _star(axes: Axes, rows: tuple[SimplerPlan, ...]) -> None:
    for row in rows:
        if row.chosen:
            axes.scatter(
                [row.kinds],
                [row.rate_rps],
                marker="*",
                s=300,
                facecolors="none",  # what it stands on shows through
                edgecolors=style.ink(),
                linewidths=1.3,
                zorder=5,
                label=f"the plan ({significant(row.rate_rps)})",
            )


def _bounds(axes: Axes, plan: Plan) -> None:
    certificate = plan.certificate
    if certificate is not None and certificate.objective_bound is not None and plan.scenario.objective.kind.row.plain:
        best = certificate.objective_bound
        label = f"no deployable pools serve more ({significant(best)})"
        axes.axhline(best, color=style.ink(), linewidth=1.0, linestyle="--", label=label)
    most = bucket_plan(plan).unrestricted_rps
    if most is not None:
        axes.axhline(
            most, color=style.faint(), linewidth=1.0, linestyle=":", label=f"no layout does ({significant(most)})"
        )
