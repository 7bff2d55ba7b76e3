"""Markdown of ours on a terminal: headings, paragraphs and lists wrapped between words, tables that fit, code as it
is."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from planner.cli.terminal.tables import TableText, continued, unfitted, wrapped

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_INLINE = re.compile(
    r"\\(?P<escape>[!-/:-@\[-`{-~])|(?P<ticks>`+)(?P<code>.+?)(?P=ticks)|(?P<strong>\*\*)|"
    r"(?<![\w*])\*(?P<slanted>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])|"
    r"!\[(?P<title>(?:\\.|[^\]\\])*)\]\((?P<picture>[^)\s]+)\)|\[(?P<words>(?:\\.|[^\]\\])*)\]\((?P<link>[^)\s]+)\)"
)
_ITEM = re.compile(r"(?P<indent> *)(?P<mark>[-*]|\d+\.) +(?P<text>.*)")
_RULE = re.compile(r"\|(?: *:?-+:? *\|)+ *")
_LEAD = re.compile(r"(?:.*─▶ *)|(?: *)")
_BAR = re.compile(r"(?<!\\)\|")


def rendered(text: str, width: int, *, wide: bool = False) -> "Iterator[RenderableType]":
    """What to print of a page, a block at a time; `wide`: tables as wide as they are."""
    lines = text.split("\n")
    while lines:
        block = _block(lines)
        del lines[: len(block)]
        yield from _shown(block, width, wide)


def _block(lines: Sequence[str]) -> list[str]:
    """The first lines that belong together."""
    if lines[0].startswith("```"):
        end = next((place for place, line in enumerate(lines[1:], 1) if line.startswith("```")), len(lines) - 1)
        return list(lines[: end + 1])
    kind = _kind(lines[0])
    if kind in ("blank", "heading"):
        return [lines[0]]
    first = next(groupby(lines, _kind))
    block = list(first[1])
    if kind == "item":  # lines that go on with an item are indented
        while len(block) < len(lines) and (_kind(lines[len(block)]) == "item" or lines[len(block)].startswith("  ")):
            block.append(lines[len(block)])
    return block


def _kind(line: str) -> str:
    if not line.strip() or line.startswith("<!--"):
        return "blank"
    if line.startswith("```"):
        return "code"
    if re.match("#{1,6} ", line):
        return "heading"
    if line.startswith("|"):
        return "table"
    return "item" if _ITEM.fullmatch(line) else "prose"


def _shown(block: Sequence[str], width: int, wide: bool) -> "Iterator[RenderableType]":
    from rich.text import Text

    kind = _kind(block[0])
    if kind == "code":
        for line in block[1:-1] if len(block) > 1 and block[-1].startswith("```") else block[1:]:
            yield from (Text(part, overflow="ignore") for part in ((line,) if wide else _drawing_lines(line, width)))
    elif kind == "blank":
        if not block[0].strip():
            yield Text("")
    elif kind == "heading":
        marks, _, title = block[0].partition(" ")
        yield from _lines(title, width, style="bold underline" if len(marks) == 1 else "bold")
    elif kind == "table" and len(block) > 1 and _RULE.fullmatch(block[1]):
        table = _table(block)
        yield from (unfitted(table),) if wide else continued(table, width)
    elif kind == "item":
        for item in _items(block):
            yield from _lines(item.group("text"), width, lead=f"{item.group('indent')}{item.group('mark')} ")
    else:
        yield from _lines(" ".join(line.strip() for line in block), width)


def _drawing_lines(line: str, width: int) -> list[str]:
    """A line of a drawing; what has no room goes on below, and so do the lines that lead down past it."""
    start = _LEAD.match(line)
    lead = "" if start is None else "".join("│" if c in "├┬│" else " " for c in start.group())
    if len(line) <= width or len(lead) > width // 2:
        return [line]
    first, *further = _between_words(line[len(lead) :], width - len(lead))
    return [line[: len(lead)] + first, *(lead + part for part in further)]


def _between_words(text: str, width: int) -> list[str]:
    """As `wrapped`, with the spaces between words as they are."""
    lines = [""]
    for word in re.findall(r"\S+ *", text):
        if lines[-1] and len(lines[-1]) + len(word.rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return [line.rstrip() for line in lines]


def _items(block: Sequence[str]) -> "Iterator[re.Match[str]]":
    """Each item on one line."""
    joined: list[str] = []
    for line in block:
        if _ITEM.fullmatch(line):
            joined.append(line)
        else:
            joined[-1] += f" {line.strip()}"
    for line in joined:
        match = _ITEM.fullmatch(line)
        if match:
            yield match


def _lines(text: str, width: int, *, lead: str = "", style: str = "") -> "Iterator[RenderableType]":
    """Wrapped between words, `lead` before the first line; bold and code keep their style across lines."""
    from rich.text import Text

    styled = inline(text)
    start = 0
    for index, line in enumerate(wrapped(styled.plain, max(width - len(lead), 1))):
        start = styled.plain.index(line.split(" ")[0], start)
        part = styled[start : start + len(line)] if styled.plain[start : start + len(line)] == line else Text(line)
        start += len(line)
        yield Text(lead if index == 0 else " " * len(lead), style=style, overflow="ignore") + part


def inline(text: str) -> "Text":
    """Words with their styles, without the marks."""
    from rich.text import Text

    styled, strong, end = Text(overflow="ignore"), False, 0
    for match in _INLINE.finditer(text):
        styled.append(text[end : match.start()], "bold" if strong else "")
        end = match.end()
        if match["strong"]:
            strong = not strong
        elif match["code"] is not None:
            styled.append(match["code"], "cyan")
        elif match["slanted"] is not None:
            styled.append(inline(match["slanted"]).plain, "italic")
        elif match["escape"]:
            styled.append(match["escape"], "bold" if strong else "")
        else:
            words, target = match["words"] or match["title"], match["link"] or match["picture"]
            plain = inline(words).plain
            styled.append(plain if plain == target else f"{plain} ({target})")
    styled.append(text[end:], "bold" if strong else "")
    return styled


def _table(block: Sequence[str]) -> TableText:
    """A pipe table; columns with a colon on the right stand to the right."""
    header, rule, *rows = (_cells(line) for line in block)
    return TableText(
        title="",
        columns=tuple(header),
        rows=tuple(tuple((*row, *[""] * len(header))[: len(header)]) for row in rows),
        numeric=tuple(cell.endswith(":") and not cell.startswith(":") for cell in rule),
    )


def _cells(line: str) -> list[str]:
    return [inline(cell.strip()).plain for cell in _BAR.split(line.strip())[1:-1]]
