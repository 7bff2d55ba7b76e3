"""Markdown that survives any name a user may give, and reports written in it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from planner.report.kit.quantities import NONE, shown_number
from planner.report.kit.tree import Block, Cell, Chart, DataTable, Drawing, Page, Prose, Section

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


def stacked(parts: Iterable[str]) -> str:
    """Paragraphs, tables and lists below each other."""
    return "\n\n".join(parts)


def bullets(items: Sequence[str]) -> str:
    """A list; items come escaped."""
    return "\n".join(f"- {item}" for item in items)


def listed(items: Sequence[str]) -> tuple[Block, ...]:
    """The same as a block; none where there are no items."""
    return (Prose(markdown=bullets(items)),) if items else ()


NO_PICTURES: Mapping[str, str] = {}


def page_text(page: Page, pictures_of: Mapping[str, str] = NO_PICTURES) -> str:
    """The report in Markdown, ending in a newline. `pictures_of`: path of each picture by its title; what is only drawn
    is left out, and so are parts of nothing else."""
    head = [f"# {escaped(page.title)}", page.verdict, *map(block_text, page.lead)]
    return "\n\n".join([*filter(None, head), *sections_text(page.sections), *pictures(pictures_of)]) + "\n"


def sections_text(sections: Iterable[Section]) -> Iterator[str]:
    """Their paragraphs; of what is folded without tables that stand in a file."""
    for part in sections:
        folded = (block for block in part.folded if not (isinstance(block, DataTable) and block.rest))
        texts = [text for block in (*part.blocks, *folded) if (text := block_text(block))]
        if texts:
            yield from (f"## {escaped(part.title)}", *texts)


def block_text(block: Block) -> str:
    """A block in Markdown; empty where it is drawn, and nothing else."""
    match block:
        case Prose():
            return block.markdown
        case DataTable():
            return table_text(block)
        case Chart():
            return f"**{escaped(block.title)}.** {escaped(block.says)}\n\n{table_text(block.table)}" * block.told
        case Drawing():
            return f"```text\n{block.text}\n```" if block.text else ""


def table_text(shown: DataTable) -> str:
    """A pipe table below its caption."""
    rows = table([escaped(name) for name in shown.columns], cells(shown), "".join(_aligns(shown)))
    return f"{escaped(shown.caption)}\n\n{rows}" if shown.caption else rows


def _aligns(shown: DataTable) -> Iterator[str]:
    """Numbers stand at the right."""
    for place, align in enumerate(shown.align or "l" * len(shown.columns)):
        column = [row[place] for row in shown.rows if row[place] is not None]
        yield "r" if column and not any(isinstance(cell, str) for cell in column) else align


def cells(shown: DataTable) -> list[list[str]]:
    """The cells of a table in Markdown: as the table writes them, else as pages show them."""
    texts = shown.texts or [("",) * len(shown.columns)] * len(shown.rows)
    return [
        [text or _cell(cell) for cell, text in zip(*row, strict=True)] for row in zip(shown.rows, texts, strict=True)
    ]


def _cell(cell: Cell) -> str:
    if cell is None:
        return NONE
    if isinstance(cell, str):
        return escaped(cell)
    return shown_number(cell)
