"""A batch as a page to send: rates and prices of the jobs as bars, and every job as a row."""

from planner.domain.comparisons import Batch, BatchJob, PointState
from planner.report.comparison.plans.batch_tables import reasons, verdict
from planner.report.comparison.plans.sweep_html import SHOWN_FIGURES, sorted_figures
from planner.report.kit.html.blocks import Block, Chart, DataTable, Figure, Page, Prose, Section
from planner.report.kit.tables import fields, table_of

_JOB = (*fields("job=entry.name"), *sorted_figures(), *fields("same as=same_as", "entry.run"))
MOST_BARS = 200
"""Of jobs; beyond, bars are too thin to be told apart."""


def batch_html(batch: Batch, made_by: str) -> Page:
    """The page: charts of the planned jobs, and every job as a row."""
    planned = [job for job in batch.jobs if job.figures is not None and not job.same_as]
    blocks: list[Block] = [_bars(name, planned) for name in SHOWN_FIGURES] if 0 < len(planned) <= MOST_BARS else []
    why = reasons(batch)
    return Page(
        title=f"Batch of {batch.index.source}",
        verdict=verdict(batch),
        figures=tuple(
            Figure(label=f"jobs {state.value}", value=str(batch.count(state)))
            for state in PointState
            if batch.count(state)
        ),
        sections=(
            Section(name="jobs", title="Jobs", blocks=(*blocks, table_of(_JOB, batch.jobs).html("Every job"))),
            *([Section(name="reasons", title="Jobs without a plan", blocks=(Prose(markdown=why),))] if why else []),
        ),
        made_by=made_by,
    )


def _bars(name: str, jobs: list[BatchJob]) -> Chart:
    title, figure_of = SHOWN_FIGURES[name]
    names = [job.entry.name for job in jobs]
    values = [None if job.figures is None else figure_of(job.figures) for job in jobs]
    return Chart(
        name=name,
        title=f"{title} by job",
        says=f"{title} of each job that has a plan; rates are comparable among jobs of the same model and workload.",
        traces=({"type": "bar", "name": title, "x": names, "y": values},),
        layout={
            "xaxis": {"title": {"text": "job"}, "type": "category"},
            "yaxis": {"title": {"text": title}, "rangemode": "tozero"},
        },
        table=DataTable(columns=("job", title), rows=tuple(zip(names, values, strict=True))),
    )
