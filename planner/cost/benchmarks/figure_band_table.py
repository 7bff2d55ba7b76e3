"""Residuals of figures that a fit had left out, as P10 and P90: ln of the measured over the predicted rate.

Made from planner/files/measurement_sets/left_out.csv (a test holds the two together).
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureBand:
    """P10 and P90 over so many points."""

    log_low: float
    log_high: float
    points: int


MEASURED_BANDS: Mapping[str, FigureBand] = {
    "aggregated TPOT": FigureBand(log_low=-0.179, log_high=0.207, points=151),
    "aggregated TTFT": FigureBand(log_low=-1.522, log_high=0.363, points=151),
    "aggregated rate": FigureBand(log_low=-0.243, log_high=0.167, points=151),
    "decode": FigureBand(log_low=-0.278, log_high=0.181, points=165),
    "prefill": FigureBand(log_low=-1.012, log_high=0.659, points=31),
    "saturated throughput": FigureBand(log_low=-0.256, log_high=0.156, points=34),
    "static batch": FigureBand(log_low=-0.199, log_high=0.148, points=11),
}
CARRIED_BANDS: Mapping[str, FigureBand] = {
    "aggregated TPOT": FigureBand(log_low=-0.179, log_high=0.207, points=151),
    "aggregated TTFT": FigureBand(log_low=-1.522, log_high=0.363, points=151),
    "aggregated rate": FigureBand(log_low=-0.243, log_high=0.167, points=151),
    "decode": FigureBand(log_low=-0.278, log_high=0.181, points=165),
    "prefill": FigureBand(log_low=-1.012, log_high=0.659, points=31),
    "saturated throughput": FigureBand(log_low=-0.256, log_high=0.156, points=34),
    "static batch": FigureBand(log_low=-0.199, log_high=0.148, points=11),
}
