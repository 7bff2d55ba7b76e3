"""Predictions judged: errors by slice, the order of GPU types at equal work, the figures that are farthest off.

Bands around predicted figures: P10 and P90 of measured over predicted rates, of figures that a fit had left out.

Of a GPU type that was measured with the model, the residuals of left-out configurations count; of another, those of
left-out (GPU type, model) groups, which are wider. Kinds with few figures share the residuals of their likes.
A residual is ln of the measured over the predicted rate; their P10 and P90 were made from
planner/files/measurement_sets/left_out.csv (a test holds the two together).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from planner.cost.arrays import Array
from planner.cost.benchmarks.prediction import figures
from planner.cost.calibration import predict_ms
from planner.cost.efficiency import merged
from planner.domain import (
    Accuracy,
    BenchmarkRun,
    Calibration,
    GpuSpec,
    JudgedFigure,
    Load,
    Measurement,
    Metric,
    ModelSpec,
    NamedRun,
    Phase,
    Pool,
    Precision,
    SliceError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureBand:
    """P10 and P90 over so many points."""

    log_low: float
    log_high: float
    points: int


MEASURED_BANDS: Mapping[str, FigureBand] = {
    "aggregated TPOT": FigureBand(log_low=-0.174, log_high=0.227, points=151),
    "aggregated TTFT": FigureBand(log_low=-1.487, log_high=0.368, points=151),
    "aggregated rate": FigureBand(log_low=-0.205, log_high=0.188, points=151),
    "decode": FigureBand(log_low=-0.264, log_high=0.198, points=165),
    "prefill": FigureBand(log_low=-0.569, log_high=0.493, points=29),
    "saturated throughput": FigureBand(log_low=-0.201, log_high=0.156, points=34),
    "static batch": FigureBand(log_low=-0.197, log_high=0.168, points=11),
}
CARRIED_BANDS: Mapping[str, FigureBand] = {
    "aggregated TPOT": FigureBand(log_low=-0.174, log_high=0.231, points=151),
    "aggregated TTFT": FigureBand(log_low=-1.545, log_high=0.368, points=151),
    "aggregated rate": FigureBand(log_low=-0.213, log_high=0.189, points=151),
    "decode": FigureBand(log_low=-0.279, log_high=0.198, points=165),
    "prefill": FigureBand(log_low=-0.674, log_high=0.511, points=29),
    "saturated throughput": FigureBand(log_low=-0.232, log_high=0.156, points=34),
    "static batch": FigureBand(log_low=-0.237, log_high=0.168, points=11),
}

# whose residuals a kind of figure shares
POOLED: Mapping[str, str] = {
    "decode steps": "decode",
    "disaggregated decode TPOT": "decode",
    "prefill steps": "prefill",
    "saturated prefill": "prefill",
    "first token": "static batch",
    "step time": "decode",
}


def with_band(figure: JudgedFigure, calibration: Calibration | None = None) -> JudgedFigure:
    """The figure with `low` and `high`; without, where nothing is predicted."""
    if figure.predicted is None:
        return figure
    band = band_of_figure(figure, calibration)
    low, high = math.exp(band.log_low), math.exp(band.log_high)
    if figure.metric.is_time:
        # A faster machine has the shorter time.
        low, high = 1 / high, 1 / low
    return replace(figure, low=figure.predicted * low, high=figure.predicted * high)


def band_of_figure(figure: JudgedFigure, calibration: Calibration | None = None) -> FigureBand:
    """The row of the figure's kind."""
    run = figure.run
    measured = any((run.gpu, run.model) in factor.measured for factor in merged(calibration).factors)
    rows = MEASURED_BANDS if measured else CARRIED_BANDS
    return rows[pool_of(figure.kind)]


def pool_of(kind: str) -> str:
    """The kind whose residuals a kind of figure shares."""
    return POOLED.get(kind, kind)


SAME_SPEED = 1.15
"""Measured rates of two GPU types within this ratio count as equal: as far as two engines are apart on equal work."""
WORST = 10
STEP_TIMES = "step time"


def accuracy(judged: Sequence[JudgedFigure], calibration: Calibration | None = None) -> Accuracy:
    """What the figures say of the predictions, with the band of each."""
    banded = tuple(with_band(figure, calibration) for figure in judged)
    banded_figures = [figure for figure in banded if figure.low is not None and figure.high is not None]
    within = [figure.low <= figure.measured <= figure.high for figure in banded_figures]  # type: ignore[operator]
    pairs = list(_pairs(banded))
    return Accuracy(
        figures=banded,
        slices=tuple(_slices(banded)),
        worst=tuple(sorted(banded, key=lambda figure: -_distance(figure))[:WORST]),
        pairs=len(pairs),
        in_order=sum(pairs),
        covered=sum(within) / len(within) if within else 0.0,
    )


def judged_runs(runs: Sequence[NamedRun], calibration: Calibration | None = None) -> tuple[JudgedFigure, ...]:
    """The figures of benchmark runs, predicted."""
    return figures(runs, calibration)


def judged_step(
    m: Measurement, gpu: GpuSpec, model: ModelSpec, calibration: Calibration | None, *, file: str
) -> JudgedFigure:
    """A measured step time beside the predicted one."""
    phase = Load.PREFILL_STEP if m.phase is Phase.PREFILL else Load.DECODE_STEP
    run = BenchmarkRun(
        row=m.row,
        gpu=m.gpu,
        model=m.model,
        load=phase,
        decode=Pool(tp=m.tp, dp=m.dp, ep=m.ep),
        input_tokens=float(m.length),
        output_tokens=1.0,
        batch_per_rank=m.batch,
        measured=((Metric.STEP, m.ms),),
        precision=Precision(text=f"{8 * model.weight_bytes:g} bits"),
        file=file,
        source=m.source,
    )
    kind = "MoE" if model.experts else "dense"
    return JudgedFigure(
        run=run,
        metric=Metric.STEP,
        measured=m.ms,
        predicted=predict_ms(m, gpu, model, calibration),
        kind=STEP_TIMES,
        slices=(("GPU", m.gpu), ("model kind", kind), ("phase", str(phase)), ("precision", run.precision.text)),
    )


def _distance(figure: JudgedFigure) -> float:
    """How far a rate is off either way, as a logarithm; farthest where nothing is said."""
    return np.inf if figure.predicted is None else abs(float(np.log1p(figure.rate_error)))


def _slices(judged: Sequence[JudgedFigure]) -> Iterator[SliceError]:
    """By kind of figure, of gains by drafts, then by every dimension."""
    for kind in dict.fromkeys(figure.kind for figure in judged):
        yield _slice("figure", kind, [figure for figure in judged if figure.kind == kind])
    if gains := _draft_gains(judged):
        yield _slice_of("figure", "gain of drafts", np.array(gains), np.ones(len(gains), dtype=bool))
    for dimension in dict.fromkeys(name for figure in judged for name, _ in figure.slices):
        words = sorted({dict(figure.slices).get(dimension, "") for figure in judged} - {""})
        for word in words:
            yield _slice(dimension, word, [f for f in judged if dict(f.slices).get(dimension) == word])


def _slice(dimension: str, name: str, judged: Sequence[JudgedFigure]) -> SliceError:
    errors = np.array([figure.rate_error for figure in judged])
    return _slice_of(dimension, name, errors, np.array([figure.predicted is not None for figure in judged]))


def _slice_of(dimension: str, name: str, errors: Array, answered: NDArray[np.bool_]) -> SliceError:
    # One figure that is far off must not set the mean of its slice.
    absolute = np.minimum(np.abs(errors), 1.0)
    return SliceError(
        dimension=dimension,
        name=name,
        points=len(errors),
        mean=float(absolute.mean()),
        median=float(np.median(absolute)),
        bias=float(np.median(errors[answered])) if answered.any() else 0.0,
        unanswered=int((~answered).sum()),
    )


def _draft_gains(judged: Sequence[JudgedFigure]) -> list[float]:
    """Errors of the gain of every rate with drafts over that of the same configuration without."""
    rates = [figure for figure in judged if figure.metric is Metric.OUTPUT_RATE and figure.predicted is not None]
    rates = [figure for figure in rates if figure.run.concurrency is not None and not figure.run.disaggregated]
    plain = {_configuration(f.run): f for f in rates if not f.run.precision.mtp_tokens}
    drafting = [f for f in rates if f.run.precision.mtp_tokens and _configuration(f.run) in plain]
    return [(1 + f.rate_error) / (1 + plain[_configuration(f.run)].rate_error) - 1 for f in drafting]


def _configuration(run: BenchmarkRun) -> tuple[object, ...]:
    """What runs with and without drafts have in common."""
    work = (run.input_tokens, run.output_tokens, run.concurrency)
    return (run.gpu, run.engine, run.model, run.load, replace(run.precision, mtp_tokens=0), run.decode, *work)


_RATES = (Metric.OUTPUT_RATE, Metric.LATENCY)


def _pairs(judged: Iterable[JudgedFigure]) -> Iterator[bool]:
    """Of every pair of GPU types at equal work: whether the faster one was predicted to be it."""
    alike: dict[tuple[object, ...], list[JudgedFigure]] = {}
    for figure in judged:
        if figure.metric in _RATES and figure.predicted is not None and not figure.run.disaggregated:
            alike.setdefault(_work(figure.run, figure.metric), []).append(figure)
    for members in alike.values():
        for first, other in combinations(members, 2):
            measured = _ratio(first, other, predicted=False)
            if first.run.gpu != other.run.gpu and max(measured, 1 / measured) > SAME_SPEED:
                yield (measured > 1) == (_ratio(first, other, predicted=True) > 1)


def _ratio(first: JudgedFigure, other: JudgedFigure, *, predicted: bool) -> float:
    """Rate of the first over that of the other."""
    values = [
        (figure.measured if not predicted else figure.predicted if figure.left_out is None else figure.left_out) or 1.0
        for figure in (first, other)
    ]
    ratio = values[0] / values[1]
    return 1 / ratio if first.metric.is_time else ratio


def _work(run: BenchmarkRun, metric: Metric) -> tuple[object, ...]:
    """What is asked of a deployment: the same for two runs that differ in machine and engine alone."""
    lengths = (run.input_tokens, run.output_tokens, run.concurrency, run.batch_per_rank)
    return (run.model, run.load, metric, lengths, run.precision.expert_bytes, run.precision.mtp_tokens > 0, run.decode)


def without_fit(judged: Sequence[JudgedFigure], recorded: dict[tuple[str, int, str], float]) -> list[JudgedFigure]:
    """The figures with what a fit without them predicted, where it is `recorded`: by file name, row and metric."""
    return [
        replace(figure, left_out=recorded.get((figure.run.file.rsplit("/", 1)[-1], figure.run.row, str(figure.metric))))
        for figure in judged
    ]
