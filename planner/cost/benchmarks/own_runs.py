"""Somebody's own runs and step times: the paces of their machines, judged before, after and left out.

They tell what the runs that come along tell, the residual over kernels and built-in paces, and are fitted alike
(`pace_fit`), by GPU type, network and engine (`bands.place`) and by phase: ten points move a place, one moves it less.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.cost.benchmarks.fit import Evidence
from planner.cost.benchmarks.pace_fit import PacedRun, fit_paces, group_of_run, paced_runs
from planner.cost.benchmarks.prediction import figures
from planner.cost.calibration import predict_ms, require_possible
from planner.cost.device import require_figures
from planner.cost.efficiency import merged
from planner.cost.residuals.bands import FEWEST_OWN_RESIDUALS, FIGURES, known_as, own_band, place, with_own_bands
from planner.cost.residuals.pace import BUILT_IN_PACES, Group
from planner.domain import (
    Calibration,
    CalibrationFit,
    Factor,
    GpuSpec,
    JudgedFigure,
    JudgedMeasurement,
    Load,
    MeasuredBand,
    Measurement,
    Metric,
    ModelSpec,
    NamedRun,
    Origin,
    Phase,
)
from planner.domain.efficiency import BOUNDS
from planner.errors import InputError

MOST_LEFT_OUT = 12
"""Configurations, or runs, that are left out one by one; more are dealt to so many parts."""
FEWEST_CONFIGURATIONS = 3  # of fewer, runs are left out one by one
FEWEST_LEFT = 2
STEP_TRUST = 0.03  # a step time is the mean of many
LARGE_ERROR = 0.3
_PROMPTS = {"saturated prefill": 0.30, "first token": 0.30, "prefill steps": 0.10}
"""Kinds of figures that tell the pace of prompts alone, and how far each may be off it."""
_LOOPS = {"aggregated rate": 0.15, "aggregated TPOT": 0.15}
"""What a closed loop tells where it does not say how many sequences were in it: where it settles."""

Sign = tuple[NamedRun | Measurement, PacedRun]
"""A measurement, and what it says of the pace of its place and phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsFit:
    """Paces fitted to runs. Figures before, after, and predicted by fits without their configuration, in one order.

    `left_out` is empty where there is one run alone.
    """

    calibration: Calibration
    before: tuple[JudgedFigure, ...]
    after: tuple[JudgedFigure, ...]
    left_out: tuple[JudgedFigure, ...]


def fit_own_runs(evidence: Evidence, *, name: str, base: Calibration | None = None) -> RunsFit:
    """Fit the paces of the measured places. Raises InputError where no figure tells one."""
    before = figures(evidence.runs, base)
    steps = [m for m in evidence.measurements if m.fitted]
    signs: list[Sign] = [*_told_by_steps(steps, evidence.gpus, evidence.models, base)]
    signs += _told_by_runs(evidence.runs, before, base)
    if not any(isinstance(of, NamedRun) for of, _ in signs):
        raise InputError(
            "runs: must have at least one figure that can be predicted and tells a pace, got none.",
            hint="See planner cost accuracy FILE for the reasons.",
        )
    calibration = _calibration(signs, evidence.models, name, base)
    left_out = tuple(_left_out(evidence, signs, base))
    return RunsFit(
        calibration=with_own_bands(calibration, _bands(left_out)),
        before=before,
        after=figures(evidence.runs, calibration),
        left_out=left_out,
    )


def fit_calibration(
    measurements: Sequence[Measurement],
    gpus: Mapping[str, GpuSpec],
    models: Mapping[str, ModelSpec],
    *,
    name: str,
    base: Calibration | None = None,
) -> CalibrationFit:
    """Fit the paces of the measured places; judge every step before, after, and left out.

    `base` is the calibration before the fit (default: the built-in one). Raises InputError where nothing is to fit.
    """
    if not any(m.fitted for m in measurements):
        raise InputError(
            "measurements: must have at least one that is to be fitted, got none.", hint="Add measured steps."
        )
    for gpu in gpus.values():
        require_figures(gpu)
    # Before the fit, which would bend paces to explain what cannot be.
    for m in measurements:
        require_possible(m, gpus[m.gpu], models[m.model])
    signs = _told_by_steps(measurements, gpus, models, base)
    used = [pair for pair in signs if pair[0].fitted]
    paces = fit_paces([paced for _, paced in used]).paces

    def judged(m: Measurement, paced: PacedRun) -> JudgedMeasurement:
        before_ms, left_out_ms = m.ms * math.exp(paced.log), math.nan
        if m.fitted:
            # By identity: equal rows are measurements made twice.
            without = fit_paces([other for of, other in used if of is not m and other.group == paced.group]).paces
            left_out_ms = before_ms / math.exp(without[paced.group].ln if without else 0.0)
        after = paces[paced.group].ln if paced.group in paces else 0.0
        return JudgedMeasurement(
            measurement=m, before_ms=before_ms, after_ms=before_ms / math.exp(after), left_out_ms=left_out_ms
        )

    return CalibrationFit(
        calibration=_calibration(used, models, name, base), points=tuple(judged(m, paced) for m, paced in signs)
    )


def doubts(fit: CalibrationFit) -> list[str]:
    """What a reader of the fit should be told: measurements that it does not explain."""
    return [
        f"row {point.measurement.row} is {point.after_error:+.0%} off after the fit: is it right?"
        for point in fit.fitted
        if abs(point.after_error) > LARGE_ERROR
    ]


def _told_by_steps(
    measurements: Sequence[Measurement],
    gpus: Mapping[str, GpuSpec],
    models: Mapping[str, ModelSpec],
    base: Calibration | None,
) -> list[tuple[Measurement, PacedRun]]:
    return [
        (
            m,
            PacedRun(
                group=(m.gpu, known_as(models[m.model]), m.engine, m.phase),
                degrees=None,
                version="",
                log=math.log(predict_ms(m, gpus[m.gpu], models[m.model], base) / m.ms),
                trust=STEP_TRUST,
            ),
        )
        for m in measurements
    ]


def _told_by_runs(runs: Sequence[NamedRun], judged: Iterable[JudgedFigure], base: Calibration | None) -> list[Sign]:
    """Where its own sequences are known of a loop, by these: how many there are follows from the pace, too."""
    counted = [entry for entry in runs if entry.run.load is not Load.CLOSED_LOOP or _counted(entry)]
    signs: list[Sign] = [
        (entry, _of_user(entry, Phase.DECODE, paced.log, paced.trust))
        for entry, paced in paced_runs(counted, BUILT_IN_PACES, base)
        if not paced.taken_in
    ]
    entries = {(entry.run.file, entry.run.row): entry for entry in runs}
    for figure in judged:
        entry = entries[figure.run.file, figure.run.row]
        kinds = _PROMPTS if figure.kind in _PROMPTS or _counted(entry) else _LOOPS
        if figure.predicted is not None and figure.kind in kinds:
            phase = Phase.PREFILL if kinds is _PROMPTS else Phase.DECODE
            signs.append((entry, _of_user(entry, phase, -float(np.log1p(figure.rate_error)), kinds[figure.kind])))
    return signs


def _counted(entry: NamedRun) -> bool:
    """Whether a run tells how many sequences were in it."""
    return {Metric.OUTPUT_RATE, Metric.TPOT} <= {metric for metric, _ in entry.run.measured}


def _of_user(entry: NamedRun, phase: Phase, log: float, trust: float) -> PacedRun:
    pool = entry.run.prefill or entry.run.decode if phase is Phase.PREFILL else entry.run.decode
    gpu, network, engine, _ = group_of_run(entry)
    return PacedRun(
        group=(gpu, network, engine, phase), degrees=(pool.tp, pool.dp, pool.ep), version="", log=log, trust=trust
    )


def _calibration(
    signs: Sequence[Sign], models: Mapping[str, ModelSpec], name: str, base: Calibration | None
) -> Calibration:
    """The paces with what they were measured on, and all else that the base says."""
    fitted = fit_paces([paced for _, paced in signs]).paces
    factors = []
    for group, pace in sorted(fitted.items()):
        behind = {id(of): _where(of, models) for of, paced in signs if paced.group == group}
        factors.append(_factor(group, float(pace.ln), list(behind.values()), base))
    fitted_here = {(factor.name, factor.family) for factor in factors}
    others = [factor for factor in (base.factors if base else ()) if (factor.name, factor.family) not in fitted_here]
    return Calibration(name=name, factors=(*factors, *others), bands=base.bands if base else ())


def _where(of: NamedRun | Measurement, models: Mapping[str, ModelSpec]) -> tuple[str, str]:
    """GPU type and model."""
    if isinstance(of, Measurement):
        return of.gpu, models[of.model].name
    return of.run.gpu, of.run.model


def _factor(group: Group, ln: float, places: Sequence[tuple[str, str]], base: Calibration | None) -> Factor:
    gpu, network, engine, phase = group
    name, here = f"pace_{phase}", place(gpu, network, engine)
    low, high = BOUNDS[name]
    return Factor(
        name=name,
        family=here,
        value=min(max(merged(base).factor(name, here).value * math.exp(ln), low), high),
        unit="1",
        origin=Origin.USER,
        source=f"fitted to {len(places)} measurement{'s' * (len(places) > 1)}",
        gpus=tuple(sorted({gpu for gpu, _ in places})),
        measured=tuple(sorted(set(places))),
    )


def _left_out(evidence: Evidence, signs: Sequence[Sign], base: Calibration | None) -> list[JudgedFigure]:
    """Figures predicted without their configuration."""
    by = _configuration if len({*map(_configuration, evidence.runs)}) >= FEWEST_CONFIGURATIONS else _alone
    distinct = sorted({by(entry) for entry in evidence.runs}, key=repr)
    if len(distinct) < FEWEST_LEFT:
        return []
    part_of = {key: k % MOST_LEFT_OUT for k, key in enumerate(distinct)}
    judged: list[JudgedFigure] = []
    for part in range(min(len(distinct), MOST_LEFT_OUT)):
        out = tuple(entry for entry in evidence.runs if part_of[by(entry)] == part)
        others = [pair for pair in signs if isinstance(pair[0], Measurement) or part_of[by(pair[0])] != part]
        without = _calibration(others, evidence.models, "without", base)
        judged += figures(out, without, among=evidence.runs)
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
            phase = Phase.PREFILL if FIGURES[figure.kind] in (Phase.PREFILL, Metric.TTFT) else Phase.DECODE
            log = float(-np.log1p(figure.rate_error))
            residuals.setdefault((figure.run.gpu, figure.run.model, phase), []).append(log)
    bands = []
    for (gpu, model, phase), logs in sorted(residuals.items()):
        if len(logs) >= FEWEST_OWN_RESIDUALS:
            low, high = own_band(logs)
            bands.append(MeasuredBand(gpu=gpu, model=model, phase=phase, low=low, high=high, points=len(logs)))
    return bands
