"""How far predictions are off for what a fit has not seen: folds over configurations, and whole groups left out.

| symbol | meaning | unit |
|---|---|---|
| r, J | residuals of the whole fit at its factors, and their derivatives by the factors' logarithms | 1 |
| w | weights of the residuals there, rho'(r^2) = 1 / sqrt(1 + r^2); 0 of those that are left out | 1 |

A fit without some figures is one Gauss-Newton step from the whole one, x - (J' w J)^-1 J' w r, kept within bounds: fits
anew come out within a point of the mean errors, and take a hundred times as long.

A configuration is a machine, model, precision, engine and set of degrees with its lengths: runs that differ only in
concurrency are left out together. A group is a GPU type with a model.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.cost.arrays import Array
from planner.cost.benchmarks.fit import BenchmarkFit, Evidence, Problem
from planner.cost.benchmarks.prediction import figures
from planner.cost.calibration import FreeFactor, predict_ms
from planner.domain import Calibration, JudgedFigure, Measurement, NamedRun

FOLDS = 5
FOLD_SEED = 1

Item = Measurement | NamedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Figures predicted without their fold, and step times: (measurement, predicted ms)."""

    figures: tuple[JudgedFigure, ...]
    steps: tuple[tuple[Measurement, float], ...]


def configuration(item: Item) -> tuple[object, ...]:
    """What is left out together in a fold."""
    if isinstance(item, Measurement):
        return ("step", item.gpu, item.model, str(item.phase), item.tp, item.dp)
    run = item.run
    pools = tuple((pool.tp, pool.dp, pool.ep, pool.workers) for pool in (run.prefill, run.decode) if pool)
    lengths = (run.input_tokens, run.output_tokens)
    return (
        "run",
        run.gpu,
        run.model,
        run.engine,
        run.precision.text,
        run.precision.mtp_tokens,
        str(run.load),
        pools,
        lengths,
    )


def group(item: Item) -> tuple[object, ...]:
    """GPU type and model."""
    return (item.gpu, item.model) if isinstance(item, Measurement) else (item.run.gpu, item.run.model)


def fold_of(evidence: Evidence, folds: int = FOLDS, seed: int = FOLD_SEED) -> Callable[[Item], object]:
    """Configurations dealt to folds at random, by a seed."""
    items: list[Item] = [*evidence.measurements, *evidence.runs]
    # Keys of two kinds have no order of their own.
    distinct = sorted({configuration(item) for item in items}, key=repr)
    dealt = np.random.default_rng(seed).permutation(len(distinct)) % folds
    folds_by = dict(zip(distinct, dealt.tolist(), strict=True))
    return lambda item: folds_by[configuration(item)]


def left_out(
    evidence: Evidence,
    free: Sequence[FreeFactor],
    *,
    base: Calibration,
    whole_fit: BenchmarkFit,
    by: Callable[[Item], object],
) -> LeftOut:
    """Every figure and step time predicted by a fit to all but those that share its `by`."""
    judged: list[JudgedFigure] = []
    steps: list[tuple[Measurement, float]] = []
    problem = Problem.of(evidence, tuple(free), base)
    x = np.log(whole_fit.values)
    residuals, slopes = problem.residuals(x), problem.slopes(x)
    for part in _parts(evidence, by):
        staying = problem.rows_without(part)
        calibration = Calibration(
            name="without", factors=problem.factors(_step(problem, x, residuals, slopes, staying))
        )
        judged += figures(part.runs, calibration, among=evidence.runs)
        for m in part.measurements:
            steps.append((m, predict_ms(m, part.gpus[m.gpu], part.models[m.model], calibration)))
    return LeftOut(figures=tuple(judged), steps=tuple(steps))


def _step(problem: Problem, x: Array, residuals: Array, slopes: Array, staying: NDArray[np.bool_]) -> Array:
    """The factors' logarithms where the kept residuals alone would have them."""
    weights = np.where(staying, 1 / np.sqrt(1 + residuals**2), 0.0)
    normal = slopes.T @ (weights[:, None] * slopes)
    moved = x - np.linalg.solve(normal, slopes.T @ (weights * residuals))
    low, high = problem.bounds
    return np.asarray(np.clip(moved, low, high))


def _parts(evidence: Evidence, by: Callable[[Item], object]) -> Iterator[Evidence]:
    items: list[Item] = [*evidence.measurements, *evidence.runs]
    for key in sorted({by(item) for item in items}, key=repr):
        yield Evidence(
            measurements=tuple(m for m in evidence.measurements if by(m) == key),
            gpus=evidence.gpus,
            models=evidence.models,
            runs=tuple(entry for entry in evidence.runs if by(entry) == key),
        )
