"""Benchmark runs under load: predicted, judged (`accuracy.py`), fitted to. Door: `fit_benchmarks`."""

from planner.cost.benchmarks.fit import BenchmarkFit, Evidence, fit_benchmarks
from planner.cost.benchmarks.own_runs import RunsFit, fit_own_runs

__all__ = [
    "BenchmarkFit",
    "Evidence",
    "RunsFit",
    "fit_benchmarks",
    "fit_own_runs",
]
