"""`planner mcp`: the questions, and what looks at their answers, as tools of an assistant."""

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from planner.errors import InputError, PlannerError

INSTALL = 'pip install "llm-fleet-planner[mcp]"'


def command(
    root: Annotated[
        Path,
        typer.Option(help="Folder of run folders and files: nothing else is written, or read.", show_default=False),
    ],
    seconds: Annotated[float, typer.Option(min=1, max=86_400, help="A call that takes longer is ended.")] = 600.0,
) -> None:
    """Serve cheapest, buy, max, plan, explain, compare, replay and model show to assistants, as MCP tools.

    Over standard input and output, until input ends; no network. An assistant starts it: see the guide."""
    if not root.is_dir():
        raise InputError(f"--root: must be a folder, got {root}.", hint="Make it first, or name another with --root.")
    try:
        from planner.cli.assistants.calls import Workplace
        from planner.cli.assistants.server import serve
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in ("mcp", "mcp_types", "anyio"):
            raise
        raise PlannerError(f"mcp: needs the package {package}, which is not there.", hint=INSTALL) from None
    with tempfile.TemporaryDirectory(prefix="planner-mcp-") as scratch:
        folder = Path(os.path.realpath(root))
        serve(Workplace(root=folder, scratch=Path(os.path.realpath(scratch)), seconds=seconds))
