"""A user's own runs and step times: factors of their GPU families fitted, judged before, after and left out.

What runs can tell is the pace of the engine's kernels in both phases, by family; with more of them also the share of
bandwidth that caches are read at, and the latency of an all-reduce. The rest stays as built in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.cost.bands import FEWEST_OWN_RESIDUALS, FIGURES, own_band
from planner.cost.benchmarks.fit import Evidence, fit_benchmarks
from planner.cost.benchmarks.prediction import figures
from planner.cost.calibration import FreeFactor
from planner.cost.efficiency import merged
from planner.domain import (
    PHASES,
    Calibration,
    Factor,
    JudgedFigure,
    Load,
    MeasuredBand,
    Metric,
    NamedRun,
    Origin,
    Phase,
)
from planner.errors import InputError

ENOUGH_FOR_MORE = 6
MOST_LEFT_OUT = 12
"""Configurations, or runs, that are left out one by one; more are dealt to so many parts."""
FEWEST_CONFIGURATIONS = 3  # of fewer, runs are left out one by one
FEWEST_LEFT = 2
_PREFILL_METRICS = (Metric.INPUT_RATE, Metric.TTFT)
_ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsFit:
    """Factors fitted to runs. Figures before, after, and predicted by fits without their configuration, in one order.

    `left_out` is empty where there is one run alone.
    """

    calibration: Calibration
    before: tuple[JudgedFigure, ...]
    after: tuple[JudgedFigure, ...]
    left_out: tuple[JudgedFigure, ...]


def fit_own_runs(evidence: Evidence, *, name: str, base: Calibration | None = None) -> RunsFit:
    """Fit the pace of the measured families. Raises InputError where no run can be predicted."""
    entries = [item for item in evidence.runs if not item.reason and item.gpu is not None]
    judged = [figure for figure in figures(evidence.runs, base) if figure.predicted is not None]
    if not entries or not judged:
        raise InputError(
            "runs: must have at least one figure that can be predicted, got none.",
            hint="See planner cost accuracy FILE for the reasons.",
        )
    base_factors, free = merged(base), _free(evidence, judged)
    fit = fit_benchmarks(evidence, free, name=name, base=base_factors, rounds=_ROUNDS)
    after = figures(evidence.runs, fit.calibration)
    left_out = tuple(_left_out(evidence, free, base_factors, fit.values))
    return RunsFit(
        calibration=Calibration(
            name=name,
            factors=tuple(_as_users(factor, evidence) for factor in _moved(fit.calibration, free)),
            bands=tuple(_bands(left_out)),
        ),
        before=figures(evidence.runs, base),
        after=after,
        left_out=left_out,
    )


def _free(evidence: Evidence, judged: Sequence[JudgedFigure]) -> tuple[FreeFactor, ...]:
    """The pace of the kernels in the phases that something was measured of, by family; with enough runs some more."""
    informed = {(evidence.gpus[m.gpu].family, m.phase) for m in evidence.measurements if m.fitted}
    counts: dict[str, int] = {}
    for entry in evidence.runs:
        if entry.gpu is not None and not entry.reason:
            counts[entry.gpu.family] = counts.get(entry.gpu.family, 0) + 1
    family_of = {entry.run.gpu: entry.gpu.family for entry in evidence.runs if entry.gpu is not None}
    informed |= {(family_of[figure.run.gpu], phase) for figure in judged for phase in _phases(figure)}
    free = [
        FreeFactor(name=f"kernels_{phase}", family=family, sigma=0.4, low=0.02, high=1)
        # By name: a fit must not depend on the order of the user's rows.
        for family, phase in sorted(informed)
    ]
    for family, count in sorted(counts.items()):
        if count >= ENOUGH_FOR_MORE:
            free.append(FreeFactor(name="cache", family=family, sigma=0.3, low=0.02, high=1))
            free.append(FreeFactor(name="all_reduce_us", family=family, sigma=0.5, low=0.5, high=1000))
    return tuple(free)


def _phases(figure: JudgedFigure) -> tuple[Phase, ...]:
    """The phases that a figure tells of."""
    if figure.run.load is Load.PROMPT_BATCH or figure.metric is Metric.INPUT_RATE:
        return (Phase.PREFILL,)
    if figure.run.load is Load.DECODE_STEP or figure.run.disaggregated:
        return (Phase.DECODE,)
    return tuple(PHASES)


def _moved(calibration: Calibration, free: Sequence[FreeFactor]) -> list[Factor]:
    return [calibration.factor(f.name, f.family) for f in free]


def _as_users(factor: Factor, evidence: Evidence) -> Factor:
    """The factor as the user's, with what it was measured on."""
    places = [
        (entry.run.gpu, entry.run.model)
        for entry in evidence.runs
        if entry.gpu is not None and entry.gpu.family == factor.family
    ]
    places += [(m.gpu, m.model) for m in evidence.measurements if evidence.gpus[m.gpu].family == factor.family]
    return replace(
        factor,
        origin=Origin.USER,
        source=f"fitted to {len(places)} measurement{'s' * (len(places) > 1)}",
        gpus=tuple(sorted({gpu for gpu, _ in places})),
        measured=tuple(sorted(set(places))),
    )


def _left_out(
    evidence: Evidence, free: Sequence[FreeFactor], base: Calibration, begin: Sequence[float]
) -> list[JudgedFigure]:
    """Figures predicted without their configuration."""
    by = _configuration if len({*map(_configuration, evidence.runs)}) >= FEWEST_CONFIGURATIONS else _alone
    distinct = sorted({by(entry) for entry in evidence.runs}, key=repr)
    if len(distinct) < FEWEST_LEFT:
        return []
    part_of = {key: k % MOST_LEFT_OUT for k, key in enumerate(distinct)}
    judged: list[JudgedFigure] = []
    for part in range(min(len(distinct), MOST_LEFT_OUT)):
        out = tuple(entry for entry in evidence.runs if part_of[by(entry)] == part)
        others = tuple(entry for entry in evidence.runs if part_of[by(entry)] != part)
        # From the fit to all of them, which one part less moves little.
        fit = fit_benchmarks(
            replace(evidence, runs=others), free, name="without", base=base, begin=begin, rounds=_ROUNDS
        )
        judged += figures(out, fit.calibration, among=evidence.runs)
    return judged


def _configuration(entry: NamedRun) -> tuple[object, ...]:
    """Runs that differ only in concurrency are left out together, as one tells of the others."""
    run = entry.run
    pools = tuple((pool.tp, pool.dp, pool.ep, pool.workers) for pool in (run.prefill, run.decode) if pool)
    lengths = (run.input_tokens, run.output_tokens)
    precision = (run.precision.text, run.precision.mtp_tokens)
    return ("run", run.gpu, run.model, run.engine, *precision, str(run.load), pools, lengths)


def _alone(entry: NamedRun) -> tuple[object, ...]:
    """A run by itself."""
    return entry.run.file, entry.run.row


def _bands(left_out: Sequence[JudgedFigure]) -> list[MeasuredBand]:
    """Of every GPU type, model and phase with enough left-out figures."""
    residuals: dict[tuple[str, str, Phase], list[float]] = {}
    for figure in left_out:
        if figure.predicted is not None and figure.kind in FIGURES:
            phase = Phase.PREFILL if figure.metric in _PREFILL_METRICS else Phase.DECODE
            log = float(-np.log1p(figure.rate_error))
            residuals.setdefault((figure.run.gpu, figure.run.model, phase), []).append(log)
    bands = []
    for (gpu, model, phase), logs in sorted(residuals.items()):
        if len(logs) >= FEWEST_OWN_RESIDUALS:
            low, high = own_band(logs)
            bands.append(MeasuredBand(gpu=gpu, model=model, phase=phase, low=low, high=high, points=len(logs)))
    return bands
