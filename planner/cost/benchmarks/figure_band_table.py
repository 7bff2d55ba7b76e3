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
    "aggregated TPOT": FigureBand(log_low=-0.172, log_high=0.227, points=151),
    "aggregated TTFT": FigureBand(log_low=-1.486, log_high=0.368, points=151),
    "aggregated rate": FigureBand(log_low=-0.204, log_high=0.188, points=151),
    "decode": FigureBand(log_low=-0.264, log_high=0.199, points=165),
    "prefill": FigureBand(log_low=-1.022, log_high=0.566, points=31),
    "saturated throughput": FigureBand(log_low=-0.202, log_high=0.154, points=34),
    "static batch": FigureBand(log_low=-0.197, log_high=0.163, points=11),
}
CARRIED_BANDS: Mapping[str, FigureBand] = {
    "aggregated TPOT": FigureBand(log_low=-0.172, log_high=0.23, points=151),
    "aggregated TTFT": FigureBand(log_low=-1.546, log_high=0.368, points=151),
    "aggregated rate": FigureBand(log_low=-0.214, log_high=0.188, points=151),
    "decode": FigureBand(log_low=-0.277, log_high=0.199, points=165),
    "prefill": FigureBand(log_low=-1.151, log_high=0.573, points=31),
    "saturated throughput": FigureBand(log_low=-0.23, log_high=0.154, points=34),
    "static batch": FigureBand(log_low=-0.236, log_high=0.163, points=11),
}
