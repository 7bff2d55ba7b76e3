"""`planner export`: manifests from a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.export import ExportOptions


def command(
    run: Annotated[Path, typer.Argument(help="A run folder, or its plan.json.")],
    out: Annotated[Path, typer.Option(help="Folder for the manifests.")],
    target: Annotated[str, typer.Option(help="Kind of manifests.")] = "lws",
    engine: Annotated[str, typer.Option(help="vllm or sglang.")] = "vllm",
    image: Annotated[
        list[str] | None, typer.Option(help="VENDOR=IMAGE: a pinned image for a vendor's GPUs, as AMD=name:tag.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace manifests that exist.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the list of files as JSON.")] = False,
) -> None:
    """Write deployment manifests for a plan; their GPUs sum to the plan's or nothing is written."""
    from planner import export, files, pipeline

    manifests = export.render(
        pipeline.recheck(files.load_run(run), str(run)), target=target, engine=engine, options=_options(image)
    )
    files.write_folder(out, {name: text.encode() for name, text in manifests.items()}, force=force)
    names = [str(out / name) for name in manifests]
    if json:
        screen.show_json({"target": target, "engine": engine, "files": names})
    else:
        screen.show_text(f"{len(names)} files written to {out}")


def _options(images: list[str] | None) -> "ExportOptions":
    from planner.export import ExportOptions

    pairs = [text.partition("=") for text in images or []]
    for text, (vendor, _, image) in zip(images or [], pairs, strict=True):
        if not vendor or not image:
            raise InputError(f"--image: must be VENDOR=IMAGE, came {text!r}.", hint="For example AMD=name:tag.")
    return ExportOptions(images=tuple((vendor, image) for vendor, _, image in pairs))
