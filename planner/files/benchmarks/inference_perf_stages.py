"""Results of inference-perf: `stage_N_lifecycle_metrics.json`, one load a file; times in seconds.

The summary over all stages mixes loads, so its medians are nobody's: it is recognised and refused.
"""

from planner.errors import InputError
from planner.files.benchmarks.conditions import Stated
from planner.files.benchmarks.tool_runs import ToolResult, ToolRun, mean_in_flight, ms_in, rate_in
from planner.files.sections import MOST_TOKENS, MOST_WHOLE, Section

_S = 1000.0  # ms


def is_inference_perf_stage(document: Section) -> bool:
    """Whether the document is a stage's or the summary's, by its keys."""
    return document.holds_section("load_summary") and document.holds_section("successes")


def read_inference_perf_stage(document: Section) -> ToolResult:
    """The run of one stage. InputError names file and key, and refuses the summary of several stages."""
    if "requested_rate" not in document.section("load_summary"):
        raise InputError(
            f"{document.file}: must be of one stage, got the summary of all: load_summary has no requested_rate.",
            hint="Give the files stage_N_lifecycle_metrics.json beside it.",
        )
    successes = document.section("successes")
    successes.integer("count", low=1, high=MOST_WHOLE)
    latency, throughput = successes.section("latency"), successes.section("throughput")
    requests = latency.section("request_latency")
    latency_ms = ms_in(requests, "mean", unit_ms=_S)
    if latency_ms is None:
        raise requests.fault("mean", "a time above 0")
    run = ToolRun(
        row=1,
        concurrency=mean_in_flight(rate_in(throughput, "requests_per_sec"), latency_ms / _S, requests, "mean"),
        in_flight_measured=True,
        input_tokens=successes.section("prompt_len").number("mean", above=0, high=MOST_TOKENS),
        output_tokens=successes.section("output_len").number("mean", above=0, high=MOST_TOKENS),
        input_rate=rate_in(throughput, "input_tokens_per_sec"),
        output_rate=rate_in(throughput, "output_tokens_per_sec"),
        ttft_ms=_median_ms(latency, "time_to_first_token"),
        tpot_ms=_median_ms(latency, "time_per_output_token"),
    )
    return ToolResult(stated=Stated(file=document.file), runs=(run,), source="inference-perf")


def _median_ms(latency: Section, key: str) -> float | None:
    """The median over requests; None where the stage was not streamed."""
    return None if latency.is_empty(key) else ms_in(latency.section(key), "median", unit_ms=_S)
