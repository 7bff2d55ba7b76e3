"""`planner docs`: every command and every key, and the guides, as Markdown and HTML; the commands as a manual page."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Annotated

import typer
from markdown_it import MarkdownIt
from markdown_it.token import Token

from planner.cli import screen
from planner.cli.docs.markdown_pages import Page

_STYLE = """\
body { display: flex; gap: 2em; max-width: 75em; margin: 0 auto; padding: 1em; font: 16px/1.5 sans-serif; color: #222; }
nav { flex: 0 0 11em; } nav a { display: block; padding: 0.2em 0; } main { min-width: 0; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid #ccc; padding: 0.2em 0.6em; vertical-align: top; }
pre { background: #f5f5f5; padding: 0.8em; overflow-x: auto; } code { background: #f5f5f5; }"""


def html_page(page: Page, pages: Sequence[Page]) -> str:
    """The whole document, with links to all `pages`; equal pages give equal bytes."""
    links = "\n".join(f'<a href="{other.name}.html">{escape(other.title)}</a>' for other in pages)
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{escape(page.title)}</title>
<style>
{_STYLE}
</style>
</head>
<body>
<nav>
{links}
</nav>
<main>
{_body(page.text)}</main>
</body>
</html>
"""


def _body(text: str) -> str:
    """Raw HTML is shown as text; headings get anchors, and links to other pages lead to their HTML."""
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    text = re.sub(r"^<!--.*-->\n", "", text, flags=re.MULTILINE)  # marks for the tests
    tokens = reader.parse(text)
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", anchor(tokens[place + 1].content))
        for child in token.children or ():
            _lead_to_html(child)
    return str(reader.renderer.render(tokens, reader.options, {}))


def _lead_to_html(token: Token) -> None:
    target = token.attrGet("href") if token.type == "link_open" else None
    if isinstance(target, str) and "://" not in target:
        token.attrSet("href", re.sub(r"\.md(?=#|$)", ".html", target))


def anchor(heading: str) -> str:
    """As common viewers of Markdown make it: small letters and digits, a hyphen for each blank."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


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
    from planner.cli.docs.manual import manual_roff
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
