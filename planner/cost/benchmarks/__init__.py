"""Benchmark runs under load: predicted, judged, fitted to. Doors: `accuracy`, `fit_benchmarks`."""

from planner.cost.benchmarks.accuracy import accuracy, judged_runs, judged_step, without_fit
from planner.cost.benchmarks.fit import BenchmarkFit, Evidence, fit_benchmarks
from planner.cost.benchmarks.own_runs import RunsFit, fit_own_runs

__all__ = [
    "BenchmarkFit",
    "Evidence",
    "RunsFit",
    "accuracy",
    "fit_benchmarks",
    "fit_own_runs",
    "judged_runs",
    "judged_step",
    "without_fit",
]
