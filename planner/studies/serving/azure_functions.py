"""Counts by minute from a day of Azure Functions, as the thesis retraces them (5.4; Shahrad et al., ATC 2020).

Each model is given so many random functions; their invocations of consecutive minutes from a random start are summed.
Columns: HashOwner, HashApp, HashFunction, Trigger, then 1 to 1440, one a minute of the day.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from planner.errors import InputError
from planner.files.disk.csv_rows import csv_cells, number_of
from planner.studies.serving.records import ServedModel

ID_COLUMNS = ("HashOwner", "HashApp", "HashFunction", "Trigger")
FUNCTIONS_PER_MODEL = 40
MOST_INVOCATIONS = 10_000_000


def read_azure_functions(
    path: Path, models: Sequence[ServedModel], *, minutes: int, seed: int, functions: int = FUNCTIONS_PER_MODEL
) -> dict[str, list[int]]:
    """Requests of each model in each minute. InputError: other columns, too few functions or minutes, no counts."""
    rows = csv_cells(path)
    header = [cell.strip() for cell in next(rows, [])]
    of_day = len(header) - len(ID_COLUMNS)
    if tuple(header[: len(ID_COLUMNS)]) != ID_COLUMNS or of_day < minutes:
        raise InputError(
            f"{path}: must have columns {', '.join(ID_COLUMNS)} and at least {minutes} of minutes, got {len(header)} "
            "columns.",
            hint="Give invocations_per_function_md.anon.d*.csv of the Azure Public Dataset.",
        )
    draws = np.random.default_rng([seed, 4])
    first = len(ID_COLUMNS) + int(draws.integers(of_day - minutes + 1))
    counts = [_counts(path, number, cells, len(header), first, minutes) for number, cells in enumerate(rows, start=1)]
    wanted = functions * len(models)
    if len(counts) < wanted:
        raise InputError(
            f"{path}: must hold {functions} functions for each of {len(models)} models, {wanted} in all, got "
            f"{len(counts)}.",
            hint="Give a longer file, or fewer models.",
        )
    chosen = draws.choice(len(counts), size=(len(models), functions), replace=False)
    table = np.array(counts, dtype=np.int64)
    return {model.name: table[row].sum(axis=0).tolist() for model, row in zip(models, chosen, strict=True)}


def _counts(path: Path, number: int, cells: Sequence[str], width: int, first: int, minutes: int) -> list[int]:
    """A function's invocations in the minutes that are replayed."""
    values = [number_of(cell) for cell in cells[first : first + minutes]]
    if len(cells) != width or not all(0 <= value <= MOST_INVOCATIONS and value.is_integer() for value in values):
        raise InputError(
            f"{path}: row {number} must hold {width} cells, whole numbers from 0 in the minutes, got {len(cells)} "
            "cells or another value.",
            hint="Mend or drop the row.",
        )
    return [int(value) for value in values]
