"""A batch: cells for the terminal, a report, rows for CSV and Parquet, a document for JSON."""

from dataclasses import asdict
from typing import Any

from planner.domain.comparisons import Batch, BatchJob, PointState
from planner.report.comparison.side_by_side import levels_documents
from planner.report.comparison.sweep import SHOWN_FIGURES, exact_figures, told_figures
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.plots import Kind, Plot, chart_of, series_of
from planner.report.kit.quantities import counted
from planner.report.kit.tables import Column, Table, fields, record, table_of
from planner.report.kit.tree import Chart, Figure, Page, section

MOST_LISTED = 20
"""So many reasons are told; the table has all."""


def jobs(batch: Batch, most_rows: int | None = None) -> Table[BatchJob]:
    """A row a job, of so many: its figures, its state."""
    return table_of((*fields("job=entry.name"), *told_figures()), batch.jobs[:most_rows])


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


def reasons(batch: Batch) -> list[str]:
    """Why jobs have no plan: a line each, failures first."""
    lacking = [job for job in batch.jobs if job.figures is None and not job.same_as]
    lacking.sort(key=lambda job: job.state is PointState.INFEASIBLE)
    lines = [
        f"{escaped(job.entry.name)}: {job.state.value}: {escaped(job.message.partition(chr(10))[0])}"
        for job in lacking[:MOST_LISTED]
    ]
    return [*lines, *([f"and {len(lacking) - MOST_LISTED} more"] if len(lacking) > MOST_LISTED else [])]


_DOCUMENT = fields(
    *("entry.name", "entry.scenario", "entry.settings", "entry.seed", "entry.engine", "state", "status", "entry.run"),
    *("entry.content", "same_as", "message"),
)
_LAST = fields("entry.run", "same_as", "entry.content", "message")


def exact_jobs(batch: Batch) -> Table[BatchJob]:
    """A row a job, as in results.csv: what was asked, how it ended, all figures, the run's folder, the reason."""
    question_columns: tuple[Column[BatchJob], ...] = (
        *fields("job=entry.name", "entry.scenario"),
        Column("settings", lambda job: " ".join(job.entry.settings)),
        *fields("entry.seed", "entry.engine", "state", "status"),
    )
    return table_of((*question_columns, *exact_figures(), *_LAST), batch.jobs)


def batch_document(batch: Batch, status: int) -> dict[str, Any]:
    """The batch as plain data, the same for the same plans; `status`: the exit status of the whole."""
    return {
        "source": batch.index.source,
        "status": status,
        "counts": counts(batch),
        "jobs": [
            record(_DOCUMENT, job)
            | {
                "settings": list(job.entry.settings),
                "figures": None if job.figures is None else asdict(job.figures) | levels_documents(job.figures),
            }
            for job in batch.jobs
        ],
    }


MOST_BARS = 200
"""Of jobs; beyond, bars are too thin to be told apart."""


def batch_page(batch: Batch) -> Page:
    """The report: charts of the planned jobs, and every job as a row."""
    planned = [job for job in batch.jobs if job.figures is not None and not job.same_as]
    charts = [_bars(name, planned) for name in SHOWN_FIGURES] if 0 < len(planned) <= MOST_BARS else []
    columns = (*jobs(batch).columns, *fields("same as=same_as", "entry.run"))
    return Page(
        title=f"Batch of {batch.index.source}",
        verdict=verdict(batch),
        figures=tuple(
            Figure(label=f"jobs {state.value}", value=str(batch.count(state)))
            for state in PointState
            if batch.count(state)
        ),
        sections=(
            section("jobs", "Jobs", *charts, table_of(columns, batch.jobs).block()),
            section("reasons", "Jobs without a plan", *listed(reasons(batch))),
        ),
    )


def _bars(name: str, jobs: list[BatchJob]) -> Chart:
    title, figure_of = SHOWN_FIGURES[name]
    plot = Plot(
        name=name,
        title=f"{title} by job",
        says=f"{title} of each job that has a plan; rates are comparable among jobs of the same model and workload.",
        kind=Kind.BARS,
        x="job",
        y=title,
        series=(
            series_of(
                title, [(job.entry.name, None if job.figures is None else figure_of(job.figures)) for job in jobs]
            ),
        ),
    )
    return chart_of(plot)
