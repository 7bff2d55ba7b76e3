"""A page as one HTML file that reaches nothing outside itself."""

import base64
import gzip
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources

from planner.errors import PlannerError
from planner.report.kit.colours import PHASES
from planner.report.kit.html.charts import chart_html, charts_json
from planner.report.kit.html.prose import explained, line_html, prose_html, text_html
from planner.report.kit.html.tables import MOST_ROWS, numbers_html, table_html
from planner.report.kit.tree import Block, Chart, DataTable, Drawing, Figure, Page, Prose, Section

MOST_BYTES = 4_000_000
"""Size of the largest page that can be mailed."""
_FEWEST_ROWS = 10
_NAME = re.compile(r"[a-z][a-z0-9-]*")


def html_page(page: Page, chart_script: bytes) -> str:
    """The page as HTML, at most 4 MB: of long tables it shows fewer rows, and says so. Equal input, equal bytes.

    `chart_script`: plotly.js compressed by gzip, `planner.files.chart_script()`; a page without charts leaves it out.
    Raises PlannerError where names of sections and charts are no anchors or occur twice, or the page is too large.
    """
    _require_anchors(page)
    page = replace(page, sections=tuple(part for part in page.sections if part.blocks or part.folded))
    rows = MOST_ROWS
    while True:
        text = _document(page, chart_script, rows)
        if len(text.encode()) <= MOST_BYTES:
            return text
        if rows <= _FEWEST_ROWS:
            raise PlannerError(
                f"Page {page.title!r}: must be at most {MOST_BYTES:,} bytes, got {len(text.encode()):,}.",
                hint="Its charts hold too many points.",
            )
        rows //= 2


def _require_anchors(page: Page) -> None:
    names = [section.name for section in page.sections]
    names += [block.name for block in _blocks(page) if isinstance(block, Chart | Drawing)]
    wrong = [name for name in names if not _NAME.fullmatch(name) or names.count(name) > 1 or name in _RESERVED]
    if wrong:
        raise PlannerError(
            f"Page {page.title!r}: names of sections and charts must be small letters and hyphens and differ, "
            f"got {wrong[0]!r}.",
            hint="Rename it.",
        )


_RESERVED = frozenset({"charts", "library", "words"})


def _blocks(page: Page) -> Iterator[Block]:
    yield from page.lead
    for section in page.sections:
        yield from section.blocks
        yield from section.folded


def _document(page: Page, chart_script: bytes, rows: int) -> str:
    charts = [block for block in _blocks(page) if isinstance(block, Chart)]
    sections = "\n".join(_section(section, rows) for section in page.sections)
    lead = "\n".join(_block(block, rows) for block in page.lead)
    words = _words(page)
    library = chart_script if charts else b""
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(library)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="planner-source" content="{text_html(page.source)}">
<title>{text_html(page.title)}</title>
<link rel="icon" href="data:,">
<style>
{_style()}</style>
</head>
<body>
<div class="page">
<header>
<h1>{text_html(page.title)}</h1>
<p class="verdict">{line_html(page.verdict)}</p>
{_figures(page.figures)}</header>
{_contents(page, words=bool(words))}<main>
{f"<section>{lead}</section>" if lead else ""}
{sections}
{words}</main>
<footer>{text_html(page.made_by)}</footer>
</div>
<script type="application/json" id="charts">{charts_json(charts)}</script>
{_library(library)}<script>{_script()}</script>
</body>
</html>
"""


@cache
def _style() -> str:
    """The look of every page; drawings take their colours from its variables, those of the phases among them."""
    variables = " ".join(f"--{phase}: {colour};" for phase, colour in PHASES.items())
    return _shipped("page.css").replace("/* phases */", variables)


@cache
def _script() -> str:
    """What a page does in a browser; it makes no HTML of texts, and reaches nothing outside the page."""
    return _shipped("page.js")


def _shipped(name: str) -> str:
    return resources.files("planner.report.kit.html").joinpath(name).read_text(encoding="utf-8")


def _policy(library: bytes) -> str:
    """Nothing from anywhere; of scripts those of the page itself, by what they hold."""
    scripts = [_script().encode(), *([gzip.decompress(library)] if library else [])]
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'" for text in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _library(library: bytes) -> str:
    if not library:
        return ""
    return f'<script type="text/plain" id="library">{base64.b64encode(library).decode()}</script>\n'


def _figures(figures: Sequence[Figure]) -> str:
    if not figures:
        return ""
    return f'<dl class="figures">{"".join(_figure(figure) for figure in figures)}</dl>\n'


def _figure(figure: Figure) -> str:
    band = f'<dd class="band">{text_html(figure.band)}</dd>' if figure.band else ""
    return f'<div><dt>{text_html(figure.label)}</dt><dd class="value">{text_html(figure.value)}</dd>{band}</div>'


def _contents(page: Page, *, words: bool) -> str:
    if not page.sections:
        return ""
    titles = [(section.name, section.title) for section in page.sections] + [("words", "Words")] * words
    links = "".join(f'<li><a href="#{name}">{text_html(title)}</a></li>' for name, title in titles)
    return f'<nav aria-label="Contents"><details open><summary>Contents</summary><ol>{links}</ol></details></nav>\n'


def _section(section: Section, rows: int) -> str:
    name, blocks = section.name, "\n".join(_block(block, rows) for block in section.blocks)
    folded = "\n".join(_block(block, rows) for block in section.folded)
    fold = (
        f'<details class="fold"><summary>{text_html(section.fold)}</summary>\n{folded}\n</details>\n' if folded else ""
    )
    heading = f'<h2><a class="anchor" href="#{name}">{text_html(section.title)}</a></h2>'
    return f'<section id="{name}">\n{heading}\n{blocks}\n{fold}</section>'


def _block(block: Block, rows: int) -> str:
    match block:
        case Prose():
            return prose_html(block.markdown)
        case DataTable():
            return table_html(block, most_rows=rows)
        case Chart():
            return chart_html(block, most_rows=rows)
        case Drawing():
            return _drawing(block, rows)


def _drawing(drawing: Drawing, rows: int) -> str:
    name = drawing.name
    return (
        f'<figure class="drawing" id="{name}"><h3><a class="anchor" href="#{name}">{text_html(drawing.title)}</a></h3>'
        f'<p class="says">{text_html(drawing.says)}</p><div class="box" tabindex="0">{drawing.svg}</div>'
        f"{numbers_html(drawing.table, most_rows=rows)}</figure>"
    )


def _words(page: Page) -> str:
    """The terms that the page uses, explained in a fold at its end."""
    text = " ".join([page.verdict, *(figure.label for figure in page.figures), *map(_text_of, _blocks(page))])
    meanings = explained(text)
    if not meanings:
        return ""
    rows = "".join(f"<dt>{text_html(word)}</dt><dd>{text_html(meaning)}</dd>" for word, meaning in meanings.items())
    return (
        '<section id="words">\n<h2><a class="anchor" href="#words">Words</a></h2>\n'
        '<details class="fold"><summary>What the terms on this page mean</summary>'
        f'<dl class="words">{rows}</dl></details>\n'
        "</section>\n"
    )


def _text_of(block: Block) -> str:
    """What is said around the numbers."""
    match block:
        case Prose():
            return block.markdown
        case DataTable():
            return " ".join([block.caption, *block.columns])
        case Chart() | Drawing():
            return " ".join([block.title, block.says, _text_of(block.table)])
