"""What causes, scopes and changes of a diagnosis are called, and its plots: idle GPUs by request and cause, jobs."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from planner.domain import Qos
from planner.domain.diagnosis import (
    ChangeKind,
    ClusterDiagnosis,
    JobDiagnosis,
    JobScope,
    RequestDiagnosis,
    StrandingCause,
    UnlockingChange,
)
from planner.report.kit.plots import Kind, Plot, series_of
from planner.report.kit.quantities import counted, whole

ALL_TYPES = "all types"
MIXED = "heterogeneous"

CAUSES = MappingProxyType(
    {
        StrandingCause.BARRED: "node with a fault",
        StrandingCause.FRACTIONAL: "fractional",
        StrandingCause.STRANDED: "stranded",
        StrandingCause.CPU: "too few CPUs",
        StrandingCause.MEMORY: "too little memory",
        StrandingCause.UNKNOWN: "which GPUs is unknown",
        StrandingCause.NUMA: "NUMA alignment",
        StrandingCause.REMAINDER: "too few for a further job",
        StrandingCause.TOPOLOGY: "network topology",
        StrandingCause.NVLINK_DOMAIN: "NVLink domain",
    }
)

REQUEST_CAUSES = (
    StrandingCause.FRACTIONAL,
    StrandingCause.STRANDED,
    StrandingCause.CPU,
    StrandingCause.MEMORY,
    StrandingCause.UNKNOWN,
    StrandingCause.NUMA,
    StrandingCause.BARRED,
)
"""Causes of requests of one pod, in the order of tables and bars."""

SCOPES = MappingProxyType(
    {
        JobScope.CLUSTER: "across switches",
        JobScope.ASW: "within one access switch",
        JobScope.NVLINK_DOMAIN: "within one NVLink domain",
    }
)

QOS_WORDS = MappingProxyType(
    {
        Qos.SINGLE_NUMA: "inside one NUMA node",
        Qos.GUARANTEED: "on the fewest NUMA nodes that an empty node could give",
        Qos.BEST_EFFORT: "aligned where it can be",
        Qos.NONE: "not aligned",
    }
)


def gpus_words(count: float) -> str:
    """GPUs, to a hundredth where they are not whole: `1 GPU`, `2.75 GPUs`."""
    if count == round(count):
        return counted(round(count), "GPU")
    return f"{number(count)} GPUs"


def number(count: float) -> str:
    """A number of GPUs alone."""
    return whole(count) if count == round(count) else f"{count:,.2f}".rstrip("0")


def change_words(change: UnlockingChange) -> str:
    """A change and what it opens, as `8 CPUs more a node: +312 GPUs`."""
    return f"{what_changes(change)}: {'at most ' if change.at_most else ''}+{gpus_words(change.gpus)}"


def what_changes(change: UnlockingChange) -> str:
    """The change alone."""
    return _CHANGES[change.kind](change)


def _nodes(change: UnlockingChange) -> str:
    """`n-1, n-2 and 4 more`."""
    unnamed = round(change.amount) - len(change.nodes)
    return ", ".join(change.nodes) + (f" and {unnamed:,} more" if unnamed else "")


def _count(change: UnlockingChange, noun: str = "pod") -> str:
    return counted(round(change.amount), noun)


_CHANGES: Mapping[ChangeKind, Callable[[UnlockingChange], str]] = MappingProxyType(
    {
        ChangeKind.CPUS: lambda change: f"{_count(change, 'CPU')} more a node",
        ChangeKind.MEMORY: lambda change: f"{change.amount:,.6g} GB of memory more a node",
        ChangeKind.ALIGNMENT: lambda _: "giving up NUMA alignment",
        ChangeKind.CONSOLIDATION: lambda change: f"consolidating stranded GPUs ({_count(change)} may move)",
        ChangeKind.MOVES: lambda change: f"{_count(change, 'move')} of pods (planner defrag)",
        ChangeKind.LOCKED_PODS: lambda change: f"locked pods on {_nodes(change)} free to move as well",
        ChangeKind.PREEMPTION: lambda change: f"evicting {_count(change, 'preemptible pod')}",
        ChangeKind.PARTS: lambda change: f"moving {_count(change)} with parts of GPUs away",
        ChangeKind.FAULTS: lambda change: f"bringing {_count(change, 'node')} with a fault back",
        ChangeKind.SCOPE: lambda _: "giving up the bound to one place",
    }
)


def row_type(row: RequestDiagnosis | JobDiagnosis) -> str:
    """The GPU type of a row; what all types together are called."""
    return row.gpu or (MIXED if isinstance(row, JobDiagnosis) else ALL_TYPES)


def best_words(row: RequestDiagnosis | JobDiagnosis) -> str:
    """The change that opens most without an eviction, else the best of the others; "" where none opens anything."""
    return change_words(row.changes[0]) if row.changes else ""


def diagnosis_plots(diagnosis: ClusterDiagnosis) -> tuple[Plot, ...]:
    """Every idle GPU once by request and cause; jobs of many nodes by type."""
    requests = [row for row in diagnosis.requests if not row.gpu]
    sizes = list(dict.fromkeys(row.gpus for row in diagnosis.jobs))
    return (*([_idle_plot(requests)] if requests else ()), *(_jobs_plot(diagnosis, size) for size in sizes))


def released_plots(diagnosis: ClusterDiagnosis) -> tuple[Plot, ...]:
    """Idle GPUs by cause as the scripts that came with ASI's trace count them (figure 13 of its paper)."""
    rows = [row for row in diagnosis.requests if not row.gpu]
    plot = Plot(
        name="released",
        title="Figure 13, as the released scripts count",
        says="A node that takes one request counts as served.",
        kind=Kind.BARS,
        x="request (GPUs and CPUs of a pod)",
        y="idle GPUs",
        series=tuple(
            series_of(CAUSES[cause], [(row.request.name, float(getattr(row.released, name))) for row in rows])
            for name, cause in _RELEASED
        ),
    )
    return (plot,) if rows else ()


_RELEASED = (
    ("fractional", StrandingCause.FRACTIONAL),
    ("stranded", StrandingCause.STRANDED),
    ("cpu", StrandingCause.CPU),
)


def _idle_plot(rows: Sequence[RequestDiagnosis]) -> Plot:
    causes = [cause for cause in REQUEST_CAUSES if any(row.of(cause) for row in rows)]
    serve = series_of("serve", [(row.request.name, float(row.servable_gpus)) for row in rows], tone="faint")
    return Plot(
        name="idle-gpus",
        title="Idle GPUs by what a pod asks for",
        says="All idle GPUs, each once: those that serve the request, and what keeps the others from it.",
        kind=Kind.STACKED,
        x="request (GPUs and CPUs of a pod)",
        y="idle GPUs",
        series=(
            serve,
            *(
                series_of(CAUSES[cause], [(row.request.name, row.of(cause)) for row in rows], place=place)
                for place, cause in enumerate(causes)
            ),
        ),
    )


def _jobs_plot(diagnosis: ClusterDiagnosis, gpus: int) -> Plot:
    rows = [row for row in diagnosis.jobs if row.gpus == gpus]
    scopes = list(dict.fromkeys(row.scope for row in rows))
    return Plot(
        name=f"jobs-of-{gpus}",
        title=f"Jobs of {gpus:,} GPUs that fit",
        says="How many such jobs the idle GPUs hold at the same time, by GPU type.",
        kind=Kind.BARS,
        x="GPU type",
        y="jobs that fit",
        series=tuple(
            series_of(_PLACES[scope], [(row_type(row), float(row.fit)) for row in rows if row.scope is scope])
            for scope in scopes
        ),
    )


_PLACES = {**SCOPES, JobScope.ASW: "within one switch"}
