"""Bands around predicted figures: P10 and P90 of measured over predicted rates, of figures that a fit had left out.

Of a GPU type that was measured with the model, the residuals of left-out configurations count; of another, those of
left-out (GPU type, model) groups, which are wider. Kinds with few figures share the residuals of their likes.
A residual is ln of the measured over the predicted rate; their P10 and P90 were made from
planner/files/measurement_sets/left_out.csv (a test holds the two together).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.cost.efficiency import merged
from planner.domain import Calibration, JudgedFigure


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
