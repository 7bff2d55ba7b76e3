"""Figures 2, 3 and 4: who uses the GPUs, by job type, model type, GPU type and priority.

Shares of GPU-hours by job type leave out jobs whose type is unknown, shares by model those whose model is unknown. The
released scripts count the priorities of figure 4 in pod-hours (rows), the caption says GPU-hours: both are given. They
take pods that ask for GPU memory as those with GPUs (figures 2 and 6); here these are pods that ask for GPUs.
"""

from collections import defaultdict
from collections.abc import Mapping
from math import isfinite
from typing import ClassVar

from planner.studies.asi.records import (
    JOB_TYPES,
    UNKNOWN,
    Drawn,
    Hour,
    Needs,
    Point,
    Table,
    Tally,
    TraceFigure,
    TraceRow,
)

HP, LP = "HP", "LP"


def amount(row: TraceRow, column: str) -> float:
    """A number above 0, else 0: also where the cell is empty."""
    number = row.number(column)
    return number if number > 0 else 0.0


def used_hours(row: TraceRow) -> float:
    """GPU-hours that a pod used in an hour; 0 where it says nothing or asked for no GPU."""
    hours = row.number("used_gpu_hours")
    gpus = row.number("gpu_request")
    return hours if isfinite(hours) and not gpus <= 0 else 0.0


def shares(by: Mapping[tuple[str, str], float], panel: str) -> list[Point]:
    """Points in percent of each x; `by`: (x, series) -> amount."""
    totals: dict[str, float] = defaultdict(float)
    for (x, _), amount in by.items():
        totals[x] += amount
    return [(panel, series, x, 100 * amount / totals[x]) for (x, series), amount in sorted(by.items()) if totals[x] > 0]


class JobTypes(Tally):
    """Figure 2: GPU-hours by job type, and priorities within each."""

    number: ClassVar[str] = "2"
    title: ClassVar[str] = "Job types and priorities"
    needs: ClassVar[Needs] = {Table.PODS: ("job_type_public", "priority_class", "gpu_request", "used_gpu_hours")}

    def __init__(self) -> None:
        self.hours: dict[tuple[str, str], float] = defaultdict(float)
        self.by_priority: dict[tuple[str, str], float] = defaultdict(float)

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A pod's GPU-hours."""
        job_type, priority = row.text("job_type_public"), row.text("priority_class")
        if job_type not in UNKNOWN:
            self.hours["all jobs", job_type] += used_hours(row)
            if priority in (HP, LP):
                self.by_priority[job_type, priority] += used_hours(row)

    def figure(self) -> TraceFigure:
        """Percent of GPU-hours."""
        points = shares(self.hours, "job types") + shares(self.by_priority, "priorities")
        return self.drawn(
            name="job_types",
            kind=Drawn.STACKED,
            y="GPU-hours (%)",
            points=tuple(points),
        )


class ModelTypes(Tally):
    """Figure 3: model types within each job type and each GPU type."""

    number: ClassVar[str] = "3"
    title: ClassVar[str] = "Model types by job type and by GPU type"
    needs: ClassVar[Needs] = {
        Table.PODS: ("job_type_public", "gpu_spec_public", "model_type_public", "gpu_request", "used_gpu_hours")
    }

    def __init__(self) -> None:
        self.by_job: dict[tuple[str, str], float] = defaultdict(float)
        self.by_gpu: dict[tuple[str, str], float] = defaultdict(float)

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A pod's GPU-hours."""
        model, hours = row.text("model_type_public"), used_hours(row)
        if model in UNKNOWN:
            return
        if row.text("job_type_public") in JOB_TYPES:
            self.by_job[row.text("job_type_public"), model] += hours
        self.by_gpu[row.text("gpu_spec_public") or "unknown", model] += hours

    def figure(self) -> TraceFigure:
        """Percent of GPU-hours."""
        points = shares(self.by_job, "by job type") + shares(self.by_gpu, "by GPU type")
        return self.drawn(
            name="model_types",
            kind=Drawn.STACKED,
            y="GPU-hours (%)",
            points=tuple(points),
        )


class GpuTypes(Tally):
    """Figure 4, left: GPUs by type; the last count of each server."""

    number: ClassVar[str] = "4"
    title: ClassVar[str] = "GPUs by type"
    needs: ClassVar[Needs] = {Table.SERVERS: ("server_id", "gpu_spec_public", "gpu_count")}

    def __init__(self) -> None:
        self.servers: dict[tuple[str, str], float] = {}

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A server."""
        if row.number("gpu_count") > 0:
            self.servers[row.text("server_id"), row.text("gpu_spec_public") or "unknown"] = row.number("gpu_count")

    def figure(self) -> TraceFigure:
        """GPUs."""
        gpus: dict[str, float] = defaultdict(float)
        for (_, spec), count in self.servers.items():
            gpus[spec] += count
        return self.drawn(
            name="gpu_types",
            kind=Drawn.BARS,
            y="GPUs",
            points=tuple(("inventory", "GPUs", spec, count) for spec, count in sorted(gpus.items())),
        )


class GpuPriorities(Tally):
    """Figure 4, right: priorities within each GPU type, in pod-hours as the scripts count and in GPU-hours."""

    number: ClassVar[str] = "4"
    title: ClassVar[str] = "Priorities by GPU type"
    needs: ClassVar[Needs] = {Table.PODS: ("gpu_spec_public", "priority_class", "gpu_request", "used_gpu_hours")}

    def __init__(self) -> None:
        self.pod_hours: dict[tuple[str, str], float] = defaultdict(float)
        self.gpu_hours: dict[tuple[str, str], float] = defaultdict(float)

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A pod that asked for GPUs."""
        priority = row.text("priority_class")
        if row.number("gpu_request") > 0 and priority in (HP, LP):
            self.pod_hours[row.text("gpu_spec_public") or "unknown", priority] += 1
            self.gpu_hours[row.text("gpu_spec_public") or "unknown", priority] += used_hours(row)

    def figure(self) -> TraceFigure:
        """Percent."""
        points = shares(self.pod_hours, "pod-hours") + shares(self.gpu_hours, "GPU-hours")
        return self.drawn(
            name="gpu_priorities",
            kind=Drawn.STACKED,
            y="share (%)",
            points=tuple(points),
        )
