"""The cost stage's results as data frames: parts of a step, factors, configurations, accuracy."""

from collections.abc import Mapping, Sequence

from planner.domain import Accuracy, ConfigurationRates, JudgedMeasurement, PartOfStep, StepExplanation
from planner.report.kit.frames import Frame

_PART_COLUMNS = (
    "name",
    "ms",
    "share",
    "compute_ms",
    "memory_ms",
    "network_ms",
    "latency_ms",
    "bound",
    "flops",
    "bytes",
    "flops_per_byte",
    "attained_tflops",
)
_FACTOR_COLUMNS = ("name", "value", "unit", "origin", "source")
_CONFIGURATION_COLUMNS = ("gpu", "phase", "tp", "dp", "pp", "replicas", "length", "rate_rps", "batch_size")
_ACCURACY_COLUMNS = (
    "gpu",
    "model",
    "phase",
    "ep",
    "length",
    "batch",
    "measured_tokens_per_s_per_gpu",
    "predicted_tokens_per_s_per_gpu",
    "error",
    "left_out_error",
    "fitted",
    "source",
)


def parts_frame(explanation: StepExplanation) -> Frame:
    """One row a part of the step. `share` is of the parts' time, hidden communication included.

    `flops_per_byte` and `attained_tflops` are missing where the part computes nothing or moves no bytes.
    """
    total_ms = sum(part.ms for part in explanation.parts)
    return _frame([_part_row(part, total_ms) for part in explanation.parts], _PART_COLUMNS)


def factors_frame(explanation: StepExplanation) -> Frame:
    """One row a factor that went into the step, with its unit, origin and source."""
    rows = [
        {"name": f.name, "value": f.value, "unit": f.unit, "origin": f.origin.value, "source": f.source}
        for f in explanation.factors
    ]
    return _frame(rows, _FACTOR_COLUMNS)


def configurations_frame(rates: Sequence[ConfigurationRates]) -> Frame:
    """One row a configuration and prompt length; a rate of 0 requests/s: it cannot serve that length."""
    rows = [
        {
            "gpu": r.gpu,
            "phase": r.phase.value,
            "tp": r.parallel.tp,
            "dp": r.parallel.dp,
            "pp": r.parallel.pp,
            "replicas": r.parallel.replicas,
            "length": length,
            "rate_rps": rate,
            "batch_size": batch,
        }
        for r in rates
        for length, rate, batch in zip(r.lengths, r.rates_rps, r.batch_sizes, strict=True)
    ]
    return _frame(rows, _CONFIGURATION_COLUMNS)


def accuracy_frame(points: Sequence[JudgedMeasurement]) -> Frame:
    """One row a measurement beside its prediction: tokens/s per GPU, errors as shares of the measured throughput.

    `left_out_error` is missing for a measurement that is only compared with.
    """
    return _frame([_accuracy_row(point) for point in points], _ACCURACY_COLUMNS)


def _part_row(part: PartOfStep, whole_ms: float) -> dict[str, object]:
    on_roofline = part.flops > 0 and part.bytes > 0
    row: dict[str, object] = {name: getattr(part, name) for name in _PART_COLUMNS if hasattr(part, name)}
    row["share"] = part.ms / whole_ms
    row["flops_per_byte"] = part.flops / part.bytes if on_roofline else float("nan")
    row["attained_tflops"] = part.flops / part.ms / 1e9 if on_roofline else float("nan")
    return row


def _accuracy_row(point: JudgedMeasurement) -> dict[str, object]:
    m = point.measurement
    measured = m.tokens_per_s_per_gpu
    return {
        "gpu": m.gpu,
        "model": m.model,
        "phase": m.phase.value,
        "ep": m.ep,
        "length": m.length,
        "batch": m.batch,
        "measured_tokens_per_s_per_gpu": measured,
        "predicted_tokens_per_s_per_gpu": measured * (1 + point.after_error),
        "error": point.after_error,
        "left_out_error": point.left_out_error,
        "fitted": m.fitted,
        "source": m.source,
    }


def _frame(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> Frame:
    import pandas as pd  # noqa: PLC0415  # half a second to load: only who asks for a table pays

    return pd.DataFrame([dict(row) for row in rows], columns=list(columns))


_SLICE_COLUMNS = ("dimension", "slice", "points", "mean_error", "median_error", "bias", "not_predicted")


def slices_frame(judged: Accuracy) -> Frame:
    """Errors of rates by slice: shares; `bias` is positive where predicted rates are too high."""
    rows = [
        dict(
            zip(
                _SLICE_COLUMNS,
                (s.dimension, s.name, s.points, s.mean, s.median, s.bias, s.unanswered),
                strict=True,
            )
        )
        for s in judged.slices
    ]
    return _frame(rows, _SLICE_COLUMNS)


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
