"""A policy's figures over several seeds, what it saves against another one, and both as curves over arrived capacity.

Power is a mean over runs, savings and GRAR are ratios of means (facts on fragmentation and power, section 10).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from planner.errors import InputError
from planner.report.kit.quantities import significant
from planner.studies.policies.online.policies import ADAPTIVE, POLICIES
from planner.studies.policies.records import OnlineMetrics, OnlineRun


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanMetrics:
    """Means over the runs of a policy at one percentage of arrived GPU capacity; units as `OnlineMetrics`.

    `grar` is the mean of what is used over the mean of what has arrived, not a mean of ratios (facts on fragmentation
    and power, section 10).
    """

    arrived_percent: int
    allocation_percent: float
    fragmentation_percent: float
    fragmentation_ratio_percent: float
    failures: float
    cpu_power_w: float
    gpu_power_w: float
    grar: float

    @property
    def power_w(self) -> float:
        """EOPC: watts of CPUs and GPUs."""
        return self.cpu_power_w + self.gpu_power_w


def mean_metrics(runs: Sequence[OnlineRun]) -> tuple[MeanMetrics, ...]:
    """Means at every percentage that all runs have, ascending; none without runs."""
    by_percent = [{row.arrived_percent: row for row in run.metrics} for run in runs]
    if not by_percent:
        return ()
    shared = set.intersection(*(set(rows) for rows in by_percent))
    return tuple(_mean(at, [rows[at] for rows in by_percent]) for at in sorted(shared))


def _mean(at: int, rows: Sequence[OnlineMetrics]) -> MeanMetrics:
    def mean(name: str) -> float:
        return sum(float(getattr(row, name)) for row in rows) / len(rows)

    arrived = mean("arrived_gpu_milli")
    return MeanMetrics(
        arrived_percent=at,
        allocation_percent=mean("allocation_percent"),
        fragmentation_percent=mean("fragmentation_percent"),
        fragmentation_ratio_percent=mean("fragmentation_ratio_percent"),
        failures=mean("failures"),
        cpu_power_w=mean("cpu_power_w"),
        gpu_power_w=mean("gpu_power_w"),
        grar=mean("used_gpu_milli") / arrived if arrived else 1.0,
    )


def savings(baseline: Sequence[MeanMetrics], policy: Sequence[MeanMetrics]) -> Mapping[int, float]:
    """Percent of the baseline's power that a policy saves, by percentage of arrived capacity; where both have one."""
    base = {row.arrived_percent: row.power_w for row in baseline}
    return {
        row.arrived_percent: 100 * (base[row.arrived_percent] - row.power_w) / base[row.arrived_percent]
        for row in policy
        if not isclose(base.get(row.arrived_percent, 0.0), 0.0)
    }


Reals: TypeAlias = npt.NDArray[np.float64]
PolicyRuns: TypeAlias = Mapping[str, Sequence[OnlineRun]]
"""Runs of each policy by its label, one a seed."""

_TITLES = {**{name: row.title for name, row in POLICIES.items()}, ADAPTIVE[0]: "PWR + FGD by load"}
_POWER = frozenset({ADAPTIVE[0], *(name for name, row in POLICIES.items() if row.saves_power)})
_BESIDE_POWER = frozenset(name for name, row in POLICIES.items() if row.beside_power)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyCurve:
    """A policy's means at every percent of arrived GPU capacity that all its runs have; units as `OnlineMetrics`.

    `allocation_std` over the runs (0 for a single one).
    """

    label: str
    runs: int
    means: tuple[MeanMetrics, ...]
    percents: npt.NDArray[np.int64]
    allocation_std: Reals

    def values(self, name: str) -> Reals:
        """One field of the means, a figure a percent."""
        return np.array([getattr(row, name) for row in self.means], dtype=np.float64)

    @property
    def title(self) -> str:
        """Its name for people."""
        return policy_title(self.label)

    def place(self, percent: int) -> int | None:
        """Where a percentage is in the rows; None where it is not."""
        at = int(self.percents.searchsorted(percent))
        return at if at < len(self.percents) and self.percents[at] == percent else None

    def at(self, percent: int) -> MeanMetrics | None:
        """Means at a percentage; None where there are none."""
        place = self.place(percent)
        return None if place is None else self.means[place]


def policy_title(label: str) -> str:
    """`pwr:0.1+fgd:0.9` as `0.1 PWR + 0.9 FGD`; other words stay as they are."""
    terms = [part.partition(":") for part in label.split("+")]
    if not all(name in _TITLES for name, _, _ in terms):
        return label
    return " + ".join(f"{weight} {_TITLES[name]}".strip() for name, _, weight in terms)


def combines_power(label: str) -> bool:
    """Whether a policy is PWR, or PWR mixed with FGD."""
    names = {part.partition(":")[0] for part in label.split("+")}
    return bool(names & _POWER) and names <= _POWER | _BESIDE_POWER


def policy_curves(runs: PolicyRuns, baseline: str) -> dict[str, PolicyCurve]:
    """A curve a policy, in the order of `runs`. InputError: none, a policy without runs, a baseline not among them."""
    if baseline not in runs:
        names = ", ".join(runs) or "none"
        raise InputError(
            f"baseline: must be one of the policies that ran ({names}), got {baseline!r}.", hint="Let it run, too."
        )
    return {label: _curve(label, seed_runs) for label, seed_runs in runs.items()}


def _curve(label: str, runs: Sequence[OnlineRun]) -> PolicyCurve:
    means = mean_metrics(runs)
    if not means:
        raise InputError(
            f"policy {label}: its {len(runs)} runs must have figures at the same percentages; they share none.",
            hint="Run the policy over arrivals of one trace.",
        )
    percents = [row.arrived_percent for row in means]
    rows = [{line.arrived_percent: line.allocation_percent for line in run.metrics} for run in runs]
    allocations = np.array([[row[percent] for row in rows] for percent in percents])
    return PolicyCurve(
        label=label,
        runs=len(runs),
        means=means,
        percents=np.array(percents, dtype=np.int64),
        allocation_std=allocations.std(axis=1, ddof=1) if len(runs) > 1 else np.zeros(len(percents)),
    )


def saving_at(curve: PolicyCurve, baseline: PolicyCurve, percent: int) -> float | None:
    """The percent of power saved at one percentage; None where one of the two has no figure there."""
    return savings(baseline.means, curve.means).get(percent)


def with_spread(mean: float, spread: float, runs: int) -> str:
    """`94.82 ± 0.31`, two decimals; the mean alone for a single run."""
    return f"{mean:.2f} ± {spread:.2f}" if runs > 1 else f"{mean:.2f}"


def kilowatts(watts: float) -> str:
    """Watts as kW, four digits."""
    return significant(watts / 1000, 4)
