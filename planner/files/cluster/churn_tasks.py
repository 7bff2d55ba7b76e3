"""Tasks that come and go on a cluster, as CSV: when they come, how long they live, what they ask for."""

import math
from pathlib import Path

from planner.domain.turnover import MOST_TASKS, ChurnTask
from planner.errors import InputError
from planner.files.disk.csv_rows import CsvRow, csv_rows

COLUMNS = ("submit_h", "life_h", "gpus", "cpus")


def load_tasks(path: Path) -> tuple[ChurnTask, ...]:
    """Tasks by submission. Columns submit_h, life_h, gpus, cpus; memory_gb, gpu (its type) where they are there.

    InputError: no table of these columns, no rows, a cell out of range.
    """
    tasks = [_task(row) for row, _ in zip(csv_rows(path, COLUMNS), range(MOST_TASKS + 1), strict=False)]
    if not 0 < len(tasks) <= MOST_TASKS:
        raise InputError(
            f"{path}: must have 1 to {MOST_TASKS:,} rows, has {'none' if not tasks else 'more'}.",
            hint="Give the tasks of a few weeks.",
        )
    return tuple(sorted(tasks, key=lambda task: (task.submit_h, task.number)))


def _task(row: CsvRow) -> ChurnTask:
    return ChurnTask(
        number=row.place,
        submit_h=_amount(row, "submit_h"),
        life_h=_amount(row, "life_h", above=True),
        gpus=row.whole("gpus", low=1, high=1_000),
        cpus=_amount(row, "cpus"),
        memory_gb=_amount(row, "memory_gb") if row.text("memory_gb") else 0.0,
        gpu=row.text("gpu"),
    )


def _amount(row: CsvRow, column: str, *, above: bool = False) -> float:
    amount = row.number(column)
    if not math.isfinite(amount) or amount < 0 or (above and not amount):
        raise row.fault(column, "must be a number above 0" if above else "must be a number, 0 or more")
    return amount
