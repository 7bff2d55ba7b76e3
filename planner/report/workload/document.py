"""What a trace says, as JSON: plain values under names with their units."""

from dataclasses import asdict

from planner.domain import PrefixReuse
from planner.domain.workload import LengthFacts, TraceReading, TraceSummary
from planner.report.workload.words import working_set


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
        **({"parts": [asdict(part) for part in reading.parts]} if reading.parts else {}),
    }


def _cached(prefix: PrefixReuse) -> dict[str, object]:
    """Shares of all prompt tokens that one prefix cache of so many tokens would have found."""
    sizes = [*(f"{tokens}_tokens" for tokens in prefix.cache_tokens), "without_bounds"]
    shares = {f"cached_at_{size}": round(share, 4) for size, share in zip(sizes, prefix.mean_shares, strict=True)}
    return {"working_set_tokens": working_set(prefix)[0], **shares}
