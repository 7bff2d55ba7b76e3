"""What a trace shows as a Markdown page and as CSV: figures with their tables, and what it lacks."""

from collections.abc import Mapping

from planner.report.kit.markdown import bullets, escaped, table
from planner.report.kit.quantities import counted, significant, whole
from planner.report.kit.tables import csv_table
from planner.studies.asi.records import AsiStudy, Drawn, TraceFigure

HEADER = ("panel", "series", "x", "y")


def figure_csv(figure: TraceFigure) -> bytes:
    """A row a point."""
    return csv_table(HEADER, figure.points)


MOST_ROWS = 24


def asi_page(study: AsiStudy, paths: Mapping[str, str] | None = None) -> str:
    """The study as Markdown, ending in a newline. `paths`: of pictures by the stem of the figure."""
    read = ", ".join(f"{whole(count)} of {name.value}" for name, count in study.rows.items())
    days = f"; days {study.days[0]} to {study.days[1]}" if study.days else ""
    parts = [f"# Trace: {escaped(study.trace)}", f"Rows read: {read or 'none'}{days}."]
    for figure in study.figures:
        picture = (paths or {}).get(figure.file_stem)
        shown = [f"![{escaped(figure.title)}]({picture})"] if picture else []
        parts += [f"## Figure {figure.number}: {figure.title}", *shown, *_numbers(figure)]
    gaps = [f"Figure {gap.number}, {gap.title}: {escaped(gap.why)}." for gap in study.missing]
    parts.append(f"## Not drawn\n\n{bullets(gaps) or 'Nothing is missing.'}")
    return "\n\n".join(parts) + "\n"


def _numbers(figure: TraceFigure) -> list[str]:
    """Bars and boxes as a table; of curves only what they are of."""
    if figure.drawn in (Drawn.LINES, Drawn.CDF):
        curves = len({point[:2] for point in figure.points})
        return [f"{counted(curves, 'curve')}; points in {figure.file_stem}.csv."]
    rows = [
        [escaped(panel), escaped(series), escaped(str(x)), significant(y)]
        for panel, series, x, y in figure.points[:MOST_ROWS]
    ]
    more = [f"{len(figure.points) - MOST_ROWS:,} more in {figure.file_stem}.csv."]
    label = figure.y or "value"
    return [table(["Panel", "Series", "Of", label], rows, "lllr"), *(more * (len(figure.points) > MOST_ROWS))]
