"""Figures 13 and 14 of the ASI paper for any cluster: idle GPUs by request and cause, jobs across and within."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from planner.domain.diagnosis import ClusterDiagnosis, JobDiagnosis, JobScope, RequestDiagnosis, StrandingCause
from planner.report.cluster.diagnosis.words import CAUSES, REQUEST_CAUSES, row_type
from planner.report.kit import style

PANEL_IN = 3.6
HEAD_ROOM = 1.14
LONGEST_NAME = 14
MOST_TYPES = 12
_RELEASED = (
    ("fractional", StrandingCause.FRACTIONAL),
    ("stranded", StrandingCause.STRANDED),
    ("cpu", StrandingCause.CPU),
)
_SCOPES = (
    (JobScope.CLUSTER, "across switches"),
    (JobScope.ASW, "within one switch"),
    (JobScope.NVLINK_DOMAIN, "within one NVLink domain"),
)


def _bar(cause: StrandingCause) -> dict[str, Any]:
    return style.bar_of(REQUEST_CAUSES.index(cause))


def draw_diagnosis(diagnosis: ClusterDiagnosis) -> Figure:
    """Three rows: causes as the released scripts count them, all idle GPUs by cause, and jobs by type."""
    requests = [row for row in diagnosis.requests if not row.gpu]
    sizes = list(dict.fromkeys(row.gpus for row in diagnosis.jobs))
    rows = 2 * bool(requests) + bool(sizes)
    figure = style.blank(0.6 + PANEL_IN * max(rows, 1))
    style.heading(figure, f"{style.shown(diagnosis.cluster, 40)}: idle GPUs that cannot serve")
    if not rows:
        style.nothing_to_show(figure.add_subplot(), "no node has a GPU")
        return figure
    grid = figure.add_gridspec(rows, max(len(sizes), 1))
    if requests:
        _released(figure.add_subplot(grid[0, :]), requests)
        _partition(figure.add_subplot(grid[1, :]), requests)
    for column, size in enumerate(sizes):
        _jobs(figure.add_subplot(grid[rows - 1, column]), [row for row in diagnosis.jobs if row.gpus == size])
    return figure


def _released(axes: Axes, rows: Sequence[RequestDiagnosis]) -> None:
    """Figure 13: a bar a cause beside each other, as the scripts count."""
    width = 0.27
    for turn, (name, cause) in enumerate(_RELEASED):
        heights = [float(getattr(row.released, name)) for row in rows]
        places = [at + width * (turn - 1) for at in range(len(rows))]
        bars = axes.bar(places, heights, width, label=CAUSES[cause], **_bar(cause))
        axes.bar_label(bars, [f"{height:,.4g}" for height in heights], fontsize=style.points(7), padding=1)
    _request_axis(axes, rows, "figure 13, as the released scripts count")


def _partition(axes: Axes, rows: Sequence[RequestDiagnosis]) -> None:
    """Every idle GPU once: those that serve, then the causes."""
    at = range(len(rows))
    ends = [float(row.servable_gpus) for row in rows]
    axes.bar(at, ends, 0.7, color=style.IDLE, label="serve")
    for cause in REQUEST_CAUSES:
        heights = [row.of(cause) for row in rows]
        if any(heights):
            axes.bar(at, heights, 0.7, bottom=ends, label=CAUSES[cause], **_bar(cause))
            ends = [end + height for end, height in zip(ends, heights, strict=True)]
    for place, row in zip(at, rows, strict=True):
        words = f"{row.fit:,} fit"
        axes.annotate(
            words,
            (place, ends[place]),
            ha="center",
            va="bottom",
            fontsize=style.points(7),
            xytext=(0, 1),
            textcoords="offset points",
        )
    _request_axis(axes, rows, "all idle GPUs, each once")
    axes.set_ylim(0, HEAD_ROOM * max([1.0, *ends]))


def _request_axis(axes: Axes, rows: Sequence[RequestDiagnosis], title: str) -> None:
    axes.set_xticks(range(len(rows)), [row.request.name for row in rows])
    axes.set_ylabel("idle GPUs")
    axes.margins(y=0.12)
    axes.set_title(title)
    style.legend_beside(axes)


def _jobs(axes: Axes, rows: Sequence[JobDiagnosis]) -> None:
    """Figure 14: jobs that fit by type, across switches and in one place."""
    types = list(dict.fromkeys(row_type(row) for row in rows))
    types = types if len(types) <= MOST_TYPES else [*types[: MOST_TYPES - 1], types[-1]]
    scopes = [(scope, words) for scope, words in _SCOPES if any(row.scope is scope for row in rows)]
    width = 0.8 / len(scopes)
    for turn, (scope, words) in enumerate(scopes):
        fits = {row_type(row): row.fit for row in rows if row.scope is scope}
        places = [at + width * (turn - (len(scopes) - 1) / 2) for at in range(len(types))]
        bars = axes.bar(places, [fits[name] for name in types], 0.92 * width, label=words, **style.bar_of(turn))
        axes.bar_label(bars, fontsize=style.points(7), padding=1)
    axes.set_xticks(
        range(len(types)), [style.shown(name, LONGEST_NAME) for name in types], rotation=20 if len(types) > 3 else 0
    )
    axes.set_ylabel("jobs that fit")
    axes.set_ylim(0, 1.35 * max([1, *(row.fit for row in rows)]))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"figure 14: jobs of {rows[0].gpus:,} GPUs, {rows[0].cpus_per_gpu} CPUs each")
    axes.legend(loc="upper left", ncols=1, fontsize=style.points(7))
