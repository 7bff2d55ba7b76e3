"""What the cost figures share: panels on a fixed grid, plain logarithmic ticks, colours of parts, marks of bounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from planner.domain import ParallelConfig, StepExplanation
from planner.report.kit import style
from planner.report.kit.quantities import significant, whole

BOUNDS = ("compute", "memory", "network", "latency")
BOUND_HATCHES = MappingProxyType({"compute": "", "memory": "////", "network": "...", "latency": "xxxx"})
BOUND_MARKERS = MappingProxyType({"compute": "o", "memory": "s", "network": "D", "latency": "^"})

PART_COLOURS = MappingProxyType(
    {
        "projections": "#56B4E9",
        "attention": "#0072B2",
        "attention of sequences": "#88CCEE",
        "dense": "#F0E442",
        "shared experts": "#E69F00",
        "routed experts": "#D55E00",
        "head": "#009E73",
        "small kernels": "#7A7A7A",
        "scheduling": "#C9C9C9",
        "all-reduce": "#332288",
        "dispatch": "#CC79A7",
        "combine": "#882255",
        "pipeline": "#44AA99",
        "images": "#117733",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Margins:
    """Room around and between panels (inches)."""

    left: float
    right: float
    top: float
    bottom: float
    gap: float
    row_gap: float = 0.0


def part_colour(name: str) -> str:
    """The part's colour, the same in every figure; one ink for a part that has none."""
    return PART_COLOURS.get(name, style.ink())


def parallel_label(config: ParallelConfig) -> str:
    """A parallel configuration in words: `tp2 dp16 ×2`, with `pp` where it is pipelined."""
    pipeline = f" pp{config.pp}" if config.pp > 1 else ""
    return f"tp{config.tp} dp{config.dp}{pipeline} ×{config.replicas}"


def step_label(step: StepExplanation, gap: str) -> str:
    """A step in words: GPU and phase, then after `gap` the configuration, the length and the batch."""
    pipeline = f" pp{step.parallel.pp}" if step.parallel.pp > 1 else ""
    degrees = f"tp{step.parallel.tp} dp{step.parallel.dp}{pipeline}"
    chunk = f", chunk {step.chunk:,}" if step.chunk else ""
    configuration = f"{degrees}, {whole(step.length)} tokens, batch {step.batch:,}{chunk}"
    return f"{style.shown(step.gpu)} {step.phase}{gap}{configuration}"


def grid(count: int, columns: int, panel_in: float, margins: Margins) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels of one size, row by row; the layout is fixed, so that labels can be measured."""
    columns = min(columns, count)
    rows = -(-count // columns)
    height = margins.top + margins.bottom + rows * panel_in + (rows - 1) * margins.row_gap
    width = (style.WIDTH_IN - margins.left - margins.right - (columns - 1) * margins.gap) / columns
    figure = style.blank(height, layout=None)
    panels = []
    for k in range(count):
        x = margins.left + (k % columns) * (width + margins.gap)
        bottom = height - margins.top - panel_in - (k // columns) * (panel_in + margins.row_gap)
        box = (x / style.WIDTH_IN, bottom / height, width / style.WIDTH_IN, panel_in / height)
        panels.append(figure.add_axes(box))
    return figure, panels


def plain_ticks(axis: Axis, subs: Sequence[float] = (1.0,), most_decades: int = 20) -> None:
    """Ticks of a logarithmic axis in plain figures, at `subs` times powers of ten; at most so many decades."""
    axis.set_major_locator(LogLocator(subs=subs, numticks=most_decades))
    axis.set_major_formatter(FuncFormatter(lambda value, _: significant(value, 1)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
