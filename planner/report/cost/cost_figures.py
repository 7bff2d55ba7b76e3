"""The cost stage's results as data frames and figures. matplotlib is loaded with the first figure, not before."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from planner.domain import (
    Accuracy,
    CalibrationFit,
    ConfigurationRates,
    JudgedMeasurement,
    PartOfStep,
    SliceError,
    StepExplanation,
)
from planner.errors import InputError
from planner.report.kit.tables import Column, Frame, fields, of_part, table_of
from planner.report.kit.tree import Block, paragraphs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUANTITIES = ("requests", "requests_per_gpu", "prompt_tokens", "batch")
"""What `configurations_figure` can show: requests/s, the same per GPU, prompt tokens/s, sequences per group."""


def roofline_figure(explanations: Sequence[StepExplanation]) -> "Figure":
    """Each step's parts under the data-sheet roofs of its GPU: FLOP/byte against attained TFLOP/s per GPU, log-log.

    One panel an explanation, on the same axes. A marker's area is the part's share of the time, its shape what bounds
    it. Raises InputError where there is none.
    """
    _require(explanations, "explanations", "planner.cost.explain")
    from planner.report.cost import roofline  # noqa: PLC0415  # matplotlib takes a second to load

    return _drawn(roofline.draw, explanations)


def breakdown_figure(explanations: Sequence[StepExplanation]) -> "Figure":
    """The parts' ms side by side, one bar a step, coloured by part and hatched by what bounds it.

    Communication that computation hides lies under the bar, since it adds no time. Raises InputError where there is
    no explanation.
    """
    _require(explanations, "explanations", "planner.cost.explain")
    from planner.report.cost import breakdown  # noqa: PLC0415  # matplotlib takes a second to load

    return _drawn(breakdown.draw, explanations)


def configurations_figure(
    rates: Sequence[ConfigurationRates], quantity: str = "requests", *, note: str = ""
) -> "Figure":
    """An island's parallel configurations over prompt lengths, one panel a GPU type and phase (figures 4.3, 4.4).

    The best few are drawn in strong colours, by their mean deviation from the best at each length (section 4.6.1); a
    line ends where the configuration cannot serve. `quantity` is one of QUANTITIES; `note` goes into the title.
    Raises InputError where there is nothing to draw, or for another quantity.
    """
    _require(rates, "rates", "planner.cost.compare_configurations")
    if quantity not in QUANTITIES:
        raise InputError(
            f"quantity: must be one of {', '.join(QUANTITIES)}, got {quantity!r}.", hint="Choose one of these names."
        )
    from planner.report.cost import configurations  # noqa: PLC0415  # matplotlib takes a second to load

    return _drawn(configurations.draw, rates, quantity, note)


def accuracy_figure(fit: CalibrationFit) -> "Figure":
    """Predicted against measured tokens/s per GPU, log-log, with the diagonal and a band of 10 %.

    Full markers: predicted by the fit; hollow ones: by a fit without that measurement; diamonds: only compared with.
    Raises InputError where nothing was measured.
    """
    _require(fit.points, "fit.points", "planner.cost.fit_calibration")
    from planner.report.cost import accuracy  # noqa: PLC0415  # matplotlib takes a second to load

    return _drawn(accuracy.draw, fit)


def judged_figure(judged: Accuracy) -> "Figure":
    """Predicted over measured rates of benchmark figures, a row a kind, coloured by GPU type.

    Raises InputError where nothing was measured.
    """
    _require(judged.figures, "judged.figures", "planner.cost.accuracy")
    from planner.report.cost import accuracy  # noqa: PLC0415  # matplotlib takes a second to load

    return _drawn(accuracy.draw_judged, judged)


def _drawn(draw: "Callable[..., Figure]", *arguments: object) -> "Figure":
    from planner.report.kit import style  # noqa: PLC0415  # matplotlib takes a second to load

    with style.look():
        return draw(*arguments)


def _require(entries: Sequence[object], name: str, source: str) -> None:
    if not entries:
        raise InputError(f"{name}: must hold at least one entry, got none.", hint=f"{source} gives them.")


def encode_figure(figure: "Figure", kind: Literal["png", "svg"] = "png") -> bytes:
    """A figure as the bytes of a file; equal figures give equal bytes."""
    from planner.report.kit import style  # noqa: PLC0415  # matplotlib takes a second to load

    return style.encoded(figure, kind)


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
        "covered",
        "interval",
        "peer_points",
        "beside_peer",
        "peer",
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


SLICES = ("figure", "model", "GPU", "engine", "phase", "precision")
"""The dimensions that `accuracy_table` tells of."""
FEWEST_OF_A_SLICE = 10


def accuracy_table(judged: Accuracy) -> tuple[Block, ...]:
    """Errors by kind of figure and by slice of ten figures or more as tables; the order of GPU types and the bands'
    cover below them."""

    def rows_of(dimension: str) -> list[SliceError]:
        fewest = 1 if dimension == "figure" else FEWEST_OF_A_SLICE
        return [row for row in judged.slices if row.dimension == dimension and row.points >= fewest]

    tables = [table_of((Column(of, lambda row: row.name), *_ERRORS), rows_of(of)) for of in SLICES]
    order = f"{judged.in_order} of {judged.pairs} pairs of GPU types at equal work are in the right order"
    cover = f"{_percent('.0%')(judged.covered)} of the figures lie within their bands"
    blocks = (table.block() for table in tables if table.rows)
    return *blocks, *paragraphs(f"{order}; {cover} (mean interval score {judged.interval:.2f}).")


def _percent(digits: str) -> Callable[[float], str]:
    return lambda share: format(share, digits).replace("%", " %")


_ERRORS: tuple[Column[SliceError], ...] = (
    Column("figures", lambda row: row.points, str),
    Column("mean error", lambda row: row.mean, _percent(".1%")),
    Column("median error", lambda row: row.median, _percent(".1%")),
    Column("bias", lambda row: row.bias, _percent("+.1%")),
    Column("in bands", lambda row: row.covered, _percent(".0%")),
    Column("interval score", lambda row: row.interval, "{:.2f}".format),
    Column("of these the peer's", lambda row: row.peer_points or None, str),
    Column("ours there", lambda row: row.beside_peer, _percent(".1%")),
    Column("peer", lambda row: row.peer, _percent(".1%")),
)
