"""The figure of a trace: requests over time, lengths, how arrivals bunch, what a prefix cache would find."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from planner.domain import PrefixReuse
from planner.domain.workload import LengthFacts, TraceSummary
from planner.report.kit.colours import PALETTE
from planner.report.workload.words import duration, tokens_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_IN = 2.3


def workload_figure(summary: TraceSummary) -> "Figure":
    """The figure on an Agg canvas, a panel a subject; those of which nothing is known are left out."""
    from planner.report.kit.style import blank, heading, look, shown  # noqa: PLC0415  # matplotlib takes a second to load

    panels: list[Callable[[Axes], None]] = []
    if summary.series is not None and len(summary.series.requests) > 1:
        panels.append(lambda axes: _draw_rate(axes, summary))
    panels.append(lambda axes: _draw_lengths(axes, summary))
    if summary.dispersion:
        panels.append(lambda axes: _draw_dispersion(axes, summary))
    if summary.prefix is not None:
        panels.append(lambda axes: _draw_reuse(axes, summary.prefix))
    with look():
        figure = blank(_PANEL_IN * len(panels) + 0.5)
        heading(figure, f"{shown(summary.name, 40)}: what its requests are like")
        for axes, draw in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
            draw(axes)
    return figure


def encoded_workload_figure(summary: TraceSummary, kind: Literal["png", "svg"]) -> bytes:
    """The figure as a file's bytes; the same summary gives the same."""
    from planner.report.kit.style import encoded  # noqa: PLC0415  # as above

    return encoded(workload_figure(summary), kind)


def time_axis(span_s: float) -> tuple[float, str]:
    """Seconds in the unit of an axis of time, and that unit."""
    for unit, length in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if span_s >= 3 * length:
            return length, unit
    return 1.0, "seconds"


def _draw_rate(axes: "Axes", summary: TraceSummary) -> None:
    from planner.report.kit.style import ALARM  # noqa: PLC0415  # as above

    series = summary.series
    assert series is not None
    per_unit, unit = time_axis(summary.span_s or 0.0)
    width = series.width_s / per_unit
    edges = [place * width for place in range(len(series.requests) + 1)]
    rates = [requests / series.width_s for requests in series.requests]
    axes.stairs(rates, edges, fill=True, color=PALETTE[0], alpha=0.7)
    if summary.mean_rps is not None:
        axes.axhline(summary.mean_rps, color=ALARM, linewidth=1.0, label=f"mean {summary.mean_rps:,.3g}")
        axes.legend(loc="upper right")
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0, 1.25 * max(rates))  # room for the legend
    axes.set_xlabel(unit)
    axes.set_ylabel("requests/s")
    axes.set_title(f"Arrivals in windows of {duration(series.width_s).replace('second', '1 s')}")


def _draw_lengths(axes: "Axes", summary: TraceSummary) -> None:
    drawn = [("prompts", summary.prompts, PALETTE[0], "-")]
    if summary.answers is not None:
        drawn.append(("answers", summary.answers, PALETTE[1], "--"))
    for label, facts, colour, line in drawn:
        words = f"{label}, mean {facts.mean:,.0f}"
        axes.stairs(*_steps(facts), color=colour, linestyle=line, linewidth=1.6, label=words)
        axes.axvline(facts.p50, color=colour, linestyle=":", linewidth=1.0)
    axes.set_xscale("symlog", base=2, linthresh=1)
    axes.set_xlim(left=min(facts.bins[0][0] for _, facts, _, _ in drawn))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("tokens (dotted: P50)")
    axes.set_ylabel("share of requests")
    axes.legend(loc="upper left")
    axes.set_title("Lengths, by powers of two")


def _steps(facts: LengthFacts) -> tuple[list[float], list[float]]:
    return [share for *_, share in facts.bins], [facts.bins[0][0], *(end for _, end, _ in facts.bins)]


def _draw_dispersion(axes: "Axes", summary: TraceSummary) -> None:
    from planner.report.kit.style import faint  # noqa: PLC0415  # as above

    windows, values = zip(*summary.dispersion, strict=True)
    axes.plot(windows, values, marker="o", color=PALETTE[2], label="this trace")
    axes.axhline(1.0, color=faint(), linestyle="--", label="Poisson")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("window (s)")
    axes.set_ylabel("variance over mean")
    axes.legend(loc="best")
    axes.set_title("How arrivals bunch: counts in windows")


def _draw_reuse(axes: "Axes", reuse: PrefixReuse | None) -> None:
    from planner.report.kit.style import faint  # noqa: PLC0415  # as above

    assert reuse is not None
    *shares, unbounded = reuse.mean_shares
    axes.plot(reuse.cache_tokens, shares, marker="o", color=PALETTE[3], label="found")
    axes.axhline(unbounded, color=faint(), linestyle="--", label=f"without bounds {unbounded:.1%}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(reuse.cache_tokens[::2], [tokens_text(size) for size in reuse.cache_tokens[::2]])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("tokens that the cache holds")
    axes.set_ylabel("share of prompt tokens")
    axes.legend(loc="upper left")
    axes.set_title("What one prefix cache would find")
