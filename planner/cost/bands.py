"""The band of an estimate: P10 and P90 of measured over predicted rates, from residuals of its slice.

| symbol | meaning                                                                    | unit |
|--------|----------------------------------------------------------------------------|------|
| slice  | GPU family, kind of model (dense, moe), phase                              |      |
| r      | residual ln(measured / predicted) of a measurement left out of the fit     | 1    |
| n, m, s| number, mean and standard deviation of somebody's own residuals            | 1    |
| t      | 0.9 quantile of Student's t with n - 1 degrees of freedom                  | 1    |
| band   | exp of P10 and P90 of r; of own residuals m -+ t s sqrt(1 + 1/n)           | 1    |

What counts, the first that there is:

1. the user's calibration measured this GPU type and model in this phase and tells its own left-out residuals: these
2. type and model were measured: the slice's residuals, run by run
3. another type or model of the slice was measured, and residuals without whole (type, model) groups are known: these
4. else, and for a model with layers that no measured one has, carried over from other families: residuals without
   the whole family, of this kind of model and phase

3 and 4 are never narrower than the slices they are carried over from: their ends reach at least as far. Reference mode
and profiles have no band: the one is compared with a paper, the other is somebody's own measurement.

Left-out residuals of the cost model, one row a slice of the measurements: what bands are made of.

A residual is ln(measured rate / predicted rate) of a measurement that the prediction was not fitted to. A row holds P10
and P90 of the residuals of its slice: positive means that the machine was faster than predicted.

| left out | a residual's prediction comes from a fit without | what the row stands for                          |
|----------|--------------------------------------------------|--------------------------------------------------|
| run      | that run alone                                   | GPU type and model were measured                 |
| group    | every run of its GPU type and model              | another type or model of this family was         |
| group,   | every run of its whole GPU family                | nothing of this family, or no model of this kind |
| family   |                                                  |                                                  |
| any      |                                                  |                                                  |

`run` rows are the slices; a slice may have a `group` row beside it; each kind of model and phase has a `group` row of
family any.

Made from planner/files/measurement_sets/left_out.csv and the step times (a test holds them together): decode of MoE
models from TPOT of disaggregated pools and decode steps (of families with fewer than eight of these from aggregated
pools, too), prefill from saturated pools and prefill steps; dense models from saturated throughput and static batches,
which tell no phase apart. Engines of before 2025 are left aside.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

from planner.cost.efficiency import origin_of
from planner.domain import (
    Band,
    CalibrationFit,
    CostMode,
    CostSettings,
    CostSource,
    GpuSpec,
    JudgedMeasurement,
    MeasuredBand,
    ModelSpec,
    Origin,
    Phase,
)
from planner.domain.efficiency import ANY_FAMILY
from planner.errors import InconsistentPlanError

DENSE, MOE = "dense", "moe"
KINDS = (DENSE, MOE)


class LeftOut(StrEnum):
    """What the fit behind a residual did not see."""

    RUN = "run"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class BandRow:
    """P10 and P90 of ln(measured / predicted) over `points` residuals of one slice (log_low <= log_high)."""

    family: str
    kind: str
    phase: Phase
    log_low: float
    log_high: float
    points: int
    left_out: LeftOut = LeftOut.RUN


def _row(
    family: str, kind: str, phase: Phase, log_low: float, log_high: float, points: int, left_out: LeftOut
) -> BandRow:
    return BandRow(
        family=family, kind=kind, phase=phase, log_low=log_low, log_high=log_high, points=points, left_out=left_out
    )


BAND_TABLE: tuple[BandRow, ...] = (
    _row("blackwell", MOE, Phase.PREFILL, -0.172, 0.538, 14, LeftOut.RUN),
    _row("cdna4", MOE, Phase.PREFILL, -0.897, 0.272, 7, LeftOut.RUN),
    _row("hopper", MOE, Phase.PREFILL, -0.507, 0.252, 13, LeftOut.RUN),
    _row("blackwell", MOE, Phase.DECODE, -0.142, 0.227, 78, LeftOut.RUN),
    _row("cdna3", MOE, Phase.DECODE, -0.095, 0.275, 5, LeftOut.RUN),
    _row("cdna4", MOE, Phase.DECODE, -0.295, 0.129, 53, LeftOut.RUN),
    _row("hopper", MOE, Phase.DECODE, -0.371, 0.148, 36, LeftOut.RUN),
    _row("blackwell", DENSE, Phase.PREFILL, -0.182, 0.181, 6, LeftOut.RUN),
    _row("cdna3", DENSE, Phase.PREFILL, -0.116, 0.118, 10, LeftOut.RUN),
    _row("hopper", DENSE, Phase.PREFILL, -0.117, 0.113, 8, LeftOut.RUN),
    _row("blackwell", DENSE, Phase.DECODE, -0.182, 0.181, 6, LeftOut.RUN),
    _row("cdna3", DENSE, Phase.DECODE, -0.116, 0.118, 10, LeftOut.RUN),
    _row("hopper", DENSE, Phase.DECODE, -0.117, 0.113, 8, LeftOut.RUN),
    _row("blackwell", MOE, Phase.PREFILL, -0.127, 0.594, 14, LeftOut.GROUP),
    _row("cdna4", MOE, Phase.PREFILL, -1.223, -0.035, 7, LeftOut.GROUP),
    _row("hopper", MOE, Phase.PREFILL, -0.572, 0.253, 13, LeftOut.GROUP),
    _row(ANY_FAMILY, MOE, Phase.PREFILL, -0.571, 0.451, 35, LeftOut.GROUP),
    _row("blackwell", MOE, Phase.DECODE, -0.131, 0.263, 78, LeftOut.GROUP),
    _row("cdna3", MOE, Phase.DECODE, -0.096, 0.271, 5, LeftOut.GROUP),
    _row("cdna4", MOE, Phase.DECODE, -0.309, 0.131, 53, LeftOut.GROUP),
    _row("hopper", MOE, Phase.DECODE, -0.396, 0.133, 36, LeftOut.GROUP),
    _row(ANY_FAMILY, MOE, Phase.DECODE, -0.277, 0.202, 169, LeftOut.GROUP),
    _row("blackwell", DENSE, Phase.PREFILL, -0.167, 0.127, 6, LeftOut.GROUP),
    _row("cdna3", DENSE, Phase.PREFILL, -0.144, 0.141, 10, LeftOut.GROUP),
    _row("hopper", DENSE, Phase.PREFILL, -0.128, 0.11, 8, LeftOut.GROUP),
    _row(ANY_FAMILY, DENSE, Phase.PREFILL, -0.144, 0.15, 24, LeftOut.GROUP),
    _row("blackwell", DENSE, Phase.DECODE, -0.167, 0.127, 6, LeftOut.GROUP),
    _row("cdna3", DENSE, Phase.DECODE, -0.144, 0.141, 10, LeftOut.GROUP),
    _row("hopper", DENSE, Phase.DECODE, -0.128, 0.11, 8, LeftOut.GROUP),
    _row(ANY_FAMILY, DENSE, Phase.DECODE, -0.144, 0.15, 24, LeftOut.GROUP),
)

FEWEST_OWN_RESIDUALS = 3
"""Of fewer, a spread tells nothing (t is 3.08 of two points): the slice's residuals count."""

_KIND_WORDS = {DENSE: "dense", MOE: "MoE"}
_TAIL = 0.9


def band_of(gpu: GpuSpec, model: ModelSpec, phase: Phase, settings: CostSettings) -> Band | None:
    """The band of rates of `model` on `gpu` in `phase`; None in reference mode and of a profile's times."""
    if settings.mode is CostMode.REFERENCE or settings.source is CostSource.TABULATED:
        return None
    calibration = settings.calibration
    for measured_band in calibration.bands if calibration else ():
        if (measured_band.gpu, measured_band.model, measured_band.phase) == (gpu.name, model.name, phase):
            basis = f"{_points(measured_band.points)} of {model.name} on {gpu.name} in {phase}, the user's own"
            return Band(low=measured_band.low, high=measured_band.high, basis=basis, points=measured_band.points)
    origin, _ = origin_of(gpu, model, phase, calibration)
    kind = MOE if model.routed_experts else DENSE
    if model.unmeasured:
        return _carried_over(kind, phase, BAND_TABLE, "of other layers than this model's")
    return slice_band(gpu.family, kind, phase, measured=origin in (Origin.USER, Origin.PUBLISHED))


def slice_band(family: str, kind: str, phase: Phase, *, measured: bool, rows: Sequence[BandRow] = BAND_TABLE) -> Band:
    """The band of a slice by the rows of a table. `measured`: GPU type and model are among the measurements.

    Raises InconsistentPlanError where the table lacks the row of all families for this kind and phase.
    """
    of_kind = [row for row in rows if (row.kind, row.phase) == (kind, phase)]
    runs = [row for row in of_kind if row.left_out is LeftOut.RUN]
    run = next((row for row in runs if row.family == family), None)
    group = next((row for row in of_kind if row.left_out is LeftOut.GROUP and row.family == family), None)
    words = f"{_KIND_WORDS[kind]} {phase}"
    if run is not None and measured:
        return _band([run], f"{_points(run.points)} of {words} on {_family_name(family)}")
    if run is not None and group is not None:
        basis = f"{_points(group.points)} of {words} on {_family_name(family)}, their GPU type and model left out"
        return _band([group, run], basis)
    return _carried_over(kind, phase, rows, "their GPU family left out")


def _carried_over(kind: str, phase: Phase, rows: Sequence[BandRow], which: str) -> Band:
    words, of_kind = f"{_KIND_WORDS[kind]} {phase}", [row for row in rows if (row.kind, row.phase) == (kind, phase)]
    runs = [row for row in of_kind if row.left_out is LeftOut.RUN]
    afar = next((row for row in of_kind if row.family == ANY_FAMILY), None)
    if afar is None:
        raise InconsistentPlanError(
            f"band table: must have a row of family {ANY_FAMILY} for {words}, got none.",
            hint="Add the residuals without whole families to planner/cost/bands.py.",
        )
    # What is carried over must not look firmer than what was measured.
    return _band([afar, *runs], f"carried over: {_points(afar.points)} of {words}, {which}")


def _band(rows: Sequence[BandRow], basis: str) -> Band:
    """As wide as the widest row at either end; the first row is the one that counts."""
    low, high = min(row.log_low for row in rows), max(row.log_high for row in rows)
    return Band(low=math.exp(low), high=math.exp(high), basis=basis, points=rows[0].points)


def _points(count: int) -> str:
    return f"{count} left-out point{'s' * (count != 1)}"


def _family_name(family: str) -> str:
    """Hopper, CDNA3, H20."""
    return family.upper() if any(character.isdigit() for character in family) else family.capitalize()


def with_bands(fit: CalibrationFit) -> CalibrationFit:
    """The fit, its calibration telling the band of every GPU type, model and phase with enough left-out residuals."""
    return replace(fit, calibration=replace(fit.calibration, bands=tuple(_own_bands(fit.fitted))))


def _own_bands(points: Sequence[JudgedMeasurement]) -> Iterator[MeasuredBand]:
    def group(point: JudgedMeasurement) -> tuple[str, str, Phase]:
        return point.measurement.gpu, point.measurement.model, point.measurement.phase

    left_out = sorted((p for p in points if math.isfinite(p.left_out_ms)), key=group)
    for (gpu, model, phase), members in groupby(left_out, key=group):
        residuals = [math.log(p.left_out_ms / p.measurement.ms) for p in members]
        if len(residuals) >= FEWEST_OWN_RESIDUALS:
            low, high = own_band(residuals)
            yield MeasuredBand(gpu=gpu, model=model, phase=phase, low=low, high=high, points=len(residuals))


def own_band(residuals: Sequence[float]) -> tuple[float, float]:
    """P10 and P90 of the next ratio, as exp of a normal residual whose mean and spread are known from these alone."""
    from scipy.special import stdtrit  # noqa: PLC0415  (slow to load, seldom needed)

    n = len(residuals)
    mean = math.fsum(residuals) / n
    spread = math.sqrt(math.fsum((r - mean) ** 2 for r in residuals) / (n - 1))
    half = float(stdtrit(n - 1, _TAIL)) * spread * math.sqrt(1 + 1 / n)
    return math.exp(mean - half), math.exp(mean + half)
