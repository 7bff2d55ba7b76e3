"""What simplicity costs: rate against kinds of servers, a line for each number of buckets; on pages and as a figure."""

from collections.abc import Iterator, Mapping

from planner.domain import Plan, SimplerPlan
from planner.report.buckets.view import bucket_plan, useful_simpler
from planner.report.kit.html.plots import Kind, Plot, series_of
from planner.report.kit.quantities import counted, significant


def simplicity_plot(plan: Plan) -> Plot:
    """Each simpler or less simple plan as a point, the plan as a star, the bounds as lines."""
    rows = useful_simpler(plan)
    chosen = [(float(row.kinds), row.rate_rps) for row in rows if row.chosen]
    star = f"the plan ({significant(chosen[0][1])})" if chosen else ""
    return Plot(
        name="simplicity",
        title="What a simpler plan would serve",
        says="Each point is the best plan of so many kinds of servers and buckets.",
        kind=Kind.LINES,
        x="kinds of servers (GPU type and configuration)",
        y="rate of the whole mix (requests/s)",
        series=(
            *(
                series_of(label, [(float(row.kinds), row.rate_rps) for row in members])
                for label, members in _by_buckets(rows).items()
            ),
            *([series_of(star, chosen, tone="chosen", kind=Kind.DOTS)] if chosen else ()),
        ),
        bounds=tuple(_bounds(plan)),
    )


def _by_buckets(rows: tuple[SimplerPlan, ...]) -> Mapping[str, list[SimplerPlan]]:
    """Rows by their numbers of buckets, fewest first."""
    series: dict[str, list[SimplerPlan]] = {}
    for row in sorted(rows, key=lambda row: (row.prefill_buckets, row.decode_buckets, row.kinds, row.pools)):
        prefill = counted(row.prefill_buckets, "bucket")
        series.setdefault(f"{prefill} of prefill, {row.decode_buckets} of decode", []).append(row)
    return series


def _bounds(plan: Plan) -> Iterator[tuple[str, float]]:
    certificate = plan.certificate
    if certificate is not None and certificate.objective_bound is not None and plan.scenario.objective.kind.row.plain:
        best = certificate.objective_bound
        yield f"no deployable pools serve more ({significant(best)})", best
    most = bucket_plan(plan).unrestricted_rps
    if most is not None:
        yield f"no layout does ({significant(most)})", most
