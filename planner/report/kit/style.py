"""One look for every figure: palette, sizes, grid, and bytes that depend on nothing but the plan.

Figures are built on matplotlib's object interface. The look is applied in a context around building and
around encoding, so nothing of it outlives the call. It lies below whatever the user changed of matplotlib's
settings (`plt.style.use`, `rcParams`, a matplotlibrc): their fonts, colours, grids and line styles stand, ours fill
what they leave as matplotlib has it. Three things stay ours: a figure's proportions, no LaTeX (names may hold any
sign), and colours that mean something (phases, alarms). Larger text makes a figure larger, so that nothing overlaps.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import matplotlib as mpl
from matplotlib import style as matplotlib_style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.rcsetup import cycler
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from planner.domain import CostMode, Phase, Plan, Scenario
from planner.errors import InputError
from planner.report.kit.colours import INK, PALETTE, PHASES, gpu_colour
from planner.report.kit.plots import Clock, clock_ticks, clock_words

WIDTH_IN = 11.0
DPI = 150
TITLE_MARGIN_IN = 0.12
PALE, PALE_LINE = 0.75, 0.3
"""Lines of a colour lighter than this are drawn with so much ink in it."""

SPAN_OF_FINE_TICKS = 20.0
"""A logarithmic axis from its least to its greatest, as a factor; shorter ones get more ticks."""

GRID = "#DDDDDD"
ALARM = "#B00020"
IDLE = PHASES["idle"]

TYPE_HATCHES = ("", "////", "....", "xx", "\\\\\\\\", "oo", "--", "++")
"""Tell GPU types apart in grey, by their place in an inventory."""

DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (6, 1.5, 1, 1.5)), (0, (1.5, 1)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<")

PHASE_COLOURS = MappingProxyType({**{phase: PHASES[phase.value] for phase in Phase}, None: IDLE})
PHASE_HATCHES = MappingProxyType({Phase.PREFILL: "", Phase.DECODE: "////", Phase.MIXED: "xx", None: "...."})

TEXT_PT = 9.0
_SIZES_PT = MappingProxyType(
    {
        "font.size": TEXT_PT,
        "axes.labelsize": 9.0,
        "axes.titlesize": 9.5,
        "xtick.labelsize": 8.0,
        "ytick.labelsize": 8.0,
        "legend.fontsize": 8.0,
        "legend.title_fontsize": 8.0,
    }
)

_LOOK: Mapping[str, Any] = MappingProxyType(
    {
        "font.family": "DejaVu Sans",
        "text.color": INK,
        "axes.edgecolor": "#8A8A8A",
        "axes.labelcolor": INK,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.prop_cycle": cycler(color=PALETTE),
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "xtick.color": INK,
        "ytick.color": INK,
        "legend.frameon": False,
        "figure.dpi": DPI,
        "figure.facecolor": "white",
        "hatch.linewidth": 0.5,
        "svg.hashsalt": "planner",
    }
)

# settings of a machine or of a session, not of a style; and those that would break a figure
_NOT_STYLE = frozenset(
    {"backend", "backend_fallback", "date.epoch", "interactive", "text.usetex", "timezone", "toolbar"}
)
_NOT_STYLE_PREFIXES = ("figure.autolayout", "figure.constrained_layout", "figure.figsize", "keymap", "tk.", "webagg.")


def look() -> AbstractContextManager[None]:
    """Within it, artists are made and drawn in the project's look, the user's settings above it."""
    personal = _changed_by_the_user()
    larger = personal.get("font.size", TEXT_PT) / TEXT_PT
    sizes = {key: size * larger for key, size in _SIZES_PT.items()}
    layers = [dict(_LOOK), sizes, personal, {"text.usetex": False}]
    context: AbstractContextManager[None] = matplotlib_style.context(["default", *layers])
    return context


@contextmanager
def reproducible(name: str | None = None) -> Iterator[None]:
    """Within it the user's settings do not count: files look alike on every machine. `name`: a style of matplotlib's,
    or the path of one, that counts in their place.

    InputError: no style of that name.
    """
    layers = ["default"] if name is None else ["default", name]
    try:
        context = matplotlib_style.context(layers)
        context.__enter__()
    except OSError as error:
        raise InputError(
            f"style: must be a style of matplotlib or the path of a style sheet, got {name!r:.80}.",
            hint=f"Choose one of {', '.join(sorted(matplotlib_style.available)[:6])} and others.",
        ) from error
    try:
        yield
    finally:
        context.__exit__(None, None, None)


def _changed_by_the_user() -> dict[str, Any]:
    """Settings of style that are not as matplotlib ships them."""
    return {
        key: mpl.rcParams[key]
        for key, shipped in mpl.rcParamsDefault.items()
        if key not in _NOT_STYLE and not key.startswith(_NOT_STYLE_PREFIXES) and mpl.rcParams[key] != shipped
    }


def ink() -> str:
    """The colour of text and strong lines."""
    return str(to_hex(mpl.rcParams["text.color"]))


def paper() -> str:
    """The colour behind the data."""
    return str(to_hex(mpl.rcParams["axes.facecolor"]))


def faint() -> str:
    """Between ink and paper: leaders, bounds, words in empty panels."""
    return mixed(ink(), paper(), 0.47)


def palette() -> tuple[str, ...]:
    """Eight colours at least: the user's cycle, ours where it is matplotlib's; a short cycle comes again, darker."""
    cycle = mpl.rcParams["axes.prop_cycle"]
    listed = PALETTE if cycle == mpl.rcParamsDefault["axes.prop_cycle"] else cycle.by_key().get("color", ())
    colours = [str(to_hex(colour)) for colour in listed or PALETTE]
    turns = -(-len(PALETTE) // len(colours))
    return tuple(mixed(colour, ink(), 1 - 0.6**turn) if turn else colour for turn in range(turns) for colour in colours)


def line_of(place: int) -> dict[str, Any]:
    """Colour and dashes of a line by its place, told apart in grey too; pale colours darker, as lines are thin."""
    colour = _series_colour(place)
    strength = PALE_LINE if luminance(colour) > PALE and luminance(paper()) > PALE else 0.0
    return {"color": mixed(colour, ink(), strength), "linestyle": DASHES[place % len(DASHES)]}


def _series_colour(place: int) -> str:
    colours = palette()
    turn, at = divmod(place, len(colours))
    return mixed(colours[at], ink(), 0.45 * min(turn, 2))


def luminance(colour: str) -> float:
    """From 0 (black) to 1, as Rec. 709 weighs red, green and blue."""
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), to_rgb(colour), strict=True))


def bar_of(place: int) -> dict[str, Any]:
    """Colour and hatch of a bar by its place, told apart in grey too."""
    return {
        "color": _series_colour(place),
        "hatch": TYPE_HATCHES[place % len(TYPE_HATCHES)],
        "edgecolor": paper(),
        "linewidth": 0,
    }


def plain_logarithm(axes: Axes, side: Literal["x", "y"]) -> None:
    """A logarithmic axis whose ticks read 20, 50, 100."""
    axes.set(**{f"{side}scale": "log"})
    axis: Axis = axes.xaxis if side == "x" else axes.yaxis
    low, high = axes.get_xlim() if side == "x" else axes.get_ylim()
    narrow = high / low < SPAN_OF_FINE_TICKS if low > 0 else False
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 4.0, 6.0) if narrow else (1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:,g}"))


def clock_axis(axes: Axes, clock: Clock, edges_s: Sequence[float]) -> None:
    """Times below the axis: hours of the clock, the day where one begins."""
    ticks, labels, before = clock_ticks(edges_s[0], edges_s[-1]), [], ""
    for tick in ticks:
        day, hour = clock_words(clock, tick)
        labels.append(hour if day == before else f"{hour}\n{day}")
        before = day
    axes.set_xticks(ticks, labels)
    axes.set_xlabel(clock.value)


def scale() -> float:
    """How much larger than ours the user's text is."""
    return float(mpl.rcParams["font.size"]) / TEXT_PT


def points(size: float) -> float:
    """A size of text (pt), larger where the user's text is."""
    return size * scale()


class DrawnFigure(Figure):
    """A figure that shows itself in notebooks and is saved in the look it was made in, the same bytes each time."""

    def savefig(self, fname: Any, **options: Any) -> None:
        """As matplotlib's, without date and version in the file."""
        with look():
            kind = (
                options.get("format") or Path(str(fname)).suffix.lstrip(".").lower() or mpl.rcParams["savefig.format"]
            )
            metadata = {**_UNDATED.get(kind, {}), **(options.pop("metadata", None) or {})}
            super().savefig(fname, metadata=metadata or None, **options)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]] | None:
        """For shells that do not draw figures themselves; half as wide as its pixels, sharp on dense screens."""
        if _shell_draws():
            return None
        width, height = (int(inches * self.dpi / 2) for inches in self.get_size_inches())
        return encoded(self), {"width": width, "height": height}


_UNDATED: Mapping[str, Mapping[str, None]] = MappingProxyType(
    {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
)


def _shell_draws() -> bool:
    """Whether the notebook draws every matplotlib figure already (`%matplotlib inline`): none is drawn twice."""
    ipython = sys.modules.get("IPython")  # only a notebook has it, and has loaded it
    shell = None if ipython is None else ipython.get_ipython()
    formatters = {} if shell is None else shell.display_formatter.formatters
    return any(Figure in formatter.type_printers for formatter in formatters.values())


def blank(height_in: float, *, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """An empty figure of the common width on an Agg canvas; wider and higher where the user's text is larger."""
    size_in = (WIDTH_IN * scale(), height_in * scale())
    figure = DrawnFigure(figsize=size_in, dpi=mpl.rcParams["figure.dpi"], layout=layout)
    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(w_pad=0.1 * scale(), h_pad=0.1 * scale())
    return figure


def titled(figure: Figure, plan: Plan, text: str) -> None:
    """The figure's title: the scenario, what is shown, and a word of warning in reference mode."""
    heading(figure, f"{shown(plan.scenario.name, 40)}: {text}{warning(plan.scenario)}")


def warning(scenario: Scenario) -> str:
    """What titles say of figures in reference mode."""
    return " [reference mode: not physical]" if scenario.cost.mode is CostMode.REFERENCE else ""


def heading(figure: Figure, text: str) -> None:
    """A figure's title, at its upper left."""
    fixed = figure.get_layout_engine() is None
    y = 1 - TITLE_MARGIN_IN / drawn_height_in(figure) if fixed else None
    figure.suptitle(text, x=0.01, y=y, ha="left", fontsize=points(11.0), fontweight="bold")


def drawn_height_in(figure: Figure) -> float:
    """The height (in) that a figure was made with, before larger text made it larger."""
    return float(figure.get_figheight()) / scale()


def shown(name: str, longest: int = 24) -> str:
    """A name as figure text: one line, both ends kept when it is long, `$` never read as mathematics."""
    line = "".join(c for c in " ".join(name.split()) if c.isprintable())
    if len(line) > longest:
        head = (longest - 1) // 2
        line = f"{line[:head]}…{line[head + 1 - longest :]}"
    return line.replace("$", r"\$")


def type_colour(gpu: str) -> str:
    """A GPU type's colour, in the user's palette where they have one."""
    return gpu_colour(gpu, palette(), ink(), paper())


def mixed(colour: str, other: str, share: float) -> str:
    """`colour` with `share` of `other` in it, as hex."""
    pairs = zip(to_rgb(colour), to_rgb(other), strict=True)
    return str(to_hex([(1 - share) * a + share * b for a, b in pairs]))


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


def nothing_to_show(axes: Axes, text: str) -> None:
    """Says why a panel is empty; its labels stay."""
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=faint())


def encoded(figure: Figure, kind: Literal["png", "svg"] = "png") -> bytes:
    """The figure as a file's bytes, without date or version: equal plans give equal bytes.

    `savefig` would draw it twice, the first time for its layout alone, which the canvas does while it draws.
    """
    buffer = BytesIO()
    with look():
        if kind == "png":
            FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
        else:
            figure.savefig(buffer, format=kind, dpi=figure.dpi, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
