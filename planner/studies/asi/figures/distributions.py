"""Figures 7, 10, 11 and 12: run times, parts of GPUs, CPUs a GPU, utilisation, traffic.

Figure 10's shares of fractional requests are of guaranteed pods in even hours, mean over hours; its ratio is
ceil(CPUs / ceil(GPUs)). Figure 12 groups servers of eight GPUs by the job types that they host and takes the six
mixes that occur most; traffic up to 0.001 GiB/s is none.
"""

from collections import Counter, defaultdict
from math import ceil
from typing import ClassVar

from planner.studies.asi.figures.demand import is_true
from planner.studies.asi.figures.shares import HP
from planner.studies.asi.records import (
    JOB_TYPES,
    MODEL_TYPES,
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

LEAST_TRAFFIC = 0.001
MOST_MIXES = 6
SERVER_GPUS = 8
Grouped = dict[tuple[str, str], Samples]


def cdfs(grouped: Grouped) -> tuple[Point, ...]:
    """A curve a group; (panel, series) -> samples."""
    return tuple(
        (panel, series, value, share)
        for (panel, series), samples in sorted(grouped.items())
        for value, share in samples.curve()
    )


class Curves(Tally):
    """A figure of curves: what `add` groups by panel and series, each with the share that is no larger."""

    number: ClassVar[str]
    title: ClassVar[str]
    name: ClassVar[str]
    x: ClassVar[str]
    y: ClassVar[str]

    def __init__(self) -> None:
        self.grouped: Grouped = defaultdict(Samples)

    def figure(self) -> TraceFigure:
        """A curve a group."""
        return self.drawn(
            name=self.name,
            kind=Drawn.CDF,
            x=self.x,
            y=self.y,
            points=cdfs(self.grouped),
        )


class RunTimes(Curves):
    """Figure 7: hours that runs take, by job type and by model type."""

    number: ClassVar[str] = "7"
    title: ClassVar[str] = "Run times"
    name: ClassVar[str] = "run_times"
    x: ClassVar[str] = "hours"
    y: ClassVar[str] = "share of runs"
    needs: ClassVar[Needs] = {Table.RUNS: ("gpu_request", "duration_hours")}

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A run."""
        hours = row.number("duration_hours")
        if not (row.number("gpu_request") > 0 and hours >= 0):
            return
        self.grouped["all", "all"].add(hours)
        if row.text("job_type_public") in JOB_TYPES:
            self.grouped["by job type", row.text("job_type_public")].add(hours)
        if row.text("model_type_public") in MODEL_TYPES:
            self.grouped["by model type", row.text("model_type_public")].add(hours)


class Fractions(Tally):
    """Figure 10, left: guaranteed pods that ask for a part of a GPU, and their share of the GPUs."""

    number: ClassVar[str] = "10"
    title: ClassVar[str] = "Requests of parts of GPUs"
    needs: ClassVar[Needs] = {Table.PODS: ("gpu_request", "priority_class")}

    def __init__(self) -> None:
        self.hour = [0.0] * 4
        self.shares: dict[str, list[float]] = {"of pods": [], "of GPUs": []}

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A guaranteed pod in an even hour."""
        gpus = row.number("gpu_request")
        if at.even and gpus > 0 and row.text("priority_class") == HP:
            part = gpus < 1
            self.hour = [a + b for a, b in zip(self.hour, (1, part, gpus, gpus * part), strict=True)]

    def end_hour(self, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """The hour's two shares."""
        pods, part_pods, gpus, part_gpus = self.hour
        if pods:
            self.shares["of pods"].append(100 * part_pods / pods)
            self.shares["of GPUs"].append(100 * part_gpus / gpus)
        self.hour = [0.0] * 4

    def figure(self) -> TraceFigure:
        """Percent, mean over hours."""
        points = tuple(
            ("parts of GPUs", "share", name, sum(values) / len(values))
            for name, values in self.shares.items()
            if values
        )
        return self.drawn(
            name="fractions",
            kind=Drawn.BARS,
            y="fractional requests (%)",
            points=points,
        )


class CpuRatio(Curves):
    """Figure 10, right: CPUs a GPU that pods ask for."""

    number: ClassVar[str] = "10"
    title: ClassVar[str] = "CPUs a GPU"
    name: ClassVar[str] = "cpu_ratio"
    x: ClassVar[str] = "CPUs a GPU"
    y: ClassVar[str] = "share of pods"
    needs: ClassVar[Needs] = {Table.PODS: ("gpu_request", "cpu_request_cores", "job_type_public")}

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A pod in an even hour."""
        gpus, cpus = row.number("gpu_request"), row.number("cpu_request_cores")
        if at.even and gpus > 0 and cpus >= 0 and row.text("job_type_public") in JOB_TYPES:
            self.grouped["CPUs a GPU", row.text("job_type_public")].add(float(ceil(cpus / ceil(gpus))))


class Utilisation(Curves):
    """Figure 11: what ready pods use of what they asked for."""

    number: ClassVar[str] = "11"
    title: ClassVar[str] = "Utilisation by job type"
    name: ClassVar[str] = "utilisation"
    x: ClassVar[str] = "used"
    y: ClassVar[str] = "share of pod-hours"
    needs: ClassVar[Needs] = {Table.PODS: ("gpu_request", "job_type_public", "ready_status", "avg_gpu_sm_util")}

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A ready pod."""
        gpus, job_type = row.number("gpu_request"), row.text("job_type_public")
        if not gpus > 0 or job_type not in JOB_TYPES or not is_true(row.text("ready_status")):
            return
        self.grouped["CPUs (of the request)", job_type].add(row.number("avg_cpu_request_util"))
        self.grouped["memory", job_type].add(row.number("avg_memory_util"))
        self.grouped["GPU SMs", job_type].add(row.number("avg_gpu_sm_util") / (100 * gpus))
        self.grouped["GPU memory (GiB)", job_type].add(row.number("avg_gpu_mem_gib"))


class Traffic(Tally):
    """Figure 12: what servers of eight GPUs receive and send, by the mix of jobs that they host."""

    number: ClassVar[str] = "12"
    title: ClassVar[str] = "Network traffic by mix of jobs"
    needs: ClassVar[Needs] = {
        Table.PODS: ("server_id", "job_type_public", "gpu_request"),
        Table.SERVERS: ("server_id", "gpu_count"),
        Table.NETWORK: ("server_id", "rx_gibps_avg", "tx_gibps_avg"),
    }

    def __init__(self) -> None:
        self.types: dict[str, set[str]] = defaultdict(set)
        self.large: set[str] = set()
        self.traffic: dict[str, tuple[float, float]] = {}
        self.grouped: Grouped = defaultdict(Samples)
        self.servers: Counter[str] = Counter()

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """A pod, a server, or its traffic."""
        server = row.text("server_id")
        if table is Table.PODS and row.number("gpu_request") > 0 and row.text("job_type_public") in JOB_TYPES:
            self.types[server].add(row.text("job_type_public"))
        elif table is Table.SERVERS and row.number("gpu_count") == SERVER_GPUS:
            self.large.add(server)
        elif table is Table.NETWORK:
            self.traffic[server] = row.number("rx_gibps_avg"), row.number("tx_gibps_avg")

    def end_hour(self, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """Servers of which all three are known."""
        for server in sorted(self.large & set(self.types) & set(self.traffic)):
            mix = " + ".join(sorted(self.types[server]))
            self.servers[mix] += 1
            for panel, gib_s in zip(("received", "sent"), self.traffic[server], strict=True):
                if gib_s > LEAST_TRAFFIC:
                    self.grouped[panel, mix].add(gib_s)
        self.types, self.large, self.traffic = defaultdict(set), set(), {}

    def figure(self) -> TraceFigure:
        """Shares of server-hours of the mixes that occur most."""
        frequent = {mix for mix, _ in self.servers.most_common(MOST_MIXES)}
        return self.drawn(
            name="traffic",
            kind=Drawn.CDF,
            x="GiB/s",
            y="share of server-hours",
            points=cdfs({key: samples for key, samples in self.grouped.items() if key[1] in frequent}),
        )
