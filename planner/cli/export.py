"""`planner export`: manifests from a run."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import screen


def command(
    run: Annotated[Path, typer.Argument(help="A run folder, or its plan.json.")],
    out: Annotated[Path, typer.Option(help="Folder for the manifests.")],
    target: Annotated[str, typer.Option(help="Kind of manifests.")] = "lws",
    engine: Annotated[str, typer.Option(help="vllm or sglang.")] = "vllm",
    force: Annotated[bool, typer.Option("--force", help="Replace manifests that exist.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the list of files as JSON.")] = False,
) -> None:
    """Write deployment manifests for a plan; their GPUs sum to the plan's or nothing is written."""
    from planner import export, files

    manifests = export.render(files.load_run(run), target=target, engine=engine)
    files.write_folder(out, {name: text.encode() for name, text in manifests.items()}, force=force)
    names = [str(out / name) for name in manifests]
    if json:
        screen.show_json({"target": target, "engine": engine, "files": names})
    else:
        screen.show_text(f"{len(names)} files written to {out}")
