"""`planner docs`: every command and every key, and the guides, as Markdown and HTML; the commands as a manual page."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import screen


def command(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder for the pages.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace pages that exist.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the names of the files as JSON.")] = False,
) -> None:
    """Write the reference of all commands and keys, and the guides; index.html is the first page.

    `planner.1` has the page of commands for `man -l planner.1`.
    """
    from planner import files
    from planner.cli.docs.html_pages import html_page
    from planner.cli.docs.manual.pages import manual_roff
    from planner.cli.docs.markdown_pages import markdown_pages

    program = typer.Context(context.find_root().command, info_name="planner")
    pages = markdown_pages(program)
    texts = {f"{page.name}.md": page.text for page in pages}
    texts |= {f"{page.name}.html": html_page(page, pages) for page in pages}
    texts["planner.1"] = manual_roff(program)
    files.write_folder(out, {name: text.encode() for name, text in texts.items()}, force=force)
    if json:
        screen.show_json({"files": [str(out / name) for name in texts]})
    else:
        screen.show_text(f"{len(texts)} files written to {out}; begin with {out / 'index.html'}")
