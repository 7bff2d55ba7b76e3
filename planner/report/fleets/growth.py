"""What growth costs: rents against multiples of all demands, in words, a table and a chart."""

from collections.abc import Sequence

from planner.domain.fleets import FleetPoint
from planner.report.fleets.tables import gpu_words, times
from planner.report.kit.plots import Kind, Plot, Series, chart_of
from planner.report.kit.quantities import money
from planner.report.kit.tables import Column, Table, table_of
from planner.report.kit.tree import Page, section


def points(rows: Sequence[FleetPoint]) -> Table[FleetPoint]:
    """A row a multiple."""
    columns: tuple[Column[FleetPoint], ...] = (
        Column("multiple", lambda row: row.multiple, times, "of all demands"),
        Column("rent_usd_per_hour", lambda row: row.rent_usd_per_hour, money, "USD/hour"),
        Column("bound_usd_per_hour", lambda row: row.bound_usd_per_hour, money, "at least"),
        Column("rent_per_multiple", lambda row: row.rent_per_multiple, money, "for the demands once"),
        Column("gpus", lambda row: gpu_words(row.gpus), title="GPUs"),
    )
    return table_of(columns, rows)


def growth_plot(rows: Sequence[FleetPoint]) -> Plot:
    """Rent against the multiple."""
    return Plot(
        name="rent-by-multiple",
        title="Rent by multiple of all demands",
        says="The least rent at which all demands are met so many times.",
        kind=Kind.LINES,
        x="times the demands",
        y="USD/hour",
        series=(
            Series(name="rent", x=tuple(row.multiple for row in rows), y=tuple(row.rent_usd_per_hour for row in rows)),
        ),
        rest="frontier.csv",
    )


def growth_page(name: str, rows: Sequence[FleetPoint]) -> Page:
    """The curve as a report."""
    best, last = min(rows, key=lambda row: row.rent_per_multiple), rows[-1]
    return Page(
        title=f"Frontier: {name}",
        verdict=f"**{money(best.rent_usd_per_hour)} USD/hour meet all demands {times(best.multiple)}, for the least "
        f"rent by request.** All GPUs meet them {times(last.multiple)}, for {money(last.rent_usd_per_hour)} USD/hour.",
        sections=(section("points", "Points", chart_of(growth_plot(rows)), points(rows).block()),),
    )
