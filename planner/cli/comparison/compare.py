"""`planner compare`: runs beside each other, as they fit the terminal."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import fleet_folders
from planner.cli.terminal.wide_tables import show_figures
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain import Plan
    from planner.domain.comparisons import PlanComparison


class Order(StrEnum):
    """What plans are sorted by, the best first."""

    RATE = "rate"
    PROMISE = "promise"
    PRICE = "price"
    TOKENS = "usd-per-tokens"
    WATTS = "watts"
    GAP = "gap"
    GPUS = "gpus"
    NAME = "name"


def command(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders, plan.json files, or folders of runs.", show_default=False)
    ],
    sort: Annotated[
        Order | None, typer.Option(help="Sort by this, the best first. [default: as named]", show_default=False)
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="File for the figures as CSV.", show_default=False)] = None,
    html: Annotated[Path | None, typer.Option(help="File for the page, to send.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Hold runs beside each other: rates, prices, gaps, levels, pools, and what was asked of each.

    Of folders of fleets: their values and rents, and what every service gets."""
    if any(fleet_folders.of_fleet(run) for run in runs):
        if sort is not None:
            raise InputError("--sort: must be left out where fleets are compared.", hint="Name them in the order.")
        fleet_folders.compare_fleets(runs, csv, html, force=force, as_json=json)
        return
    from planner import files
    from planner.report.comparison.side_by_side import comparison_document, every_figure
    from planner.runs.comparisons import compared, comparison_bytes, read_plans

    for path in filter(None, (csv, html)):
        files.refuse_existing(path, force=force)
    comparison = compared(_sorted(read_plans(runs), sort))
    outputs = ((csv, lambda plans: every_figure(plans).csv()), (html, comparison_bytes))
    files.write_files({path: encoded(comparison) for path, encoded in outputs if path is not None}, force=force)
    if json:
        screen.show_json(comparison_document(comparison))
    else:
        show(comparison)


def show(comparison: "PlanComparison") -> None:
    """The figures as they fit the terminal, then the rest."""
    from planner.report.comparison.side_by_side import HOW_TO_READ, figure_cells, odds_cells, verdict
    from planner.report.comparison.side_by_side_page import rest_sections, warnings
    from planner.report.kit.markdown import bullets, sections_text

    figures = [plan.figures for plan in comparison.plans]
    names = [plan.name for plan in figures]
    show_figures("Plans beside each other", names, [*figure_cells(figures), *odds_cells(comparison)])
    head = filter(None, (f"{verdict(comparison)} {HOW_TO_READ}", bullets(warnings(comparison))))
    screen.show_markdown("\n\n".join([*head, *sections_text(rest_sections(comparison))]))


def _last(price: float | None) -> float:
    """Unknown prices come last."""
    return float("inf") if price is None else price


def _sorted(plans: "Mapping[str, Plan]", order: Order | None) -> "dict[str, Plan]":
    from planner.plans.comparing import plan_figures

    if order is None:
        return dict(plans)
    figures = {name: plan_figures(plan, name) for name, plan in plans.items()}
    keys: dict[Order, Callable[[str], float | str]] = {
        Order.RATE: lambda name: -figures[name].rate_rps,
        Order.PROMISE: lambda name: -figures[name].promise_rps,
        Order.PRICE: lambda name: _last(figures[name].price_usd_per_hour),
        Order.TOKENS: lambda name: _last(figures[name].price_usd_per_million_tokens),
        Order.WATTS: lambda name: figures[name].watts,
        Order.GAP: lambda name: 1.0 if (gap := figures[name].gap) is None else gap,
        Order.GPUS: lambda name: figures[name].gpus,
        Order.NAME: lambda name: name,
    }
    return {name: plans[name] for name in sorted(plans, key=keys[order])}
