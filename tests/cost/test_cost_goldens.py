"""Reference mode against Shallowsim's own outputs: every column, in one vectorised call a GPU and row by row."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cost_goldens import DECODE_COLUMNS, KEPT, PREFILL_COLUMNS, SHARED, TABLES, read

from planner.cost import decode_time, max_batch_size, prefill_time

RELATIVE = 1e-9
FULL_ROWS = {"prefill": 1152, "decode": 3954, "max_batch": 1800}

FOLDERS = [
    pytest.param(KEPT, id="kept"),
    pytest.param(
        SHARED,
        id="full",
        marks=pytest.mark.skipif(not SHARED.is_dir(), reason="the full outputs are in ../shared/goldens, not here"),
    ),
]


def prefill(gpu: str, rows: Any) -> dict[str, Any]:
    """Shallowsim's prefill columns, by our public function; `rows` is a table of one GPU or one of its rows."""
    time = prefill_time(
        gpu, rows["seq_len"], tp=rows["tp"], dp=rows["dp"], kv_cache_rate=rows["kv_cache_rate"], mode="reference"
    )
    return {theirs: getattr(time, ours) for theirs, ours in PREFILL_COLUMNS.items()}


def decode(gpu: str, rows: Any, fp8_combine: bool) -> dict[str, Any]:
    """Shallowsim's decode columns, by our public function."""
    time = decode_time(
        gpu,
        rows["seq_len"],
        tp=rows["tp"],
        batch_size=rows["batch_size"],
        devices=rows["device_num"],
        experts_per_device=rows["experts_per_device"],
        fp8_combine=fp8_combine,
        mode="reference",
    )
    return {theirs: getattr(time, ours) for theirs, ours in DECODE_COLUMNS.items()}


def max_batch(gpu: str, rows: Any) -> dict[str, Any]:
    """Shallowsim's largest batch, by our public function."""
    found = max_batch_size(
        gpu,
        rows["seq_len"],
        rows["decode_len"],
        tp=rows["tp"],
        experts_on_device=rows["experts_on_device"],
        mode="reference",
    )
    return {"max_batch": found}


def by_gpu(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each GPU."""
    for gpu, group in rows.groupby("gpu"):
        yield str(gpu), group


def agree(ours: dict[str, Any], theirs: Any, where: object) -> None:
    """Every column within a relative 1e-9."""
    for column, values in ours.items():
        np.testing.assert_allclose(values, theirs[column], rtol=RELATIVE, atol=0, err_msg=f"{where}: {column}")


@pytest.mark.parametrize("folder", FOLDERS)
def test_prefill_vectorised(folder: Path) -> None:
    for gpu, rows in by_gpu(read(folder, "prefill")):
        agree(prefill(gpu, rows), rows, gpu)


@pytest.mark.parametrize("folder", FOLDERS)
def test_decode_vectorised(folder: Path) -> None:
    for gpu, all_rows in by_gpu(read(folder, "decode")):
        for fp8_combine, rows in all_rows.groupby("fp8_combine"):
            agree(decode(gpu, rows, bool(fp8_combine)), rows, gpu)


@pytest.mark.parametrize("folder", FOLDERS)
def test_max_batch_vectorised(folder: Path) -> None:
    for gpu, rows in by_gpu(read(folder, "max_batch")):
        agree(max_batch(gpu, rows), rows, gpu)


@pytest.mark.parametrize("folder", FOLDERS)
def test_prefill_row_by_row(folder: Path) -> None:
    for row in read(folder, "prefill").to_dict("records"):
        agree(prefill(row["gpu"], row), row, row)


@pytest.mark.parametrize("folder", FOLDERS)
def test_decode_row_by_row(folder: Path) -> None:
    for row in read(folder, "decode").to_dict("records"):
        agree(decode(row["gpu"], row, row["fp8_combine"]), row, row)


@pytest.mark.parametrize("folder", FOLDERS)
def test_max_batch_row_by_row(folder: Path) -> None:
    for row in read(folder, "max_batch").to_dict("records"):
        agree(max_batch(row["gpu"], row), row, row)


@pytest.mark.parametrize("table", TABLES)
def test_kept_rows_cover_every_gpu(table: str) -> None:
    kept = read(KEPT, table)
    assert kept.gpu.nunique() == 12
    assert kept.tp.nunique() >= 3


@pytest.mark.skipif(not SHARED.is_dir(), reason="the full outputs are in ../shared/goldens, not here")
@pytest.mark.parametrize("table", TABLES)
def test_full_tables_are_whole_and_hold_the_kept_rows(table: str) -> None:
    full, kept = read(SHARED, table), read(KEPT, table)
    assert len(full) == FULL_ROWS[table]
    assert len(kept.merge(full, on=list(full.columns))) == len(kept)
