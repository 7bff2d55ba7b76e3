"""What made a plan: versions of the planner and of every library that shapes its numbers."""

import platform
from importlib.metadata import PackageNotFoundError, version

from planner.domain import Provenance, Scenario

LIBRARIES = ("ax-platform", "botorch", "highspy", "numpy", "pandas", "pulp", "torch")


def provenance_of(scenario: Scenario, solver: str) -> Provenance:
    """The provenance of a plan of `scenario` made here and now; no clock, so that equal runs give equal bytes."""
    return Provenance(
        planner_version=planner_version(),
        python_version=platform.python_version(),
        libraries=tuple((name, _version(name)) for name in LIBRARIES),
        solver=solver,
        seed=scenario.search.seed,
        cost_mode=scenario.cost.mode.value,
        input_hashes=tuple((one.name, one.sha256) for one in scenario.inputs),
    )


def planner_version() -> str:
    """The planner's own version."""
    return _version("planner")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
