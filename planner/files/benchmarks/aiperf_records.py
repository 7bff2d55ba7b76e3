"""Records of aiperf: `profile_export.jsonl`, one request a line.

A metric is `{value, unit}`, or a plain number (times then in ms). Requests that failed, were cancelled or belong to a
warm-up do not count. The file does not say how requests came: the mean in flight over the run stands for the load.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.errors import InputError
from planner.files.benchmarks.conditions import Stated
from planner.files.benchmarks.published_points import MOST_FAULTS, joined_faults
from planner.files.benchmarks.tool_runs import ToolResult, ToolRun, ms_in, year_of_epoch
from planner.files.disk.documents import parse_json
from planner.files.disk.opening import text_lines
from planner.files.sections import MOST_TOKENS, Section

MOST_REQUESTS = 2_000_000
_UNITS_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3}
_NS = 1e-9
_CANCELLED, _SHOWN = "not answered in time", 80


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """One request that was answered; times in ms but for `start_s`, seconds since 1970."""

    start_s: float
    latency_ms: float
    input_tokens: float
    output_tokens: float
    ttft_ms: float | None
    tpot_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AiperfRequest:
    """One request of a run, answered or not. `name`: of its conversation; `start_ms` since 1970; TTFT and latency from
    then on (None: there was no answer); tokens as the server counted them (None: it did not). `failure`: why there is
    no answer; empty: there is one."""

    name: str
    start_ms: float
    ttft_ms: float | None
    latency_ms: float | None
    input_tokens: int | None
    output_tokens: int | None
    failure: str


def is_aiperf_record(document: Section) -> bool:
    """Whether a line is such a record, by its keys."""
    return document.holds_section("metadata") and "request_start_ns" in document.section("metadata")


def read_aiperf_records(path: Path) -> ToolResult:
    """The run of a file of records. InputError names file and lines."""
    requests = _requests(path)
    if not requests:
        raise InputError(f"{path}: must hold at least one request that was answered.", hint="Give a run's export.")
    start = min(request.start_s for request in requests)
    seconds = max(request.start_s + request.latency_ms / 1000 for request in requests) - start
    inputs = float(np.sum([request.input_tokens for request in requests]))
    outputs = float(np.sum([request.output_tokens for request in requests]))
    run = ToolRun(
        row=1,
        concurrency=float(np.sum([request.latency_ms for request in requests])) / 1000 / seconds,
        in_flight_measured=True,
        input_tokens=inputs / len(requests),
        output_tokens=outputs / len(requests),
        input_rate=inputs / seconds,
        output_rate=outputs / seconds,
        ttft_ms=_median([request.ttft_ms for request in requests]),
        tpot_ms=_median([request.tpot_ms for request in requests]),
        year=year_of_epoch(start),
    )
    return ToolResult(stated=Stated(file=str(path)), runs=(run,), source="aiperf")


def _requests(path: Path) -> list[_Request]:
    """The requests that count. InputError names the first five faulty lines."""
    requests: list[_Request] = []
    faults: list[InputError] = []
    for number, line in enumerate(text_lines(path), start=1):
        if len(requests) >= MOST_REQUESTS:
            raise InputError(f"{path}: must have at most {MOST_REQUESTS} requests, has more.", hint="Split the file.")
        try:
            request = _request(_record(f"{path}: line {number}", line.strip())) if line.strip() else None
        except InputError as fault:
            faults.append(fault)
            if len(faults) == MOST_FAULTS:
                break
        else:
            requests.extend([request] if request else [])
    if faults:
        raise joined_faults(path, faults)
    return requests


def read_aiperf_requests(path: Path) -> list[AiperfRequest]:
    """Every request of a file of records. InputError names the first faulty line."""
    lines = enumerate(text_lines(path), start=1)
    return [_outcome(_record(f"{path}: line {number}", line.strip())) for number, line in lines if line.strip()]


def _outcome(record: Section) -> AiperfRequest:
    metadata, metrics = record.section("metadata"), record.section("metrics", optional=True)
    cancelled = "was_cancelled" in metadata and not metadata.is_false("was_cancelled")
    failure = _CANCELLED if cancelled else "" if record.is_empty("error") else _why(record.section("error"))
    return AiperfRequest(
        name=metadata.printable("conversation_id"),
        start_ms=metadata.number("request_start_ns", low=0, high=1e19) * _NS * 1000,
        ttft_ms=_time_ms(metrics, "time_to_first_token"),
        latency_ms=_time_ms(metrics, "request_latency"),
        input_tokens=_counted(metrics, "usage_prompt_tokens"),
        output_tokens=_counted(metrics, "usage_completion_tokens"),
        failure=failure,
    )


def _why(error: Section) -> str:
    """`503: Service Unavailable`, on one line."""
    code = f"{error.integer('code')}: " if not error.is_empty("code") else ""
    message = error.text("message") if error.holds_text("message") else ""
    return f"{code}{' '.join(message.split()) or 'an error'}"[:_SHOWN]


def _counted(metrics: Section, key: str) -> int | None:
    """Tokens; None where nobody counted them."""
    return None if metrics.is_empty(key) else round(_number(metrics, key, high=MOST_TOKENS))


def _record(place: str, line: str) -> Section:
    """The object of a line. An error names the line of the file alone."""
    try:
        return parse_json(line, file=place)
    except InputError as error:
        raise InputError(error.message.replace(f"{place}: line 1,", f"{place},", 1), hint=error.hint) from None


def _request(record: Section) -> _Request | None:
    """The request of a record; None where it does not count."""
    metadata = record.section("metadata")
    phase = metadata.text("benchmark_phase") if metadata.holds_text("benchmark_phase") else "profiling"
    cancelled = "was_cancelled" in metadata and not metadata.is_false("was_cancelled")
    if phase != "profiling" or cancelled or not record.is_empty("error"):
        return None
    metrics = record.section("metrics")
    answer = "output_sequence_length" if "output_sequence_length" in metrics else "output_token_count"
    outputs = _number(metrics, answer, high=MOST_TOKENS)
    inputs = _number(metrics, "input_sequence_length", high=MOST_TOKENS)
    ttft_ms, tpot_ms = _time_ms(metrics, "time_to_first_token"), _time_ms(metrics, "inter_token_latency")
    start_ns = metadata.number("request_start_ns", low=0, high=1e19)
    return _Request(
        start_s=start_ns * _NS,
        latency_ms=_latency_ms(metadata, metrics, start_ns, (ttft_ms, tpot_ms, outputs)),
        input_tokens=inputs,
        output_tokens=outputs,
        ttft_ms=ttft_ms,
        tpot_ms=tpot_ms,
    )


def _latency_ms(
    metadata: Section, metrics: Section, start_ns: float, parts: tuple[float | None, float | None, float]
) -> float:
    """From start to last token: as measured, by the clock, or from TTFT, the time between tokens and their number."""
    latency_ms = _time_ms(metrics, "request_latency")
    if latency_ms is not None:
        return latency_ms
    if not metadata.is_empty("request_end_ns"):
        return (metadata.number("request_end_ns", above=start_ns, high=1e19) - start_ns) * _NS * 1000
    ttft_ms, tpot_ms, outputs = parts
    if ttft_ms is None or (tpot_ms is None and outputs > 1):
        raise metadata.fault("request_end_ns", "given where metrics have no request_latency")
    return ttft_ms + (tpot_ms or 0) * (outputs - 1)


def _number(metrics: Section, key: str, *, high: float) -> float:
    """The value of a metric above 0."""
    if metrics.holds_section(key):
        return metrics.section(key).number("value", above=0, high=high)
    return metrics.number(key, above=0, high=high)


def _time_ms(metrics: Section, key: str) -> float | None:
    """A time in ms; None where it was not measured."""
    if metrics.is_empty(key):
        return None
    if not metrics.holds_section(key):
        return ms_in(metrics, key)
    metric = metrics.section(key)
    unit = metric.one_of("unit", tuple(_UNITS_MS), default="ms")
    return ms_in(metric, "value", unit_ms=_UNITS_MS[unit])


def _median(values: list[float | None]) -> float | None:
    """The median of those that were measured."""
    measured = [value for value in values if value is not None]
    return float(np.median(measured)) if measured else None
