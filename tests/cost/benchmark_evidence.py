"""What the built-in factors were fitted to: step times and benchmark runs that come with the package."""

from dataclasses import replace
from functools import cache

from planner.cost import judged_runs
from planner.cost.benchmarks.fit import Evidence
from planner.domain import JudgedFigure, NamedRun
from planner.files import load_given_benchmarks, load_published_measurements, measured_records, resolve_names


@cache
def given_runs() -> tuple[NamedRun, ...]:
    """The given benchmark runs with the records that they name."""
    return resolve_names(load_given_benchmarks())


@cache
def known_runs() -> tuple[NamedRun, ...]:
    """Those that the built-in factors were fitted to."""
    return tuple(entry for entry in given_runs() if "silicon" not in entry.run.file)


@cache
def judged_known() -> tuple[JudgedFigure, ...]:
    """What the built-in factors predict of those."""
    return judged_runs(known_runs())


@cache
def evidence() -> Evidence:
    """All that the built-in factors were fitted to."""
    rows = load_published_measurements()
    gpus, models = measured_records(rows, "published measurements")
    return Evidence(measurements=tuple(rows), gpus=gpus, models=models, runs=known_runs())


@cache
def all_evidence() -> Evidence:
    """All that a fit may explain."""
    return replace(evidence(), runs=given_runs())
