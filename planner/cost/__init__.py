"""What a phase costs on an island: times, memory, rates. Door: `tabulate_sizes`; the others look inside."""

from planner.cost.backend import AnalyticBackend, CostBackend, TabulatedBackend, open_backend
from planner.cost.benchmarks import (
    BenchmarkFit,
    Evidence,
    RunsFit,
    doubts,
    fit_benchmarks,
    fit_calibration,
    fit_own_runs,
)
from planner.cost.benchmarks.accuracy import accuracy, coverage, interval_score, judged_runs, judged_step, with_records
from planner.cost.calibration import predict_ms, require_possible
from planner.cost.closest import Closest, closest, model_fits
from planner.cost.device import CostContext, measured_relative
from planner.cost.explanation import compare_configurations, explain
from planner.cost.factors import BUILT_IN, UNFITTED
from planner.cost.mixed import explain_mixed
from planner.cost.parallelism import configurations
from planner.cost.parts import DecodeTime, PrefillTime
from planner.cost.queueing import Queue, largest_share, predicted_wait
from planner.cost.rates import pool_share
from planner.cost.residuals.band_draws import UncertainRate, WorkShare, probability_better, rate_band, shares_of_best
from planner.cost.residuals.bands import band_of, known_as, place, time_band, with_bands
from planner.cost.service_levels import FIRST_STEP_MS, PLACE_SHARE, Mixture, admitted_shares, mixture
from planner.cost.step import Steps
from planner.cost.table import smallest_island, tabulate, tabulate_placed, tabulate_sizes
from planner.cost.times import decode_time, max_batch_size, prefill_time

__all__ = [
    "BUILT_IN",
    "FIRST_STEP_MS",
    "PLACE_SHARE",
    "UNFITTED",
    "AnalyticBackend",
    "BenchmarkFit",
    "Closest",
    "CostBackend",
    "CostContext",
    "DecodeTime",
    "Evidence",
    "Mixture",
    "PrefillTime",
    "Queue",
    "RunsFit",
    "Steps",
    "TabulatedBackend",
    "UncertainRate",
    "WorkShare",
    "accuracy",
    "admitted_shares",
    "band_of",
    "closest",
    "compare_configurations",
    "configurations",
    "coverage",
    "decode_time",
    "doubts",
    "explain",
    "explain_mixed",
    "fit_benchmarks",
    "fit_calibration",
    "fit_own_runs",
    "interval_score",
    "judged_runs",
    "judged_step",
    "known_as",
    "largest_share",
    "max_batch_size",
    "measured_relative",
    "mixture",
    "model_fits",
    "open_backend",
    "place",
    "pool_share",
    "predict_ms",
    "predicted_wait",
    "prefill_time",
    "probability_better",
    "rate_band",
    "require_possible",
    "shares_of_best",
    "smallest_island",
    "tabulate",
    "tabulate_placed",
    "tabulate_sizes",
    "time_band",
    "with_bands",
    "with_records",
]
