"""One look for every figure: palette, sizes, grid, and bytes that depend on nothing but the plan.

Figures are built on matplotlib's object interface. The look is applied in a context around building and
around encoding, so a user's matplotlibrc changes neither, and nothing of it outlives the call.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from io import BytesIO
from types import MappingProxyType
from typing import Literal

from matplotlib import style as matplotlib_style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from planner.domain import CostMode, Inventory, Phase, Plan
from planner.report.kit.bands import Banded
from planner.report.plan.groups import IslandGroup

WIDTH_IN = 11.0
DPI = 150
TITLE_MARGIN_IN = 0.12

INK = "#222222"
FAINT = "#8A8A8A"
GRID = "#DDDDDD"
IDLE = "#C9C9C9"
ALARM = "#B00020"

# Okabe and Ito's eight colours, told apart with every common colour blindness; strongest contrast first
TYPE_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#555555")

# two hues of very different lightness, neither of them among the first GPU types'
PHASE_COLOURS = MappingProxyType(
    {Phase.PREFILL: "#882255", Phase.DECODE: "#88CCEE", Phase.MIXED: "#44AA99", None: IDLE}
)
PHASE_HATCHES = MappingProxyType({Phase.PREFILL: "", Phase.DECODE: "////", Phase.MIXED: "xx", None: "...."})

LOOK = MappingProxyType(
    {
        "font.family": "DejaVu Sans",
        "font.size": 9.0,
        "text.usetex": False,
        "text.color": INK,
        "axes.edgecolor": FAINT,
        "axes.labelcolor": INK,
        "axes.labelsize": 9.0,
        "axes.titlesize": 9.5,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "xtick.labelsize": 8.0,
        "ytick.labelsize": 8.0,
        "xtick.color": INK,
        "ytick.color": INK,
        "legend.fontsize": 8.0,
        "legend.title_fontsize": 8.0,
        "legend.frameon": False,
        "figure.facecolor": "white",
        "hatch.linewidth": 0.5,
        "svg.hashsalt": "planner",
    }
)


def look() -> AbstractContextManager[None]:
    """Within it, artists are made and drawn in the project's look."""
    context: AbstractContextManager[None] = matplotlib_style.context(["default", dict(LOOK)])
    return context


def blank(height_in: float, *, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """An empty figure of the common width on an Agg canvas."""
    figure = Figure(figsize=(WIDTH_IN, height_in), dpi=DPI, layout=layout)
    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(w_pad=0.1, h_pad=0.1)
    return figure


def titled(figure: Figure, plan: Plan, text: str) -> None:
    """The figure's title: the scenario, what is shown, and a word of warning in reference mode."""
    mode = " [reference mode: not physical]" if plan.scenario.cost.mode is CostMode.REFERENCE else ""
    heading(figure, f"{shown(plan.scenario.name, 40)}: {text}{mode}")


def heading(figure: Figure, text: str) -> None:
    """A figure's title, at its upper left."""
    fixed = figure.get_layout_engine() is None
    y = 1 - TITLE_MARGIN_IN / figure.get_figheight() if fixed else None
    figure.suptitle(text, x=0.01, y=y, ha="left", fontsize=11.0, fontweight="bold")


def shown(name: str, longest: int = 24) -> str:
    """A name as figure text: one line, both ends kept when it is long, `$` never read as mathematics."""
    line = "".join(c for c in " ".join(name.split()) if c.isprintable())
    if len(line) > longest:
        head = (longest - 1) // 2
        line = f"{line[:head]}…{line[head + 1 - longest :]}"
    return line.replace("$", r"\$")


def type_colours(inventory: Inventory) -> dict[str, str]:
    """A colour per GPU type, by its place in the inventory; from the ninth on, darker ones."""
    return {item.gpu.name: _type_colour(place) for place, item in enumerate(inventory.items)}


def _type_colour(place: int) -> str:
    turn, at = divmod(place, len(TYPE_PALETTE))
    return mixed(TYPE_PALETTE[at], INK, 1 - 0.6**turn)


def mixed(colour: str, other: str, share: float) -> str:
    """`colour` with `share` of `other` in it, as hex."""
    pairs = zip(to_rgb(colour), to_rgb(other), strict=True)
    return str(to_hex([(1 - share) * a + share * b for a, b in pairs]))


def group_colours(plan: Plan, groups: Sequence[IslandGroup]) -> list[str]:
    """A colour per group: its type's, the lighter the smaller the islands."""
    base = type_colours(plan.scenario.inventory)
    siblings = [[g for g in groups if g.gpu == group.gpu] for group in groups]
    return [
        mixed(base[group.gpu], "#FFFFFF", 0.7 * kin.index(group) / max(1, len(kin)))
        for group, kin in zip(groups, siblings, strict=True)
    ]


def legend_beside(axes: Axes, title: str = "") -> None:
    """The legend of `axes`, right of it and clear of the data; the topmost bar comes first."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles[::-1],
            labels[::-1],
            title=title,
            loc="upper left",
            bbox_to_anchor=(1.01, 1.0),
            borderaxespad=0,
            alignment="left",
        )


def rate_bar(axes: Axes, x: float, banded: Banded) -> None:
    """P10 to P90 of a rate that is drawn at `x`, as an upright bar."""
    axes.errorbar(
        [x],
        [banded.value],
        yerr=[[max(0.0, banded.value - banded.low)], [max(0.0, banded.high - banded.value)]],
        fmt="none",
        ecolor=INK,
        elinewidth=1.1,
        capsize=4,
        zorder=4,
        label="P10–P90 of its rate",
    )


def nothing_to_show(axes: Axes, text: str) -> None:
    """Says why a panel is empty; its labels stay."""
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=FAINT)


def encoded(figure: Figure, kind: Literal["png", "svg"] = "png") -> bytes:
    """The figure as a file's bytes, without date or version: equal plans give equal bytes.

    `savefig` would draw it twice, the first time for its layout alone, which the canvas does while it draws.
    """
    buffer = BytesIO()
    with look():
        if kind == "png":
            FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
        else:
            figure.savefig(buffer, format=kind, dpi=DPI, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
