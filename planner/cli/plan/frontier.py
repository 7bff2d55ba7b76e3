"""`planner frontier`: requests/s against price, with the mix of GPUs at each point."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import screen
from planner.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from planner.domain import Frontier, FrontierPoint
    from planner.domain.fleets import FleetPoint, FleetScenario


def command(
    scenario: Annotated[Path, typer.Argument(help="A scenario file with prices.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for frontier.csv, frontier.png, frontier.md and frontier.html.")],
    points: Annotated[int, typer.Option(help="Budgets, from the cheapest fleet that serves to the whole offer.")] = 12,
    force: Annotated[bool, typer.Option("--force", help="Replace a frontier that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the points as JSON, and no progress.")] = False,
) -> None:
    """The best fleet for each of several budgets: rate against price, and the mix of GPUs at each point.

    Of a fleet: the least rent at which the demands of all services are met so many times."""
    from planner import files, report
    from planner.files.scenario.fleets import load_fleet
    from planner.proposing.frontier import frontier
    from planner.report.kit.tables import frame_csv
    from planner.runs.pages import page_bytes
    from planner.workload import summarize

    fleet = load_fleet(scenario, summarize)
    if fleet is not None:
        _frontier_of_fleet(fleet, out, points, force=force, as_json=json)
        return
    read = files.load_scenario(scenario, summarize)
    files.refuse_existing(out / "frontier.csv", force=force)  # fails before the work, not after it
    curve = frontier(read, points, _progress(quiet=json))
    page, picture = report.frontier_page(curve, read), {"Rate against price, and the mix at each point": "frontier.png"}
    written = {
        "frontier.csv": frame_csv(report.frontier_frame(curve)),
        "frontier.png": report.encode_figure(report.frontier_figure(curve, read)),
        "frontier.md": report.page_text(page, picture).encode(),
        "frontier.html": page_bytes(page),
    }
    files.write_folder(out, written, force=force)
    for budget in curve.unsolved:
        screen.show_warning(f"budget {budget:.2f} USD/hour: no layout was found within the work limit")
    if json:
        screen.show_json(_document(curve, str(out)))
    else:
        _show(curve, out)
    if curve.unasked:
        screen.show_note(f"Interrupted {len(curve.unasked)} budgets before the end; what was found is in {out}")
        raise typer.Exit(EXIT_INTERRUPTED)


def _frontier_of_fleet(fleet: "FleetScenario", out: Path, points: int, *, force: bool, as_json: bool) -> None:
    from planner import files, pipeline
    from planner.report.fleets.growth import growth_page
    from planner.report.fleets.growth import points as table_of_points
    from planner.report.kit.markdown import page_text
    from planner.runs.pages import page_bytes

    files.refuse_existing(out / "frontier.csv", force=force)

    def listen(point: "FleetPoint") -> None:
        if not as_json:
            screen.show_note(f"{point.multiple:.3g} times the demands: {point.rent_usd_per_hour:.2f} USD/hour")

    rows = pipeline.growth_of_fleet(fleet, points, listen)
    page, table = growth_page(fleet.name, rows), table_of_points(rows)
    written = {
        "frontier.csv": table.csv(),
        "frontier.md": page_text(page).encode(),
        "frontier.html": page_bytes(page),
    }
    files.write_folder(out, written, force=force)
    if as_json:
        screen.show_json({"folder": str(out), "points": table.records()})
        return
    screen.show_table(f"Frontier: {fleet.name}", *table.words())
    screen.show_prose(page.verdict.replace("**", ""))
    screen.show_text(f"Written to {out}")


def _progress(*, quiet: bool) -> "Callable[[int, int, FrontierPoint | None], None]":
    def listen(done: int, total: int, point: "FrontierPoint | None", /) -> None:
        if quiet:
            return
        if point is None:
            screen.show_note(f"{done}/{total}: no layout found")
            return
        mix = ", ".join(f"{gpu} {count}" for gpu, count in point.gpus if count)
        screen.show_note(
            f"{done}/{total}: {point.price_usd_per_hour:.2f} USD/hour: {point.rate_rps:.1f} requests/s ({mix})"
        )

    return listen


def _document(curve: "Frontier", folder: str) -> dict[str, Any]:
    return {
        "folder": folder,
        "most_per_dollar": curve.points.index(curve.most_per_dollar),
        "unsolved_usd_per_hour": list(curve.unsolved),
        "unasked_usd_per_hour": list(curve.unasked),
        "points": [
            {
                "budget_usd_per_hour": point.budget_usd_per_hour,
                "price_usd_per_hour": point.price_usd_per_hour,
                "rate_rps": point.rate_rps,
                "low_rps": point.band.low_rps if point.band else None,
                "high_rps": point.band.high_rps if point.band else None,
                "most_per_usd_probability": point.most_per_usd_probability,
                "bound_rps": point.bound_rps,
                "gap": point.gap,
                "requests_per_usd": point.requests_per_usd,
                "watts": point.watts,
                "gpus": dict(point.gpus),
                "layout": [[island.gpu, island.size, count] for island, count in point.layout.counts],
            }
            for point in curve.points
        ],
    }


def _show(curve: "Frontier", out: Path) -> None:
    types = [gpu for gpu, _ in curve.points[0].gpus]
    rows = [
        (
            round(point.price_usd_per_hour, 2),
            _rate(point),
            round(point.bound_rps, 1),
            round(100 * point.gap, 1),
            round(point.requests_per_usd),
            *(count for _, count in point.gpus),
            round(point.watts),
            _remark(point, best=point is curve.most_per_dollar),
        )
        for point in curve.points
    ]
    columns = ("USD/hour", "requests/s", "at most", "gap %", "requests per USD", *types, "watts", "")
    screen.show_table("Frontier", columns, rows)
    screen.show_text(f"Written to {out}")


def _rate(point: "FrontierPoint") -> object:
    """Requests/s, with the band where there is one."""
    from planner.report.kit.quantities import rate_with

    banded = rate_with(point.rate_rps, point.band)
    return round(point.rate_rps, 1) if banded is None else f"{point.rate_rps:.1f} ({banded.range})"


def _remark(point: "FrontierPoint", *, best: bool) -> str:
    """Which point serves most per USD, and how likely."""
    from planner.report.comparison.side_by_side import likelihood

    if not best:
        return ""
    probability = point.most_per_usd_probability
    return "most per USD" if probability is None else f"most per USD ({likelihood(probability)})"
