"""A batch as text: cells for the terminal, Markdown, rows for CSV and Parquet, a document for JSON."""

from dataclasses import asdict
from typing import Any

from planner.domain.comparisons.batches import Batch, BatchJob
from planner.domain.comparisons.sweeps import PointState
from planner.report.comparison.plans.side_by_side import levels_documents
from planner.report.comparison.plans.sweep_tables import BAND_COLUMNS, CSV_FIGURES, FIGURES, figure_cells, figure_texts
from planner.report.kit.csv_tables import csv_table
from planner.report.kit.markdown import escaped, table
from planner.report.kit.quantities import NONE, counted

COLUMNS = ("job", *FIGURES)
MOST_LISTED = 20
"""So many reasons are told; the table has all."""
_JOB_COLUMNS = ("job", "scenario", "settings", "seed", "engine", "state", "status")
_LAST_COLUMNS = ("run", "same_as", "content", "message")


def job_texts(job: BatchJob) -> tuple[str, ...]:
    """A job as a row of `COLUMNS`: its figures, or its state where there is no plan."""
    if job.figures is None:
        return (job.entry.name, job.state.value, *[NONE] * (len(FIGURES) - 1))
    return (job.entry.name, *figure_texts(job.figures))


def counts(batch: Batch) -> dict[str, int]:
    """How many jobs there are, of their own and in each state."""
    return {
        "jobs": len(batch.jobs),
        "distinct": batch.distinct,
        **{state.value: batch.count(state) for state in PointState},
    }


def verdict(batch: Batch) -> str:
    """How many jobs ended how."""
    states = [f"{batch.count(state)} {state.value}" for state in PointState if batch.count(state)]
    same = len(batch.jobs) - batch.distinct
    point = "points" if same == 1 else "point"
    alike = f"; {counted(same, 'job')} asked what another had asked, and {point} to its run" if same else ""
    return f"{counted(len(batch.jobs), 'job')}: {', '.join(states)}{alike}."


def reasons(batch: Batch) -> str:
    """Why jobs have no plan: a line each, failures first; empty where all have."""
    lacking = [job for job in batch.jobs if job.figures is None and not job.same_as]
    lacking.sort(key=lambda job: job.state is PointState.INFEASIBLE)
    lines = [
        f"- {escaped(job.entry.name)}: {job.state.value}: {escaped(job.message.partition(chr(10))[0])}"
        for job in lacking[:MOST_LISTED]
    ]
    more = [f"- and {len(lacking) - MOST_LISTED} more"] if len(lacking) > MOST_LISTED else []
    return "\n".join([*lines, *more])


def batch_page(batch: Batch) -> str:
    """The batch as Markdown, ending in a newline."""
    rows = [
        [
            *map(escaped, job_texts(job)),
            escaped(job.entry.run) + (f" (as {escaped(job.same_as)})" if job.same_as else ""),
        ]
        for job in batch.jobs
    ]
    header = [*map(escaped, COLUMNS), "run"]
    parts = [
        f"# Batch of {escaped(batch.index.source)}",
        verdict(batch),
        table(header, rows, "l" + "r" * len(FIGURES) + "l"),
        *([reasons(batch)] if reasons(batch) else []),
    ]
    return "\n\n".join(parts) + "\n"


def batch_rows(batch: Batch) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Columns, and a row a job: what was asked, how it ended, all figures, the run's folder, the reason."""
    header = (*_JOB_COLUMNS, *CSV_FIGURES, *BAND_COLUMNS, *_LAST_COLUMNS)
    rows: list[tuple[object, ...]] = [
        (
            job.entry.name,
            job.entry.scenario,
            " ".join(job.entry.settings),
            job.entry.seed,
            job.entry.engine,
            job.state.value,
            job.status,
            *figure_cells(job.figures),
            job.entry.run,
            job.same_as,
            job.entry.content,
            job.message,
        )
        for job in batch.jobs
    ]
    return header, rows


def batch_csv(batch: Batch) -> bytes:
    """The rows of `batch_rows`."""
    return csv_table(*batch_rows(batch))


def batch_document(batch: Batch, status: int) -> dict[str, Any]:
    """The batch as plain data, the same for the same plans; `status`: the exit status of the whole."""
    return {
        "source": batch.index.source,
        "status": status,
        "counts": counts(batch),
        "jobs": [
            {
                "name": job.entry.name,
                "scenario": job.entry.scenario,
                "settings": list(job.entry.settings),
                "seed": job.entry.seed,
                "engine": job.entry.engine,
                "state": job.state.value,
                "status": job.status,
                "run": job.entry.run,
                "content": job.entry.content,
                "same_as": job.same_as,
                "message": job.message,
                "figures": None if job.figures is None else asdict(job.figures) | levels_documents(job.figures),
            }
            for job in batch.jobs
        ],
    }
