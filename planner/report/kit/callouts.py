"""Labels of points, each tied to its point by a line, placed where they cover neither points nor one another.

Greedy: label by label, the cheapest of a fixed set of places around the point. No randomness: equal data, equal places.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from matplotlib.axes import Axes

from planner.report.kit import style

RINGS_PT = (6.0, 12.0, 20.0, 30.0, 42.0, 56.0, 72.0, 90.0)
ANGLES = tuple(range(-90, 270, 15))
SIZE_PT = 7.0
NEAR_PT = 3.0
# what a place costs beside its distance from the point (pt): each box covered, box crossed by its line, dot covered
BOX, CROSSING, DOT = 3000.0, 400.0, 12.0
OUTSIDE = 1e5

Point = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, bottom, right, top on the canvas (pixels)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callout:
    """A point (data), the radius of its marker (pt) and its text."""

    x: float
    y: float
    radius_pt: float
    text: str


def place(
    axes: Axes, callouts: Sequence[Callout], lines: Sequence[Sequence[Point]] = (), avoided: Sequence[Box] = ()
) -> None:
    """Draws the labels inside `axes`, whose limits and position must be final.

    Points at one place share a label, a line each. `lines` (data) and the boxes `avoided` are kept free like the
    markers and the labels before.
    """
    per_pt = axes.figure.dpi / 72
    boxes = [*avoided, *(marker_box(axes, c.x, c.y, c.radius_pt) for c in callouts)]
    dots = [dot for line in lines for dot in _dots(_on_canvas(axes, line))]
    for callout in _joined(axes, callouts):
        (point,) = _on_canvas(axes, [(callout.x, callout.y)])
        box = _best(axes, callout, point, boxes, dots)
        end = _nearest(box, point)
        middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
        axes.annotate(
            callout.text,
            (callout.x, callout.y),
            ((middle[0] - point[0]) / per_pt, (middle[1] - point[1]) / per_pt),
            textcoords="offset points",
            fontsize=style.points(SIZE_PT),
            ha="center",
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": style.faint(),
                "linewidth": 0.6,
                "shrinkA": 0,
                "shrinkB": callout.radius_pt,
                "relpos": ((end[0] - box[0]) / (box[2] - box[0]), (end[1] - box[1]) / (box[3] - box[1])),
            },
            zorder=5,
        )
        boxes.append(box)
        dots += _dots([point, end])


def _joined(axes: Axes, callouts: Sequence[Callout]) -> list[Callout]:
    """One callout for those that stand so near to each other that their lines could not be told apart."""
    near = NEAR_PT * axes.figure.dpi / 72
    joined: list[Callout] = []
    for callout in callouts:
        (point,) = _on_canvas(axes, [(callout.x, callout.y)])
        at = [k for k, c in enumerate(joined) if math.dist(point, _on_canvas(axes, [(c.x, c.y)])[0]) < near]
        if at:
            first = joined[at[0]]
            joined[at[0]] = replace(first, text=f"{first.text}\n{callout.text}")
        else:
            joined.append(callout)
    return joined


def marker_box(axes: Axes, x: float, y: float, radius_pt: float) -> Box:
    """The canvas that a marker at (x, y) takes."""
    ((across, up),) = _on_canvas(axes, [(x, y)])
    radius = radius_pt * axes.figure.dpi / 72
    return across - radius, up - radius, across + radius, up + radius


def _on_canvas(axes: Axes, points: Sequence[Point]) -> list[Point]:
    return [(float(x), float(y)) for x, y in axes.transData.transform(points)]


def _best(axes: Axes, callout: Callout, point: Point, boxes: Sequence[Box], dots: Sequence[Point]) -> Box:
    """The cheapest place for the label."""
    per_pt = axes.figure.dpi / 72
    probe = axes.text(0, 0, callout.text, fontsize=style.points(SIZE_PT))
    size = probe.get_window_extent()
    probe.remove()
    width, height = size.width / 2 + 1.5 * per_pt, size.height / 2 + per_pt
    frame = axes.get_window_extent().extents
    costs: list[tuple[float, int, Box]] = []
    for ring in RINGS_PT:
        reach = (ring + callout.radius_pt) * per_pt
        for angle in ANGLES:
            cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            # upright, a label stands centred over its point; sideways, it begins beside it
            x = point[0] + reach * cos + width * max(-1.0, min(1.0, 2 * cos))
            y = point[1] + (reach + height) * sin
            box = (x - width, y - height, x + width, y + height)
            costs.append((_cost(frame, box, point, boxes, dots) + ring, len(costs), box))
    return min(costs)[2]


def _cost(frame: Sequence[float], box: Box, point: Point, boxes: Sequence[Box], dots: Sequence[Point]) -> float:
    inside = frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]
    covered = sum(
        box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in boxes
    )
    leader = _dots([point, _nearest(box, point)])
    crossed = sum(any(_holds(other, dot) for dot in leader) for other in boxes if not _holds(other, point))
    return OUTSIDE * (not inside) + BOX * covered + CROSSING * crossed + DOT * sum(_holds(box, dot) for dot in dots)


def _holds(box: Box, point: Point) -> bool:
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def _nearest(box: Box, point: Point) -> Point:
    return min(max(point[0], box[0]), box[2]), min(max(point[1], box[1]), box[3])


def _dots(line: Sequence[Point], apart: float = 6.0) -> list[Point]:
    """Dots along a polyline, `apart` pixels from each other."""
    dots: list[Point] = []
    for (x0, y0), (x1, y1) in pairwise(line):
        steps = max(1, math.ceil(math.hypot(x1 - x0, y1 - y0) / apart))
        dots += [(x0 + (x1 - x0) * k / steps, y0 + (y1 - y0) * k / steps) for k in range(steps + 1)]
    return dots
