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
