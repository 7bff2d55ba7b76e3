"""Names of lines beside them: of references on the line itself, of series at their ends.

A reference is a straight line of two points (a bound, a promise). A page moves labels apart that would overlap.
"""

import math
from collections.abc import Collection, Sequence
from typing import Any

from planner.report.kit.colours import legible

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
