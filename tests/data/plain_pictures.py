"""Pictures that cost next to nothing, for tests that do not look at them: painting is most of a run's time."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def copied_pictures() -> Iterator[None]:
    """Runs are written without pictures; of others only the first of each format is painted, the next are its copies.

    Those are built all the same, so that what cannot be drawn still fails; tests/report looks at what is painted.
    """
    from planner.report.plan import page

    painted, save, paint, drawn = _painted(), Figure.savefig, FigureCanvasAgg.print_png, page.figures_of

    def copied(figure: Figure, to: IO[bytes], *, format: str, **options: Any) -> None:
        if format not in painted:
            stream = BytesIO()
            save(figure, stream, format=format, **options)
            painted[format] = stream.getvalue()
        to.write(painted[format])

    def copied_png(canvas: FigureCanvasAgg, to: IO[bytes], **options: Any) -> None:
        if "png" not in painted:
            stream = BytesIO()
            paint(canvas, stream, **options)
            painted["png"] = stream.getvalue()
        to.write(painted["png"])

    Figure.savefig, FigureCanvasAgg.print_png = copied, copied_png
    page.figures_of = lambda _plan: ()
    try:
        yield
    finally:
        Figure.savefig, FigureCanvasAgg.print_png, page.figures_of = save, paint, drawn


@cache
def _painted() -> dict[str, bytes]:
    """Pictures by format."""
    return {}


def unpainted(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment whose processes, and those that they start, write runs without pictures."""
    ways = [str(ROOT / "tests/unpainted"), str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(ways)}
