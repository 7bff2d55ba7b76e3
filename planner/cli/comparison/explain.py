"""`planner explain`: why a plan is what it is, and what would change it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs

if TYPE_CHECKING:
    from planner.domain import Plan
    from planner.domain.comparisons.explanations import IslandExplanation, PlanExplanation, PoolExplanation

SECONDS = 4.0


def command(
    run: Annotated[Path, typer.Argument(help="A run folder, or its plan.json.", show_default=False)],
    island: Annotated[
        str | None,
        typer.Option(
            "--island", "--pool", help="Id of an island or pool. [default: the whole plan]", show_default=False
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0, max=86_400, help="CPU seconds for planning again what would change a pool.")
    ] = SECONDS,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Say why a plan, or one of its pools, is what it is: rivals, limits, what binds, and what would change it."""
    from planner.report.comparison.plans.explanation_words import explanation_document, explanation_page

    explanation = explained(saved_runs.read_run(run), island, seconds)
    if json:
        screen.show_json(explanation_document(explanation))
    else:
        screen.show_markdown(explanation_page(explanation))


def explained(
    plan: "Plan", island: str | None, seconds: float
) -> "PlanExplanation | PoolExplanation | IslandExplanation":
    """The plan as a whole, a pool, or an island. Raises InputError where there is none of that name."""
    from planner.layouts.explaining.islands import explain_island
    from planner.layouts.explaining.plans import explain_plan
    from planner.layouts.explaining.pools import explain_pool

    if island is None:
        return explain_plan(plan)
    return explain_island(plan, island) if plan.buckets is None else explain_pool(plan, island, seconds)
