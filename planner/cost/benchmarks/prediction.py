"""Benchmark runs predicted: every measured figure that the formulas have an answer to, with its kind and slices.

A disaggregated pool's TPOT is predicted with the requests that were in it (Little's law of the measured rate), its
input rate only where it was the limit: requests wait for it (WAITING of those in flight, QUEUE_OF_A_RANK before each of
its ranks, TTFT above QUEUED_MS), and no run of the same machine, engine and precision takes in more than 1 / NEAR_BEST
as much of prompts as long or longer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from planner.cost.arrays import Array
from planner.cost.benchmarks.batches import (
    PREDICTORS,
    Batch,
    Predicted,
    closed_loops,
    decode_pools,
    held_loops,
    in_decode,
    most_sequences,
    prefill_pools,
    prompts_alone,
    split_loops,
)
from planner.cost.benchmarks.closed_loop import PassTimes
from planner.cost.benchmarks.engines import EngineHabits, EngineShares, engine_shares, habits
from planner.cost.device import CostContext, Device, device
from planner.cost.residuals.bands import FIGURES, figure_band
from planner.cost.residuals.pace import BUILT_IN_PACES, Paces, group_of, own_pace
from planner.domain import (
    PHASES,
    BenchmarkRun,
    Calibration,
    CostSettings,
    JudgedFigure,
    Load,
    Metric,
    NamedRun,
    Phase,
    Precision,
)
from planner.domain.model.formats import bits

WAITING = 0.2
QUEUED_MS = 2000.0
QUEUE_OF_A_RANK = 2
NEAR_BEST = 0.8

KINDS: Mapping[tuple[Load, Metric], str] = {
    (Load.CLOSED_LOOP, Metric.OUTPUT_RATE): "aggregated rate",
    (Load.CLOSED_LOOP, Metric.TPOT): "aggregated TPOT",
    (Load.CLOSED_LOOP, Metric.TTFT): "aggregated TTFT",
    (Load.SATURATED, Metric.OUTPUT_RATE): "saturated throughput",
    (Load.STATIC_BATCH, Metric.OUTPUT_RATE): "static batch",
    (Load.STATIC_BATCH, Metric.LATENCY): "static batch",
    (Load.PROMPT_BATCH, Metric.TTFT): "first token",
    (Load.PREFILL_STEP, Metric.INPUT_RATE): "prefill steps",
    (Load.DECODE_STEP, Metric.OUTPUT_RATE): "decode steps",
}
DISAGGREGATED: Mapping[Metric, str] = {
    Metric.TPOT: "disaggregated decode TPOT",
    Metric.INPUT_RATE: "saturated prefill",
    Metric.OUTPUT_RATE: "disaggregated rate",
}


def figures(
    runs: Sequence[NamedRun],
    calibration: Calibration | None = None,
    *,
    among: Sequence[NamedRun] | None = None,
    paces: Paces = BUILT_IN_PACES,
) -> tuple[JudgedFigure, ...]:
    """Every figure of the runs that is one of `KINDS` or `DISAGGREGATED`, predicted, in the order of the runs.

    `among`: the runs that tell which prefill pools were the limit (default: the same ones).
    """
    due = asked_figures(runs, among)
    answers = Predictions(runs, paces=paces).of(calibration)
    return tuple(_judged(entry, metric, kind, answers, calibration) for entry, metric, kind in due)


def asked_figures(
    runs: Sequence[NamedRun], among: Sequence[NamedRun] | None = None
) -> list[tuple[NamedRun, Metric, str]]:
    """(run, metric, kind) of every measured figure that is to be predicted: none of a run in doubt."""
    saturated = _saturated([entry.run for entry in (runs if among is None else among)])
    due = []
    for entry in runs:
        for metric, _ in entry.run.measured if not entry.run.doubt else ():
            if entry.run.prompts_alone:
                kind = "saturated prefill" if metric is Metric.OUTPUT_RATE else None
            elif not entry.run.disaggregated:
                kind = KINDS.get((entry.run.load, metric))
            elif metric is Metric.INPUT_RATE and (entry.run.file, entry.run.row) not in saturated:
                kind = None
            else:
                kind = DISAGGREGATED.get(metric)
            if kind:
                due.append((entry, metric, kind))
    return due


def _judged(
    entry: NamedRun,
    metric: Metric,
    kind: str,
    answers: Mapping[tuple[str, int, Metric], float],
    calibration: Calibration | None,
) -> JudgedFigure:
    run = entry.run
    predicted = answers.get((run.file, run.row, metric))
    low = high = None
    if predicted is not None and entry.gpu is not None and entry.model is not None:
        engine = habits(run.engine).name if run.engine else ""
        # Plans tell the rates of two pools apart: what both come to has no band of its own.
        if figure := FIGURES.get(kind):
            band = figure_band(figure, entry.gpu, entry.model, engine=engine, calibration=calibration)
            band = band.inverse if metric.is_time else band
            low, high = predicted * band.low, predicted * band.high
    reason = entry.reason or ("" if predicted is not None else _unanswered(entry))
    return JudgedFigure(
        run=run,
        metric=metric,
        measured=dict(run.measured)[metric],
        predicted=predicted,
        kind=kind,
        slices=slices(entry),
        low=low,
        high=high,
        reason=reason,
    )


def _unanswered(entry: NamedRun) -> str:
    if not entry.run.decode.gpus:
        return "the source does not tell the GPUs of prefill from those of decode"
    return f"{entry.run.model} does not fit on {entry.run.decode.worker_gpus} {entry.run.gpu}"


def slices(entry: NamedRun) -> tuple[tuple[str, str], ...]:
    """What a run is one of, by dimension."""
    run, model = entry.run, entry.model
    kind = "unknown" if model is None else "MoE" if model.experts else "dense"
    serving = "disaggregated" if run.disaggregated else str(run.load)
    if run.load is Load.CLOSED_LOOP and not run.disaggregated:
        serving = "aggregated"
    return (
        ("GPU", run.gpu),
        ("model", run.model),
        ("model kind", kind),
        ("engine", habits(run.engine).name if run.engine else ""),
        ("phase", serving),
        ("precision", bits(run.precision.expert_bytes)),
        ("concurrency", _concurrency(run)),
    )


def _concurrency(run: BenchmarkRun) -> str:
    if run.concurrency is None:
        return "saturated"
    for limit in (8, 64, 512):
        if run.concurrency <= limit:
            return f"up to {limit}"
    return "above 512"


def _saturated(runs: Sequence[BenchmarkRun]) -> set[tuple[str, int]]:
    """(file, row) of the disaggregated runs whose prefill pool was the limit."""
    split = [run for run in runs if run.disaggregated and run.decode.gpus and Metric.INPUT_RATE in dict(run.measured)]
    queued = [run for run in split if _queued(run)]
    shown: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for run in split:
        shown.setdefault(_alike(run), []).append((run.input_tokens, dict(run.measured)[Metric.INPUT_RATE]))

    def best(run: BenchmarkRun) -> float:
        # Shorter prompts have fewer pairs a token: none is slower than a longer one was.
        return max(rate for tokens, rate in shown[_alike(run)] if tokens >= run.input_tokens)

    near = (run for run in queued if dict(run.measured)[Metric.INPUT_RATE] >= NEAR_BEST * best(run))
    return {(run.file, run.row) for run in near}


def _alike(run: BenchmarkRun) -> tuple[object, ...]:
    return (run.gpu, habits(run.engine).name, run.model, run.precision.text)


def _queued(run: BenchmarkRun) -> bool:
    measured = dict(run.measured)
    if run.concurrency is None or not {Metric.INPUT_RATE, Metric.OUTPUT_RATE, Metric.TPOT, Metric.TTFT} <= set(
        measured
    ):
        return False
    waiting = run.concurrency - in_decode(run) * run.decode.workers * run.decode.dp
    ranks = run.prefill.dp * run.prefill.workers if run.prefill else 1
    enough = max(WAITING * run.concurrency, QUEUE_OF_A_RANK * ranks)
    return measured[Metric.TTFT] > QUEUED_MS and waiting > enough


Answers = dict[tuple[str, int, Metric], float]


class Predictions:
    """Runs parted into batches once, to be predicted with one calibration after another.

    `held`: aggregated pools at the sequences that were in them, TPOT alone. A batch whose factors are the same as the
    last time keeps its answers; closed loops begin where they last settled.
    """

    def __init__(
        self, runs: Sequence[NamedRun], *, exact: bool = True, paces: Paces = BUILT_IN_PACES, held: bool = False
    ) -> None:
        self._parts = tuple(_parts(runs))
        self._paces, self._held = paces, held
        self._exact = exact
        self._settled: dict[int, Array] = {}
        self._answered: dict[int, tuple[object, Answers]] = {}

    def of(self, calibration: Calibration | None) -> Answers:
        """The answers by (file, row, metric)."""
        answers: Answers = {}
        for number, (batch, way) in enumerate(self._parts):
            answers.update(self._part(number, batch, way, calibration))
        return answers

    def _part(self, number: int, batch: Batch, way: str, calibration: Calibration | None) -> Answers:
        context = batch.context
        settings = replace(context.settings, calibration=calibration)
        group = group_of(context.gpu, context.model, batch.habits.name)
        paces = tuple(own_pace(self._paces, group, phase, calibration) for phase in PHASES)
        versions = [run.engine_version for run in batch.runs]
        by_phase = {
            phase: replace(
                device(context.gpu, context.model, phase, settings, overlapped=np.zeros(1, dtype=bool)),
                pace=pace.of_versions(versions),
            )
            for phase, pace in zip(PHASES, paces, strict=True)
        }
        shares = engine_shares(batch.habits.name, calibration)
        factors = (by_phase[Phase.PREFILL].efficiency, paces, shares)
        if number in self._answered and self._answered[number][0] == factors:
            return self._answered[number][1]
        times = _times(context, by_phase, shares)
        if way == Load.CLOSED_LOOP and self._held:
            predicted = held_loops(batch, times, shares)
        elif way in _LOOPS:
            begin = None if self._exact else self._settled.get(number)
            predicted, self._settled[number] = closed_loops(batch, times, shares, begin)
        else:
            predicted = _WAYS[way](batch, times, shares)
        answers = {
            (run.file, run.row, metric): float(values[k])
            for metric, values in predicted.items()
            for k, run in enumerate(batch.runs)
        }
        self._answered[number] = (factors, answers)
        return answers


_LOOPS = (Load.CLOSED_LOOP, Load.SATURATED)
_WAYS: Mapping[str, Callable[[Batch, PassTimes, EngineShares], Predicted]] = {
    **{str(load): predictor for load, predictor in PREDICTORS.items()},
    "decode pools": decode_pools,
    "prefill pools": prefill_pools,
    "prompts alone": prompts_alone,
    "split loops": split_loops,
}


_Key = tuple[str, str, Precision, EngineHabits, str]


def _times(context: CostContext, by_phase: Mapping[Phase, Device], shares: EngineShares) -> PassTimes:
    """The devices as the engine drives them."""
    faster = {Phase.PREFILL: shares.engine_prefill, Phase.DECODE: shares.engine_decode}
    driven = {
        phase: replace(dev, fp16=dev.fp16 * by, weights=dev.weights * by, experts=dev.experts * by)
        for phase, dev in by_phase.items()
        for by in (faster[phase],)
    }
    return PassTimes(
        prefill=driven[Phase.PREFILL], decode=driven[Phase.DECODE], model=context.model, settings=context.settings
    )


def _parts(runs: Iterable[NamedRun]) -> Iterable[tuple[Batch, str]]:
    """The runs that can be predicted, by machine, model, precision, drafts, engine and the way in which they are."""
    batches: dict[_Key, list[BenchmarkRun]] = {}
    contexts: dict[_Key, tuple[CostContext, EngineHabits]] = {}
    for entry in runs:
        if entry.reason or entry.gpu is None or entry.model is None or not entry.run.decode.gpus:
            continue
        run, habit, precision = entry.run, habits(entry.run.engine), entry.run.precision
        model = replace(
            entry.model,
            weight_bytes=precision.weight_bytes,
            expert_bytes=precision.expert_bytes,
            kv_bytes=precision.kv_bytes,
        )
        settings = CostSettings(mtp_tokens=precision.mtp_tokens, engine=habit.name)
        context = CostContext(gpu=entry.gpu, model=model, settings=settings)
        for way in _ways(run):
            # Weights that do not fit leave no loop to settle.
            if way in (*_LOOPS, "split loops") and most_sequences(entry.gpu, model, run, habit) <= 0:
                continue
            key = (run.gpu, run.model, precision, habit, way)
            batches.setdefault(key, []).append(run)
            contexts[key] = (context, habit)
    for key, members in batches.items():
        context, habit = contexts[key]
        yield Batch(runs=tuple(members), context=context, habits=habit), key[-1]


def _ways(run: BenchmarkRun) -> tuple[str, ...]:
    if run.disaggregated:
        measured = {metric for metric, _ in run.measured}
        in_pool = ("decode pools",) if {Metric.OUTPUT_RATE, Metric.TPOT} <= measured else ()
        return (*in_pool, "prefill pools", "split loops")
    return ("prompts alone",) if run.prompts_alone else (str(run.load),)
