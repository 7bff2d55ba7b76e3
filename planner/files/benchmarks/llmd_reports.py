"""Results of llm-d: Benchmark Reports, version 0.2, held against their JSON schema, and stages of inference-perf.

`llmd_report_schema.json` is the schema of version 0.2.1 of llm-d/llm-d-benchmark (@8bc9f1dd, Apache-2.0), unchanged.
A stack without prefill engines is aggregated: its decode engines, or replicas, do both phases.

The summary over all stages mixes loads, so its medians are nobody's: it is recognised and refused.
"""

import re
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from planner.domain import Pool
from planner.errors import InputError
from planner.files.benchmarks.conditions import Stated
from planner.files.benchmarks.tool_runs import MOST_IN_FLIGHT, ToolResult, ToolRun, mean_in_flight, ms_in, rate_in
from planner.files.disk.documents import read_json
from planner.files.sections import MOST_TOKENS, MOST_WHOLE, Section

VERSIONS = "0.2 or 0.2.x, the llm-d Benchmark Report that is read"
_SCHEMA = Path(__file__).with_name("llmd_report_schema.json")
_UNITS = {  # to ms, tokens/s, requests/s and counts
    **{"ms": 1.0, "s": 1000.0, "ms/token": 1.0, "s/token": 1000.0},
    **{"tokens/s": 1.0, "queries/s": 1.0, "count": 1.0},
}
_TIMES, _TOKEN_TIMES = ("ms", "s"), ("ms/token", "s/token", "ms", "s")


def is_llmd_report(document: Section) -> bool:
    """Whether the document is such a report, of whatever version, by its keys."""
    return "version" in document and ("results" in document or "metrics" in document)


def read_llmd_report(document: Section) -> ToolResult:
    """The run of a report. InputError names file and key; another version is refused by name."""
    _refuse_other_versions(document)
    _hold_against_schema(document)
    performance = document.section("results").section("request_performance", optional=True)
    if performance.is_empty("aggregate"):
        raise performance.fault("aggregate", "there with requests, latency and throughput")
    aggregate = performance.section("aggregate")
    load = _standardized_load(document)
    tool = "" if load is None else f" of {load.text('tool')} {load.text('tool_version')}"
    return ToolResult(
        stated=_stated(document),
        runs=(_run(document, aggregate, load),),
        source=f"llm-d Benchmark Report {document.text('version')}{tool}",
    )


def _refuse_other_versions(document: Section) -> None:
    if not document.holds_text("version") or not re.fullmatch(r"0\.2(\.\d{1,4})?", document.text("version")):
        raise document.fault(
            "version",
            VERSIONS,
            hint="Convert it with llm-d-benchmark, or give the results of the tool that measured.",
        )


def _hold_against_schema(document: Section) -> None:
    try:
        fault = best_match(_validator().iter_errors(document.plain()))
    except RecursionError:
        raise InputError(f"{document.file}: is nested too deeply.", hint="Give the report as it was written.") from None
    if fault is not None:
        raise InputError(
            f"{document.file}: {fault.json_path.removeprefix('$.')[:200]} breaks the schema of reports: "
            f"{fault.message[:200]}.",
            hint="Give the report as llm-d-benchmark wrote it.",
        )


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(read_json(_SCHEMA).plain())


def _standardized_load(document: Section) -> Section | None:
    scenario = _inner(document, "scenario")
    return None if scenario is None or scenario.is_empty("load") else scenario.section("load").section("standardized")


def _inner(section: Section, key: str) -> Section | None:
    return None if section.is_empty(key) else section.section(key)


def _run(document: Section, aggregate: Section, load: Section | None) -> ToolRun:
    requests, latency, rates = (aggregate.section(key) for key in ("requests", "latency", "throughput"))
    requests_per_s = _figure(rates, "request_rate", "mean", ("queries/s",))
    latency_ms = _figure(latency, "request_latency", "mean", _TIMES)
    tpot_ms = _figure(latency, "time_per_output_token", "p50", _TOKEN_TIMES)
    kept_in_flight = _closed_loop(load)
    return ToolRun(
        row=1,
        concurrency=kept_in_flight or _in_flight(latency, requests_per_s, latency_ms),
        in_flight_measured=kept_in_flight is None,
        input_tokens=_length(requests, "input_length"),
        output_tokens=_length(requests, "output_length"),
        input_rate=_figure(rates, "input_token_rate", "mean", ("tokens/s",)),
        output_rate=_figure(rates, "output_token_rate", "mean", ("tokens/s",)),
        ttft_ms=_figure(latency, "time_to_first_token", "p50", _TIMES),
        tpot_ms=_figure(latency, "inter_token_latency", "p50", _TOKEN_TIMES) if tpot_ms is None else tpot_ms,
        year=_year(document),
    )


def _figure(section: Section, key: str, statistic: str, units: tuple[str, ...]) -> float | None:
    """One statistic in our unit; None where the report leaves it out."""
    if section.is_empty(key) or section.section(key).is_empty(statistic):
        return None
    figures = section.section(key)
    unit = figures.one_of("units", units)
    return figures.number(statistic, above=0, high=1e12) * _UNITS[unit]


def _length(requests: Section, key: str) -> float:
    length = _figure(requests, key, "mean", ("count",))
    if length is None or length > MOST_TOKENS:
        raise requests.fault(key, f"there with a mean of at most {MOST_TOKENS} tokens")
    return length


def _closed_loop(load: Section | None) -> float | None:
    """Requests kept in flight; None where they came at a rate, or nothing is said."""
    if load is None or not load.is_empty("rate_qps") or load.is_empty("concurrency") or load.is_infinite("concurrency"):
        return None
    return load.number("concurrency", low=1, high=MOST_IN_FLIGHT)


def _in_flight(latency: Section, requests_per_s: float | None, latency_ms: float | None) -> float:
    if requests_per_s is None or latency_ms is None:
        raise latency.fault(
            "request_latency", "there with a mean, and throughput.request_rate too, without a concurrency"
        )
    return mean_in_flight(requests_per_s, latency_ms / 1000, latency, "request_latency")


def _year(document: Section) -> int | None:
    time = _inner(document.section("run"), "time")
    if time is None or not time.holds_text("start"):
        return None
    try:
        return date.fromisoformat(time.text("start")[:10]).year
    except ValueError:
        raise time.fault("start", "a date and time like 2026-11-05T18:00:42Z") from None


def _stated(document: Section) -> Stated:
    """GPUs, model and pools of the stack's engines, as far as it tells them."""
    engines = _engines(document)
    if not engines:
        return Stated(file=document.file)
    models = {engine.section("model").printable("name") for engine in engines}
    gpus = {engine.section("accelerator").printable("model") for engine in engines}
    for subject, names in (("model", models), ("GPU type", gpus)):
        if len(names) > 1:
            raise InputError(
                f"{document.file}: scenario.stack must have engines of one {subject}, got "
                f"{', '.join(sorted(names))[:200]}.",
                hint="A run is predicted for one model on one GPU type.",
            )
    prefill = [engine for engine in engines if engine.text("role") == "prefill"]
    others = [engine for engine in engines if engine.text("role") != "prefill"]
    if not others or (prefill and any(engine.text("role") == "replica" for engine in others)):
        raise InputError(
            f"{document.file}: scenario.stack must have engines for decode beside those for prefill, or replicas "
            f"alone, got {', '.join(engine.text('role') for engine in engines)[:200]}.",
            hint="Give the report of a whole deployment.",
        )
    return Stated(
        file=document.file,
        gpu=gpus.pop(),
        model=models.pop(),
        prefill=_joined_pool(document, prefill) if prefill else None,
        decode=_joined_pool(document, others),
    )


def _engines(document: Section) -> list[Section]:
    scenario = _inner(document, "scenario")
    if scenario is None or scenario.is_empty("stack"):
        return []
    components = [component.section("standardized") for component in scenario.sections("stack")]
    return [component for component in components if component.text("kind") == "inference_engine"]


def _joined_pool(document: Section, engines: list[Section]) -> Pool:
    """One pool of engines with equal degrees."""
    pools = [_pool(engine) for engine in engines]
    shapes = {(pool.tp, pool.dp, pool.ep) for pool in pools}
    if len(shapes) > 1:
        raise InputError(
            f"{document.file}: scenario.stack must have equal engines in a role, got (tp, dp, ep) of "
            f"{', '.join(map(str, sorted(shapes)))[:200]}.",
            hint="Only pools of equal workers are predicted.",
        )
    return Pool(tp=pools[0].tp, dp=pools[0].dp, ep=pools[0].ep, workers=sum(pool.workers for pool in pools))


def _pool(engine: Section) -> Pool:
    accelerator: Section = engine.section("accelerator")
    degrees: Section = accelerator.section("parallelism")
    bounds: dict[str, Any] = {"default": 1, "low": 1, "high": 65536}
    tp, dp, ep = (degrees.integer(key, **bounds) for key in ("tp", "dp", "ep"))
    if degrees.integer("pp", **bounds) != 1:
        raise degrees.fault("pp", "1: engines with pipeline stages are not predicted")
    if (tp * dp) % ep:
        raise degrees.fault("ep", f"a divisor of tp x dp ({tp * dp})")
    replicas = engine.integer("replicas", low=1, high=65536)
    if accelerator.integer("count") not in (tp * dp, tp * dp * replicas):
        raise accelerator.fault("count", f"tp x dp ({tp * dp}), or that of all {replicas} replicas")
    return Pool(tp=tp, dp=dp, ep=ep, workers=replicas)


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
