"""Predictions judged: errors by slice, how true their bands are, the order of GPU types at equal work, the figures that
are farthest off.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from planner.cost.arrays import Array
from planner.cost.benchmarks.prediction import figures
from planner.cost.calibration import predict_ms
from planner.cost.residuals.bands import figure_band
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
from planner.domain.model.formats import bits

SAME_SPEED = 1.15
"""Measured rates of two GPU types within this ratio count as equal: as far as two engines are apart on equal work."""
WORST = 10
STEP_TIMES = "step time"


def accuracy(judged: Sequence[JudgedFigure]) -> Accuracy:
    """What the figures say of the predictions and of their bands."""
    pairs = list(_pairs(judged))
    return Accuracy(
        figures=tuple(judged),
        slices=tuple(_slices(judged)),
        worst=tuple(sorted(judged, key=lambda figure: -_distance(figure))[:WORST]),
        pairs=len(pairs),
        in_order=sum(pairs),
        covered=coverage(judged),
        interval=interval_score(judged),
    )


def coverage(judged: Iterable[JudgedFigure]) -> float:
    """Share of the figures that lie in their bands, around what was predicted without them where that is on record; 0
    where nothing has a band."""
    beyond = [overshoot for _, overshoot in _against_bands(judged)]
    return sum(overshoot <= 0 for overshoot in beyond) / len(beyond) if beyond else 0.0


def interval_score(judged: Iterable[JudgedFigure]) -> float:
    """Mean of width + 2 / alpha x overshoot of bands of 1 - alpha = 80 %, in natural logarithms; 0 without bands.

    It is least where a band has the true P10 and P90: neither wide bands nor narrow ones that miss do better.
    """
    scores = [width + 2 / _OUTSIDE * max(0.0, overshoot) for width, overshoot in _against_bands(judged)]
    return sum(scores) / len(scores) if scores else 0.0


_OUTSIDE = 0.2
"""Share of the measured figures that a band leaves outside."""


def _against_bands(judged: Iterable[JudgedFigure]) -> Iterator[tuple[float, float]]:
    """(width of the band, how far the measured figure lies beyond it) in logarithms; negative inside."""
    for figure in judged:
        if figure.low is None or figure.high is None or figure.predicted is None:
            continue
        prediction = figure.predicted if figure.left_out is None else figure.left_out
        residual = math.log(figure.measured / prediction)
        low, high = math.log(figure.low / figure.predicted), math.log(figure.high / figure.predicted)
        yield high - low, max(low - residual, residual - high)


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
    predicted_ms = predict_ms(m, gpu, model, calibration)
    band = figure_band(m.phase, gpu, model, calibration=calibration).inverse
    return JudgedFigure(
        run=run,
        metric=Metric.STEP,
        measured=m.ms,
        predicted=predicted_ms,
        low=predicted_ms * band.low,
        high=predicted_ms * band.high,
        kind=STEP_TIMES,
        slices=(
            *(("GPU", m.gpu), ("model", m.model), ("model kind", kind)),
            *(("phase", str(phase)), ("precision", bits(model.expert_bytes if model.experts else model.weight_bytes))),
        ),
    )


def _distance(figure: JudgedFigure) -> float:
    """How far a rate is off either way, as a logarithm; farthest where nothing is said."""
    return np.inf if figure.predicted is None else abs(float(np.log1p(figure.rate_error)))


def _slices(judged: Sequence[JudgedFigure]) -> Iterator[SliceError]:
    """By kind of figure, of gains by drafts, then by every dimension: there without the times of loops, whose rates
    stand for them."""
    for kind in dict.fromkeys(figure.kind for figure in judged):
        yield _slice("figure", kind, [figure for figure in judged if figure.kind == kind])
    if gains := _draft_gains(judged):
        yield _errors_of("figure", "gain of drafts", np.array(gains), np.ones(len(gains), dtype=bool))
    rates = [figure for figure in judged if figure.run.disaggregated or figure.metric not in _TIMES_OF_LOOPS]
    for dimension in dict.fromkeys(name for figure in rates for name, _ in figure.slices):
        by_word: dict[str, list[JudgedFigure]] = {}
        for figure in rates:
            by_word.setdefault(dict(figure.slices).get(dimension, ""), []).append(figure)
        yield from (_slice(dimension, word, by_word[word]) for word in sorted(by_word) if word)


_TIMES_OF_LOOPS = (Metric.TPOT, Metric.TTFT)


def _slice(dimension: str, name: str, judged: Sequence[JudgedFigure]) -> SliceError:
    errors = np.array([figure.rate_error for figure in judged])
    answered = np.array([figure.predicted is not None for figure in judged])
    banded = any(figure.low is not None for figure in judged)
    besides = [figure for figure in judged if figure.peer is not None]
    return replace(
        _errors_of(dimension, name, errors, answered),
        covered=coverage(judged) if banded else None,
        interval=interval_score(judged) if banded else None,
        peer_points=len(besides),
        beside_peer=_mean_error(figure.rate_error for figure in besides),
        peer=_mean_error(figure.peer_error for figure in besides),
    )


def _mean_error(errors: Iterable[float]) -> float | None:
    # One figure that is far off must not set the mean of its slice.
    absolute = [min(abs(error), 1.0) for error in errors]
    return sum(absolute) / len(absolute) if absolute else None


def _errors_of(dimension: str, name: str, errors: Array, answered: NDArray[np.bool_]) -> SliceError:
    return SliceError(
        dimension=dimension,
        name=name,
        points=len(errors),
        mean=_mean_error(errors.tolist()) or 0.0,
        median=float(np.median(np.minimum(np.abs(errors), 1.0))),
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


Record = Mapping[tuple[str, int, str], float]
"""Predictions that are kept, by file name, row and metric."""


def with_records(judged: Sequence[JudgedFigure], *, left_out: Record | None = None, peer: Record) -> list[JudgedFigure]:
    """The figures with what a fit without them predicted, and with what the peer says, where that is on record."""
    keys = [(figure.run.file.rsplit("/", 1)[-1], figure.run.row, str(figure.metric)) for figure in judged]
    return [
        replace(figure, left_out=(left_out or {}).get(key), peer=peer.get(key))
        for figure, key in zip(judged, keys, strict=True)
    ]
