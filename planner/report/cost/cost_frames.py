"""The cost stage's results as data frames: parts of a step, factors, configurations, accuracy."""

from collections.abc import Callable, Sequence

from planner.domain import Accuracy, ConfigurationRates, JudgedMeasurement, PartOfStep, StepExplanation
from planner.report.kit.frames import Frame
from planner.report.kit.tables import Column, fields, of_part, table_of

_CONFIGURATION = fields("gpu", "phase", "parallel.tp", "parallel.dp", "parallel.pp", "parallel.replicas")
_SLICE = fields(
    *(
        "dimension",
        "slice=name",
        "points",
        "mean_error=mean",
        "median_error=median",
        "bias",
        "not_predicted=unanswered",
    ),
)


def parts_frame(explanation: StepExplanation) -> Frame:
    """One row a part of the step. `share` is of the parts' time, hidden communication included.

    `flops_per_byte` and `attained_tflops` are missing where the part computes nothing or moves no bytes.
    """
    total_ms = sum(part.ms for part in explanation.parts)

    def on_roofline(name: str, value: Callable[[PartOfStep], float]) -> Column[PartOfStep]:
        return Column(name, lambda part: value(part) if part.flops > 0 and part.bytes > 0 else float("nan"))

    columns = (
        *fields("name", "ms"),
        Column("share", lambda part: part.ms / total_ms),
        *fields("compute_ms", "memory_ms", "network_ms", "latency_ms", "bound", "flops", "bytes"),
        on_roofline("flops_per_byte", lambda part: part.flops / part.bytes),
        on_roofline("attained_tflops", lambda part: part.flops / part.ms / 1e9),
    )
    return table_of(columns, explanation.parts).frame()


def factors_frame(explanation: StepExplanation) -> Frame:
    """One row a factor that went into the step, with its unit, origin and source."""
    return table_of(fields("name", "value", "unit", "origin", "source"), explanation.factors).frame()


def configurations_frame(rates: Sequence[ConfigurationRates]) -> Frame:
    """One row a configuration and prompt length; a rate of 0 requests/s: it cannot serve that length."""
    rows = [(r, place) for r in rates for place in range(len(r.lengths))]
    columns: tuple[Column[tuple[ConfigurationRates, int]], ...] = (
        *of_part(lambda row: row[0], _CONFIGURATION),
        Column("length", lambda row: row[0].lengths[row[1]]),
        Column("rate_rps", lambda row: row[0].rates_rps[row[1]]),
        Column("batch_size", lambda row: row[0].batch_sizes[row[1]]),
    )
    return table_of(columns, rows).frame()


def accuracy_frame(points: Sequence[JudgedMeasurement]) -> Frame:
    """One row a measurement beside its prediction: tokens/s per GPU, errors as shares of the measured throughput.

    `left_out_error` is missing for a measurement that is only compared with.
    """
    per_gpu = "tokens_per_s_per_gpu"
    columns = (
        *fields(*(f"measurement.{name}" for name in ("gpu", "model", "phase", "ep", "length", "batch"))),
        *fields(f"measured_{per_gpu}=measurement.{per_gpu}"),
        Column(f"predicted_{per_gpu}", lambda p: p.measurement.tokens_per_s_per_gpu * (1 + p.after_error)),
        *fields("error=after_error", "left_out_error", "measurement.fitted", "measurement.source"),
    )
    return table_of(columns, points).frame()


def slices_frame(judged: Accuracy) -> Frame:
    """Errors of rates by slice: shares; `bias` is positive where predicted rates are too high."""
    return table_of(_SLICE, judged.slices).frame()


def accuracy_table(judged: Accuracy) -> str:
    """Errors by kind of figure as a table in Markdown, with the order of GPU types and the bands' cover below it."""
    lines = [
        "| figure | figures | mean error | median error | bias |",
        "| :--- | ---: | ---: | ---: | ---: |",
        *(
            f"| {s.name} | {s.points} | {s.mean:.1%} | {s.median:.1%} | {s.bias:+.1%} |".replace("%", " %")
            for s in judged.slices
            if s.dimension == "figure"
        ),
    ]
    order = f"{judged.in_order} of {judged.pairs} pairs of GPU types at equal work are in the right order; "
    return "\n".join(
        [*lines, "", f"{order}{judged.covered:.0%} of the figures lie within their bands.".replace("%", " %")]
    )
