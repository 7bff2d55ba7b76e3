"""Plots of a cluster's diagnosis: idle GPUs by request and cause, jobs that fit."""

from planner.domain.diagnosis import ClusterDiagnosis, JobScope
from planner.report.cluster.diagnosis.words import CAUSES, REQUEST_CAUSES, row_type
from planner.report.kit.html.plots import Kind, Plot, Series


def diagnosis_plots(diagnosis: ClusterDiagnosis) -> tuple[Plot, ...]:
    """Every idle GPU once by request and cause; jobs of many nodes by type."""
    requests = [row for row in diagnosis.requests if not row.gpu]
    sizes = list(dict.fromkeys(row.gpus for row in diagnosis.jobs))
    return (*([_idle(diagnosis)] if requests else ()), *(_jobs(diagnosis, size) for size in sizes))


def _idle(diagnosis: ClusterDiagnosis) -> Plot:
    rows = [row for row in diagnosis.requests if not row.gpu]
    names = tuple(row.request.name for row in rows)
    causes = [cause for cause in REQUEST_CAUSES if any(row.of(cause) for row in rows)]
    serve = Series(name="serve", x=names, y=tuple(float(row.servable_gpus) for row in rows), tone="faint")
    stranded = [
        Series(name=CAUSES[cause], x=names, y=tuple(row.of(cause) for row in rows), place=place)
        for place, cause in enumerate(causes)
    ]
    return Plot(
        name="idle-gpus",
        title="Idle GPUs by what a pod asks for",
        says="All idle GPUs, each once: those that serve the request, and what keeps the others from it.",
        kind=Kind.STACKED,
        x="request (GPUs and CPUs of a pod)",
        y="idle GPUs",
        series=(serve, *stranded),
    )


def _jobs(diagnosis: ClusterDiagnosis, gpus: int) -> Plot:
    rows = [row for row in diagnosis.jobs if row.gpus == gpus]
    scopes = list(dict.fromkeys(row.scope for row in rows))
    words = {JobScope.CLUSTER: "across switches", JobScope.ASW: "within one switch"}
    return Plot(
        name=f"jobs-of-{gpus}",
        title=f"Jobs of {gpus:,} GPUs that fit",
        says="How many such jobs the idle GPUs hold at the same time, by GPU type.",
        kind=Kind.BARS,
        x="GPU type",
        y="jobs that fit",
        series=tuple(
            Series(
                name=words.get(scope, "within one NVLink domain"),
                x=tuple(row_type(row) for row in rows if row.scope is scope),
                y=tuple(float(row.fit) for row in rows if row.scope is scope),
            )
            for scope in scopes
        ),
    )
