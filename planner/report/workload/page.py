"""The page of a trace: what was understood, requests over time, lengths, bunching, prefix reuse."""

from collections.abc import Iterator, Sequence

from planner.domain import PrefixReuse
from planner.domain.workload import LengthFacts, TraceSummary
from planner.report.kit.html.blocks import Block, Chart, DataTable, Figure, Page, Section
from planner.report.workload.figure import time_axis
from planner.report.workload.words import (
    duration,
    idle_share,
    lengths_text,
    summary_rows,
    tokens_text,
    working_set,
)


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
    if summary.series is not None and len(summary.series.requests) > 1:
        yield Section(name="arrivals", title="Arrivals", blocks=(_rate_chart(summary), *_bunching(summary)))
    elif summary.dispersion:
        yield Section(name="arrivals", title="Arrivals", blocks=tuple(_bunching(summary)))
    yield Section(name="lengths", title="Lengths", blocks=(_length_chart(summary),))
    if summary.prefix is not None:
        yield Section(name="prefixes", title="Prefix reuse", blocks=(_reuse_chart(summary.prefix),))
    rows = DataTable(columns=("what", "value"), rows=tuple(summary_rows(summary)))
    yield Section(name="facts", title="What was understood", blocks=(rows,))


def _rate_chart(summary: TraceSummary) -> Chart:
    series = summary.series
    assert series is not None
    per_unit, unit = time_axis(summary.span_s or 0.0)
    rates = [requests / series.width_s for requests in series.requests]
    width = series.width_s / per_unit
    starts = [place * width for place in range(len(rates))]
    bars = {"type": "bar", "x": starts, "y": rates, "name": "requests/s", "offset": 0, "width": width}
    columns = (f"from ({unit})", "requests", "requests/s")
    return Chart(
        name="rate",
        title=f"Requests a second, in windows of {series.width_s:g} s",
        says=f"The busiest of these windows has {max(rates):,.3g} requests a second, the mean is "
        f"{summary.mean_rps or 0.0:,.3g}.",
        traces=(bars,),
        layout={"xaxis": {"title": {"text": unit}}, "yaxis": {"title": {"text": "requests/s"}}, "bargap": 0},
        table=DataTable(columns=columns, rows=tuple(_rounded(starts, series.requests, rates))),
    )


def _rounded(
    starts: Sequence[float], requests: Sequence[int], rates: Sequence[float]
) -> Iterator[tuple[float, int, float]]:
    for start, number, rate in zip(starts, requests, rates, strict=True):
        yield round(start, 4), number, round(rate, 4)


def _bunching(summary: TraceSummary) -> Iterator[Block]:
    if not summary.dispersion:
        return
    windows, values = zip(*summary.dispersion, strict=True)
    yield Chart(
        name="bunching",
        title="How arrivals bunch: variance over mean of counts",
        says=f"1 is Poisson; in windows of {windows[-1]:g} s it is {values[-1]:,.3g}.",
        traces=(_line("this trace", windows, values),),
        layout={
            "xaxis": {"title": {"text": "window (s)"}, "type": "log"},
            "yaxis": {"title": {"text": "variance over mean"}, "type": "log"},
        },
        table=DataTable(columns=("window (s)", "variance over mean"), rows=tuple(zip(windows, values, strict=True))),
    )


def _line(name: str, x: Sequence[float], y: Sequence[float]) -> dict[str, object]:
    return {"type": "scatter", "mode": "lines+markers", "x": list(x), "y": list(y), "name": name}


def _length_chart(summary: TraceSummary) -> Chart:
    drawn = [("prompts", summary.prompts), ("answers", summary.answers)]
    facts = [(name, lengths) for name, lengths in drawn if lengths is not None]
    rows = [(name, start, end - 1, round(share, 6)) for name, lengths in facts for start, end, share in lengths.bins]
    return Chart(
        name="length-bins",
        title="Lengths, by powers of two",
        says=f"Prompts: {lengths_text(summary.prompts)}.",
        traces=tuple(_length_bars(name, lengths) for name, lengths in facts),
        layout={
            "xaxis": {
                "title": {"text": "tokens, from"},
                "type": "category",
                "categoryorder": "array",
                "categoryarray": [str(start) for start in sorted({start for _, start, _, _ in rows})],
            },
            "yaxis": {"title": {"text": "share of requests"}},
            "barmode": "group",
        },
        table=DataTable(columns=("of", "from (tokens)", "to (tokens)", "share of requests"), rows=tuple(rows)),
    )


def _length_bars(name: str, lengths: LengthFacts) -> dict[str, object]:
    starts = [str(start) for start, _, _ in lengths.bins]
    return {"type": "bar", "name": name, "x": starts, "y": [share for *_, share in lengths.bins]}


def _reuse_chart(reuse: PrefixReuse) -> Chart:
    *shares, unbounded = reuse.mean_shares
    size, share = working_set(reuse)
    columns = ("prompts from (tokens)", *(tokens_text(tokens) for tokens in reuse.cache_tokens), "without bounds")
    rows = tuple((start, *row) for start, row in zip(reuse.starts, reuse.shares, strict=True))
    return Chart(
        name="reuse",
        title="Share of prompt tokens that one prefix cache would find",
        says=f"Without bounds {unbounded:.1%}; a cache of {tokens_text(size)} tokens finds {share:.1%}.",
        traces=(_line("all prompts", reuse.cache_tokens, shares),),
        layout={
            "xaxis": {"title": {"text": "tokens that the cache holds"}, "type": "log"},
            "yaxis": {"title": {"text": "share found"}, "rangemode": "tozero"},
        },
        table=DataTable(columns=columns, rows=rows, caption="Hit shares by prompt length and size of the cache."),
    )
