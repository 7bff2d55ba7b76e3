"""Published points of vendors and engine teams from CSV: one figure a row, with its conditions and its source.

`phase_or_metric` says what `measured` is and how it was loaded:

word           usual unit                  run
throughput     output tok/s of all GPUs    requests always waiting; `batch`, where given, caps those in flight
static batch   output tok/s of all GPUs    `batch` requests started together
batch latency  s                           likewise, from start to end
first token    ms                          the prefill of `batch` prompts
prefill        tok/s per GPU               prefill steps of `batch` prompts a rank
decode         tok/s per GPU               decode steps of `batch` sequences a rank

The cap of a throughput row is an engine's max batch, which each attention group has for itself: with dp > 1 it is kept
as `batch_per_rank`, and `concurrency` is dp times as much (TensorRT-LLM's DeepSeek-R1 practice: 384 a rank,
`--concurrency 3072` on eight). With dp 1 it is the number of prompts sent at once, as in ROCm's vLLM notes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from planner.domain import BenchmarkRun, Load, Metric, Pool, Precision
from planner.errors import InputError
from planner.files.benchmarks.conditions import parse_precision
from planner.files.disk.csv_rows import LARGEST, CsvRow, csv_rows

MOST_POINTS = 100_000
MOST_FAULTS = 5
IN_FLIGHT_TOLERANCE = 0.05  # medians stand for means: of 315 runs of InferenceX the farthest is 4.1 % beyond
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
Point = TypeVar("Point")


class PointRow(CsvRow):
    """One row of measured points; every fault names file, row and column."""

    def positive(self, column: str) -> float:
        """A number above 0."""
        number = self.number(column)
        if not 0 < number <= LARGEST:
            raise self.fault(column, f"must be a number above 0 and at most {LARGEST:g}")
        return number

    def positive_or_none(self, column: str) -> float | None:
        """A number above 0; None for an empty cell."""
        return self.positive(column) if self.text(column) else None

    def count(self, column: str) -> int:
        """A whole number of at least 1."""
        return self.whole(column, low=1)

    def flag(self, column: str) -> bool:
        """True or False."""
        text = self.text(column).lower()
        if text not in _FLAGS:
            raise self.fault(column, "must be True or False")
        return _FLAGS[text]

    def precision(self, column: str, text: str = "") -> Precision:
        """What the cell (or `text`, which stands for it) says of bytes per element; else a doubt."""
        try:
            return replace(parse_precision(text or self.text(column)), text=self.text(column))
        except InputError as error:
            if not self.text(column):
                place = f"{self.path}: row {self.place}, column {column}"
                raise InputError(f"{place} {error.message}", hint=error.hint) from None
            return Precision(text=self.text(column), doubt=f"{column} {error.message}")

    def year(self, column: str) -> int | None:
        """The year of a date like 2026-06-11; None for an empty cell."""
        if not self.text(column):
            return None
        date = re.fullmatch(r"(20\d\d)-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", self.text(column))
        if not date:
            raise self.fault(column, "must be a date like 2026-06-11, or empty")
        return int(date[1])


def read_points(path: Path, columns: Sequence[str], read: Callable[[PointRow], Point]) -> tuple[Point, ...]:
    """What `read` makes of each row. InputError names the first five faulty rows of all."""
    points, faults = [], []
    for row in csv_rows(path, columns):
        if row.place > MOST_POINTS:
            raise InputError(f"{path}: must have at most {MOST_POINTS} rows, has more.", hint="Split the file.")
        try:
            points.append(read(PointRow(row.path, row.place, row.cells)))
        except InputError as fault:
            faults.append(fault)
    if faults:
        raise joined_faults(path, faults)
    return tuple(points)


def joined_faults(path: Path, faults: Sequence[InputError]) -> InputError:
    """One error of all: the file once, then the first five."""
    messages = " ".join(fault.message.removeprefix(f"{path}: ") for fault in faults[:MOST_FAULTS])
    more = f" And {len(faults) - MOST_FAULTS} more rows." if len(faults) > MOST_FAULTS else ""
    return InputError(f"{path}: {messages}{more}", hint=faults[0].hint)


def excess_in_flight(run: BenchmarkRun, *, tolerance: float = IN_FLIGHT_TOLERANCE) -> str:
    """What Little's law says against the run, as a sentence without its place; empty where nothing.

    Tokens/s of all GPUs times seconds a token are the requests in decode, at most `concurrency` and a share
    `tolerance` more.
    """
    measured = dict(run.measured)
    rate, tpot_ms = measured.get(Metric.OUTPUT_RATE), measured.get(Metric.TPOT)
    in_flight = run.concurrency
    if in_flight is None and run.batch_per_rank is not None:
        in_flight = run.batch_per_rank * run.decode.dp * run.decode.workers
    if in_flight is None or rate is None or tpot_ms is None:
        return ""
    decoding = rate * run.decode.gpus * tpot_ms / 1000
    if decoding <= in_flight * (1 + tolerance):
        return ""
    return (
        f"the requests in decode must be at most the {in_flight:g} in flight, got {decoding:.4g}: {rate:g} "
        f"output tokens/s per GPU x {run.decode.gpus} GPUs x {tpot_ms:g} ms a token."
    )


PUBLISHED_COLUMNS = (
    *("gpu", "model", "phase_or_metric", "tp", "dp", "ep", "gpus", "precision", "batch", "isl", "osl"),
    *("measured", "unit", "source"),
)
# what a source's text says of its engine, and of the year its figures are from
_ENGINES = (("TensorRT-LLM", "trt"), ("vLLM", "vllm"), ("lm-sys", "sglang"))
_YEARS = (
    (r"TensorRT-LLM.*\bv0\.[5-9]", 2023),
    (r"TensorRT-LLM.*\bv1\.[0-2]", 2025),
    (r"vLLM 0\.(?:10|11)\b", 2025),
)


_RATES = ("output tok/s of all GPUs", "tok/s per GPU")
_TIMES = ("s", "ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """What one word of `phase_or_metric` stands for, and the units that it may be told in."""

    load: Load
    metric: Metric
    needs_batch: bool = True

    @property
    def units(self) -> tuple[str, ...]:
        """Of a time or of a rate."""
        return _TIMES if self.metric.is_time else _RATES


_FORMS: Mapping[str, _Form] = {
    "throughput": _Form(load=Load.SATURATED, metric=Metric.OUTPUT_RATE, needs_batch=False),
    "static batch": _Form(load=Load.STATIC_BATCH, metric=Metric.OUTPUT_RATE),
    "batch latency": _Form(load=Load.STATIC_BATCH, metric=Metric.LATENCY),
    "first token": _Form(load=Load.PROMPT_BATCH, metric=Metric.TTFT),
    "prefill": _Form(load=Load.PREFILL_STEP, metric=Metric.INPUT_RATE),
    "decode": _Form(load=Load.DECODE_STEP, metric=Metric.OUTPUT_RATE),
}
_STEPS = (Load.PREFILL_STEP, Load.DECODE_STEP)


def read_published_points(path: Path) -> tuple[BenchmarkRun, ...]:
    """The points of a file, one run each. InputError names file, rows, columns and rules."""
    return read_points(path, PUBLISHED_COLUMNS, _run)


def _run(row: PointRow) -> BenchmarkRun:
    form = _form(row)
    pool = _pool(row)
    scale = _scale(row, form, pool)
    concurrency, batch_per_rank = _batches(row, form, pool)
    return BenchmarkRun(
        row=row.place,
        gpu=row.name("gpu"),
        model=row.name("model"),
        load=form.load,
        decode=pool,
        input_tokens=row.positive("isl"),
        output_tokens=row.positive("osl"),
        measured=((form.metric, row.positive("measured") / scale),),
        file_metric=row.text("phase_or_metric"),
        file_scale=scale,
        concurrency=concurrency,
        batch_per_rank=batch_per_rank,
        engine=_engine(row.text("source")),
        precision=row.precision("precision"),
        year=_year(row.text("source")),
        file=str(row.path),
        source=row.text("source"),
    )


def _form(row: PointRow) -> _Form:
    word = row.text("phase_or_metric")
    if word not in _FORMS:
        raise row.fault("phase_or_metric", f"must be one of {', '.join(_FORMS)}")
    return _FORMS[word]


def _scale(row: PointRow, form: _Form, pool: Pool) -> float:
    """The row's figure over what it is in the metric's unit."""
    unit = row.text("unit").removesuffix("(see note)").strip()
    if unit not in form.units:
        raise row.fault(
            "unit", f"must be {' or '.join(map(repr, form.units))} in a row of {row.text('phase_or_metric')}"
        )
    return {"s": 0.001, "output tok/s of all GPUs": float(pool.gpus)}.get(unit, 1.0)


def _pool(row: PointRow) -> Pool:
    tp, dp, ep, gpus = (row.count(column) for column in ("tp", "dp", "ep", "gpus"))
    if gpus % (tp * dp):
        raise row.fault("gpus", f"must be a multiple of tp x dp ({tp * dp})")
    if (tp * dp) % ep:
        raise row.fault("ep", f"must divide tp x dp ({tp * dp})")
    return Pool(tp=tp, dp=dp, ep=ep, workers=gpus // (tp * dp))


def _batches(row: PointRow, form: _Form, pool: Pool) -> tuple[float | None, float | None]:
    """Requests in flight on all GPUs, and the batch of a rank, as far as the row says them."""
    batch = row.positive("batch") if form.needs_batch else row.positive_or_none("batch")
    if batch is None:
        return None, None
    if form.load in _STEPS:
        return None, batch
    if form.load is Load.SATURATED and pool.dp > 1:
        return batch * pool.dp * pool.workers, batch
    return batch, None


def _engine(source: str) -> str:
    return next((engine for word, engine in _ENGINES if word in source), "")


def _year(source: str) -> int | None:
    """The year of a dated blog, or of the version that the source names."""
    if dated := re.search(r"blog/(20\d\d)-\d\d-\d\d", source):
        return int(dated[1])
    return next((year for pattern, year in _YEARS if re.search(pattern, source)), None)
