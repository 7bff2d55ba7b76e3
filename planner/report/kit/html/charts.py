"""Charts as HTML: an empty place, its numbers as a table, and the figures of a page as one JSON text.

Colours and fonts are given here. A trace takes the next colour, pattern (bars), dash and marker (lines), or what its
`meta` asks for, a mapping with one of these keys:

| key    | value                                                                                              |
|--------|----------------------------------------------------------------------------------------------------|
| series | a number from 0: the look of that series in every chart of the page, for a GPU type or a bucket      |
| tone   | `bound` (a limit, dashed), `chosen` (the plan), `faint` (what is beside the point), `alarm` (broken), |
|        | or a phase: `prefill`, `decode`, `mixed`, `idle`                                                     |
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from planner.report.kit.html.blocks import Chart
from planner.report.kit.html.prose import text_html
from planner.report.kit.html.tables import numbers_html

# after Okabe and Ito, the yellow left out and two made darker, so that neighbours differ in lightness as well
PALETTE = ("#0072B2", "#E69F00", "#004D40", "#56B4E9", "#882255", "#CC79A7", "#A63D00", "#009E73")
PATTERNS = ("", "/", "", "x", "", "\\", ".", "-")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
INK, MUTED, LINE, ALARM, FAINT = "#1F2933", "#52606D", "#D9E0E6", "#B00020", "#B8C2CC"
# tone -> colour, dash of lines, pattern of bars; phases differ in lightness, for print in grey
_TONES = MappingProxyType({
    "bound": (INK, "dash", ""),
    "chosen": (INK, "solid", ""),
    "faint": (FAINT, "solid", ""),
    "alarm": (ALARM, "dot", "x"),
    "prefill": ("#882255", "solid", ""),
    "decode": ("#56B4E9", "dash", "/"),
    "mixed": ("#009E73", "dashdot", "x"),
    "idle": ("#D9E0E6", "dot", "."),
})  # fmt: skip
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_HEIGHT_PX = 360
# tags that plotly reads in texts, and the only ones of ours
_OUR_TAGS = re.compile(r"<(?!/?(?:b|i|br|sup|sub|extra)\s*/?>)", re.IGNORECASE)


def chart_html(chart: Chart, *, most_rows: int) -> str:
    """The place of a chart, described for who cannot see it, with its numbers folded below."""
    name, says = chart.name, text_html(chart.says)
    height = int(chart.layout.get("height", _HEIGHT_PX))
    return (
        f'<figure class="chart" id="{name}"><h3><a class="anchor" href="#{name}">{text_html(chart.title)}</a></h3>'
        f'<p class="says">{says}</p>'
        f'<div class="plot" role="img" aria-label="{says}" data-chart="{name}" style="height:{height}px"></div>'
        f"{numbers_html(chart.table, most_rows=most_rows)}</figure>"
    )


def charts_json(charts: Sequence[Chart]) -> str:
    """`{name: {data, layout}}` as JSON that may stand in a script element: no `<`, `>`, `&` or line separators."""
    figures = {chart.name: {"data": _styled_traces(chart), "layout": _styled_layout(chart)} for chart in charts}
    text = json.dumps(figures, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _styled_traces(chart: Chart) -> list[dict[str, Any]]:
    return [_styled(_plain(trace), place) for place, trace in enumerate(chart.traces)]


def _styled(trace: dict[str, Any], place: int) -> dict[str, Any]:
    """The trace with the look of its place; what it says itself counts more."""
    meta = trace.get("meta") or {}
    series = int(meta.get("series", place)) if isinstance(meta, Mapping) else place
    tone = meta.get("tone") if isinstance(meta, Mapping) else None
    kind = trace.get("type", "scatter")
    if kind == "bar":
        look = _bar_look(series, tone)
    elif kind == "scatter":
        look = _line_look(series, tone)
    elif kind in ("heatmap", "contour", "histogram2d"):
        look = {"colorscale": "Cividis"}  # even in lightness, alike to colour-blind readers
    else:
        look = {"marker": {"color": PALETTE[series % len(PALETTE)]}} if kind in ("box", "violin", "histogram") else {}
    return _merged(look, trace)


def _bar_look(series: int, tone: str | None) -> dict[str, Any]:
    turn = series % len(PALETTE)
    colour, _, shape = _TONES[tone] if tone else (PALETTE[turn], "", PATTERNS[turn])
    over = MUTED if tone == "idle" else "#FFFFFF"
    pattern = {"shape": shape, "fillmode": "overlay", "fgcolor": over, "size": 6, "solidity": 0.25}
    return {"marker": {"color": colour, "pattern": pattern, "line": {"color": "#FFFFFF", "width": 1}}}


def _line_look(series: int, tone: str | None) -> dict[str, Any]:
    turn = series % len(PALETTE)
    colour, dash, _ = _TONES[tone] if tone else (PALETTE[turn], DASHES[turn], "")
    return {
        "line": {"color": colour, "dash": dash, "width": 2},
        "marker": {"color": colour, "symbol": SYMBOLS[turn], "size": 8},
    }


_AXIS = MappingProxyType(
    {
        "automargin": True,
        "gridcolor": LINE,
        "linecolor": MUTED,
        "zerolinecolor": LINE,
        "tickcolor": MUTED,
        "title": {"standoff": 8},
    }
)


def _styled_layout(chart: Chart) -> dict[str, Any]:
    axes = {key for key in chart.layout if re.fullmatch(r"[xy]axis\d*", key)} | {"xaxis", "yaxis"}
    look = {
        "autosize": True,
        "height": _HEIGHT_PX,
        "font": {"family": _FONT, "size": 13, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 48, "r": 16, "t": 40, "b": 44},
        "bargap": 0.3,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        "hoverlabel": {"font": {"family": _FONT}},
        **{axis: dict(_AXIS) for axis in sorted(axes)},
    }
    return _merged(look, _plain(chart.layout))


def _merged(look: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`look`, and over it what is asked for, key by key."""
    merged = dict(look)
    for key, value in changes.items():
        base = merged.get(key)
        merged[key] = _merged(base, value) if isinstance(base, Mapping) and isinstance(value, Mapping) else value
    return merged


def _plain(value: Any) -> Any:
    """What JSON can hold: sequences as lists, numbers that are none as null, texts without foreign tags."""
    if isinstance(value, str):
        return _OUR_TAGS.sub("&lt;", value)
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Sequence):
        return [_plain(part) for part in value]
    return _plain(value.tolist())  # a number or an array of numpy
