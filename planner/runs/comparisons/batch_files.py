"""A batch as files: table, words, page, summary for programs."""

from pathlib import Path

from planner import files
from planner.domain.comparisons import Batch
from planner.files.plan.batches import indexes
from planner.files.plan.batches.notes import write_document
from planner.files.plan.batches.parquet import can_write_parquet, parquet_table
from planner.report.comparison.plans.batch_html import batch_html
from planner.report.comparison.plans.batch_tables import batch_document, batch_page, exact_jobs
from planner.runs.batches.batches import BatchResult, exit_status
from planner.runs.pages import made_by, page_bytes


def batch_files(batch: Batch) -> dict[str, bytes]:
    """Relative path -> content of what shows a batch; Parquet where its library is installed."""
    exact = exact_jobs(batch)
    tables = {"results.parquet": parquet_table(exact.names, exact.values)} if can_write_parquet() else {}
    return {
        "results.csv": exact.csv(),
        **tables,
        "batch.md": batch_page(batch).encode(),
        "report.html": page_bytes(batch_html(batch, made_by())),
    }


def write_batch_files(folder: Path, result: BatchResult) -> None:
    """Write them beside the runs, with `summary.json` and `times.json`: each whole, in place of those of before.

    The summary is written first and without what a clock says: the same plans give the same bytes. Raises InputError
    where the disk does not take them.
    """
    status = exit_status(result.batch)
    write_document(folder / indexes.SUMMARY_FILE, batch_document(result.batch, status))
    indexes.write_times(folder, result.effort)
    for name, content in batch_files(result.batch).items():
        files.write_file(folder / name, content, force=True)
