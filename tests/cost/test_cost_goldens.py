"""Reference mode against Shallowsim's own outputs: every column, in one vectorised call a GPU and row by row."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cost_goldens import DECODE_COLUMNS, PREFILL_COLUMNS, read

from planner.cost import decode_time, max_batch_size, prefill_time

RELATIVE = 1e-9
ROWS = {"prefill": 1152, "decode": 3954, "max_batch": 1800}


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


def test_prefill_vectorised() -> None:
    for gpu, rows in by_gpu(read("prefill")):
        agree(prefill(gpu, rows), rows, gpu)


def test_decode_vectorised() -> None:
    for gpu, all_rows in by_gpu(read("decode")):
        for fp8_combine, rows in all_rows.groupby("fp8_combine"):
            agree(decode(gpu, rows, bool(fp8_combine)), rows, gpu)


def test_max_batch_vectorised() -> None:
    for gpu, rows in by_gpu(read("max_batch")):
        agree(max_batch(gpu, rows), rows, gpu)


def test_prefill_row_by_row() -> None:
    for row in read("prefill").to_dict("records"):
        agree(prefill(row["gpu"], row), row, row)


def test_decode_row_by_row() -> None:
    for row in read("decode").to_dict("records"):
        agree(decode(row["gpu"], row, row["fp8_combine"]), row, row)


def test_max_batch_row_by_row() -> None:
    for row in read("max_batch").to_dict("records"):
        agree(max_batch(row["gpu"], row), row, row)


@pytest.mark.parametrize("table", ROWS)
def test_the_tables_are_whole_and_cover_every_gpu(table: str) -> None:
    rows = read(table)
    assert len(rows) == ROWS[table]
    assert rows.gpu.nunique() == 12
    assert rows.tp.nunique() >= 3
