"""Figures 9, 13, 14 and 16: GPUs given out, idle GPUs that cannot be, jobs within and across switches, standby.

| symbol | meaning | unit |
|---|---|---|
| A, B, L | GPU-hours in an hour of guaranteed pods at work, on standby, and of spot pods | GPU-h |
| S | GPUs of the server | GPUs |
| HP | (A + max(B - L, 0)) / S | - |
| HP+LP | (min(A + L, S) + max(B - L, 0)) / S | - |

Means over the servers of a type, then over its hours (even ones and 23, as the scripts have it); not weighted by GPUs.
Source: cluster-trace-gpu-v2026, build_aggregates.py.

| symbol | meaning | unit |
|---|---|---|
| A, B, L | GPU-hours in an hour of guaranteed pods at work, on standby, and of spot pods | GPU-h |
| S, C | GPUs and CPUs of a server; c its CPUs that guaranteed pods ask for | |
| i, u | idle: max(S - A - max(B - L, 0), 0) GPUs, max(C - c, 0) CPUs | GPUs, CPUs |
| s | slots of a server: min(S - floor(GPUs of guaranteed pods), floor((C - c) / 12)) | GPUs |
| harvest | mean over servers with B > 0 of L / B, at most 1 an hour | - |

Figure 13 in even hours, servers of 16 GPUs passed over; its counts are those of the diagnosis (fractional, stranded,
too few CPUs). Figure 14 at hour 10, servers with guaranteed pods and a known switch; jobs across: by cluster. All as
in the scripts that came with ASI's trace.
"""

from collections import defaultdict
from math import floor
from typing import ClassVar

from planner.domain.diagnosis import CPUS_OF_A_JOB_GPU, PUBLISHED_JOBS, PUBLISHED_REQUESTS, GpuRequest
from planner.studies.asi.figures.demand import HOURS_A_DAY, STANDBY
from planner.studies.asi.figures.shares import HP, LP, amount, used_hours
from planner.studies.asi.records import Drawn, Hour, Needs, Table, Tally, TraceFigure, TraceRow

LAST_HOUR = 23
ALL = "all"


class Allocation(Tally):
    """Figure 9."""

    number: ClassVar[str] = "9"
    title: ClassVar[str] = "GPUs given out by GPU type"
    needs: ClassVar[Needs] = {
        Table.PODS: ("server_id", "priority_class", "state_public", "gpu_request", "used_gpu_hours"),
        Table.SERVERS: ("server_id", "gpu_spec_public", "gpu_count"),
    }

    def __init__(self) -> None:
        self.pods: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        self.servers: dict[str, tuple[str, float]] = {}
        self.hourly: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:
        """A pod or a server in an hour that counts."""
        if not (at.even or at.hour == LAST_HOUR):
            return
        server = row.text("server_id")
        if table is Table.SERVERS and row.number("gpu_count") > 0:
            self.servers[server] = row.text("gpu_spec_public") or "unknown", row.number("gpu_count")
        elif table is Table.PODS and row.text("priority_class") in (HP, LP):
            lent = row.text("state_public") == STANDBY
            place = 2 if row.text("priority_class") == LP else int(lent)
            self.pods[server][place] += used_hours(row)

    def end_hour(self, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """The mean over the servers of each type."""
        by_type: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for server, (spec, gpus) in self.servers.items():
            ratios = allocation_ratios(gpus, *self.pods.get(server, (0.0, 0.0, 0.0)))
            by_type[spec].append(ratios)
            by_type[ALL].append(ratios)
        for spec, listed in by_type.items():
            hp, both = (sum(values) / len(listed) for values in zip(*listed, strict=True))
            self.hourly[spec].append((hp, both))
        self.pods, self.servers = defaultdict(lambda: [0.0, 0.0, 0.0]), {}

    def figure(self) -> TraceFigure:
        """Percent."""
        points = [
            ("allocation", name, spec, 100 * sum(pair[place] for pair in hours) / len(hours))
            for spec, hours in sorted(self.hourly.items())
            for place, name in enumerate(("HP", "HP+LP"))
        ]
        return self.drawn(
            name="allocation",
            kind=Drawn.BARS,
            y="GPUs given out (%)",
            points=tuple(points),
        )


def allocation_ratios(gpus: float, active: float, standby: float, spot: float) -> tuple[float, float]:
    """HP and HP+LP of one server in one hour."""
    unused = max(standby - spot, 0.0)
    return (active + unused) / gpus, (min(active + spot, gpus) + unused) / gpus


PASSED_OVER = 16
SLOTS_HOUR = 10
MIXED = "heterogeneous"
_PODS = ("server_id", "priority_class", "state_public", "gpu_request", "used_gpu_hours", "cpu_request_cores")


class _Server:
    """What pods hold of a server in an hour."""

    __slots__ = ("active", "cpus", "gpus", "pods", "spot", "standby")

    def __init__(self) -> None:
        self.active = self.standby = self.spot = self.cpus = self.gpus = 0.0
        self.pods = 0

    def add(self, row: TraceRow) -> None:
        """A pod."""
        priority = row.text("priority_class")
        if priority == LP:
            self.spot += used_hours(row)
        if priority != HP:
            return
        self.pods += 1
        self.cpus += amount(row, "cpu_request_cores")
        if row.number("gpu_request") > 0:
            self.gpus += row.number("gpu_request")
            if row.text("state_public") == STANDBY:
                self.standby += used_hours(row)
            else:
                self.active += used_hours(row)


def unallocatable(idle: float, cpus: float, request: GpuRequest) -> tuple[float, float, float]:
    """Fractional, stranded and CPU-bound GPUs of a server with so many idle GPUs and CPUs."""
    whole_gpus = floor(idle)
    if cpus < request.cpus:
        return 0.0, 0.0, min(float(request.gpus), idle)
    return (idle - whole_gpus, 0.0, 0.0) if whole_gpus >= request.gpus else (0.0, float(whole_gpus), 0.0)


class IdleGpus(Tally):
    """Figure 13."""

    number: ClassVar[str] = "13"
    title: ClassVar[str] = "Idle GPUs that cannot be given out"
    needs: ClassVar[Needs] = {Table.PODS: _PODS, Table.SERVERS: ("server_id", "gpu_count", "cpu_capacity_cores")}
    causes: ClassVar[tuple[str, ...]] = ("fractional", "stranded", "too few CPUs")

    def __init__(self) -> None:
        self.pods: dict[str, _Server] = defaultdict(_Server)
        self.servers: dict[str, tuple[float, float]] = {}
        self.sums: dict[tuple[str, str], float] = defaultdict(float)
        self.hours = 0

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:
        """A pod or a server in an even hour."""
        if not at.even:
            return
        if table is Table.PODS:
            self.pods[row.text("server_id")].add(row)
        elif row.number("gpu_count") > 0 and row.number("gpu_count") != PASSED_OVER:
            self.servers[row.text("server_id")] = row.number("gpu_count"), amount(row, "cpu_capacity_cores")

    def end_hour(self, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """Each server's counts."""
        self.hours += bool(self.servers)
        for name, (gpus, cpus) in self.servers.items():
            pods = self.pods.get(name, _Server())
            idle = max(gpus - pods.active - max(pods.standby - pods.spot, 0.0), 0.0)
            for request in PUBLISHED_REQUESTS:
                counts = unallocatable(idle, max(cpus - pods.cpus, 0.0), request)
                for cause, count in zip(self.causes, counts, strict=True):
                    self.sums[cause, request.name] += count
        self.pods, self.servers = defaultdict(_Server), {}

    def figure(self) -> TraceFigure:
        """GPUs, mean over hours."""
        return self.drawn(
            name="idle",
            kind=Drawn.BARS,
            y="idle GPUs",
            points=tuple(("idle GPUs", cause, name, gpus / self.hours) for (cause, name), gpus in self.sums.items()),
        )


class JobSlots(Tally):
    """Figure 14."""

    number: ClassVar[str] = "14"
    title: ClassVar[str] = "Jobs within and across access switches"
    needs: ClassVar[Needs] = {
        Table.PODS: ("server_id", "priority_class", "gpu_request", "cpu_request_cores"),
        Table.SERVERS: ("server_id", "cluster_id", "asw_id", "gpu_spec_public", "gpu_count", "cpu_capacity_cores"),
    }

    def __init__(self) -> None:
        self.pods: dict[str, _Server] = defaultdict(_Server)
        self.servers: dict[str, tuple[str, str, str, float, float]] = {}
        self.fits: dict[tuple[str, str, str], float] = defaultdict(float)
        self.hours = 0

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:
        """A pod or a server at the hour that counts."""
        if at.hour != SLOTS_HOUR:
            return
        server = row.text("server_id")
        if table is Table.PODS:
            self.pods[server].add(row)
        elif row.text("asw_id"):
            spec = row.text("gpu_spec_public") or "unknown"
            places = row.text("cluster_id"), row.text("asw_id"), spec
            self.servers[server] = (*places, amount(row, "gpu_count"), amount(row, "cpu_capacity_cores"))

    def end_hour(self, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """Slots by cluster and by switch, of each type and of all."""
        slots: dict[tuple[str, str, str], float] = defaultdict(float)
        for name, (cluster, switch, spec, gpus, cpus) in self.servers.items():
            pods = self.pods.get(name)
            if pods is None or not pods.pods:
                continue
            room = (cpus - pods.cpus) / CPUS_OF_A_JOB_GPU
            free = min(max(gpus - floor(pods.gpus), 0.0), max(floor(room), 0))
            for kind in (spec, MIXED):
                slots["across switches", cluster, kind] += free
                slots["within one switch", switch, kind] += free
        self.hours += bool(slots)
        for (scope, _, kind), free in slots.items():
            for job in PUBLISHED_JOBS:
                self.fits[f"jobs of {job} GPUs", scope, kind] += free // job
        self.pods, self.servers = defaultdict(_Server), {}

    def figure(self) -> TraceFigure:
        """Jobs, mean over days."""
        points = tuple(
            (panel, scope, kind, jobs / self.hours) for (panel, scope, kind), jobs in sorted(self.fits.items())
        )
        return self.drawn(
            name="job_slots",
            kind=Drawn.BARS,
            y="jobs that fit",
            points=points,
        )


class StandbyHours(Tally):
    """Figure 16."""

    number: ClassVar[str] = "16"
    title: ClassVar[str] = "Standby GPU-hours, and the share that spot pods use"
    needs: ClassVar[Needs] = {Table.PODS: _PODS[:-1]}

    def __init__(self) -> None:
        self.pods: dict[str, _Server] = defaultdict(_Server)
        self.points: list[tuple[str, str, str | float, float]] = []

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A pod."""
        self.pods[row.text("server_id")].add(row)

    def end_hour(self, at: Hour) -> None:
        """Lent GPU-hours, what is used of them, and the published ratio."""
        hour = float(HOURS_A_DAY * at.day + at.hour)
        lending = [server for server in self.pods.values() if server.standby > 0]
        lent = sum(server.standby for server in lending)
        self.points.append(("standby GPU-hours", "lent out", hour, lent))
        if lending:
            used = sum(min(server.spot, server.standby) for server in lending)
            published = min(1.0, sum(server.spot / server.standby for server in lending) / len(lending))
            self.points.append(("share used (%)", "as the paper counts", hour, 100 * published))
            self.points.append(("share used (%)", "of lent GPU-hours", hour, 100 * used / lent))
        self.pods = defaultdict(_Server)

    def figure(self) -> TraceFigure:
        """Hour by hour; nothing where nothing is ever lent."""
        return self.drawn(
            name="standby",
            kind=Drawn.LINES,
            x="hours since day 0",
            y="",
            points=tuple(self.points) if any(point[3] for point in self.points) else (),
        )
