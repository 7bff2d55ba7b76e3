"""Figures 5, 6 and 8: GPUs asked for over time, by GPU type, and by job.

Figure 5 counts guaranteed pods that are ready and not on standby; utilisation is that of a GPU: SM percent over
100 times the GPUs asked for, mean over pods. Figure 8 takes each workload in the hour in which it asked for most GPUs.
"""

from collections import defaultdict
from math import isnan
from typing import ClassVar

from planner.studies.asi.figures.shares import HP, LP, used_hours
from planner.studies.asi.records import (
    JOB_TYPES,
    Drawn,
    Hour,
    Needs,
    Point,
    Samples,
    Table,
    Tally,
    TraceFigure,
    TraceRow,
)

STANDBY = "Standby"
HOURS_A_DAY = 24
QUANTILES = (("P5", 0.05), ("P25", 0.25), ("P50", 0.5), ("P75", 0.75), ("P95", 0.95))


def is_true(text: str) -> bool:
    """A truth value as the tables write it."""
    return text.lower() in ("true", "1", "1.0")


class Demand(Tally):
    """Figure 5: GPUs asked for by job type over the hours, and SM utilisation."""

    number: ClassVar[str] = "5"
    title: ClassVar[str] = "GPUs asked for and SM utilisation"
    needs: ClassVar[Needs] = {
        Table.PODS: ("job_type_public", "priority_class", "state_public", "gpu_request", "ready_status")
    }

    def __init__(self) -> None:
        self.gpus: dict[tuple[str, float], float] = defaultdict(float)
        self.busy: dict[tuple[str, float], list[float]] = defaultdict(lambda: [0.0, 0.0])

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A guaranteed pod at work."""
        job_type, requested = row.text("job_type_public"), row.number("gpu_request")
        works = is_true(row.text("ready_status")) and row.text("state_public") != STANDBY
        if job_type not in JOB_TYPES or not requested > 0 or not works or row.text("priority_class") != HP:
            return
        key = job_type, float(HOURS_A_DAY * at.day + at.hour)
        self.gpus[key] += requested
        busy = row.number("avg_gpu_sm_util")
        if not isnan(busy):
            self.busy[key][0] += busy / requested
            self.busy[key][1] += 1

    def figure(self) -> TraceFigure:
        """GPUs, and percent of a GPU's SMs, by hour since day 0."""
        points: list[Point] = [("GPUs asked for", kind, hour, gpus) for (kind, hour), gpus in sorted(self.gpus.items())]
        points += [("SM utilisation (%)", kind, hour, a / n) for (kind, hour), (a, n) in sorted(self.busy.items())]
        return self.drawn(
            name="demand",
            kind=Drawn.LINES,
            x="hours since day 0",
            y="",
            points=tuple(points),
        )


class Adoption(Tally):
    """Figure 6: GPUs in use by GPU type and priority, mean over each day."""

    number: ClassVar[str] = "6"
    title: ClassVar[str] = "GPUs by type over the days"
    needs: ClassVar[Needs] = {Table.PODS: ("gpu_spec_public", "priority_class", "gpu_request", "used_gpu_hours")}

    def __init__(self) -> None:
        self.hours: dict[tuple[str, str, int], float] = defaultdict(float)
        self.seen: dict[int, set[int]] = defaultdict(set)

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A pod's GPU-hours."""
        priority = row.text("priority_class")
        if priority in (HP, LP):
            self.hours[row.text("gpu_spec_public") or "unknown", priority, at.day] += used_hours(row)
        self.seen[at.day].add(at.hour)

    def figure(self) -> TraceFigure:
        """GPU-hours of a day over the hours of it that the trace has."""
        points = tuple(
            (spec, priority, float(day), hours / len(self.seen[day]))
            for (spec, priority, day), hours in sorted(self.hours.items())
        )
        return self.drawn(
            name="adoption",
            kind=Drawn.LINES,
            x="day",
            y="GPUs",
            points=points,
        )


def box(panel: str, series: str, samples: Samples) -> list[Point]:
    """A box's points: quantiles, mean and count."""
    if not samples.size:
        return []
    points: list[Point] = [(panel, series, name, samples.quantile(share)) for name, share in QUANTILES]
    return [*points, (panel, series, "mean", samples.mean), (panel, series, "count", float(samples.size))]


class JobSizes(Tally):
    """Figure 8: GPUs and CPUs of a workload in its largest hour, all and GenAI alone."""

    number: ClassVar[str] = "8"
    title: ClassVar[str] = "GPUs and CPUs that a job asks for"
    needs: ClassVar[Needs] = {Table.PODS: ("workload_id", "gpu_request", "cpu_request_cores")}

    def __init__(self) -> None:
        self.hour: dict[str, list[float]] = {}
        self.largest: dict[str, tuple[float, float, bool]] = {}

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A pod of a workload."""
        workload, requested = row.text("workload_id"), row.number("gpu_request")
        if workload and requested > 0:
            sums = self.hour.setdefault(workload, [0.0, 0.0, 0.0])
            cpus = row.number("cpu_request_cores")
            sums[0] += requested
            sums[1] += cpus if cpus > 0 else 0.0
            sums[2] = max(sums[2], float(is_true(row.text("is_genai_request"))))

    def end_hour(self, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """Whoever asked for more than ever before is kept."""
        for workload, (gpus, cpus, genai) in self.hour.items():
            if workload not in self.largest or gpus > self.largest[workload][0]:
                self.largest[workload] = gpus, cpus, genai > 0
        self.hour = {}

    def figure(self) -> TraceFigure:
        """Quantiles over workloads."""
        points: list[Point] = []
        for series, only in (("all", False), ("GenAI", True)):
            chosen = [sizes for sizes in self.largest.values() if sizes[2] or not only]
            for panel, place in (("GPUs a job", 0), ("CPUs a job", 1)):
                samples = Samples()
                for sizes in chosen:
                    samples.add(float(sizes[place]))
                points += box(panel, series, samples)
        return self.drawn(
            name="job_sizes",
            kind=Drawn.BOXES,
            y="",
            points=tuple(points),
        )
