"""Markdown that survives any name a user may give."""

import re
from collections.abc import Mapping, Sequence

_SPECIAL = r"\`*_{}[]<>|#~&$"


def escaped(text: str) -> str:
    """`text` as a Markdown reader must see it to show it literally, on one line; unprintable letters go."""
    line = " ".join(text.split())
    return "".join("\\" + c if c in _SPECIAL else c for c in line if c.isprintable())


_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")


def plain(markdown: str) -> str:
    """Inline Markdown without its marks: emphasis, code, links' targets, escapes."""
    text = re.sub(r"(?<!\\)(\*\*|`)", "", markdown)
    text = re.sub(r"(?<!\\)\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return _ESCAPED.sub(r"\1", text).strip()


def table(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """A pipe table. `align` has one letter a column, `l` or `r`; cells come escaped."""
    rule = ["---:" if letter == "r" else ":---" for letter in align]
    return "\n".join(_line(cells) for cells in (header, rule, *rows))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def pictures(figures: Mapping[str, str]) -> list[str]:
    """The part of a page that shows figures, by their titles; nothing where there are none."""
    return ["## Figures", *(f"![{escaped(title)}]({path})" for title, path in figures.items())] if figures else []


def bullets(items: Sequence[str]) -> str:
    """A list; items come escaped."""
    return "\n".join(f"- {item}" for item in items)
