"""The diagnosis as a report, and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.domain.diagnosis import ClusterDiagnosis, JobDiagnosis, RequestDiagnosis, StrandingCause
from planner.report.cluster.diagnosis_words import (
    CAUSES,
    QOS_WORDS,
    REQUEST_CAUSES,
    SCOPES,
    best_words,
    change_words,
    diagnosis_plots,
    gpus_words,
    number,
    released_plots,
    row_type,
    what_changes,
)
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.plots import chart_of
from planner.report.kit.quantities import counted, percent
from planner.report.kit.tables import Column, counts, fields, table_of
from planner.report.kit.tree import Block, DataTable, Page, paragraphs, section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NAMED = 20
"""Over-committed nodes that the page names; the rest are counted."""

OPTIONAL = (
    StrandingCause.BARRED,
    StrandingCause.MEMORY,
    StrandingCause.UNKNOWN,
    StrandingCause.NUMA,
    StrandingCause.NVLINK_DOMAIN,
)
"""Causes that get a column only where there is any of them."""

JOB_CAUSES = (
    StrandingCause.FRACTIONAL,
    StrandingCause.CPU,
    StrandingCause.REMAINDER,
    StrandingCause.TOPOLOGY,
    StrandingCause.NVLINK_DOMAIN,
    StrandingCause.BARRED,
)


def diagnosis_page(diagnosis: ClusterDiagnosis) -> Page:
    """The diagnosis. Names from the user are escaped."""
    pooled = [row for row in diagnosis.requests if not row.gpu]
    typed = [row for row in diagnosis.requests if row.gpu]
    counted_part, released = (
        [*paragraphs(lead), table(pooled)] if pooled else []
        for lead, table in ((_REQUEST_LEAD, requests_table), (_RELEASED_LEAD, released_table))
    )
    jobs = [*paragraphs(_job_lead(diagnosis.jobs)), jobs_table(diagnosis.jobs)] if diagnosis.jobs else []
    return Page(
        title=f"Idle GPUs: {diagnosis.cluster}",
        verdict=_headline(diagnosis),
        sections=(
            section("charts-of-it", "Charts", *map(chart_of, diagnosis_plots(diagnosis))),
            section("overcommitted", "Over-committed", *_overcommitted(diagnosis)),
            section("requests", "Requests, all types", *counted_part),
            section("changes", "What would open most", *listed(changes_list(pooled))),
            section("types", "Requests by GPU type", requests_table(typed if _several(typed) else [])),
            section("jobs", "Jobs of many nodes", *jobs),
            section("released", "As the released scripts count", *released),
            section("notes", "Notes", *listed([escaped(note) for note in _notes(diagnosis)])),
        ),
    )


_REQUEST_LEAD = (
    "Room for so many requests at the same time, and what keeps the other idle GPUs from them: each counts once. "
    "Stranded: too few GPUs are left on the node, whatever else it has."
)
_RELEASED_LEAD = (
    "The counts of the scripts that came with ASI's trace (figure 13): a node that takes one request counts as served, "
    "and of a node short of CPUs only the GPUs of one request count. Nodes of 16 GPUs are passed over."
)


def _headline(diagnosis: ClusterDiagnosis) -> str:
    if not diagnosis.gpus:
        return "**No node has a GPU.**"
    verb = "is" if diagnosis.idle_gpus == 1 else "are"
    idle = f"**{number(diagnosis.idle_gpus)} of {counted(diagnosis.gpus, 'GPU')} {verb} idle.**"
    worst = max(
        (row for row in diagnosis.requests if not row.gpu),
        key=lambda row: row.idle_gpus - row.servable_gpus,
        default=None,
    )
    if worst is None or not worst.causes:
        return idle
    cause, gpus = max(worst.causes, key=lambda item: item[1])
    best = f" What would open most: {escaped(best_words(worst))}." if worst.changes else ""
    short = gpus_words(worst.idle_gpus - worst.servable_gpus)
    return (
        f"{idle} Of {worst.request.name} {counted(worst.fit, 'request')} fit; {short} cannot serve it, "
        f"{number(gpus)} of them: {CAUSES[cause]}.{best}"
    )


def _several(rows: Sequence[RequestDiagnosis]) -> bool:
    return len({row.gpu for row in rows}) > 1


def _overcommitted(diagnosis: ClusterDiagnosis) -> tuple[Block, ...]:
    rows = diagnosis.overcommitted
    names = [f"{escaped(row.node)}: {row.resource} {row.used:,.6g} of {row.had:,.6g}" for row in rows[:MOST_NAMED]]
    if len(rows) > MOST_NAMED:
        names.append(f"{len(rows) - MOST_NAMED:,} more")
    lead = "Pods hold more than their node has; nothing of it counts as idle, and nothing was changed:"
    return (*paragraphs(lead if rows else ""), *listed(names))


def _columns(rows: Sequence[RequestDiagnosis | JobDiagnosis], causes: Sequence[StrandingCause]) -> list[StrandingCause]:
    present = {cause for row in rows for cause, _ in row.causes}
    return [cause for cause in causes if cause not in OPTIONAL or cause in present]


def _heading(cause: StrandingCause) -> str:
    words = CAUSES[cause]
    return words[0].upper() + words[1:]


def requests_table(rows: Sequence[RequestDiagnosis]) -> DataTable:
    """A row a GPU type and request: how many fit, and the idle GPUs by cause."""
    columns: tuple[Column[RequestDiagnosis], ...] = (
        Column("GPU type", row_type),
        *fields("Request=request.name"),
        *counts("Requests that fit=fit"),
        Column("Cannot serve", lambda row: 1 - row.servable_gpus / row.idle_gpus if row.idle_gpus else None, percent),
        Column("Idle GPUs", lambda row: row.idle_gpus, number),
        *counts("GPUs that serve=servable_gpus"),
        *(_of_cause(cause) for cause in _columns(rows, REQUEST_CAUSES)),
    )
    return table_of(columns, rows).block()


def _of_cause(cause: StrandingCause) -> Column[Any]:
    return Column(_heading(cause), lambda row: dict(row.causes).get(cause, 0.0), number)


def changes_list(rows: Sequence[RequestDiagnosis]) -> list[str]:
    """For each request the changes that open anything, the best first."""
    return [
        f"{row.request.name}: " + ("; ".join(escaped(change_words(change)) for change in row.changes) or "nothing.")
        for row in rows
    ]


def _job_lead(jobs: Sequence[JobDiagnosis]) -> str:
    return (
        f"Jobs whose GPUs take {jobs[0].cpus_per_gpu} CPUs each along, over as many nodes as it takes: across switches "
        "or with all of its GPUs in one place (figure 14)."
    )


def jobs_table(rows: Sequence[JobDiagnosis]) -> DataTable:
    """A row a GPU type, size of job and place."""
    columns: tuple[Column[JobDiagnosis], ...] = (
        Column("GPU type", row_type),
        *counts("GPUs a job=gpus"),
        Column("Where", lambda row: SCOPES[row.scope]),
        *counts("Jobs that fit=fit"),
        Column("What would open most", lambda row: best_words(row) or None),
        Column("Idle GPUs", lambda row: row.idle_gpus, number),
        *(_of_cause(cause) for cause in _columns(rows, JOB_CAUSES)),
    )
    return table_of(columns, rows).block()


def released_table(rows: Sequence[RequestDiagnosis]) -> DataTable:
    """The released scripts' counts, a row a request."""
    columns: tuple[Column[RequestDiagnosis], ...] = (
        *fields("Request=request.name"),
        Column("Fractional", lambda row: row.released.fractional, number),
        Column("Stranded", lambda row: row.released.stranded, number),
        Column("Too few CPUs", lambda row: row.released.cpu, number),
    )
    return table_of(columns, rows).block()


def _notes(diagnosis: ClusterDiagnosis) -> list[str]:
    pods = "Pods that may be preempted count as gone." if diagnosis.guaranteed_only else "All pods hold what they hold."
    return [f"GPUs of a request: {QOS_WORDS[diagnosis.qos]}. {pods}", *diagnosis.notes]


def diagnosis_document(diagnosis: ClusterDiagnosis) -> dict[str, object]:
    """The same as JSON has it; every row with all its causes and changes."""
    return {
        "cluster": diagnosis.cluster,
        "gpus": diagnosis.gpus,
        "idle_gpus": diagnosis.idle_gpus,
        "qos": diagnosis.qos,
        "guaranteed_only": diagnosis.guaranteed_only,
        "requests": [
            asdict(row.request)
            | {"request": row.request.name, "gpu": row.gpu, "idle_gpus": row.idle_gpus, "fit": row.fit}
            | {"servable_gpus": row.servable_gpus, "causes": dict(row.causes), "released": asdict(row.released)}
            | {"changes": _changes(row)}
            for row in diagnosis.requests
        ],
        "jobs": [asdict(row) | {"causes": dict(row.causes), "changes": _changes(row)} for row in diagnosis.jobs],
        "overcommitted": [asdict(row) for row in diagnosis.overcommitted],
        "notes": list(diagnosis.notes),
    }


def _changes(row: RequestDiagnosis | JobDiagnosis) -> list[dict[str, object]]:
    return [asdict(change) | {"change": what_changes(change)} for change in row.changes]


def diagnosis_figure(diagnosis: ClusterDiagnosis) -> "Figure":
    """Figures 13 and 14 of the ASI paper for this cluster, and all idle GPUs by what becomes of them."""
    from planner.report.kit.stills import still  # noqa: PLC0415  # matplotlib takes a second to load

    plots = (*released_plots(diagnosis), *diagnosis_plots(diagnosis))
    return still(diagnosis.cluster, "idle GPUs that cannot serve", plots, "no node has a GPU", titled=True)
