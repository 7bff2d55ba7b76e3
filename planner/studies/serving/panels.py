"""The panels of a serving study's figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from planner.report.kit import style
from planner.studies.serving.arrivals import S_PER_MINUTE
from planner.studies.serving.measures import by_minute
from planner.studies.serving.policies.named import POLICIES
from planner.studies.serving.records import Action, ServingPool
from planner.studies.serving.simulation.log import ACTIONS, stays_of
from planner.studies.serving.study import ServingSeedRun

HEIGHT_IN, CURVE_POINTS = 3.6, 2000
SHORTEST_S = 1e-3
"""Completions are drawn from here on, on a logarithmic axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a figure is of: a run of each policy that it compares."""

    number: str
    runs: Sequence[ServingSeedRun]
    pool: ServingPool
    machine: int


def _blank(scene: Scene, title: str, height_in: float = HEIGHT_IN) -> tuple[Figure, Axes]:
    figure = style.blank(height_in)
    style.heading(figure, f"{scene.number}  {title}")
    return figure, figure.subplots()


def _line(policy: str) -> dict[str, Any]:
    """A policy looks the same in every figure."""
    return style.line_of(list(POLICIES).index(policy))


def draw_arrivals(scene: Scene) -> Figure:
    """Requests by minute."""
    figure, axes = _blank(scene, "Arrivals of requests")
    rows = by_minute(scene.runs[0].run.requests)
    axes.bar([row.minute for row in rows], [row.requests for row in rows], width=0.9, color=style.palette()[0])
    axes.set_xlabel("minute")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("requests")
    return figure


def draw_models(scene: Scene) -> Figure:
    """Requests by model, most first."""
    counts = np.bincount(scene.runs[0].run.requests.model, minlength=len(scene.pool.models)).tolist()
    rows = sorted(zip(counts, [model.name for model in scene.pool.models], strict=True))
    figure, axes = _blank(scene, "Requests by model", 1.4 + 0.25 * len(rows))
    bars = axes.barh([style.shown(name) for _, name in rows], [count for count, _ in rows], color=style.palette()[0])
    axes.bar_label(bars, [f"{count:,}" for count, _ in rows], padding=3, fontsize=style.points(7.5))
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.12)
    axes.set_xlabel("requests")
    return figure


def draw_completion(scene: Scene) -> Figure:
    """Share of the requests that are answered within so many seconds."""
    figure, axes = _blank(scene, "Completion times")
    for run in scene.runs:
        columns = run.run.requests
        seconds = np.sort(np.maximum(columns.finish_s - columns.arrival_s, SHORTEST_S))
        places = np.unique(np.linspace(0, len(seconds) - 1, min(CURVE_POINTS, len(seconds))).astype(int))
        axes.plot(
            seconds[places],
            100 * (places + 1) / len(seconds),
            linewidth=1.4,
            **_line(run.policy),
            label=POLICIES[run.policy].title,
        )
    style.plain_logarithm(axes, "x")
    axes.set_ylim(0, 101)
    axes.set_xlabel("seconds from arrival to answer")
    axes.set_ylabel("requests (%)")
    style.legend_beside(axes)
    return figure


def draw_misses(scene: Scene) -> Figure:
    """Requests by minute, and how many of them missed their deadlines under each policy."""
    figure, axes = _blank(scene, "Deadlines missed")
    rows = by_minute(scene.runs[0].run.requests)
    axes.bar(
        [row.minute for row in rows], [row.requests for row in rows], width=1.0, color=style.GRID, label="arrivals"
    )
    for run in scene.runs:
        late = by_minute(run.run.requests)
        axes.plot(
            [row.minute for row in late],
            [row.missed for row in late],
            linewidth=1.4,
            **_line(run.policy),
            label=POLICIES[run.policy].title,
        )
    axes.set_xlabel("minute of arrival")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("requests")
    style.legend_beside(axes)
    return figure


def draw_loading(scene: Scene) -> Figure:
    """Time spent on loading models, all machines."""
    figure, axes = _blank(scene, "Loading time of all machines", 1.4 + 0.3 * len(scene.runs))
    bars = axes.barh(
        [POLICIES[run.policy].title for run in scene.runs],
        [run.figures.load_s for run in scene.runs],
        color=[_line(run.policy)["color"] for run in scene.runs],
    )
    axes.bar_label(bars, [f"{run.figures.load_s:,.0f}" for run in scene.runs], padding=3, fontsize=style.points(7.5))
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.12)
    axes.set_xlabel("seconds")
    return figure


def draw_machine(scene: Scene) -> Figure:
    """A machine's models over time: loaded (strong), loading (faint), inferring (black)."""
    run = scene.runs[0]
    height_in = 1.2 + 0.28 * len(scene.pool.models)
    figure, axes = _blank(scene, f"Machine {scene.machine} under {POLICIES[run.policy].title}", height_in)
    for stay in stays_of(run.run.actions, scene.machine, run.figures.span_s):
        colour = style.palette()[stay.model % len(style.palette())]
        faint = style.mixed(colour, style.paper(), 0.65)
        for begin_s, end_s, shade in (
            (stay.start_s, stay.ready_s, faint),
            (stay.ready_s, stay.end_s, style.mixed(colour, style.paper(), 0.1)),
        ):
            _bar(axes, stay.model, [(begin_s, end_s)], shade, 0.8)
    for model, spans in _inferences(run, scene.machine).items():
        _bar(axes, model, spans, style.ink(), 0.4)
    axes.set_yticks(range(len(scene.pool.models)), [style.shown(model.name) for model in scene.pool.models])
    axes.set_ylim(len(scene.pool.models) - 0.5, -0.5)
    axes.set_xlim(0, run.figures.span_s / S_PER_MINUTE)
    axes.set_xlabel("minutes")
    shades = ((0.65, "loading"), (0.1, "loaded"))
    handles = [Patch(color=style.mixed(style.palette()[0], style.paper(), share), label=word) for share, word in shades]
    handles.append(Patch(color=style.ink(), label="inferring"))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
    return figure


def _inferences(run: ServingSeedRun, machine: int) -> dict[int, list[tuple[float, float]]]:
    """The machine's inferences by model, in seconds."""
    actions = run.run.actions
    chosen = (actions.machine == machine) & (actions.action == ACTIONS.index(Action.INFER))
    spans: dict[int, list[tuple[float, float]]] = {}
    for model, begin_s, end_s in zip(
        actions.model[chosen].tolist(), actions.start_s[chosen].tolist(), actions.end_s[chosen].tolist(), strict=True
    ):
        spans.setdefault(model, []).append((begin_s, end_s))
    return spans


def _bar(axes: Axes, model: int, spans: Sequence[tuple[float, float]], colour: str, high: float) -> None:
    minutes = [(begin_s / S_PER_MINUTE, (end_s - begin_s) / S_PER_MINUTE) for begin_s, end_s in spans]
    axes.broken_barh(minutes, (model - high / 2, high), facecolors=colour, linewidth=0)


DRAWN: MappingProxyType[str, Callable[[Scene], Figure]] = MappingProxyType(
    {
        "arrivals": draw_arrivals,
        "models": draw_models,
        "completion": draw_completion,
        "misses": draw_misses,
        "loading": draw_loading,
        "machine": draw_machine,
    }
)
