"""Plots of a trace: one for each panel of each figure."""

from collections.abc import Iterator

from planner.report.kit.plots import Kind, Plot, Series
from planner.studies.asi.records import AsiStudy, Drawn, Point, TraceFigure

_KINDS = {Drawn.STACKED: Kind.STACKED, Drawn.BARS: Kind.BARS, Drawn.CDF: Kind.STEPS, Drawn.BOXES: Kind.DOTS}
LOGARITHMIC = ("hours", "GiB/s")


def asi_plots(study: AsiStudy) -> tuple[Plot, ...]:
    """In the order of the figures; of boxes their quantiles as dots."""
    return tuple(plot for figure in study.figures for plot in _panels(figure))


def _panels(figure: TraceFigure) -> Iterator[Plot]:
    panels = list(dict.fromkeys(point[0] for point in figure.points))
    for number, panel in enumerate(panels):
        points = [point for point in figure.points if point[0] == panel]
        of = f": {panel}" if len(panels) > 1 else ""
        yield Plot(
            name=f"{figure.file_stem.replace('_', '-')}-{number}",
            title=f"Figure {figure.number}: {figure.title}{of}",
            says="As in the paper, of this trace.",
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
