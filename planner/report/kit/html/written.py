"""A page out of a report in Markdown and its charts: the same words and tables, the tables sortable."""

import re
from collections.abc import Iterator, Sequence

from planner.report.kit.markdown import plain
from planner.report.kit.tree import Block, Cell, Chart, DataTable, Figure, Page, Prose, Section

_PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)$")
_NUMBER = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_NONE = ("–", "")


def page_of(
    markdown: str, charts: Sequence[Chart], made_by: str, *, figures: tuple[Figure, ...] = (), title: str = ""
) -> Page:
    """The report as a page: its title, its first paragraphs as the verdict, the charts, then its parts.

    `markdown` is as the report's own pages are: one `#` title, parts under `##`, pipe tables; its pictures are left
    out, as the charts show the same figures.
    """
    head, *parts = re.split(r"^## ", markdown, flags=re.MULTILINE)
    name, _, opening = head.partition("\n")
    verdict, further = _verdict(opening)
    sections = [Section(name="charts-of-it", title="Charts", blocks=tuple(charts))] if charts else []
    if further:
        sections.append(Section(name="what-it-says", title="In words", blocks=further))
    sections += _sections(parts)
    return Page(
        title=title or plain(name.removeprefix("# ")),
        verdict=verdict,
        figures=figures,
        sections=tuple(section for section in sections if section.blocks),
        made_by=made_by,
    )


def _verdict(opening: str) -> tuple[str, tuple[Block, ...]]:
    """The first paragraph, or the first bold one among the first three; what else stands before the first part."""
    paragraphs = [text.strip() for text in re.split(r"\n\s*\n", opening) if text.strip()]
    bold = [at for at, text in enumerate(paragraphs[:3]) if text.startswith("**")]
    if not paragraphs or paragraphs[0].startswith(("|", "![")):
        return "", tuple(_blocks("\n\n".join(paragraphs)))
    at = bold[0] if bold else 0
    verdict = " ".join(paragraphs.pop(at).split())
    return verdict, tuple(_blocks("\n\n".join(paragraphs)))


def _sections(parts: Sequence[str]) -> Iterator[Section]:
    for number, part in enumerate(parts, start=1):
        title, _, body = part.partition("\n")
        yield Section(name=f"part-{number}", title=plain(title), blocks=tuple(_blocks(body)))


def _blocks(body: str) -> Iterator[Block]:
    """Paragraphs together as prose, every pipe table by itself."""
    prose: list[str] = []
    for text in (text.strip() for text in re.split(r"\n\s*\n", body)):
        if not text or _PICTURE.match(text):
            continue
        if not text.startswith("|"):
            prose.append(text)
            continue
        if prose:
            yield Prose(markdown="\n\n".join(prose))
            prose = []
        yield _table(text)
    if prose:
        yield Prose(markdown="\n\n".join(prose))


def _table(text: str) -> DataTable:
    header, _, *lines = [cells_of(line) for line in text.splitlines()]
    return DataTable(
        columns=tuple(plain(name) for name in header),
        rows=tuple(tuple(cell_of(cell) for cell in line) for line in lines),
    )


def cells_of(line: str) -> list[str]:
    """The cells of a line of a pipe table; an escaped bar is a letter."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))]


def cell_of(text: str) -> Cell:
    """A number where the cell is nothing else, None where it is a dash, else its plain words."""
    words = plain(text)
    if words in _NONE:
        return None
    if not _NUMBER.fullmatch(words):
        return words
    digits = words.replace(",", "")
    return int(digits) if digits.lstrip("-").isdigit() else float(digits)
