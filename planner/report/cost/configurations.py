"""Parallel configurations of an island beside each other, over prompt lengths.

| symbol | meaning | unit |
|---|---|---|
| R*[s] | the best rate at length s among the panel's configurations | requests/s |
| delta[c, s] | (R*[s] - R[s, c]) / R*[s] (section 4.6.1); 1 where c cannot serve | 1 |
| mean deviation of c | mean of delta over the lengths that some configuration serves | 1 |
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from planner.domain import ConfigurationRates, ParallelConfig
from planner.report.cost import cost_panels
from planner.report.kit import style
from planner.report.kit.colours import PALETTE
from planner.report.kit.quantities import percent

COLUMNS = 3
PANEL_IN = 3.0
MARGINS = cost_panels.Margins(left=1.05, right=1.7, top=1.05, bottom=0.6, gap=0.25, row_gap=1.0)
STRONG = 8
LARGEST_LINEAR = 50.0
"""Beyond this ratio of the largest to the smallest value the axis is logarithmic."""
TICKS = 6
MARKED = 12
"""Markers on a line, at most."""
OTHERS = "#CFCFCF"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
UNITS = MappingProxyType(
    {
        "requests": "rate (requests/s)",
        "requests_per_gpu": "rate (requests/s per GPU)",
        "prompt_tokens": "rate (prompt tokens/s)",
        "batch": "batch (sequences per group)",
    }
)

Panel = tuple[ConfigurationRates, ...]


def draw(rates: Sequence[ConfigurationRates], quantity: str, note: str) -> Figure:
    """A panel for each GPU type and phase, in the order in which they come."""
    panels = _panels(rates)
    figure, axes_of = cost_panels.grid(len(panels), COLUMNS, PANEL_IN, MARGINS)
    sizes = {r.parallel.size for r in rates}
    of = f"an island of {sizes.pop()} GPUs" if len(sizes) == 1 else "islands"
    style.heading(
        figure, f"Parallel configurations of {of} over prompt lengths{f' [{style.shown(note, 60)}]' * bool(note)}"
    )
    strong = {config: k for k, config in enumerate(strongest(panels, STRONG))}
    limits = _limits(rates, quantity)
    for k, (axes, panel) in enumerate(zip(axes_of, panels, strict=True)):
        _frame(axes, panel, first=k % COLUMNS == 0)
        _scale(axes, limits)
        if k % COLUMNS == 0:
            axes.set_ylabel(UNITS[quantity])
        _lines(axes, panel, quantity, strong)
    _legend(figure, axes_of[min(COLUMNS, len(panels)) - 1], rates, strong)
    return figure


def _panels(rates: Sequence[ConfigurationRates]) -> list[Panel]:
    keys = dict.fromkeys((r.gpu, r.phase) for r in rates)
    return [tuple(r for r in rates if (r.gpu, r.phase) == key) for key in keys]


def deviations(panel: Panel) -> list[float]:
    """Mean deviation of each configuration from the best at each length; 1 where nothing is served at all."""
    best = [max(column) for column in zip(*(r.rates_rps for r in panel), strict=True)]
    return [_deviation(r, best) for r in panel]


def _deviation(rates: ConfigurationRates, best: Sequence[float]) -> float:
    off = [1 - rate / best_rps for rate, best_rps in zip(rates.rates_rps, best, strict=True) if best_rps > 0]
    return sum(off) / len(off) if off else 1.0


def _ranked(panel: Panel) -> list[ParallelConfig]:
    """Configurations that serve anything, the best first."""
    off = deviations(panel)
    order = sorted(range(len(panel)), key=lambda k: (off[k], k))
    return [panel[k].parallel for k in order if any(panel[k].rates_rps)]


def strongest(panels: Sequence[Panel], count: int) -> list[ParallelConfig]:
    """The first `count` of: every panel's best, then every panel's second, and so on."""
    ranks = zip_longest(*(_ranked(panel) for panel in panels))
    return list(dict.fromkeys(config for rank in ranks for config in rank if config is not None))[:count]


def _values(rates: ConfigurationRates, quantity: str) -> list[float]:
    """The quantity at each length; NaN where the configuration cannot serve."""
    factors: dict[str, Sequence[float]] = {
        "requests": [1.0] * len(rates.lengths),
        "requests_per_gpu": [1 / rates.parallel.size] * len(rates.lengths),
        "prompt_tokens": rates.lengths,
    }
    shown = (
        rates.batch_sizes
        if quantity == "batch"
        else [rate * factor for rate, factor in zip(rates.rates_rps, factors[quantity], strict=True)]
    )
    return [float(value) if rate > 0 else float("nan") for value, rate in zip(shown, rates.rates_rps, strict=True)]


def _limits(rates: Sequence[ConfigurationRates], quantity: str) -> tuple[float, float]:
    values = [v for r in rates for v in _values(r, quantity) if v > 0]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _frame(axes: Axes, panel: Panel, *, first: bool) -> None:
    lengths = panel[0].lengths
    axes.set_xscale("log", base=2)
    spread = lengths[-1] / lengths[0]
    axes.set_xlim(lengths[0] / max(spread, 2.0) ** 0.04, lengths[-1] * max(spread, 2.0) ** 0.04)
    powers = [2**k for k in range(64) if lengths[0] <= 2**k <= lengths[-1]] or list(lengths)
    ticks = powers[:: -(-len(powers) // TICKS)]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], fontsize=style.points(7.0))
    axes.minorticks_off()
    axes.set_xlabel("prompt length (tokens)")
    if not first:
        axes.tick_params(axis="y", labelleft=False)
    axes.set_title("\n".join(_title_lines(panel)), fontsize=style.points(8.0), linespacing=1.3)


def _title_lines(panel: Panel) -> list[str]:
    """The panel's title: whose it is, which configuration is best, how many fit nowhere."""
    sizes = sorted({r.parallel.size for r in panel})
    name = f"{style.shown(panel[0].gpu)} {panel[0].phase}: {', '.join(map(str, sizes))} GPUs"
    ranked = _ranked(panel)
    if not ranked:
        return [name, "the model does not fit", "in any configuration"]
    off = min(deviations(panel))
    nowhere = len(panel) - len(ranked)
    gap = f" (mean gap {percent(off)})" if off > 1e-9 else " (at every length)"
    counted = (
        f"{nowhere} of {len(panel)} configurations fit at no length"
        if nowhere
        else f"all {len(panel)} configurations fit"
    )
    return [name, f"best: {cost_panels.parallel_label(ranked[0])}{gap}", counted]


def _scale(axes: Axes, limits: tuple[float, float]) -> None:
    low, high = limits
    if low > 0 and high / low > LARGEST_LINEAR:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.5, high * 1.5)
        cost_panels.plain_ticks(axes.yaxis, (1.0,) if high / low > 1000 else (1.0, 2.0, 5.0))
    else:
        axes.set_ylim(0, 1.06 * high)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}" if value < 1e5 else f"{value:,.0f}")


def _lines(axes: Axes, panel: Panel, quantity: str, strong: Mapping[ParallelConfig, int]) -> None:
    """The best last, so that it lies on top."""
    off = dict(zip((r.parallel for r in panel), deviations(panel), strict=True))
    for rates in sorted(panel, key=lambda r: (r.parallel in strong, -off[r.parallel])):
        place = strong.get(rates.parallel)
        values = _values(rates, quantity)
        label = cost_panels.parallel_label(rates.parallel)
        if place is None:
            axes.plot(rates.lengths, values, color=OTHERS, linewidth=0.7, zorder=1.5, label=label)
        else:
            axes.plot(
                rates.lengths,
                values,
                color=PALETTE[place % len(PALETTE)],
                marker=MARKERS[place % len(MARKERS)],
                markersize=3.2,
                markevery=-(-len(values) // MARKED),
                linewidth=1.3,
                zorder=3,
                label=label,
            )
            _ends(axes, rates, values, PALETTE[place % len(PALETTE)])


def _ends(axes: Axes, rates: ConfigurationRates, values: Sequence[float], colour: str) -> None:
    """A cross on a length that is served beside one that is not."""
    served = [rate > 0 for rate in rates.rates_rps]
    at = [k for k, on in enumerate(served) if on and not all(served[max(0, k - 1) : k + 2])]
    if at:
        axes.scatter(
            [rates.lengths[k] for k in at],
            [values[k] for k in at],
            marker="x",
            s=60,
            color=colour,
            linewidths=1.6,
            zorder=4,
            label="does not fit",
        )


def _legend(
    figure: Figure, last: Axes, rates: Sequence[ConfigurationRates], strong: Mapping[ParallelConfig, int]
) -> None:
    handles = [
        Line2D(
            [],
            [],
            color=PALETTE[k % len(PALETTE)],
            marker=MARKERS[k % len(MARKERS)],
            markersize=4,
            linewidth=1.3,
            label=cost_panels.parallel_label(config),
        )
        for config, k in strong.items()
    ]
    others = {r.parallel for r in rates if r.parallel not in strong and any(r.rates_rps)}
    if others:
        handles.append(Line2D([], [], color=OTHERS, linewidth=0.9, label=f"{len(others)} others"))
    if any(0 < sum(rate > 0 for rate in r.rates_rps) < len(r.rates_rps) for r in rates if r.parallel in strong):
        handles.append(
            Line2D([], [], linestyle="", marker="x", color=style.ink(), label="does not fit\nat the next length")
        )
    if handles:
        right = last.get_position()
        figure.legend(
            handles=handles,
            title="configuration\n(× replicas)",
            loc="upper left",
            bbox_to_anchor=(right.x1 + 0.01, right.y1),
            borderaxespad=0,
            alignment="left",
        )
