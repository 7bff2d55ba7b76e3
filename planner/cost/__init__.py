"""What a phase costs on an island: times, memory, rates. Door: `tabulate_sizes`; the others look inside."""

from planner.cost.backend import AnalyticBackend, CostBackend, open_backend
from planner.cost.breakdowns import DecodeTime, PrefillTime
from planner.cost.calibration import PUBLISHED_FREE, fit_calibration, predict_ms
from planner.cost.explanation import compare_configurations, explain
from planner.cost.factors import BUILT_IN, UNFITTED
from planner.cost.step import Steps
from planner.cost.table import smallest_island, tabulate, tabulate_sizes
from planner.cost.tabulated import TabulatedBackend
from planner.cost.times import decode_time, max_batch_size, prefill_time

__all__ = [
    "BUILT_IN",
    "PUBLISHED_FREE",
    "UNFITTED",
    "AnalyticBackend",
    "CostBackend",
    "DecodeTime",
    "PrefillTime",
    "Steps",
    "TabulatedBackend",
    "compare_configurations",
    "decode_time",
    "explain",
    "fit_calibration",
    "max_batch_size",
    "open_backend",
    "predict_ms",
    "prefill_time",
    "smallest_island",
    "tabulate",
    "tabulate_sizes",
]
