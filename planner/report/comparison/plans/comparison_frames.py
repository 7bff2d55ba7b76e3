"""Comparisons, sweeps, batches and verifications as data frames: the rows of their CSV files, with all digits."""

from planner.domain.comparisons.batches import Batch
from planner.domain.comparisons.plans import PlanComparison
from planner.domain.comparisons.sweeps import Sweep
from planner.domain.comparisons.verification import Verification
from planner.report.comparison.plans.batch_tables import batch_rows
from planner.report.comparison.plans.side_by_side import CSV_COLUMNS, figures_row
from planner.report.comparison.plans.sweep_tables import sweep_rows
from planner.report.kit.frames import Frame, tabled


def comparison_frame(comparison: PlanComparison) -> Frame:
    """One row a plan."""
    return tabled([figures_row(plan) for plan in comparison.plans], list(CSV_COLUMNS))


def sweep_frame(sweep: Sweep) -> Frame:
    """One row a point."""
    header, rows = sweep_rows(sweep)
    return tabled(rows, list(header))


def batch_frame(batch: Batch) -> Frame:
    """One row a job."""
    header, rows = batch_rows(batch)
    return tabled(rows, list(header))


def verification_frame(verification: Verification) -> Frame:
    """One row a difference: file, key, what is written, what comes out."""
    rows = [(row.file, row.key, row.written, row.due) for row in verification.differences]
    return tabled(rows, ["file", "key", "written", "due"])
