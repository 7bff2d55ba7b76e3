"""`planner diff`: what changes in a cluster if one plan takes the place of another."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import screen
from planner.cli.plan.import_plan import deployed_and_planned
from planner.errors import EXIT_FAILURE


def command(
    old: Annotated[Path, typer.Argument(help="What runs: a run folder or a folder of manifests.")],
    new: Annotated[Path, typer.Argument(help="What is to run: a run folder or a folder of manifests.")],
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with status 1 if they differ.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show what two runs serve, cost and promise, old against new, which is likely faster; then which islands start,
    stop, restart or stay, how many GPUs that takes, which requests move, and what changes of buckets and P99."""
    from dataclasses import replace

    from planner.plans.comparing import plan_figures
    from planner.plans.diff import compare, compare_buckets
    from planner.plans.rate_bands import compare_rates
    from planner.report.comparison.changes import diff_document
    from planner.report.comparison.plan_diff import diff_page

    (before, old_plan), (after, new_plan) = deployed_and_planned(old), deployed_and_planned(new)
    difference = compare(before, after)
    if old_plan is not None and new_plan is not None:
        difference = replace(
            difference,
            rates=compare_rates(old_plan, new_plan),
            buckets=compare_buckets(old_plan, new_plan),
            figures=(plan_figures(old_plan, str(old)), plan_figures(new_plan, str(new))),
        )
    if json:
        screen.show_json(diff_document(difference))
    else:
        screen.show_markdown(diff_page(difference))
    if exit_code and difference.differs:
        raise typer.Exit(EXIT_FAILURE)
