"""The fit of paces: what runs of one model under one engine on one GPU type have in common.

| symbol | meaning | unit |
|---|---|---|
| y[i] | ln of measured over predicted rate of run i, at the sequences that were in it | 1 |
| g, d, v | paces of its group, of its degrees, of its version (`planner.cost.residuals.pace`) | 1 |
| p | in their place, of a saturated pool of prefill: that of its group's | 1 |
| s_g, s_d, s_v, s_p, s | how far these, and a run from them, may be expected to be off | 1 |
| w[i] | weight of a run: (s / its trust)^2, less where nothing explains it | 1 |
| Z, D | which run has which pace; their expected variances | 1 |

minimise sum_i w[i] (y[i] - g - d - v)^2 / s^2 + sum g^2 / s_g^2 + sum d^2 / s_d^2 + sum v^2 / s_v^2: runs of a normal
model with random effects, so that a group of few runs stays near 1. Effective degrees of freedom: the trace of
(Z'WZ + s^2 D^-1)^-1 Z'WZ. A run that is c s off, c > 2, weighs 2 / c of one (Huber).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from planner.cost.arrays import Array
from planner.cost.benchmarks.engines import habits
from planner.cost.benchmarks.prediction import Predictions, asked_figures
from planner.cost.residuals.pace import Group, Pace, Paces, group_of
from planner.domain import Calibration, Metric, NamedRun

GROUP_SPREAD, DEGREES_SPREAD, VERSION_SPREAD, POOL_SPREAD, RUN_SPREAD = 0.15, 0.08, 0.10, 0.25, 0.10
NO_PACES: Paces = MappingProxyType({})
_OUTLIER = 2.0
_ROUNDS = 8

Degrees = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceFit:
    """Paces by group, and of how many runs each; `freedom`: effective degrees of freedom."""

    paces: Mapping[Group, Pace]
    counts: Mapping[Group, int]
    freedom: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PacedRun:
    """What one run says: ln of measured over predicted rate, and how far it may be off; of its pool of prefill where
    `taken_in`. Without degrees it is of the very deployment that is asked about."""

    group: Group
    degrees: Degrees | None
    version: str
    log: float
    trust: float = RUN_SPREAD
    taken_in: bool = False


TOLD_BY = {
    "aggregated TPOT": 0.10,
    "disaggregated decode TPOT": 0.12,
    "saturated throughput": 0.10,
    "static batch": 0.15,
    "decode steps": 0.10,
    "saturated prefill": 0.15,
}
"""Kinds of figures that tell a pace, and how far each may be off it."""
OLD_ENGINES, OLD_TRUST = 2025, 2.5  # figures of engines before this year count little


def paced_runs(
    runs: Sequence[NamedRun], paces: Paces = NO_PACES, calibration: Calibration | None = None
) -> list[tuple[NamedRun, PacedRun]]:
    """What the figures of runs say beside those predicted at these paces (none: 1)."""
    answers = Predictions(runs, paces=paces, held=True).of(calibration)
    pairs = []
    for entry, metric, kind in asked_figures(runs):
        predicted = answers.get((entry.run.file, entry.run.row, metric))
        if kind in TOLD_BY and predicted is not None and entry.gpu is not None and entry.model is not None:
            run, measured = entry.run, dict(entry.run.measured)[metric]
            spans = run.prefill is not None and run.prefill.worker_gpus > entry.gpu.gpus_per_nvlink_domain
            if metric is Metric.INPUT_RATE and spans:
                continue  # two runs on H100: a fourth of what kernels say, and nothing of pools in a node
            old = run.year is not None and run.year < OLD_ENGINES
            paced = PacedRun(
                group=group_of_run(entry),
                degrees=(run.decode.tp, run.decode.dp, run.decode.ep),
                version=run.engine_version,
                log=float(np.log(predicted / measured if metric.is_time else measured / predicted)),
                trust=TOLD_BY[kind] * (OLD_TRUST if old else 1.0),
                taken_in=kind == "saturated prefill",
            )
            pairs.append((entry, paced))
    return pairs


def group_of_run(entry: NamedRun) -> Group:
    """What a run is one of, its model at its own precision."""
    assert entry.gpu is not None
    assert entry.model is not None
    precision = entry.run.precision
    model = replace(entry.model, weight_bytes=precision.weight_bytes, expert_bytes=precision.expert_bytes)
    return group_of(entry.gpu, model, habits(entry.run.engine).name)


def fit_paces(runs: Sequence[PacedRun]) -> PaceFit:
    """The paces that explain the runs."""
    if not runs:
        return PaceFit(paces={}, counts={}, freedom=0.0)
    effects = [_effects(run) for run in runs]
    spreads = {key: spread for keys in effects for key, spread in keys.items()}
    columns = {key: k for k, key in enumerate(sorted(spreads))}
    design = np.zeros((len(runs), len(columns)))
    for row, keys in enumerate(effects):
        design[row, [columns[key] for key in keys]] = 1.0
    spread = np.array([spreads[key] for key in columns])
    lns, freedom = _ridge(design, np.array([run.log for run in runs]), spread, np.array([r.trust for r in runs]))

    def of(group: Group, kind: str) -> tuple[tuple[Any, float], ...]:
        return tuple((key[2], float(lns[k])) for key, k in columns.items() if key[:2] == (group, kind))

    return PaceFit(
        paces={
            group: Pace(
                ln=dict(of(group, "passes")).get("", 0.0),
                degrees=of(group, "degrees"),
                versions=of(group, "version"),
                pool=dict(of(group, "pool")).get("", 0.0),
            )
            for group in sorted({run.group for run in runs})
        },
        counts={group: sum(run.group == group for run in runs) for group in {run.group for run in runs}},
        freedom=freedom,
    )


def _effects(run: PacedRun) -> dict[tuple[Group, str, Any], float]:
    """What a run is one of, and how far each may be expected to be off: (group, kind of effect, level)."""
    if run.taken_in:
        return {(run.group, "pool", ""): POOL_SPREAD}
    passes: dict[tuple[Group, str, Any], float] = {(run.group, "passes", ""): GROUP_SPREAD}
    if run.degrees is not None:
        passes[run.group, "degrees", run.degrees] = DEGREES_SPREAD
    if run.version:
        passes[run.group, "version", run.version] = VERSION_SPREAD
    return passes


def _ridge(design: Array, logs: Array, spread: Array, trust: Array) -> tuple[Array, float]:
    """The random effects, and their effective degrees of freedom."""
    weights = 1 / trust**2
    paces: Array = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        off = np.abs(logs - design @ paces) / trust
        trusted = weights * np.minimum(1.0, _OUTLIER / np.maximum(off, 1e-9))
        information = design.T @ (trusted[:, None] * design)
        paces = np.asarray(np.linalg.solve(information + np.diag(1 / spread**2), design.T @ (trusted * logs)))
    freedom = float(np.trace(np.linalg.solve(information + np.diag(1 / spread**2), information)))
    return paces, freedom
