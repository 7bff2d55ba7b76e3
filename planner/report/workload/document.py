"""A trace as JSON, as data frames, and as a picture of letters: rate over time, and lengths as bars."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from planner.domain import LengthProfile, PrefixReuse, RequestTrace
from planner.domain.workload import LengthFacts, TimedReuse, TraceReading, TraceSummary
from planner.report.kit.tables import Frame, tabled
from planner.report.workload.words import duration, tokens_text, working_set


def workload_document(summary: TraceSummary) -> dict[str, object]:
    """The figures of a trace; what is not known is null or left out."""
    return {
        "requests": summary.requests,
        "span_s": summary.span_s,
        "mean_input_tokens": summary.prompts.mean,
        "mean_output_tokens": summary.mean_answer,
        "max_output_tokens": summary.longest_answer,
        "input_tokens": _lengths(summary.prompts),
        "output_tokens": None if summary.answers is None else _lengths(summary.answers),
        "arrival_rps": summary.mean_rps,
        "peaks": [{"window_s": peak.window_s, "requests_per_s": peak.rps} for peak in summary.peaks],
        "burstiness": summary.burstiness,
        "dispersion": [{"window_s": window, "variance_over_mean": value} for window, value in summary.dispersion],
        **({} if summary.reading is None else _reading(summary.reading)),
        **({} if summary.sessions is None else {"sessions": asdict(summary.sessions)}),
        **({} if summary.timed is None else _cached_in_time(summary.timed)),
        **({} if summary.prefix is None else _cached(summary.prefix)),
    }


def _lengths(facts: LengthFacts) -> dict[str, object]:
    return {"mean": facts.mean, "p50": facts.p50, "p90": facts.p90, "p99": facts.p99, "max": facts.most}


def _reading(reading: TraceReading) -> dict[str, object]:
    return {
        "form": reading.form,
        "columns": dict(reading.columns),
        "clock": reading.clock,
        "began": reading.began or None,
        "rows": reading.rows,
        "rows_left_out": dict(reading.dropped),
        "unanswered": reading.unanswered,
        "rows_in_order": reading.in_order,
        **({"pauses": reading.pauses} if reading.pauses else {}),
        **({"parts": [asdict(part) for part in reading.parts]} if reading.parts else {}),
    }


def _cached(prefix: PrefixReuse) -> dict[str, object]:
    """Shares of all prompt tokens that one prefix cache of so many tokens would have found."""
    sizes = [*(f"{tokens}_tokens" for tokens in prefix.cache_tokens), "without_bounds"]
    shares = {f"cached_at_{size}": round(share, 4) for size, share in zip(sizes, prefix.mean_shares, strict=True)}
    return {"working_set_tokens": working_set(prefix)[0], **shares}


def _cached_in_time(timed: TimedReuse) -> dict[str, object]:
    """Shares that a cache would have found which drops blocks after so many seconds unused."""
    rows = zip(timed.timeouts_s, timed.shares, strict=True)
    return {"cached_by_timeout": [{"timeout_s": timeout, "share": round(share, 4)} for timeout, share in rows]}


_LEVELS = "▁▂▃▄▅▆▇█"
_POINTS = 60
_BAR = 32
_EIGHTHS = " ▏▎▍▌▋▊▉"


def picture(summary: TraceSummary) -> str:
    """Lines of at most 80 columns."""
    lines = [] if summary.series is None else _rate_lines(summary)
    lines += ["", "prompts (tokens)", *_bars(summary.prompts)]
    if summary.answers is not None:
        lines += ["", "answers (tokens)", *_bars(summary.answers)]
    if summary.prefix is not None:
        lines += [
            "",
            "prompt tokens that a prefix cache finds, by the tokens that it holds",
            *_reuse_bars(summary.prefix),
        ]
    return "\n".join(lines).strip("\n")


def _rate_lines(summary: TraceSummary) -> list[str]:
    series = summary.series
    if series is None or len(series.requests) < 2:
        return []
    width = -(-len(series.requests) // _POINTS)
    groups = [series.requests[start : start + width] for start in range(0, len(series.requests), width)]
    rates = [sum(group) / (len(group) * series.width_s) for group in groups]
    window = duration(width * series.width_s)
    return [f"requests/s by {window}, at most {max(rates):,.3g}", sparkline(rates)]


def sparkline(values: Sequence[float]) -> str:
    """A letter a value, from 0 to the greatest."""
    highest = max(values)
    if highest <= 0:
        return _LEVELS[0] * len(values)
    return "".join(_LEVELS[min(len(_LEVELS) - 1, int(value / highest * len(_LEVELS)))] for value in values)


def _reuse_bars(reuse: PrefixReuse) -> list[str]:
    """Hit share against size: its complement is the miss ratio."""
    labels = [*map(tokens_text, reuse.cache_tokens), "any"]
    longest = max(map(len, labels))
    return [
        f"{label:>{longest}}  {_bar(share):<{_BAR}} {share:6.1%}"
        for label, share in zip(labels, reuse.mean_shares, strict=True)
    ]


def _bars(facts: LengthFacts) -> list[str]:
    highest = max(share for *_, share in facts.bins)
    labels = [f"{start:,}-{end - 1:,}" if end - start > 1 else f"{start:,}" for start, end, _ in facts.bins]
    longest = max(map(len, labels))
    return [
        f"{label:>{longest}}  {_bar(share / highest):<{_BAR}} {share:6.1%}"
        for label, (*_, share) in zip(labels, facts.bins, strict=True)
    ]


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[part] if part else "")).rstrip()


def lengths_frame(profile: LengthProfile) -> Frame:
    """One row a prompt length (tokens): its share of the requests, and the mean answer where that is known."""
    columns: dict[str, Any] = {"input_tokens": profile.input_tokens, "share": profile.probabilities}
    if profile.output_tokens:
        columns["output_tokens"] = profile.output_tokens
    return tabled(columns)


def requests_frame(trace: RequestTrace) -> Frame:
    """One row a request: seconds since the first arrival, tokens in and out."""
    columns = (trace.arrival_s, trace.input_tokens, trace.output_tokens)
    return tabled(dict(zip(("arrival_s", "input_tokens", "output_tokens"), columns, strict=True)))
