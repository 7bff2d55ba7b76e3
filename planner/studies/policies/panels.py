"""The panels of the online policies' figures: one trace a panel, percent of arrived GPU capacity to the right."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from planner.report.kit import style
from planner.studies.policies.means import PolicyCurve, combines_power, savings

HEIGHT_IN = 4.2
TALL_IN = 6.6
FULL = 100
MARKED = 0.14
"""Between two markers of a line, as a share of the panel's diagonal."""

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255")
DASHES = ("--", "-.", ":")
SATURATED = 0.995
"""GRAR below which a policy counts as turning pods away; the zoom begins before half of the policies do."""

LATEST_ZOOM, ZOOM_STEP = 90, 5
ARRIVED = "GPU capacity asked for (% of the cluster)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePanel:
    """A trace, its policies' curves and the label of the one that the others are held against.

    `labels`: all policies of the figure, so that one looks the same in every panel.
    """

    name: str
    curves: Mapping[str, PolicyCurve]
    baseline: str
    labels: tuple[str, ...]

    @property
    def base(self) -> PolicyCurve:
        """The baseline's curve."""
        return self.curves[self.baseline]


Painter: TypeAlias = Callable[[Axes, TracePanel], None]


def draw_power(panels: Sequence[TracePanel]) -> Figure:
    """Watts of the baseline, CPUs under GPUs, and the GPUs' share of them (PWR paper, figure 1)."""
    figure, rows = _sheet(panels, "power drawn", 1)
    for panel, axes in zip(panels, rows[0], strict=True):
        _power(axes, panel)
    return figure


def draw_savings(panels: Sequence[TracePanel]) -> Figure:
    """Percent of the baseline's power that each policy saves (figures 3 to 6)."""
    figure, rows = _sheet(panels, f"power saved against {panels[0].base.title}", 1)
    _paint(rows[0], panels, _savings)
    return figure


def draw_grar(panels: Sequence[TracePanel]) -> Figure:
    """GPUs held over GPUs asked for, from where the policies turn pods away (figures 7 to 10)."""
    figure, rows = _sheet(panels, "GPUs held over GPUs asked for", 1)
    _paint(rows[0], panels, _grar)
    return figure


def draw_combinations(panels: Sequence[TracePanel]) -> Figure:
    """PWR and its mixtures with FGD: savings above, GRAR below (figure 2)."""
    combined = [replace(panel, curves=combinations(panel)) for panel in panels]
    figure, rows = _sheet(combined, f"PWR and FGD combined: power saved against {combined[0].base.title}, GRAR", 2)
    _paint(rows[0], combined, _savings)
    _paint(rows[1], combined, _grar, legend=False)
    return figure


def draw_allocation(panels: Sequence[TracePanel]) -> Figure:
    """Percent of the GPUs that pods hold, near saturation and beyond."""
    figure, rows = _sheet(panels, "GPUs held", 1)
    _paint(rows[0], panels, _allocation)
    return figure


def draw_fragmentation(panels: Sequence[TracePanel]) -> Figure:
    """Idle GPUs that pods of the trace cannot use: of all GPUs above, of the idle ones below."""
    figure, rows = _sheet(panels, "GPU fragmentation", 2)
    _paint(rows[0], panels, _fragmentation)
    _paint(rows[1], panels, _fragmentation_ratio, legend=False)
    return figure


def combinations(panel: TracePanel) -> dict[str, PolicyCurve]:
    """The baseline, PWR and its mixtures with FGD."""
    return {label: curve for label, curve in panel.curves.items() if combines_power(label) or label == panel.baseline}


def _sheet(panels: Sequence[TracePanel], title: str, rows: int) -> tuple[Figure, list[list[Axes]]]:
    """A column a trace; axes row by row."""
    figure = style.blank(TALL_IN if rows > 1 else HEIGHT_IN)
    grid = figure.subplots(rows, len(panels), squeeze=False)
    alone = f"{style.shown(panels[0].name, 40)}: " if len(panels) == 1 and panels[0].name else ""
    style.heading(figure, f"{alone}{title}" if alone else title[:1].upper() + title[1:])
    for column, panel in enumerate(panels):
        if len(panels) > 1:
            grid[0][column].set_title(style.shown(panel.name, 40))
        grid[-1][column].set_xlabel(ARRIVED)
    for axes in grid.flat:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, [list(row) for row in grid]


def _paint(row: Sequence[Axes], panels: Sequence[TracePanel], paint: Painter, *, legend: bool = True) -> None:
    """One kind of panel for every trace; the legend stands beside the last, one entry a policy."""
    for axes, panel in zip(row, panels, strict=True):
        paint(axes, panel)
    for axes in row[1:]:
        axes.set_ylabel("")
    if legend:
        _legend(row, panels)


def _legend(row: Sequence[Axes], panels: Sequence[TracePanel]) -> None:
    lines = {}
    for axes in row:
        lines.update({label: line for line, label in zip(*axes.get_legend_handles_labels(), strict=True)})
    panel_titles = [style.shown(curve.title) for panel in panels for curve in panel.curves.values()]
    titles = dict.fromkeys([*(title for title in panel_titles if title in lines), *lines])
    handles = [lines[title] for title in titles]
    row[-1].legend(handles, list(titles), loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)


def _looks(panel: TracePanel) -> dict[str, dict[str, object]]:
    """A line a policy: the baseline black, PWR and its mixtures solid, the others broken."""
    looks: dict[str, dict[str, object]] = {}
    others = [label for label in panel.labels if label != panel.baseline]
    # those with power first: their colours do not depend on how many others there are
    ordered = sorted(others, key=lambda label: not combines_power(label))
    for place, label in enumerate(ordered):
        turn, at = divmod(place, len(PALETTE))
        powered = combines_power(label)
        looks[label] = {
            "color": style.mixed(PALETTE[at], style.ink(), 0.35 * min(turn, 2)),
            "linestyle": "-" if powered else DASHES[place % len(DASHES)],
            "linewidth": 1.7 if powered else 1.5,
            "marker": style.MARKERS[place % len(style.MARKERS)],
            "markersize": 3.6,
            # each at places of its own: of lines that lie on each other every one shows
            "markevery": (0.02 + MARKED * place / max(1, len(ordered)), MARKED),
        }
    looks[panel.baseline] = {"color": style.ink(), "linestyle": "-", "linewidth": 2.6}
    return looks


def _power(axes: Axes, panel: TracePanel) -> None:
    base = panel.base
    watts = base.values("power_w")
    unit, scale = ("MW", 1e6) if watts.max() >= 1e6 else ("kW", 1e3)
    x, cpu, both = base.percents, base.values("cpu_power_w") / scale, watts / scale
    axes.fill_between(x, 0, cpu, color=style.palette()[0], linewidth=0, label="CPUs")
    axes.fill_between(x, cpu, both, color=style.palette()[1], linewidth=0, label="GPUs")
    axes.set_ylabel(f"power of {style.shown(base.title)} ({unit})")
    axes.set_xlim(0, min(FULL, max(1, int(x[-1]))))
    axes.set_ylim(0, 1.08 * both.max())
    share = axes.twinx()
    share.plot(
        x,
        100 * base.values("gpu_power_w") / watts,
        color=style.ink(),
        linestyle="--",
        linewidth=1.3,
        label="share of GPUs",
    )
    share.set_ylim(0, 100)
    share.set_ylabel("share of the GPUs (%)")
    share.grid(visible=False)
    share.spines["right"].set_visible(True)
    handles = [*axes.get_legend_handles_labels()[0], *share.get_legend_handles_labels()[0]]
    axes.legend(
        handles, [str(handle.get_label()) for handle in handles], loc="lower right", frameon=True, framealpha=0.9
    )


def _savings(axes: Axes, panel: TracePanel) -> None:
    looks = _looks(panel)
    axes.axhline(0, label=style.shown(panel.base.title), **looks[panel.baseline])  # type: ignore[arg-type]
    for label, curve in _others(panel):
        saved = {at: value for at, value in savings(panel.base.means, curve.means).items() if at <= FULL}
        axes.plot(list(saved), list(saved.values()), label=style.shown(curve.title), **looks[label])  # type: ignore[arg-type]
    axes.set_xlim(0, min(FULL, _end(panel)))
    axes.set_ylabel("power saved (%)")


def _others(panel: TracePanel) -> list[tuple[str, PolicyCurve]]:
    """All but the baseline, PWR and its mixtures last, that is on top."""
    curves = [(label, curve) for label, curve in panel.curves.items() if label != panel.baseline]
    return sorted(curves, key=lambda item: combines_power(item[0]))


def _end(panel: TracePanel) -> int:
    return max([1, *(int(curve.percents[-1]) for curve in panel.curves.values())])


def zoom_of(panel: TracePanel) -> int:
    """Percent from which GRAR is worth looking at: before half of the policies turn pods away, at most 90."""
    first = statistics.median_low([_saturated_at(curve) for curve in panel.curves.values()])
    return max(0, min(LATEST_ZOOM, (first - 1) // ZOOM_STEP * ZOOM_STEP))


def _saturated_at(curve: PolicyCurve) -> int:
    low = curve.percents[curve.values("grar") < SATURATED]
    return int(low[0]) if len(low) else FULL


def _grar(axes: Axes, panel: TracePanel) -> None:
    start, end = zoom_of(panel), min(FULL, _end(panel))
    _lines(axes, panel, "grar", min(start, end - 1), end)
    axes.set_ylabel("GPUs held / asked for (GRAR)")


def _allocation(axes: Axes, panel: TracePanel) -> None:
    end = _end(panel)
    start = min(zoom_of(panel), end - 1)
    percents = range(start, end + 1)
    ceiling = [min(percent, FULL) for percent in percents]
    axes.plot(percents, ceiling, color=style.faint(), linestyle=":", linewidth=1.2, label="all that is asked for")
    _lines(axes, panel, "allocation_percent", start, end)
    axes.set_ylabel("GPUs held (% of the cluster)")


def _fragmentation(axes: Axes, panel: TracePanel) -> None:
    _lines(axes, panel, "fragmentation_percent", 0, _end(panel))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("idle and of no use\n(% of all GPUs)")


def _fragmentation_ratio(axes: Axes, panel: TracePanel) -> None:
    _lines(axes, panel, "fragmentation_ratio_percent", 0, _end(panel))
    axes.set_ylim(0, 103)
    axes.set_ylabel("idle and of no use\n(% of the idle GPUs)")


def _lines(axes: Axes, panel: TracePanel, name: str, start: int, end: int) -> None:
    """One line a policy between two percentages."""
    looks = _looks(panel)
    for label, curve in [(panel.baseline, panel.base), *_others(panel)]:
        mask = (curve.percents >= start) & (curve.percents <= end)
        axes.plot(curve.percents[mask], curve.values(name)[mask], label=style.shown(curve.title), **looks[label])  # type: ignore[arg-type]
    axes.set_xlim(start, end)
