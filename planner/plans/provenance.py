"""What a plan was made with: versions of the planner and of every library that shapes its numbers."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from planner.domain import Estimate, Provenance, Scenario

DISTRIBUTION = "llm-fleet-planner"
"""What the package is called where it is installed from; it is imported, and called, as planner."""

LEARNERS = ("gpytorch", "linear-operator", "scipy")  # below those that a plan names
LIBRARIES = ("ax-platform", "botorch", "highspy", "numpy", "pandas", "pulp", "torch")


def provenance_of(scenario: Scenario, solver: str, estimates: tuple[Estimate, ...]) -> Provenance:
    """The provenance of a plan of `scenario` made here and now; no clock, so that equal runs give equal bytes."""
    return Provenance(
        planner_version=planner_version(),
        python_version=platform.python_version(),
        libraries=tuple((name, _version(name)) for name in LIBRARIES),
        solver=solver,
        seed=scenario.search.seed,
        cost_mode=scenario.cost.mode.value,
        input_hashes=tuple((item.name, item.sha256) for item in scenario.inputs),
        calibration=scenario.cost.calibration.name if scenario.cost.calibration else "built-in",
        estimates=estimates,
    )


def versions() -> tuple[tuple[str, str], ...]:
    """Name and version of everything that must be unchanged for a search to resume."""
    libraries = ((name, _version(name)) for name in (*LIBRARIES, *LEARNERS))
    return (("planner", planner_version()), ("python", platform.python_version()), *libraries)


def planner_version() -> str:
    """The planner's own version."""
    return _version(DISTRIBUTION)


@cache  # read from the disk each time otherwise, eleven files a job of a batch
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
