"""A policy's figures over several seeds, and what it saves against another one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose

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
