"""Options that several simulations have, each said once."""

from typing import Annotated

import typer

Figures = Annotated[bool, typer.Option("--figures/--no-figures", help="Draw figures into --out.")]
Processes = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Runs at once. [default: all cores]", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace a result that exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
