"""The band of an estimate: P10 and P90 of measured over predicted figures, of measurements left out accordingly.

| symbol  | meaning                                                                      | unit |
|---------|------------------------------------------------------------------------------|------|
| figure  | rate of a phase (mixed: of servers that do both), or the TTFT; TPOT is the   |      |
|         | inverse of decode's                                                          |      |
| r       | residual ln(measured / predicted) of a rate, -ln of a time: positive where   | 1    |
|         | the machine is faster than predicted                                         |      |
| slice   | a model; MoE or dense models; empty: all                                     |      |
| n, m, s | number, mean and standard deviation of somebody's own residuals              | 1    |
| t       | 0.9 quantile of Student's t with n - 1 degrees of freedom                    | 1    |
| band    | exp of P10 and P90 of r; of own residuals m -+ t s sqrt(1 + 1/n)             | 1    |

What the prediction behind a residual did not see is what was never measured of the estimate (`Relation`): the run's
own configuration, the engine with this model and type, the GPU type, the model, or model and type. A band reaches at
least as far as those of all firmer relations. A slice with too few residuals has no row: the next larger one counts.

Own measurements, where the user's calibration has left-out residuals of this GPU type and model in this phase, come
before all others. Reference mode and profiles have no band: the one is compared with a paper, the other is somebody's
own measurement.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType

from planner.cost.residuals.band_table import MEASURED, ROWS
from planner.domain import (
    Band,
    Calibration,
    CalibrationFit,
    CostMode,
    CostSettings,
    CostSource,
    Factor,
    GpuSpec,
    JudgedMeasurement,
    MeasuredBand,
    Metric,
    ModelSpec,
    Origin,
    Phase,
    Relation,
    halves_of,
)
from planner.errors import InconsistentPlanError

DENSE, MOE, ALL = "dense", "MoE", ""

Figure = Phase | Metric
"""A phase's rate, or Metric.TTFT."""

FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        "saturated prefill": Phase.PREFILL,
        "prefill steps": Phase.PREFILL,
        "first token": Phase.PREFILL,
        "decode steps": Phase.DECODE,
        "disaggregated decode TPOT": Phase.DECODE,
        "aggregated TPOT": Phase.DECODE,
        "aggregated rate": Phase.MIXED,
        "saturated throughput": Phase.MIXED,
        "static batch": Phase.MIXED,
        "aggregated TTFT": Metric.TTFT,
    }
)
"""Of which figure a kind of measurement tells. First tokens of a batch that starts together are prefill alone."""

_WORDS: Mapping[Figure, str] = MappingProxyType(
    {Phase.PREFILL: "prefill", Phase.DECODE: "decode", Phase.MIXED: "aggregated serving", Metric.TTFT: "TTFT"}
)
_LEFT_OUT = MappingProxyType(
    {
        Relation.SAME: "",
        Relation.ENGINE: ", each engine left out",
        Relation.GPU: ", each GPU type left out",
        Relation.MODEL: ", each model left out",
        Relation.FORMULAS: ", model and GPU type left out",
    }
)
_FIRMEST_FIRST = tuple(_LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class BandRow:
    """P10 and P90 of r over `points` residuals of a slice (log_low <= log_high)."""

    figure: Figure
    relation: Relation
    slice: str
    log_low: float
    log_high: float
    points: int


def _figure(name: str) -> Figure:
    return Metric.TTFT if name == Metric.TTFT else Phase(name)


BAND_TABLE = tuple(
    BandRow(figure=_figure(figure), relation=Relation(relation), slice=of, log_low=low, log_high=high, points=points)
    for figure, relation, of, low, high, points in ROWS
)

FEWEST_OWN_RESIDUALS = 3
"""Of fewer, a spread tells nothing (t is 3.08 of two points): the slice's residuals count."""

_TAIL = 0.9


def band_of(gpu: GpuSpec, model: ModelSpec, phase: Phase, settings: CostSettings) -> Band | None:
    """The band of rates of `model` on `gpu` in `phase`; None in reference mode and of a profile's times."""
    if settings.mode is CostMode.REFERENCE or settings.source is CostSource.TABULATED:
        return None
    calibration, halves = settings.calibration, halves_of(phase)
    in_force = calibration is not None and not _of_another_engine(gpu, model, settings.engine, calibration)
    measured = [
        band
        for band in (calibration.bands if calibration and in_force else ())
        if (band.gpu, band.model) == (gpu.name, model.name) and band.phase in halves
    ]
    if len(measured) < len(halves):
        return figure_band(phase, gpu, model, engine=settings.engine, calibration=calibration)
    points = sum(band.points for band in measured)
    return Band(
        low=min(band.low for band in measured),
        high=max(band.high for band in measured),
        basis=f"{_points(points)} of {model.name} on {gpu.name} in {' and '.join(halves)}, the user's own",
        points=points,
        relation=Relation.OWN,
    )


def time_band(gpu: GpuSpec, model: ModelSpec, phase: Phase, settings: CostSettings) -> Band | None:
    """P10 and P90 of measured over predicted TTFT (prefill) or TPOT (decode); None where rates have none."""
    of_rates = band_of(gpu, model, phase, settings)
    if of_rates is None or phase is not Phase.PREFILL:
        return of_rates and of_rates.inverse
    # How long a first token takes is not how fast prompts are taken in: it waits in a queue, which nobody's steps tell.
    return figure_band(Metric.TTFT, gpu, model, engine=settings.engine, calibration=settings.calibration).inverse


def figure_band(
    figure: Figure, gpu: GpuSpec, model: ModelSpec, *, engine: str = "", calibration: Calibration | None = None
) -> Band:
    """The band of a rate of `model` on `gpu` (of TTFT: of its inverse) by the measurements at hand."""
    relation = relation_of(gpu, model, engine, calibration)
    return slice_band(figure, relation, (known_as(model), MOE if model.routed_experts else DENSE))


def slice_band(figure: Figure, relation: Relation, slices: Sequence[str], rows: Sequence[BandRow] = BAND_TABLE) -> Band:
    """The band by the rows of a table; `slices`, the smallest first: what the estimate is one of.

    Raises InconsistentPlanError where the table lacks this relation and all weaker ones.
    """
    by_place = {(row.relation, row.slice): row for row in rows if row.figure is figure}
    firmer: list[BandRow] = []
    for of in _FIRMEST_FIRST:
        row = next((by_place[of, name] for name in (*slices, ALL) if (of, name) in by_place), None)
        if row is None:
            continue
        firmer.append(row)
        # Where nothing was left out in this way, the next weaker relation counts.
        if _FIRMEST_FIRST.index(of) >= _FIRMEST_FIRST.index(relation):
            return _band(firmer, relation)
    raise InconsistentPlanError(
        f"band table: must have a row of {_WORDS[figure]} for relation {relation} or a weaker one, got none.",
        hint="Make planner/cost/residuals/band_table.py anew from all left-out predictions.",
    )


def _band(rows: Sequence[BandRow], relation: Relation) -> Band:
    """As wide as the widest row at either end: what is carried over must not look firmer than what was measured."""
    last = rows[-1]
    of = {ALL: "", MOE: " of MoE models", DENSE: " of dense models"}.get(last.slice, f" of {last.slice}")
    basis = f"{_points(last.points)} of {_WORDS[last.figure]}{of}{_LEFT_OUT[last.relation]}"
    return Band(
        low=math.exp(min(row.log_low for row in rows)),
        high=math.exp(max(row.log_high for row in rows)),
        basis=f"carried over, {relation.words}: {basis}" if relation.words else basis,
        points=last.points,
        relation=relation,
    )


def relation_of(gpu: GpuSpec, model: ModelSpec, engine: str, calibration: Calibration | None) -> Relation:
    """How near the measurements at hand are to `model` on `gpu` by `engine` (empty: by any)."""
    if _own_factors(gpu, model, engine, calibration):
        return Relation.SAME
    factors = [f for f in (calibration.factors if calibration else ()) if f.origin is Origin.USER]
    network = known_as(model)
    places = [(family, name, of, engines) for family, name, of, _, engines in MEASURED]
    # The family of a pace names its engine.
    places += [(factor.family, name, of, factor.family) for factor in factors for name, of in factor.measured]
    engines_here = [engines.split() for _, name, of, engines in places if (name, of) == (gpu.name, network)]
    if engines_here:
        return Relation.SAME if any(engine in ("", *engines) for engines in engines_here) else Relation.ENGINE
    if not any(family == gpu.family for family, *_ in places):
        return Relation.FORMULAS
    if any(of == network for _, _, of, _ in places):
        return Relation.GPU
    of_type = any(name == gpu.name for _, name, *_ in places)
    return Relation.MODEL if of_type and not model.unmeasured else Relation.FORMULAS


def origin_of(gpu: GpuSpec, model: ModelSpec, phase: Phase, settings: CostSettings) -> tuple[Origin, str]:
    """How firm an estimate is, and in words what was measured of it or never was (`relation_of`).

    One's own measurements count in their phase: of servers that do both in that of decode, where they spend their time.
    """
    network, engine = known_as(model), settings.engine
    factors = _own_factors(gpu, model, engine, settings.calibration)
    of_phase = [factor for factor in factors if factor.name.endswith(f"_{halves_of(phase)[-1]}")]
    if of_phase:
        return Origin.USER, of_phase[-1].provenance
    relation = relation_of(gpu, model, engine, None)
    if relation is not Relation.SAME:
        return Origin.CARRIED, relation.words
    by = f" by {engine}" if engine else ""
    return Origin.PUBLISHED, f"{network} on {gpu.name}{by}: published measurements (planner/files/measurement_sets)"


def _own_factors(gpu: GpuSpec, model: ModelSpec, engine: str, calibration: Calibration | None) -> list[Factor]:
    """The user's factors that were measured of this model on this type: paces by the engine, others of the family."""
    here = place(gpu.name, known_as(model), engine)
    return [
        factor
        for factor in (calibration.factors if calibration else ())
        if factor.origin is Origin.USER
        and (factor.family == here or (factor.family == gpu.family and (gpu.name, model.name) in factor.measured))
    ]


def _of_another_engine(gpu: GpuSpec, model: ModelSpec, engine: str, calibration: Calibration) -> bool:
    """Whether what the user measured of this model on this type was another engine's alone."""
    measured = any((gpu.name, model.name) in f.measured for f in calibration.factors if f.origin is Origin.USER)
    return measured and not _own_factors(gpu, model, engine, calibration)


def place(gpu: str, network: str, engine: str) -> str:
    """Whose pace a calibration tells: the family of its factor, of a GPU type, a network (`known_as`) and an engine
    (empty: of formulas alone)."""
    return f"{gpu} {network} {engine}".strip()


def known_as(model: ModelSpec) -> str:
    """The name under which a model of this shape was measured, at whatever precision; else its own."""
    shape = model.parameters
    return next((name for _, _, name, parameters, _ in MEASURED if parameters == shape), model.name)


def _points(count: int) -> str:
    return f"{count} left-out point{'s' * (count != 1)}"


def with_bands(fit: CalibrationFit) -> CalibrationFit:
    """The fit, its calibration telling the band of every GPU type, model and phase with enough left-out residuals."""
    return replace(fit, calibration=with_own_bands(fit.calibration, tuple(_own_bands(fit.fitted))))


def with_own_bands(calibration: Calibration, bands: Sequence[MeasuredBand]) -> Calibration:
    """The calibration with these bands in place of its own of the same GPU type, model and phase."""
    places = {(band.gpu, band.model, band.phase) for band in bands}
    others = [band for band in calibration.bands if (band.gpu, band.model, band.phase) not in places]
    return replace(calibration, bands=(*bands, *others))


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
