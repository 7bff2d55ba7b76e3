"""Bands around predicted figures: P10 and P90 of measured over predicted rates, of figures that a fit had left out.

Of a GPU type that was measured with the model, the residuals of left-out configurations count; of another, those of
left-out (GPU type, model) groups, which are wider. Kinds with few figures share the residuals of their likes.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from planner.cost.benchmarks.figure_band_table import CARRIED_BANDS, MEASURED_BANDS, FigureBand
from planner.cost.efficiency import merged
from planner.domain import Calibration, JudgedFigure

# whose residuals a kind of figure shares
POOLED: Mapping[str, str] = {
    "decode steps": "decode",
    "disaggregated decode TPOT": "decode",
    "prefill steps": "prefill",
    "saturated prefill": "prefill",
    "first token": "static batch",
    "step time": "decode",
}
_LOW, _HIGH = 0.1, 0.9


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


def band_rows(residuals: Iterable[tuple[str, float]]) -> dict[str, FigureBand]:
    """Rows of the table from (kind, ln of measured over predicted rate), by pooled kind."""
    by_kind: dict[str, list[float]] = {}
    for kind, residual in residuals:
        by_kind.setdefault(pool_of(kind), []).append(residual)
    return {
        kind: FigureBand(
            log_low=round(float(np.quantile(logs, _LOW)), 3),
            log_high=round(float(np.quantile(logs, _HIGH)), 3),
            points=len(logs),
        )
        for kind, logs in by_kind.items()
    }
