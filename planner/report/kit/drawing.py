"""Shapes of drawings as SVG: boxes, texts and ribbons, their texts escaped, their colours CSS variables of the page."""

from collections.abc import Iterable

from planner.report.kit.html.prose import text_html

CHARACTER = 0.55
"""Width of a letter over the size of its type, for texts that have to fit."""


NARROW = 400.0
"""Width of a drawing that is whole on a phone."""


def svg(width: float, height: float, shapes: Iterable[str], *, label: str, screens: str = "") -> str:
    """The picture, never wider than `width` pixels; `label` is read out. `screens`: wide or narrow, where another
    picture stands beside it for the others; it is NARROW pixels wide at most."""
    kind = f' class="{screens}"' if screens else ""
    return (
        f'<svg{kind} xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" role="img" '
        f'style="max-width:{number(width)}px" '
        f'aria-label="{text_html(label)}" font-family="inherit" fill="var(--ink)">{"".join(shapes)}</svg>'
    )


def box(
    x: float, y: float, width: float, height: float, *, fill: str = "--tint", line: str = "--line", radius: float = 4
) -> str:
    """A rectangle; `fill` and `line` are variables of the page."""
    place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    return f'<rect {place} rx="{number(radius)}" fill="var({fill})" stroke="var({line})"/>'


def words(
    x: float,
    y: float,
    text: str,
    *,
    size: float = 13,
    colour: str = "--ink",
    bold: bool = False,
    anchor: str = "start",
    room: float = 0,
) -> str:
    """A line of text with its baseline at `y`; one that is longer than `room` loses its middle, its tip has all."""
    short = shortened(text, int(room / (CHARACTER * size))) if room else text
    tip = f"<title>{text_html(text)}</title>" if short != text else ""
    weight = ' font-weight="650"' if bold else ""
    return (
        f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}" text-anchor="{anchor}" '
        f'fill="var({colour})"{weight}>{tip}{text_html(short)}</text>'
    )


def ribbon(x0: float, y0: float, x1: float, y1: float, *, width: float, colour: str = "--line") -> str:
    """A curve from left to right, as thick as what flows in it."""
    middle = number((x0 + x1) / 2)
    return (
        f'<path d="M{number(x0)} {number(y0)} C{middle} {number(y0)} {middle} {number(y1)} {number(x1)} {number(y1)}" '
        f'fill="none" stroke="var({colour})" stroke-width="{number(max(1.0, width))}"/>'
    )


def shortened(text: str, longest: int) -> str:
    """Both ends of a text, where it is too long."""
    if len(text) <= longest or longest < 3:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[head + 1 - longest :]}"


def number(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")
