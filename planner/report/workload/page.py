"""The page and the figure of a trace: what was understood, requests over time, lengths, bunching, prefix reuse."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from planner.domain import PrefixReuse
from planner.domain.workload import ArrivalSeries, TimedReuse, TraceSummary
from planner.report.kit.plots import Kind, Plot, chart_of, held_series, series_of
from planner.report.kit.tree import DataTable, Figure, Page, Section
from planner.report.workload.words import (
    duration,
    idle_share,
    lengths_text,
    summary_rows,
    tokens_text,
    working_set,
)

if TYPE_CHECKING:
    import matplotlib.figure


def workload_page(summary: TraceSummary, made_by: str) -> Page:
    """The page of a trace or a workload."""
    return Page(
        title=f"Workload {summary.name}",
        verdict=workload_verdict(summary),
        figures=tuple(_figures(summary)),
        sections=tuple(_sections(summary)),
        made_by=made_by,
    )


def workload_verdict(summary: TraceSummary) -> str:
    """The trace in two sentences."""
    many = "Requests" if summary.requests is None else f"{summary.requests:,} requests"
    rate = "" if summary.mean_rps is None else f" at {summary.mean_rps:,.3g} a second"
    span = "" if summary.span_s is None else f" over {duration(summary.span_s)}"
    lengths = f"prompts of {summary.prompts.mean:,.0f} tokens and answers of {summary.mean_answer:,.0f} on average"
    first = f"{many}{rate}{span}, {lengths}."
    idle = idle_share(summary)
    if idle is not None:
        return f"{first} A fleet sized for the busiest {duration(idle[0])} idles {idle[1]:.0%} of its time."
    return f"{first} The longest prompt has {summary.prompts.most:,} tokens."


def _figures(summary: TraceSummary) -> Iterator[Figure]:
    if summary.mean_rps is not None:
        yield Figure(label="requests/s", value=f"{summary.mean_rps:,.3g}")
    if summary.peaks:
        peak = summary.peaks[min(2, len(summary.peaks) - 1)]
        yield Figure(label=f"requests/s in the busiest {duration(peak.window_s)}", value=f"{peak.rps:,.3g}")
    yield Figure(label="tokens of a prompt", value=f"{summary.prompts.mean:,.0f}")
    yield Figure(label="tokens of an answer", value=f"{summary.mean_answer:,.0f}")
    if summary.prefix is not None:
        yield Figure(label="of prompt tokens came before", value=f"{summary.prefix.mean_shares[-1]:.1%}")


def _sections(summary: TraceSummary) -> Iterator[Section]:
    charts = {plot.name: chart_of(plot, table) for plot, table in _drawn(summary)}
    for name, title, plots in _SECTIONS:
        blocks = tuple(charts[plot] for plot in plots if plot in charts)
        if blocks:
            yield Section(name=name, title=title, blocks=blocks)
    rows = DataTable(columns=("what", "value"), rows=tuple(summary_rows(summary)))
    yield Section(name="facts", title="What was understood", blocks=(rows,))


_SECTIONS = (
    ("arrivals", "Arrivals", ("rate", "bunching")),
    ("lengths", "Lengths", ("length-bins",)),
    ("prefixes", "Prefix reuse", ("reuse", "timeouts")),
)
"""Name, title and plots of each."""


def workload_figure(summary: TraceSummary) -> "matplotlib.figure.Figure":
    """The same plots on an Agg canvas, a panel a subject; those of which nothing is known are left out."""
    from planner.report.kit.stills import still  # noqa: PLC0415  # matplotlib takes a second to load

    return still(summary.name, "what its requests are like", [plot for plot, _ in _drawn(summary)], "", titled=True)


def encoded_workload_figure(summary: TraceSummary, kind: Literal["png", "svg"]) -> bytes:
    """The figure as a file's bytes; the same summary gives the same."""
    from planner.report.kit.style import encoded  # noqa: PLC0415  # as above

    return encoded(workload_figure(summary), kind)


def _drawn(summary: TraceSummary) -> Iterator[tuple[Plot, DataTable]]:
    """Each plot with its numbers."""
    if summary.series is not None and len(summary.series.requests) > 1:
        yield _rates(summary, summary.series)
    yield _lengths(summary)
    if summary.dispersion:
        yield _bunching(summary)
    if summary.prefix is not None:
        yield _reuse(summary.prefix)
    if summary.timed is not None:
        yield _timeouts(summary.timed)


def _rates(summary: TraceSummary, series: ArrivalSeries) -> tuple[Plot, DataTable]:
    per_unit, unit = _time_axis(summary.span_s or 0.0)
    rates = [requests / series.width_s for requests in series.requests]
    edges = [place * series.width_s / per_unit for place in range(len(rates) + 1)]
    mean = summary.mean_rps or 0.0
    plot = Plot(
        name="rate",
        title=f"Requests a second, in windows of {series.width_s:g} s",
        says=f"The busiest of these windows has {max(rates):,.3g} requests a second, the mean is {mean:,.3g}.",
        kind=Kind.AREAS,
        x=unit,
        y="requests/s",
        series=(held_series("requests/s", edges, rates),),
        bounds=() if summary.mean_rps is None else ((f"mean {mean:,.3g}", mean),),
    )
    rows = zip(edges[:-1], series.requests, rates, strict=True)
    return plot, DataTable(
        columns=(f"from ({unit})", "requests", "requests/s"),
        rows=tuple((round(start, 4), number, round(rate, 4)) for start, number, rate in rows),
    )


def _time_axis(span_s: float) -> tuple[float, str]:
    """Seconds in the unit of an axis of time, and that unit."""
    for unit, length in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if span_s >= 3 * length:
            return length, unit
    return 1.0, "seconds"


def _bunching(summary: TraceSummary) -> tuple[Plot, DataTable]:
    points = list(summary.dispersion)
    plot = Plot(
        name="bunching",
        title="How arrivals bunch: variance over mean of counts",
        says=f"1 is Poisson; in windows of {points[-1][0]:g} s it is {points[-1][1]:,.3g}.",
        kind=Kind.LINES,
        x="window (s)",
        y="variance over mean",
        series=(series_of("this trace", points),),
        bounds=(("Poisson", 1.0),),
        logarithmic="xy",
    )
    return plot, DataTable(columns=("window (s)", "variance over mean"), rows=tuple(points))


def _lengths(summary: TraceSummary) -> tuple[Plot, DataTable]:
    kinds = [("prompts", summary.prompts), ("answers", summary.answers)]
    facts = [(name, lengths) for name, lengths in kinds if lengths is not None]
    bins = [(name, start, end - 1, round(share, 6)) for name, lengths in facts for start, end, share in lengths.bins]
    starts = sorted({start for _, start, _, _ in bins})
    shares = {(name, start): share for name, lengths in facts for start, _, share in lengths.bins}
    plot = Plot(
        name="length-bins",
        title="Lengths, by powers of two",
        says=f"Prompts: {lengths_text(summary.prompts)}.",
        kind=Kind.BARS,
        x="tokens, from",
        y="share of requests",
        series=tuple(
            series_of(name, [(str(start), shares.get((name, start))) for start in starts]) for name, _ in facts
        ),
    )
    return plot, DataTable(columns=("of", "from (tokens)", "to (tokens)", "share of requests"), rows=tuple(bins))


def _reuse(reuse: PrefixReuse) -> tuple[Plot, DataTable]:
    *shares, unbounded = reuse.mean_shares
    size, share = working_set(reuse)
    plot = Plot(
        name="reuse",
        title="Share of prompt tokens that one prefix cache would find",
        says=f"Without bounds {unbounded:.1%}; a cache of {tokens_text(size)} tokens finds {share:.1%}.",
        kind=Kind.LINES,
        x="tokens that the cache holds",
        y="share found",
        series=(series_of("all prompts", list(zip(map(float, reuse.cache_tokens), shares, strict=True))),),
        bounds=((f"without bounds {unbounded:.1%}", unbounded),),
        logarithmic="x",
    )
    columns = ("prompts from (tokens)", *(tokens_text(tokens) for tokens in reuse.cache_tokens), "without bounds")
    rows = tuple((start, *row) for start, row in zip(reuse.starts, reuse.shares, strict=True))
    caption = "Hit shares by prompt length and size of the cache."
    return plot, DataTable(columns=columns, rows=rows, caption=caption)


def _timeouts(timed: TimedReuse) -> tuple[Plot, DataTable]:
    points = list(zip(timed.timeouts_s, timed.shares, strict=True))
    timeout, share = points[-1]
    plot = Plot(
        name="timeouts",
        title="Share of prompt tokens found where unused blocks are dropped",
        says=f"A cache that keeps blocks for {duration(timeout)} after their last use finds {share:.1%}.",
        kind=Kind.LINES,
        x="dropped after so long unused (s)",
        y="share found",
        series=(series_of("all prompts", points),),
        logarithmic="x",
    )
    return plot, DataTable(columns=("dropped after (s)", "share found"), rows=tuple(points))
