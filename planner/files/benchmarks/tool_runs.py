"""What every benchmark tool measures, in one form, and the runs that it becomes under a deployment's conditions."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from planner.domain import BenchmarkRun, Load, Metric
from planner.errors import InputError
from planner.files.benchmarks.conditions import Deployment, Stated
from planner.files.benchmarks.published_points import IN_FLIGHT_TOLERANCE, excess_in_flight
from planner.files.sections import Section

MOST_TOKENS_PER_S = 1e9
MOST_MS = 1e9
MOST_IN_FLIGHT = 1e7
_OF_MEANS = 1.0  # a median against a mean over requests of all lengths: tells wrong units, nothing finer


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """One run as a tool tells it. Lengths are means; rates are tokens/s of all GPUs; None where nothing is told.

    `place` names it in errors, behind the file: empty where the file holds one run. `concurrency` is the mean in
    flight of requests that came at a rate where `in_flight_measured`. `batch`: sequences of a decode step on all GPUs.
    `mtp_tokens` and `mtp_gain`: tokens drafted a step, tokens a step yields.
    """

    row: int
    place: str = ""
    load: Load = Load.CLOSED_LOOP
    input_tokens: float
    output_tokens: float
    concurrency: float | None = None
    in_flight_measured: bool = False
    batch: float | None = None
    input_rate: float | None = None
    output_rate: float | None = None
    output_rate_per_gpu: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    mtp_tokens: int | None = None
    mtp_gain: float | None = None
    year: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """A file of a tool: what it says of the deployment, and its runs. `source`: tool and version."""

    stated: Stated
    runs: tuple[ToolRun, ...]
    source: str
    of_one_worker: bool = False


def benchmark_runs(result: ToolResult, deployment: Deployment) -> tuple[BenchmarkRun, ...]:
    """The runs of a file. InputError where figures contradict each other or the deployment."""
    if result.of_one_worker and deployment.decode.workers != 1:
        raise InputError(
            f"{result.stated.file}: is of one worker: --gpus must be --tp x --dp "
            f"({deployment.decode.worker_gpus}), got {deployment.decode.gpus}.",
            hint="Give the GPUs of the worker that was profiled.",
        )
    runs = tuple(_run(result, run, deployment) for run in result.runs)
    for run, tool_run in zip(runs, result.runs, strict=True):
        tolerance = _OF_MEANS if tool_run.in_flight_measured else IN_FLIGHT_TOLERANCE
        if excess := excess_in_flight(run, tolerance=tolerance):
            place = f"{run.file}: {tool_run.place}: " if tool_run.place else f"{run.file}: "
            raise InputError(f"{place}{excess}", hint="Check --gpus, and the file's units of time.")
    return runs


def _run(result: ToolResult, run: ToolRun, deployment: Deployment) -> BenchmarkRun:
    precision, decode = deployment.precision, deployment.decode
    return BenchmarkRun(
        row=run.row,
        gpu=deployment.gpu,
        model=deployment.model,
        load=run.load,
        prefill=deployment.prefill,
        decode=decode,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        measured=_measured(run, deployment),
        concurrency=run.concurrency,
        batch_per_rank=None if run.batch is None else run.batch / (decode.dp * decode.workers),
        engine=deployment.engine,
        precision=precision if run.mtp_tokens is None else replace(precision, mtp_tokens=run.mtp_tokens),
        mtp_gain=run.mtp_gain,
        year=run.year,
        file=result.stated.file,
        source=result.source,
    )


def _measured(run: ToolRun, deployment: Deployment) -> tuple[tuple[Metric, float], ...]:
    output_rate = run.output_rate_per_gpu
    if run.output_rate is not None:
        output_rate = run.output_rate / deployment.decode.gpus
    prefill = deployment.prefill or deployment.decode
    input_rate = None if run.input_rate is None else run.input_rate / prefill.gpus
    figures = (
        (Metric.INPUT_RATE, input_rate),
        (Metric.OUTPUT_RATE, output_rate),
        (Metric.TTFT, run.ttft_ms),
        (Metric.TPOT, run.tpot_ms),
    )
    return tuple((metric, value) for metric, value in figures if value is not None)


def rate_in(section: Section, key: str) -> float:
    """A rate, of tokens or requests, per second."""
    return section.number(key, above=0, high=MOST_TOKENS_PER_S)


def ms_in(section: Section, key: str, *, unit_ms: float = 1.0) -> float | None:
    """A time in ms, which the file gives in units of `unit_ms`; None where it is missing, null or 0 (not measured)."""
    if section.is_empty(key):
        return None
    return section.number(key, low=0, high=MOST_MS / unit_ms) * unit_ms or None


def mean_in_flight(requests_per_s: float, latency_s: float, section: Section, key: str) -> float:
    """Requests in flight by Little's law; `section` and `key` name the latency in an error."""
    in_flight = requests_per_s * latency_s
    if not 0 < in_flight <= MOST_IN_FLIGHT:
        raise section.fault(key, f"a time in which at most {MOST_IN_FLIGHT:g} requests come")
    return in_flight


def year_of_epoch(seconds: float) -> int | None:
    """The year (UTC) of seconds since 1970; None for what can be no date of a benchmark."""
    return datetime.fromtimestamp(seconds, UTC).year if 1.5e9 < seconds < 1e10 else None
