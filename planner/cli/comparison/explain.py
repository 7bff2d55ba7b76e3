"""`planner explain`: why a plan is what it is, and what would change it."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs
from planner.domain.explanations import SECONDS


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
    from planner.proposing.explaining.plans import explained
    from planner.report.comparison.explanation import explanation_document, explanation_page
    from planner.report.kit.markdown import page_text

    explanation = explained(saved_runs.read_run(run), island, seconds)
    if json:
        screen.show_json(explanation_document(explanation))
    else:
        screen.show_markdown(page_text(explanation_page(explanation)))
