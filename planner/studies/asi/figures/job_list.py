"""The figures that a plain list of jobs allows (the spot trace's job_info): no job types, no models, no utilisation.

A job holds its workers' GPUs from its submission for its duration: what it asked for, not what it was given. Time is in
hours since the first submission.
"""

from collections import defaultdict
from math import floor
from typing import ClassVar

from planner.studies.asi.figures.demand import HOURS_A_DAY, box
from planner.studies.asi.figures.distributions import Curves, Grouped
from planner.studies.asi.figures.shares import amount, shares
from planner.studies.asi.records import Drawn, Hour, Needs, Point, Samples, Table, Tally, TraceFigure, TraceRow

S_PER_H = 3600.0
COLUMNS = ("gpu_model", "cpu_request", "gpu_request", "worker_num", "submit_time", "duration", "job_type")


def priority_of(row: TraceRow) -> str:
    """HP, or LP for what the list calls Spot."""
    return "HP" if row.text("job_type").upper() == "HP" else "LP"


def asked_gpus(row: TraceRow) -> float:
    """GPUs of all workers."""
    return row.number("gpu_request") * row.number("worker_num")


class ListedDemand(Tally):
    """Figures 5 and 6: GPUs that jobs hold by hour, by priority and by GPU type."""

    number: ClassVar[str] = "5"
    title: ClassVar[str] = "GPUs that jobs ask for over time"
    needs: ClassVar[Needs] = {Table.JOBS: COLUMNS}

    def __init__(self) -> None:
        self.changes: dict[tuple[str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A job: GPU-hours of each hour that it touches, as changes from hour to hour."""
        gpus, start, lasts = asked_gpus(row), row.number("submit_time") / S_PER_H, row.number("duration") / S_PER_H
        if gpus > 0 and start >= 0 and lasts > 0:
            for key in (("by priority", priority_of(row)), ("by GPU type", row.text("gpu_model") or "unknown")):
                self._ramp(key, gpus, start)
                self._ramp(key, -gpus, start + lasts)

    def _ramp(self, key: tuple[str, str], gpus: float, at_h: float) -> None:
        """From `at_h` on: the rest of its hour in part, later ones whole."""
        hour, part = floor(at_h), 1 - (at_h - floor(at_h))
        self.changes[key][hour] += gpus * part
        self.changes[key][hour + 1] += gpus * (1 - part)

    def figure(self) -> TraceFigure:
        """Means of hours, or of days where there are more than a month's hours."""
        last = max((hour for changes in self.changes.values() for hour in changes), default=0)
        step = 1 if last <= 31 * HOURS_A_DAY else HOURS_A_DAY
        points: list[Point] = []
        for (panel, series), changes in sorted(self.changes.items()):
            level, sums = 0.0, defaultdict[int, float](float)
            for hour in range(last):
                level += changes.get(hour, 0.0)
                sums[hour // step] += level / step
            points += [(panel, series, float(at * step), mean) for at, mean in sums.items()]
        return self.drawn(
            name="demand",
            kind=Drawn.LINES,
            x="hours since the first job",
            y="GPUs",
            points=tuple(points),
        )


class ListedPriorities(Tally):
    """Figure 4, right: priorities within each GPU type, in GPU-hours asked for."""

    number: ClassVar[str] = "4"
    title: ClassVar[str] = "Priorities by GPU type"
    needs: ClassVar[Needs] = {Table.JOBS: COLUMNS}

    def __init__(self) -> None:
        self.hours: dict[tuple[str, str], float] = defaultdict(float)

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A job."""
        hours = asked_gpus(row) * row.number("duration") / S_PER_H
        if hours > 0:
            self.hours[row.text("gpu_model") or "unknown", priority_of(row)] += hours

    def figure(self) -> TraceFigure:
        """Percent."""
        return self.drawn(
            name="gpu_priorities",
            kind=Drawn.STACKED,
            y="GPU-hours asked for (%)",
            points=tuple(shares(self.hours, "GPU-hours")),
        )


class ListedNodes(Tally):
    """Figure 4, left: GPUs by type, of the list of nodes."""

    number: ClassVar[str] = "4"
    title: ClassVar[str] = "GPUs by type"
    needs: ClassVar[Needs] = {Table.NODES: ("gpu_model", "gpu_capacity_num", "cpu_num", "node_name")}

    def __init__(self) -> None:
        self.gpus: dict[str, float] = defaultdict(float)

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A node."""
        self.gpus[row.text("gpu_model")] += amount(row, "gpu_capacity_num")

    def figure(self) -> TraceFigure:
        """GPUs."""
        return self.drawn(
            name="gpu_types",
            kind=Drawn.BARS,
            y="GPUs",
            points=tuple(("inventory", "GPUs", spec, count) for spec, count in sorted(self.gpus.items())),
        )


class ListedRunTimes(Curves):
    """Figure 7: hours that jobs take, by priority (the list knows no job types)."""

    number: ClassVar[str] = "7"
    title: ClassVar[str] = "Run times by priority"
    name: ClassVar[str] = "run_times"
    x: ClassVar[str] = "hours"
    y: ClassVar[str] = "share of jobs"
    needs: ClassVar[Needs] = {Table.JOBS: COLUMNS}

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A job."""
        if row.number("duration") >= 0:
            self.grouped["run times", "all"].add(row.number("duration") / S_PER_H)
            self.grouped["run times", priority_of(row)].add(row.number("duration") / S_PER_H)


class ListedSizes(Tally):
    """Figure 8: GPUs and CPUs of a job, all its workers."""

    number: ClassVar[str] = "8"
    title: ClassVar[str] = "GPUs and CPUs that a job asks for"
    needs: ClassVar[Needs] = {Table.JOBS: COLUMNS}

    def __init__(self) -> None:
        self.grouped: Grouped = defaultdict(Samples)

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A job."""
        for series in ("all", priority_of(row)):
            self.grouped["GPUs a job", series].add(asked_gpus(row))
            self.grouped["CPUs a job", series].add(row.number("cpu_request") * row.number("worker_num"))

    def figure(self) -> TraceFigure:
        """Quantiles over jobs."""
        points = [point for (panel, series), samples in self.grouped.items() for point in box(panel, series, samples)]
        return TraceFigure(
            number=self.number, name="job_sizes", title=self.title, drawn=Drawn.BOXES, x="", y="", points=tuple(points)
        )


class ListedFractions(Tally):
    """Figure 10, left: workers that ask for a part of a GPU, among jobs and among GPUs."""

    number: ClassVar[str] = "10"
    title: ClassVar[str] = "Requests of parts of GPUs"
    needs: ClassVar[Needs] = {Table.JOBS: COLUMNS}

    def __init__(self) -> None:
        self.sums = [0.0] * 4

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A guaranteed job."""
        gpus = asked_gpus(row)
        if gpus > 0 and priority_of(row) == "HP":
            part = row.number("gpu_request") < 1
            self.sums = [a + b for a, b in zip(self.sums, (1, part, gpus, gpus * part), strict=True)]

    def figure(self) -> TraceFigure:
        """Percent of guaranteed jobs, and of the GPUs that they ask for."""
        jobs, part_jobs, gpus, part_gpus = self.sums
        points: tuple[Point, ...] = ()
        if jobs:
            points = (
                ("parts of GPUs", "share", "of jobs", 100 * part_jobs / jobs),
                ("parts of GPUs", "share", "of GPUs", 100 * part_gpus / gpus),
            )
        return self.drawn(
            name="fractions",
            kind=Drawn.BARS,
            y="fractional requests (%)",
            points=points,
        )


class ListedCpuRatio(Curves):
    """Figure 10, right: CPUs a GPU, by priority."""

    number: ClassVar[str] = "10"
    title: ClassVar[str] = "CPUs a GPU"
    name: ClassVar[str] = "cpu_ratio"
    x: ClassVar[str] = "CPUs a GPU"
    y: ClassVar[str] = "share of jobs"
    needs: ClassVar[Needs] = {Table.JOBS: COLUMNS}

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A job."""
        if row.number("gpu_request") > 0:
            ratio = row.number("cpu_request") / row.number("gpu_request")
            self.grouped["CPUs a GPU", priority_of(row)].add(ratio)
