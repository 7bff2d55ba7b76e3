"""Charts as HTML: an empty place, its numbers as a table, and the figures of a page as one JSON text.

Colours and fonts are given here. A trace takes the next colour, pattern (bars), dash and marker (lines), or what its
`meta` asks for, a mapping with one of these keys:

| key    | value                                                                                              |
|--------|----------------------------------------------------------------------------------------------------|
| series | a number from 0: the look of that series in every chart of the page, as for a bucket               |
| gpu    | a GPU type, which has its colour on every page and figure                                           |
| pale   | a share of white in that colour                                                                    |
| tone   | `bound` (a limit, dashed), `chosen` (the plan), `faint` (what is beside the point), `alarm` (broken), |
|        | or a phase: `prefill`, `decode`, `mixed`, `idle`                                                     |
"""

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from planner.report.kit.colours import INK, PALETTE, PAPER, PHASES, blended, gpu_colour, legible
from planner.report.kit.html.prose import text_html
from planner.report.kit.html.tables import numbers_html
from planner.report.kit.tree import Chart

MOST_ENDS = 6
"""Lines of a chart that are named at their ends; of more, and of longer names, a legend tells."""
_LONGEST = 30
_PAPER = "rgba(255,255,255,.82)"


def reference_label(trace: dict[str, Any], logarithmic: Collection[str]) -> dict[str, Any] | None:
    """The annotation of a straight line that has a name, which then is in no legend; None for any other trace."""
    x, y, name = list(trace.get("x") or ()), list(trace.get("y") or ()), trace.get("name")
    if not _is_line(trace) or not name or len(x) != 2 or None in (*x, *y) or not _is_reference(trace):
        return None
    level = y[0] == y[1] and x[0] != x[1]
    if not level and x[0] != x[1]:
        return None
    trace["showlegend"] = False
    look = {"text": name, "showarrow": False, "bgcolor": _PAPER, "font": {"size": 12, "color": _colour(trace)}}
    if level:
        place = {
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "y": _on(y[0], "yaxis" in logarithmic),
            "yanchor": "bottom",
        }
        return {"name": "level", **place, **look}
    place = {"x": _on(x[0], "xaxis" in logarithmic), "xanchor": "left", "y": 1, "yref": "paper", "yanchor": "top"}
    return {"name": "upright", **place, **look}


def end_labels(traces: Sequence[dict[str, Any]], logarithmic: Collection[str]) -> list[dict[str, Any]]:
    """Names at the right of the lines, where there are several and room for them; else none."""
    lines = [trace for trace in traces if _is_line(trace) and trace.get("showlegend", True) and trace.get("name")]
    others = [trace for trace in traces if trace not in lines and trace.get("showlegend", True)]
    if not 2 <= len(lines) <= MOST_ENDS or others or any(len(line["name"]) > _LONGEST for line in lines):
        return []
    ends = [(line, _last(line)) for line in lines]
    return [
        {
            **{"name": "end", "text": line["name"], "showarrow": False, "font": {"size": 12, "color": _colour(line)}},
            **{"x": 1, "xref": "paper", "xanchor": "left", "xshift": 6, "y": _on(y, "yaxis" in logarithmic)},
        }
        for line, y in ends
        if y is not None
    ]


def _is_line(trace: dict[str, Any]) -> bool:
    return trace.get("type", "scatter") == "scatter" and "lines" in trace.get("mode", "lines")


def _is_reference(trace: dict[str, Any]) -> bool:
    meta = trace.get("meta") or {}
    return meta.get("tone") == "bound"


def _last(line: dict[str, Any]) -> float | None:
    return next((y for y in reversed(list(line.get("y") or ())) if y is not None), None)


def _on(value: float, logarithmic: bool) -> float:
    """Where plotly has annotations: on a logarithmic axis at the power of ten."""
    return math.log10(value) if logarithmic and value > 0 else value


def _colour(trace: dict[str, Any]) -> str:
    return legible(trace["line"]["color"])


PATTERNS = ("", "/", "", "x", "", "\\", ".", "-")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
MUTED, LINE, ALARM, FAINT = "#52606D", "#D9E0E6", "#B00020", "#7B8794"
# tone -> colour, dash of lines, pattern of bars; phases differ in lightness, for print in grey
_TONES = MappingProxyType({
    "bound": (INK, "dash", "/"),
    "chosen": (INK, "solid", ""),
    "faint": (FAINT, "solid", ""),
    "alarm": (ALARM, "dot", "x"),
    "prefill": (PHASES["prefill"], "solid", ""),
    "decode": (PHASES["decode"], "dash", "/"),
    "mixed": (PHASES["mixed"], "dashdot", "x"),
    "idle": (PHASES["idle"], "dot", "."),
})  # fmt: skip
_WHISKER = MappingProxyType({"thickness": 1.4, "width": 4, "color": INK})  # else that of a bar's white edge
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
    """`{name: {data, layout, ends}}` as JSON that may stand in a script element: no `<`, `>`, `&` or line separators.

    `ends`: the names of lines as annotations at their ends, for places that are wide enough; narrow ones have a legend.
    """
    figures = {chart.name: _figure(chart) for chart in charts}
    text = json.dumps(figures, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _figure(chart: Chart) -> dict[str, Any]:
    traces = [_styled(_plain(trace), place) for place, trace in enumerate(chart.traces)]
    layout = _styled_layout(chart)
    logarithmic = {axis for axis in ("xaxis", "yaxis") if layout[axis].get("type") == "log"}
    references = [label for trace in traces if (label := reference_label(trace, logarithmic))]
    if sum(trace.get("showlegend", True) for trace in traces) < 2:
        layout["showlegend"] = False
    if references:
        layout["annotations"] = [*layout.get("annotations", ()), *references]
    return {"data": traces, "layout": layout, "ends": end_labels(traces, logarithmic)}


def _styled(trace: dict[str, Any], place: int) -> dict[str, Any]:
    """The trace with the look of its place; what it says itself counts more."""
    meta = trace.get("meta") or {}
    meta = meta if isinstance(meta, Mapping) else {}
    series, tone = int(meta.get("series", place)), meta.get("tone")
    turn = series % len(PALETTE)
    colour, dash, shape = _TONES[tone] if tone else (PALETTE[turn], DASHES[turn], PATTERNS[turn])
    colour = gpu_colour(str(meta["gpu"])) if "gpu" in meta else colour
    colour = blended(colour, PAPER, meta["pale"]) if "pale" in meta else colour
    look: dict[str, Any] = {}
    match trace.get("type", "scatter"):
        case "bar":
            pattern = {"shape": shape, "fillmode": "overlay", "size": 6, "solidity": 0.25}
            pattern["fgcolor"] = MUTED if tone == "idle" else "#FFFFFF"
            look["marker"] = {"color": colour, "pattern": pattern, "line": {"color": "#FFFFFF", "width": 1}}
            look |= {key: dict(_WHISKER) for key in ("error_x", "error_y") if key in trace}
        case "scatter":
            look["line"] = {"color": colour, "dash": dash, "width": 2}
            look["marker"] = {"color": colour, "symbol": SYMBOLS[turn], "size": 8}
        case "heatmap" | "contour" | "histogram2d":
            look = {"colorscale": "Cividis"}  # even in lightness, alike to colour-blind readers
        case "box" | "violin" | "histogram":
            look = {"marker": {"color": colour}}
    return _merged(look, trace)


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
