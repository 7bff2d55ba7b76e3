"""Results of `vllm bench serve --save-result`: one JSON file a run.

Times are `median_ttft_ms`, or `median_ttft` in seconds as collections of results rewrite them. With
`--max-concurrency` and no request rate the run is a closed loop; with a rate the mean in flight follows from rate and
latency; with neither all prompts are sent at once.
"""

import re

from planner.domain import Load
from planner.errors import InputError
from planner.files.benchmarks.conditions import Stated
from planner.files.benchmarks.tool_runs import MOST_IN_FLIGHT, ToolResult, ToolRun, mean_in_flight, ms_in, rate_in
from planner.files.sections import MOST_TOKENS, MOST_WHOLE, Section

_ROUNDING = 0.05  # between a rate and tokens over the duration: tools round, and stop their clocks apart


def is_vllm_result(document: Section) -> bool:
    """Whether the document is such a result, by its keys."""
    return document.holds_number("request_throughput") and "total_input_tokens" in document


def read_vllm_result(document: Section) -> ToolResult:
    """The run of a result. InputError names file and key."""
    completed = document.integer("completed", low=1, high=MOST_WHOLE)
    load, concurrency = _load(document, completed)
    output_rate = rate_in(document, "output_throughput")
    _refuse_unlike(document, output_rate)
    drafted = _drafted(document)
    run = ToolRun(
        row=1,
        load=load,
        concurrency=concurrency,
        in_flight_measured=_has_rate(document),
        input_tokens=_mean(document, "total_input_tokens", completed),
        output_tokens=_mean(document, "total_output_tokens", completed),
        input_rate=rate_in(document, "request_throughput") * _mean(document, "total_input_tokens", completed),
        output_rate=output_rate,
        ttft_ms=_time_ms(document, "median_ttft"),
        tpot_ms=_time_ms(document, "median_tpot"),
        mtp_tokens=drafted,
        mtp_gain=document.number("spec_decode_acceptance_length", low=1, high=100) if drafted else None,
        year=_year(document),
    )
    model = None if document.is_empty("model_id") else document.printable("model_id")
    return ToolResult(stated=Stated(file=document.file, model=model), runs=(run,), source="vllm bench serve")


def _mean(document: Section, key: str, completed: int) -> float:
    return document.integer(key, low=1, high=MOST_TOKENS * completed) / completed


def _time_ms(document: Section, key: str) -> float | None:
    """A time in ms: from `key`_ms, or from `key` in seconds."""
    ms = ms_in(document, f"{key}_ms")
    return ms_in(document, key, unit_ms=1000) if ms is None else ms


def _load(document: Section, completed: int) -> tuple[Load, float]:
    """How the run was loaded, and the requests in flight."""
    requests_per_s = rate_in(document, "request_throughput")
    cap = None
    if not document.is_empty("max_concurrency"):
        cap = document.integer("max_concurrency", low=1, high=int(MOST_IN_FLIGHT))
    if _has_rate(document):
        key, latency_ms = _latency(document, completed)
        return Load.CLOSED_LOOP, mean_in_flight(requests_per_s, latency_ms / 1000, document, key)
    if cap is None:
        return Load.SATURATED, completed
    return Load.CLOSED_LOOP, min(cap, completed)


def _has_rate(document: Section) -> bool:
    """Whether requests came at a rate: `request_rate` is a number, not missing or `inf`."""
    if document.is_empty("request_rate") or document.is_infinite("request_rate"):
        return False
    if document.holds_text("request_rate"):
        document.one_of("request_rate", ("inf",))
        return False
    return rate_in(document, "request_rate") > 0


def _latency(document: Section, completed: int) -> tuple[str, float]:
    """The mean time of a request, ms, and its key; from its parts where the tool was not asked for the whole."""
    mean = _time_ms(document, "mean_e2el")
    if mean is not None:
        return "mean_e2el_ms", mean
    ttft, tpot = _time_ms(document, "mean_ttft"), _time_ms(document, "mean_tpot")
    if ttft is None or tpot is None:
        raise document.fault(
            "mean_e2el_ms",
            "a number where requests come at a rate",
            hint="Run `vllm bench serve` with --percentile-metrics ttft,tpot,itl,e2el.",
        )
    return "mean_ttft_ms", ttft + tpot * (_mean(document, "total_output_tokens", completed) - 1)


def _refuse_unlike(document: Section, output_rate: float) -> None:
    """Refuse a rate that is not tokens over the duration."""
    tokens = document.integer("total_output_tokens", low=1, high=MOST_WHOLE)
    seconds = document.number("duration", above=0, high=1e9)
    if abs(output_rate * seconds - tokens) > _ROUNDING * tokens:
        raise InputError(
            f"{document.file}: output_throughput must be total_output_tokens / duration ({tokens / seconds:.4g}), got "
            f"{output_rate:g}.",
            hint="Give the file as the tool wrote it.",
        )


def _drafted(document: Section) -> int | None:
    """Tokens drafted a step, where the server drafts."""
    if document.is_empty("spec_decode_num_drafts") or document.is_empty("spec_decode_draft_tokens"):
        return None
    drafts = document.integer("spec_decode_num_drafts", low=0, high=MOST_WHOLE)
    tokens = document.integer("spec_decode_draft_tokens", low=0, high=MOST_WHOLE)
    return round(tokens / drafts) if drafts else None


def _year(document: Section) -> int | None:
    date = document.text("date") if document.holds_text("date") else ""
    written = re.match(r"(20\d\d)[01]\d[0-3]\d\b", date.replace("-", "", 2) if date[4:5] == "-" else date)
    return int(written[1]) if written else None
