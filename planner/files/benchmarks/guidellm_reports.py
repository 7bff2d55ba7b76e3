"""Reports of guidellm, version 2: several benchmarks in one file, each with its own load; latencies in seconds.

Strategies `concurrent` (its streams) and `synchronous` (one) are closed loops, `throughput` sends all it may at once;
any other sends at a rate, and the mean in flight follows from rate and latency. A token's time is the median between
tokens after the first.
"""

from planner.domain import Load
from planner.errors import InputError
from planner.files.benchmarks.conditions import Stated
from planner.files.benchmarks.tool_runs import (
    MOST_IN_FLIGHT,
    ToolResult,
    ToolRun,
    mean_in_flight,
    ms_in,
    rate_in,
    year_of_epoch,
)
from planner.files.sections import MOST_TOKENS, MOST_WHOLE, Section

VERSION = 2
MOST_BENCHMARKS = 10_000


def is_guidellm_report(document: Section) -> bool:
    """Whether the document is such a report, of whatever version, by its keys."""
    if not (document.holds_list("benchmarks") and document.holds_section("metadata")):
        return False
    metadata = document.section("metadata")
    return "guidellm_version" in metadata or "version" in metadata


def read_guidellm_report(document: Section) -> ToolResult:
    """The benchmarks of a report in order. InputError names file and key; another version is refused by name."""
    metadata = document.section("metadata")
    if not metadata.holds_number("version") or metadata.number("version") != VERSION:
        raise metadata.fault(
            "version",
            f"{VERSION}, the guidellm report that is read",
            hint="Run the benchmark with a guidellm that writes reports of that version.",
        )
    benchmarks = document.sections("benchmarks")
    if not 1 <= len(benchmarks) <= MOST_BENCHMARKS:
        raise document.fault("benchmarks", f"a list of 1 to {MOST_BENCHMARKS} benchmarks")
    models = {_model(benchmark) for benchmark in benchmarks}
    if len(models) > 1:
        raise InputError(
            f"{document.file}: benchmarks must be of one model, got {', '.join(sorted(map(str, models)))[:200]}.",
            hint="Split the report.",
        )
    runs = tuple(_run(row, benchmark) for row, benchmark in enumerate(benchmarks, start=1))
    version = metadata.text("guidellm_version", default="")
    stated = Stated(file=document.file, model=models.pop())
    return ToolResult(stated=stated, runs=runs, source=f"guidellm {version}".strip())


def _model(benchmark: Section) -> str | None:
    backend = benchmark.section("config").section("backend", optional=True)
    return None if backend.is_empty("model") else backend.printable("model")


def _run(row: int, benchmark: Section) -> ToolRun:
    metrics = benchmark.section("metrics")
    metrics.section("request_totals").integer("successful", low=1, high=MOST_WHOLE)
    load, concurrency = _load(benchmark, metrics)
    year = year_of_epoch(benchmark.number("start_time", low=0)) if "start_time" in benchmark else None
    return ToolRun(
        row=row,
        place=benchmark.path,
        load=load,
        concurrency=concurrency,
        in_flight_measured=load is Load.CLOSED_LOOP and "rate" in benchmark.section("config").section("strategy"),
        input_tokens=_successful(metrics, "prompt_token_count").number("mean", above=0, high=MOST_TOKENS),
        output_tokens=_successful(metrics, "output_token_count").number("mean", above=0, high=MOST_TOKENS),
        input_rate=rate_in(_successful(metrics, "prompt_tokens_per_second"), "mean"),
        output_rate=rate_in(_successful(metrics, "output_tokens_per_second"), "mean"),
        ttft_ms=_median_ms(metrics, "time_to_first_token_ms"),
        tpot_ms=_median_ms(metrics, "inter_token_latency_ms"),
        year=year,
    )


def _successful(metrics: Section, key: str) -> Section:
    return metrics.section(key).section("successful")


def _median_ms(metrics: Section, key: str) -> float | None:
    return None if metrics.is_empty(key) else ms_in(_successful(metrics, key), "median")


def _load(benchmark: Section, metrics: Section) -> tuple[Load, float | None]:
    """How the benchmark was loaded, and the requests in flight."""
    strategy = benchmark.section("config").section("strategy")
    kind = strategy.text("type_")
    if kind == "concurrent":
        return Load.CLOSED_LOOP, strategy.integer("streams", low=1, high=int(MOST_IN_FLIGHT))
    if kind == "synchronous":
        return Load.CLOSED_LOOP, 1
    if kind == "throughput":
        empty = strategy.is_empty("max_concurrency")
        cap = None if empty else strategy.integer("max_concurrency", low=1, high=int(MOST_IN_FLIGHT))
        return Load.SATURATED, cap
    latency = _successful(metrics, "request_latency")
    requests_per_s = rate_in(_successful(metrics, "requests_per_second"), "mean")
    return Load.CLOSED_LOOP, mean_in_flight(
        requests_per_s, latency.number("mean", above=0, high=MOST_WHOLE), latency, "mean"
    )
