"""What a trace says, in words and numbers: what was understood, rate, lengths, how arrivals bunch, prefix reuse.

| symbol | meaning |
|---|---|
| I(t) | variance over mean of the number of requests in windows of t seconds; 1: Poisson |
| (1 + I) / 2 | mean wait over that of Poisson arrivals |

The last holds where servers are nearly busy and their times vary like an exponential's; t is how long the queue takes
to empty. Source: Fendick and Whitt, Measurements and Approximations to Describe the Offered Traffic and Predict the
Average Workload in a Single-Server Queue, 1989.
"""

from collections.abc import Iterator, Sequence

from planner.domain import PrefixReuse
from planner.domain.workload import LengthFacts, SessionFacts, TimedReuse, TraceReading, TraceSummary

Row = tuple[str, str]
WAIT_WINDOW_S = 10.0
_MOST_OF_REUSE = 0.9
_FEWEST_REQUESTS = 30
_MOST_AT_ONCE = 0.1


def summary_rows(summary: TraceSummary) -> list[Row]:
    """What, and its value, of all that a trace says."""
    return [
        *(() if summary.reading is None else reading_rows(summary.reading)),
        *_rate_rows(summary),
        *_length_rows(summary),
        *_burst_rows(summary),
        *(() if summary.sessions is None else _session_rows(summary.sessions, summary.reading)),
        *(() if summary.prefix is None else _prefix_rows(summary.prefix, summary.asked_tokens)),
        *(() if summary.timed is None else _timed_rows(summary.timed)),
        *_part_rows(summary.reading),
    ]


def reading_rows(reading: TraceReading) -> Iterator[Row]:
    """How the file was understood, and what became of its rows."""
    yield "form", reading.form
    yield "columns", ", ".join(f"{meaning}: {column}" for meaning, column in reading.columns)
    began = f"; the first arrival {reading.began} UTC" if reading.began else ""
    yield "clock", f"{reading.clock}{began}"
    yield "rows", _count(reading.rows)
    for reason, rows in reading.dropped:
        yield f"rows left out: {reason}", f"{_count(rows)} ({rows / reading.rows:.2%})"
    if reading.unanswered:
        yield (
            "requests without an answer",
            f"{_count(reading.unanswered)}: they count, with 0 tokens of answer (--drop unanswered leaves them out)",
        )
    if not reading.in_order:
        yield "order", "rows were not in order of arrival: sorted in memory"


def _rate_rows(summary: TraceSummary) -> Iterator[Row]:
    if summary.requests is not None:
        yield "requests", _count(summary.requests)
    if summary.span_s is not None:
        yield "span", duration(summary.span_s)
    if summary.mean_rps is None:
        return
    yield "mean rate", f"{summary.mean_rps:,.4g} requests/s"
    for peak in summary.peaks:
        times = peak.rps / summary.mean_rps
        yield f"busiest {duration(peak.window_s)}", f"{peak.rps:,.4g} requests/s, {times:,.3g} times the mean"


def _length_rows(summary: TraceSummary) -> Iterator[Row]:
    yield "prompts (tokens)", lengths_text(summary.prompts)
    if summary.answers is None:
        yield "answers (tokens)", f"mean {summary.mean_answer:,.1f}, at most {summary.longest_answer:,}"
    else:
        yield "answers (tokens)", lengths_text(summary.answers)


def lengths_text(facts: LengthFacts) -> str:
    """Mean and percentiles."""
    return f"mean {facts.mean:,.1f}, P50 {facts.p50:,}, P90 {facts.p90:,}, P99 {facts.p99:,}, at most {facts.most:,}"


def _burst_rows(summary: TraceSummary) -> Iterator[Row]:
    if summary.burstiness is not None:
        yield "burstiness", f"{summary.burstiness:.3g} (standard deviation of gaps over their mean; Poisson: 1)"
    if summary.dispersion:
        shown = ", ".join(f"{window:g} s {value:,.3g}" for window, value in summary.dispersion)
        yield "variance over mean of counts", f"{shown} (Poisson: 1)"
    yield from _clock_rows(summary)
    yield from _cost_rows(summary)


def _clock_rows(summary: TraceSummary) -> Iterator[Row]:
    """Times that were rounded bunch, whatever requests did."""
    if _is_coarse(summary):
        yield (
            "same moment",
            f"{summary.simultaneous:.0%} of requests have the time of the one before: where the clock was rounded, "
            "burstiness and counts in short windows are its own",
        )


def _is_coarse(summary: TraceSummary) -> bool:
    return summary.simultaneous > _MOST_AT_ONCE


def _cost_rows(summary: TraceSummary) -> Iterator[Row]:
    """What bunching costs."""
    for window, value in summary.dispersion:
        if window == WAIT_WINDOW_S:
            yield (
                "which costs",
                f"queues of about {window:g} s: waits about {(1 + value) / 2:,.2g} times those of Poisson arrivals",
            )
    idle = idle_share(summary)
    if idle is not None:
        window, share = idle
        yield f"a fleet for the busiest {duration(window)}", f"idles {share:.0%} of its time on average"


def idle_share(summary: TraceSummary) -> tuple[float, float] | None:
    """A window from a minute on, and the share of time that a fleet for its busiest one idles. None of a trace without
    windows of so many requests that chance matters little."""
    if summary.mean_rps is None:
        return None
    fitting = [p for p in summary.peaks if p.window_s >= 60.0 and p.window_s * summary.mean_rps >= _FEWEST_REQUESTS]
    if not fitting:
        return None
    return fitting[0].window_s, max(0.0, 1 - summary.mean_rps / fitting[0].rps)


def _session_rows(facts: SessionFacts, reading: TraceReading | None) -> Iterator[Row]:
    yield (
        "sessions",
        f"{_count(facts.sessions)}, of {facts.mean_turns:,.3g} turns on average, at most {facts.most_turns:,}",
    )
    counted = f"; {reading.pauses}" if reading is not None and reading.pauses else ""
    pauses = (facts.p50_pause_s, facts.p90_pause_s, facts.p99_pause_s)
    p50, p90, p99 = map(duration, pauses)
    yield "pauses before later turns", f"mean {duration(facts.mean_pause_s)}, P50 {p50}, P90 {p90}, P99 {p99}{counted}"


def _timed_rows(timed: TimedReuse) -> Iterator[Row]:
    for timeout, share in zip(timed.timeouts_s, timed.shares, strict=True):
        yield f"found if blocks unused for {timeout:,g} s go", f"{share:.1%}"


def _prefix_rows(reuse: PrefixReuse, asked_tokens: Sequence[int]) -> Iterator[Row]:
    shares = reuse.mean_shares
    yield "prefix reuse", f"{shares[-1]:.1%} of all prompt tokens, with a cache without bounds"
    size, share = working_set(reuse)
    if share > 0:
        yield "working set", f"a cache of {tokens_text(size)} tokens finds {share:.1%}"
    shown = asked_tokens or reuse.cache_tokens[::2]
    for cache in shown:
        hits = shares[reuse.cache_tokens.index(cache)]
        yield f"found by a cache of {tokens_text(cache)}", f"{hits:.1%}"


def working_set(reuse: PrefixReuse) -> tuple[int, float]:
    """The smallest cache (tokens) that finds nine tenths of what one without bounds does, else the largest; and its hit
    share."""
    shares = reuse.mean_shares
    sizes = zip(reuse.cache_tokens, shares, strict=False)
    enough = next(((size, share) for size, share in sizes if share >= _MOST_OF_REUSE * shares[-1]), None)
    return enough or (reuse.cache_tokens[-1], shares[-2])


def _part_rows(reading: TraceReading | None) -> Iterator[Row]:
    for part in () if reading is None else reading.parts:
        yield f"part {part.name}", f"{_count(part.ids)} ids, {part.again / part.ids:.1%} came before"
    if reading is not None and reading.parts:
        yield (
            "prefix reuse",
            "not known: ids by part do not tell how many tokens a part has, so cost.kv_cache_rate needs numbers",
        )


def tokens_text(tokens: int) -> str:
    """A size of a cache in few letters."""
    return f"{tokens / 1e6:,.1f}M" if tokens >= 1_000_000 else f"{tokens / 1e3:,.0f}K"


def duration(seconds: float) -> str:
    """Seconds in the unit that a reader thinks in."""
    for unit, length in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length or (seconds == length and unit != "days"):
            amount = f"{seconds / length:,.4g}"
            return unit[:-1] if amount == "1" else f"{amount} {unit}"
    return "second" if seconds == 1 else f"{seconds:,.4g} s"


def _count(number: int) -> str:
    return f"{number:,}"
