"""Files of measured kernels: small, of known origin, imported from tables of many forms; bad ones are named."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from planner.cost.kernels import Basis, kernel_tables, tables_of
from planner.cost.kernels.grid import grid_of
from planner.cost.kernels.shapes import WORDS
from planner.errors import InputError
from planner.files.kernels import KernelGrid, kernels_there, packed, read_kernels
from planner.files.kernels.importing import imported_kernels


def test_shipped_files_are_small_and_say_where_they_are_from() -> None:
    files = kernels_there()
    assert len(files) == 9 * 3
    sizes = [path.stat().st_size for path in files.values()]
    assert max(sizes) <= 3 << 20
    assert sum(sizes) <= 8 << 20
    for (gpu, engine), path in files.items():
        stored = read_kernels(path)
        assert (stored.gpu, stored.engine) == (gpu, engine)
        assert stored.source.startswith("aiconfigurator_core-0.12.0")
        assert stored.licence.startswith("Apache-2.0")
        assert all(grid.versions for grid in stored.grids.values())
        words = {
            (column, word) for grid in stored.grids.values() for column in grid.words for word in grid.words[column]
        }
        assert {word for column, word in words if column != "model" and word not in WORDS[column]} == set()


def test_files_read_back_are_written_alike() -> None:
    path = kernels_there()[("A100", "sglang")]
    assert packed(read_kernels(path)) == path.read_bytes()


def _with_head(content: bytes, **keys: object) -> bytes:
    """The file with other keys in its head."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, json.dumps({**json.loads(data), **keys}) if name == "head.json" else data)
    return changed.getvalue()


def test_files_of_another_schema_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    content = kernels_there()[("A100", "vllm")].read_bytes()
    path = tmp_path / "A100.vllm.kernels"
    path.write_bytes(_with_head(content, schema=2))
    with pytest.raises(InputError, match=r"A100\.vllm\.kernels: schema must be 1, got 2.*kernels import"):
        kernel_tables("A100", "vllm", tmp_path)
    for damaged in (b"", content[: len(content) // 2], _with_head(content, grids={"gemm": {}}), b"x" * 100):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="is no readable table of kernels"):
            read_kernels(path)
    with pytest.raises(InputError, match="must be a folder of measured kernels"):
        kernels_there(tmp_path / "none")


def gemm_rows(slope: float = 1e-4) -> pd.DataFrame:
    sizes = [(m, n, k) for m in (1, 2, 4, 8, 16, 64, 256) for n in (64, 128) for k in (64, 256)]
    rows = [
        {"gemm_dtype": dtype, "m": m, "n": n, "k": k, "latency": 0.01 + slope * m * n * k / 64**2}
        for dtype in ("bfloat16", "fp8")
        for m, n, k in sizes
    ]
    return pd.DataFrame(rows)


def source_of(folder: Path, rows: pd.DataFrame, version: str = "0.24.0", table: str = "gemm") -> Path:
    place = folder / "h200_sxm" / "gemm" / "vllm" / version
    place.mkdir(parents=True)
    rows.to_parquet(place / f"{table}_perf.parquet")
    return folder


def test_a_folder_of_tables_is_imported(tmp_path: Path) -> None:
    """The newest version counts, and of an older one what the newest lacks; outliers become like their neighbours."""
    rows = gemm_rows()
    spike = (rows["m"] == 8) & (rows["n"] == 64) & (rows["k"] == 64)
    newest = rows[rows["gemm_dtype"] == "fp8"].assign(latency=rows["latency"].where(~spike, 5.0))
    source_of(tmp_path, newest, "0.24.0")
    source_of(tmp_path, rows.assign(latency=rows["latency"] * 3), "0.9.0")
    (kernels,) = imported_kernels(tmp_path)
    tables = tables_of(kernels)
    assert (kernels.gpu, kernels.engine, set(kernels.grids)) == ("H200", "vllm", {"gemm"})
    assert kernels.grids["gemm"].versions == ("0.24.0", "0.9.0")
    for row in rows[~spike].itertuples():
        expected = row.latency * (1 if row.gemm_dtype == "fp8" else 3)
        assert tables.gemm(row.gemm_dtype, row.m, row.n, row.k).ms == pytest.approx(expected, rel=6e-4)
    assert float(tables.gemm("fp8", 8, 64, 64).ms) == pytest.approx(0.01 + 1e-4 * 16, rel=0.01)  # of its neighbours


def test_tables_of_many_forms_become_one(tmp_path: Path) -> None:
    """Messages are counted in bytes of two-byte elements, contexts from one token on, FP8 caches by one name."""
    messages = [{"num_gpus": 8, "message_size": 2**k, "backend": "vllm_graph", "latency": 0.01 + k} for k in range(8)]
    source_of(tmp_path / "a", pd.DataFrame(messages), table="custom_allreduce")
    (kernels,) = imported_kernels(tmp_path / "a")
    assert tables_of(kernels).all_reduce(2**5, 8).ms == pytest.approx(4.01, rel=0.001)
    steps = [
        {"num_heads": 8, "batch_size": batch, "isl": 1, "step": step, "latency": batch * step / 100}
        for batch in (1, 2, 4)
        for step in (3, 7, 8, 15)
    ]
    words = {"model": "ours", "gemm_type": "fp8_block", "kv_cache_dtype": "fp8_e4m3", "kernel_source": "any"}
    source_of(tmp_path / "b", pd.DataFrame(steps).assign(**words), table="dsv4_hca_generation_module")
    (kernels,) = imported_kernels(tmp_path / "b")
    time = tables_of(kernels).generation_module("hca", 2, [4, 8, 16], 8, "fp8_block", "fp8")
    assert time.ms == pytest.approx([0.06, 0.14, 0.3], rel=0.001)
    assert (time.basis == Basis.MEASURED).all()


def test_holes_are_filled_without_falling_and_not_from_afar() -> None:
    stored = KernelGrid(
        columns=("kind",),
        words={"kind": ("gdn",)},
        shapes=np.array([[0]]),
        axes={"batch": np.array([1.0, 2, 4096]), "length": np.array([1.0, 2])},
        ln_ms=np.array([[[np.nan, 0], [1, 2], [np.nan, np.nan]]], dtype=np.float32),
        versions=("1",),
        monotone=("batch", "length"),
    )
    grid = grid_of(stored, {})
    times = grid.at(0, (np.array([[1], [2], [4096]]), np.array([1, 2])))
    assert times.ms[:2] == pytest.approx(np.exp([[0, 0], [1, 2]]))
    assert times.basis.tolist() == [[Basis.SCALED, Basis.MEASURED], [Basis.MEASURED] * 2, [Basis.FORMULA] * 2]
    assert np.isnan(times.ms[2]).all()


def test_a_wheel_is_imported_as_its_folder_is(tmp_path: Path) -> None:
    source = source_of(tmp_path / "folder", gemm_rows())
    wheel = tmp_path / "core.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in source.rglob("*.parquet"):
            archive.write(path, f"aiconfigurator_core/systems/data/{path.relative_to(source).as_posix()}")
    (packed_kernels,), (kernels,) = imported_kernels(wheel), imported_kernels(source)
    assert packed_kernels.source == "core.whl"
    assert packed(replace(packed_kernels, source="folder")) == packed(kernels)


def test_a_table_that_is_noise_is_left_out(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    rows = gemm_rows()
    source = source_of(tmp_path, rows.assign(latency=np.exp(random.normal(0, 2, len(rows)))))
    (kernels,) = imported_kernels(source)
    assert (kernels.grids, kernels.left_out) == ({}, ("gemm 0.24.0",))


def test_a_format_that_was_measured_at_a_corner_alone_is_left_out(tmp_path: Path) -> None:
    """Of RTX PRO 6000 under vLLM so few products in FP8 by blocks that those of a model would take 743 ms."""
    rows = gemm_rows()
    corner = (rows["gemm_dtype"] == "bfloat16") | (rows[["m", "n", "k"]] == rows[["m", "n", "k"]].min()).all(axis=1)
    wide = pd.concat([rows.assign(m=rows["m"] * 2**power) for power in (0, 9)])
    source = source_of(tmp_path, pd.concat([wide[wide["gemm_dtype"] == "bfloat16"], rows[corner]]).drop_duplicates())
    (kernels,) = imported_kernels(source)
    assert kernels.left_out == ("gemm fp8 (a corner alone)",)
    assert np.isnan(tables_of(kernels).gemm("fp8", 64, 128, 256).ms)
    shipped = kernel_tables("RTX-PRO-6000", "vllm")
    assert shipped is not None
    assert np.isnan(shipped.gemm("fp8_block", 64, 4096, 4096).ms)


def test_tables_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must have tables .*, got none.*Give the wheel"):
        list(imported_kernels(tmp_path))
    with pytest.raises(InputError, match="is no readable wheel or folder"):
        list(imported_kernels(tmp_path / "none.whl"))
    with pytest.raises(InputError, match=r"gemm_perf\.parquet: must have the column 'gemm_dtype', got \['m'"):
        list(imported_kernels(source_of(tmp_path / "a", gemm_rows().drop(columns="gemm_dtype"))))
    with pytest.raises(InputError, match=r"gemm_perf\.parquet: latency must be at least 0 ms, got -1"):
        list(imported_kernels(source_of(tmp_path / "b", gemm_rows().assign(latency=-1.0))))
    broken = source_of(tmp_path / "c", gemm_rows())
    next(broken.rglob("*.parquet")).write_bytes(b"PAR1")
    with pytest.raises(InputError, match="is no readable Parquet"):
        list(imported_kernels(broken))
