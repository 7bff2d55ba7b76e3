"""What holds for every figure: nothing leaves the canvas, no text runs into another."""

from collections.abc import Sequence
from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from planner.report.kit.style import look


def laid_out(drawn: Figure) -> Figure:
    """Lay a figure out as its file is, and paint nothing, which takes longest."""
    with look():
        FigureCanvasAgg(drawn)
        drawn.draw_without_rendering()
    return drawn


def require_on_canvas(drawn: Figure) -> None:
    """Nothing is cut off."""
    box, (width, height) = drawn.get_tightbbox(), drawn.get_size_inches()
    assert min(box.x0, box.y0) >= 0
    assert (box.x1 <= width, box.y1 <= height) == (True, True)


def require_apart(texts: Sequence[tuple[str, Bbox]]) -> None:
    """No two texts overlap by more than a pixel."""
    for (one, a), (other, b) in combinations(texts, 2):
        apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
        assert apart, f"{one!r} overlaps {other!r}"
