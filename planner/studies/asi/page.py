"""What a trace shows as a Markdown page, as charts and as CSV: figures with their tables, and what it lacks."""

from collections.abc import Iterator, Mapping

from planner.report.kit.markdown import bullets, escaped, table
from planner.report.kit.plots import Kind, Plot, Series
from planner.report.kit.quantities import counted, significant, whole
from planner.report.kit.tables import csv_table
from planner.studies.asi.records import AsiStudy, Drawn, Point, TraceFigure

NOTE = "Synthetic: made to meet published marginals; says nothing new"
HEADER = ("panel", "series", "x", "y")


def figure_csv(figure: TraceFigure) -> bytes:
    """A row a point."""
    return csv_table(HEADER, figure.points)


MOST_ROWS = 24


def asi_page(study: AsiStudy, paths: Mapping[str, str] | None = None) -> str:
    """The study as Markdown, ending in a newline. `paths`: of pictures by the stem of the figure."""
    read = ", ".join(f"{whole(count)} of {name.value}" for name, count in study.rows.items())
    days = f"; days {study.days[0]} to {study.days[1]}" if study.days else ""
    note = [f"**{NOTE}.**"] if study.made_up else []
    parts = [f"# Trace: {escaped(study.trace)}", *note, f"Rows read: {read or 'none'}{days}."]
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


_KINDS = {Drawn.STACKED: Kind.STACKED, Drawn.BARS: Kind.BARS, Drawn.CDF: Kind.STEPS, Drawn.BOXES: Kind.DOTS}
LOGARITHMIC = ("hours", "GiB/s")


def asi_plots(study: AsiStudy) -> tuple[Plot, ...]:
    """In the order of the figures; of boxes their quantiles as dots."""
    return tuple(plot for figure in study.figures for plot in _panels(study, figure))


def _panels(study: AsiStudy, figure: TraceFigure) -> Iterator[Plot]:
    panels = list(dict.fromkeys(point[0] for point in figure.points))
    for number, panel in enumerate(panels):
        points = [point for point in figure.points if point[0] == panel]
        of = f": {panel}" if len(panels) > 1 else ""
        yield Plot(
            name=f"{figure.file_stem.replace('_', '-')}-{number}",
            title=f"Figure {figure.number}: {figure.title}{of}",
            says=f"{NOTE}." if study.made_up else "As in the paper, of this trace.",
            kind=_KINDS.get(figure.drawn, Kind.LINES),
            x=figure.x or "of",
            y=figure.y or panel,
            series=tuple(_series(name, points, figure) for name in dict.fromkeys(point[1] for point in points)),
            logarithmic="x" if _is_logarithmic(figure, points) else "",
            rest=f"{figure.file_stem}.csv",
        )


def _is_logarithmic(figure: TraceFigure, points: list[Point]) -> bool:
    curves = figure.drawn in (Drawn.LINES, Drawn.CDF)
    return curves and figure.x in LOGARITHMIC and all(float(x) > 0 for _, _, x, _ in points)


def _series(name: str, points: list[Point], figure: TraceFigure) -> Series:
    points_of_it = [(x, y) for _, series, x, y in points if series == name]
    curves = figure.drawn in (Drawn.LINES, Drawn.CDF)
    return Series(
        name=name, x=tuple(float(x) if curves else str(x) for x, _ in points_of_it), y=tuple(y for _, y in points_of_it)
    )
