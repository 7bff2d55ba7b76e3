"""Given islands (figures 5.1-5.4): what each can do, who spends time on which range, what that serves, and the same
length by length."""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from planner.domain import PHASES, Phase
from planner.report.kit import style
from planner.studies.chapter5.records import IslandBenchmark, IslandOutcome, IslandShares, Study
from planner.studies.chapter5.report.panels import head

ROW_IN = 2.2
EDGE_IN = 0.8
MIX = "target mix"
Column = Callable[[IslandShares], Sequence[float]]
Colours = dict[tuple[str, int], str]
Paint = Callable[[Axes, IslandOutcome, Phase, Colours], None]


def draw_benchmarks(study: Study, _figure_name: str, title: str) -> Figure:
    """Requests/s of one island of each class on each range, if it did nothing else; left out where it can do none."""

    def paint(axes: Axes, outcome: IslandOutcome, phase: Phase, colours: Colours) -> None:
        for line in outcome.benchmarks:
            if line.phase is phase:
                _benchmark(axes, outcome, line, colours[line.island.gpu, line.island.size])
        style.plain_logarithm(axes, "y")

    return _panels(study, title, paint, "rate of one island\n(requests/s)")


def _benchmark(axes: Axes, outcome: IslandOutcome, row: IslandBenchmark, colour: str) -> None:
    if any(row.rates_rps):
        middles = [(start + end) / 2 for start, end, _ in outcome.ranges]
        label = f"{style.shown(row.island.gpu)}/{row.island.size}"
        axes.plot(middles, [rate or float("nan") for rate in row.rates_rps], color=colour, linewidth=1.4, label=label)


def draw_shares(study: Study, _figure_name: str, title: str) -> Figure:
    """Islands' time on each range, in percent of one island, stacked over the classes."""
    return _ranges(
        study,
        title,
        lambda shares: [100 * shares.count * share for share in shares.time_shares],
        "time (% of one island)",
    )


def draw_rates(study: Study, _figure_name: str, title: str) -> Figure:
    """Requests/s on each range, stacked over the classes; the line is the mix at the phase's rate."""
    return _ranges(study, title, lambda shares: shares.rates_rps, "rate (requests/s)", mix=True)


def _ranges(study: Study, title: str, column: Column, label: str, *, mix: bool = False) -> Figure:
    def paint(axes: Axes, outcome: IslandOutcome, phase: Phase, colours: Colours) -> None:
        _stack(axes, outcome, phase, column, colours)
        if mix:
            middles = [(start + end) / 2 for start, end, _ in outcome.ranges]
            target = [p * outcome.phase_rps(phase) for _, _, p in outcome.ranges]
            axes.plot(middles, target, color=style.ink(), linewidth=1.1, label=MIX)

    return _panels(study, title, paint, label)


def _panels(study: Study, title: str, paint: Paint, label: str) -> Figure:
    """A row of two panels a case, one a phase."""
    figure = style.blank(EDGE_IN + ROW_IN * len(study.islands))
    panels = figure.subplots(len(study.islands), 2, sharex=True, squeeze=False)
    head(figure, study, title, searched=False)
    for row, outcome in zip(panels, study.islands, strict=True):
        colours = _colours(outcome)
        for axes, phase in zip(row, PHASES, strict=True):
            paint(axes, outcome, phase, colours)
            axes.set_title(f"{outcome.case.label} {phase.value}: {outcome.case.title}")
        row[0].set_ylabel(label)
        _legend(row[1], row)
    for axes in panels[-1]:
        axes.set_xlabel("input length (tokens)")
    return figure


def _colours(outcome: IslandOutcome) -> Colours:
    """A colour per class: its type's, the lighter the smaller the islands."""
    classes = sorted({(s.island.gpu, -s.island.size) for s in outcome.shares})
    colours = {}
    for gpu, size in classes:
        kin = [other for other in classes if other[0] == gpu]
        base = style.type_colour(gpu)
        colours[gpu, -size] = style.mixed(base, style.paper(), 0.7 * kin.index((gpu, size)) / max(1, len(kin)))
    return colours


def _stack(
    axes: Axes, outcome: IslandOutcome, phase: Phase, column: Column, colours: dict[tuple[str, int], str]
) -> None:
    starts, widths = [start for start, _, _ in outcome.ranges], [end - start for start, end, _ in outcome.ranges]
    base = [0.0] * len(starts)
    for shares in sorted(outcome.of_phase(phase), key=lambda s: (s.island.gpu, -s.island.size)):
        row, key = column(shares), (shares.island.gpu, shares.island.size)
        axes.bar(
            starts,
            row,
            width=widths,
            align="edge",
            bottom=base,
            color=colours[key],
            edgecolor=style.paper(),
            hatch=style.TYPE_HATCHES[list(dict.fromkeys(gpu for gpu, _ in colours)).index(key[0])],
            linewidth=0.3,
            label=f"{style.shown(key[0])}/{key[1]}",
        )
        base = [below + height for below, height in zip(base, row, strict=True)]
    axes.margins(x=0.01)


def _legend(beside: Axes, row: Sequence[Axes]) -> None:
    """One legend a row, of every class in either phase."""
    entries: dict[str, Any] = {}
    for axes in row:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    labels = sorted(entries, key=lambda label: (label == MIX, label.rsplit("/", 1)[0], -_size(label)))
    beside.legend(
        [entries[label] for label in labels],
        labels,
        title="type/GPUs",
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0,
        fontsize=style.points(6.8),
        ncols=1 if len(entries) < 9 else 2,
        labelspacing=0.25,
        alignment="left",
    )


def _size(label: str) -> int:
    return 0 if label == MIX else int(label.rsplit("/", 1)[1])


def draw_lengths(study: Study, _figure_name: str, title: str) -> Figure:
    """Rate per exact length: evaluated there, by the ranges' midpoints, and the trace at the slower phase's rate."""
    figure = style.blank(EDGE_IN + 3.0 * -(-len(study.islands) // 2))
    panels = figure.subplots(-(-len(study.islands) // 2), 2, sharex=True, squeeze=False)
    head(figure, study, title, searched=False)
    for axes, outcome in zip(panels.flat, study.islands, strict=False):
        _lengths(axes, outcome)
        axes.set_title(f"{outcome.case.label} {outcome.case.title}")
    for row in panels:
        row[0].set_ylabel("rate per length\n(requests/s per token)")
    for axes in panels[-1]:
        axes.set_xlabel("input length (tokens)")
    style.legend_beside(panels[0][1])
    return figure


def _lengths(axes: Axes, outcome: IslandOutcome) -> None:
    trace = [q * outcome.rate_rps for q in outcome.probabilities]
    axes.fill_between(outcome.lengths, trace, color=style.IDLE, linewidth=0, alpha=0.6, label="trace, scaled")
    for curve, colour in zip(outcome.curves, (style.palette()[6], style.palette()[0]), strict=True):
        axes.plot(
            outcome.lengths, curve.model_rps, color=colour, linewidth=0.9, linestyle=":", label=f"{curve.phase} model"
        )
        axes.plot(outcome.lengths, curve.evaluated_rps, color=colour, linewidth=1.0, label=f"{curve.phase} evaluated")
    axes.set_ylim(0, 1.08 * _top(outcome))
    axes.margins(x=0.01)


def _top(outcome: IslandOutcome) -> float:
    """Height that shows all but the few shortest lengths, where a prompt of some tokens costs next to nothing."""
    first = outcome.ranges[0][1]
    heights = [
        rate
        for curve in outcome.curves
        for length, *rates in zip(outcome.lengths, curve.evaluated_rps, curve.model_rps, strict=True)
        for rate in rates
        if length >= first // 4
    ]
    return max([*heights, *(q * outcome.rate_rps for q in outcome.probabilities)])
