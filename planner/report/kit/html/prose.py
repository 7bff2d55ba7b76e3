"""Markdown as HTML. HTML in it is shown as text; pictures are not fetched, as a page reaches nothing outside itself."""

from functools import cache
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


@cache
def _reader() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415  # only who makes a page pays for it

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


def prose_html(markdown: str) -> str:
    """Paragraphs, lists, tables, code, links."""
    return (
        str(_reader().render(markdown))
        .replace("<table>", '<div class="box"><table>')
        .replace("</table>", "</table></div>")
    )


def line_html(markdown: str) -> str:
    """The same of one line, without a paragraph around it."""
    return str(_reader().renderInline(markdown))


def text_html(text: str) -> str:
    """Plain text; letters that cannot be shown go."""
    return escape("".join(c for c in text if c.isprintable() or c in "\n\t"))
