"""Benchmark runs under load: predicted, judged (`accuracy.py`), fitted to. Door: `fit_benchmarks`."""

from planner.cost.benchmarks.fit import BenchmarkFit, Evidence, fit_benchmarks
from planner.cost.benchmarks.own_runs import RunsFit, doubts, fit_calibration, fit_own_runs

__all__ = [
    "BenchmarkFit",
    "Evidence",
    "RunsFit",
    "doubts",
    "fit_benchmarks",
    "fit_calibration",
    "fit_own_runs",
]
