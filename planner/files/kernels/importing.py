"""Tables of the package aiconfigurator-core made into compact ones of our own: the one place that reads Parquet of it.

Kept of a table: its newest version, and shapes that only older ones have; of its sizes those that a grid needs. Times
that fall where a size grows are measurement noise, as plans need times that never fall: single outliers become as a
neighbour, the rest the nearest series that never falls. A table that is noise for the most part is left out.
"""

import math
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from planner.errors import InputError, PlannerError
from planner.files.kernels.operations import OPERATIONS, Frame, Operation, Table
from planner.files.kernels.stored import KernelFile, KernelGrid

GPU_NAMES = {
    "a100_sxm": "A100",
    "b200_sxm": "DGX-B200",
    "b300_sxm": "DGX-B300",
    "gb200": "GB200-NVL72",
    "gb300": "GB300-NVL72",
    "h100_sxm": "H100",
    "h200_sxm": "H200",
    "l40s": "L40S",
    "rtx_pro_6000_server": "RTX-PRO-6000",
}
"""The package's folders -> our GPU types. Others it has are not in our catalogue."""

ENGINES = ("sglang", "trtllm", "vllm")
LICENCE = "Apache-2.0, (c) NVIDIA CORPORATION & AFFILIATES"
INSTALL_PARQUET = 'pip install "llm-fleet-planner[parquet]"'

_PLACE = re.compile(r"(?:^|/)(\w+)/(\w+)/(\w+)/([\w.]+)/(\w+)_perf\.parquet$")  # GPU/family/engine/version/table
_NOISE = 0.25  # of ln(ms)
_OUTLIER = math.log(2)  # likewise
_CORNER = 0.02  # of a grid
_DATE = "2026-11"  # when the package was last published; its tables bear no dates
_LEAST_MS = 1e-4  # some are differences of two measurements, and then 0
_SHARED = "nccl"  # a library's folder beside the engines', used by all of them
_MOST_BYTES = 64 << 20
_GIVE = "Give the wheel of aiconfigurator-core 0.12.0, or its unpacked folder systems/data."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """One table of the source. `name`: as messages say it; `path`: a file, or a name in the wheel."""

    gpu: str
    engine: str
    version: str
    table: str
    path: str


def imported_kernels(source: Path) -> Iterator[KernelFile]:
    """The tables of a wheel or folder, a GPU type and engine at a time. Raises InputError where there are none, where
    columns are missing, and where pyarrow is not installed; PlannerError in the last case."""
    members = _members(source)
    if not members:
        raise InputError(f"{source}: must have tables GPU/KIND/ENGINE/VERSION/NAME_perf.parquet, got none.", hint=_GIVE)
    for folder, gpu in GPU_NAMES.items():
        for engine in ENGINES:
            parts = [member for member in members if member.gpu == folder and member.engine in (engine, _SHARED)]
            if any(member.engine == engine for member in parts):
                yield _file(source, gpu, engine, parts)


def _file(source: Path, gpu: str, engine: str, members: Sequence[_Member]) -> KernelFile:
    results = {operation.name: _grid(source, operation, members) for operation in OPERATIONS}
    return KernelFile(
        gpu=gpu,
        engine=engine,
        source=source.name,
        licence=LICENCE,
        date=_DATE,
        grids={name: grid for name, (grid, _) in results.items() if grid is not None},
        left_out=tuple(table for _, noise in results.values() for table in noise),
    )


def _members(source: Path) -> list[_Member]:
    try:
        if source.is_dir():
            names = [path.relative_to(source).as_posix() for path in sorted(source.rglob("*_perf.parquet"))]
        else:
            with zipfile.ZipFile(source) as wheel:
                names = sorted(wheel.namelist())
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{source}: is no readable wheel or folder: {error}.", hint=_GIVE) from None
    matches = [(name, match) for name in names if (match := _PLACE.search(name))]
    return [
        _Member(gpu=match[1], engine=match[3], version=match[4], table=match[5], path=name) for name, match in matches
    ]


def _read(source: Path, member: _Member, columns: Sequence[str]) -> Frame:
    """The rows of a table. Raises InputError where it is damaged or lacks a column."""
    try:
        import pyarrow.parquet as pq  # noqa: PLC0415  (an optional extra)
    except ImportError:
        raise PlannerError("Tables are Parquet, and pyarrow is not installed.", hint=INSTALL_PARQUET) from None
    where = f"{source}: {member.path}"
    try:
        rows: Frame = pq.read_table(BytesIO(_bytes(source, member.path))).to_pandas()
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{where}: is no readable Parquet: {error}.", hint=_GIVE) from None
    if missing := [column for column in columns if column not in rows]:
        raise InputError(f"{where}: must have the column {missing[0]!r}, got {list(rows.columns)}.", hint=_GIVE)
    return rows


def _bytes(source: Path, path: str) -> bytes:
    if source.is_dir():
        return (source / path).read_bytes()
    with zipfile.ZipFile(source) as wheel:
        if wheel.getinfo(path).file_size > _MOST_BYTES:
            raise ValueError(f"{path} unpacks to more than {_MOST_BYTES} bytes")
        return wheel.read(path)


def _grid(source: Path, operation: Operation, members: Sequence[_Member]) -> tuple[KernelGrid | None, list[str]]:
    """The operation's grid, None where no table has rows of it, and what was left out of it."""
    columns = sorted({column for table in operation.tables for column in (*table.fixed, *table.shape)})
    frames = []
    for table in operation.tables:
        for rank, member in enumerate(_newest_first([m for m in members if m.table == table.file])):
            rows = _counted(_read(source, member, _columns_needed(table)), table, where=member.path)
            frames.append(rows.assign(rank=rank, version=member.version, table=f"{table.file} {member.version}"))
    if not frames:
        return None, []
    rows = pd.concat(frames, ignore_index=True)
    rows = rows[rows["rank"] == rows.groupby(columns)["rank"].transform("min")]
    noise = _noise(operation, rows, columns)
    rows = rows[~rows["table"].isin(noise)]
    if not len(rows):
        return None, noise
    grid, corners = _gridded(operation, rows, columns)
    return grid, noise + [f"{operation.name} {shape} (a corner alone)" for shape in corners]


def _noise(operation: Operation, rows: Frame, columns: Sequence[str]) -> list[str]:
    """Tables whose median row is further than `_NOISE` from a series that never falls: no kernel behaves so."""
    _, ln_ms, places = _series(operation, rows, columns)
    off = rows.assign(off=np.abs(np.log(rows["ms"].to_numpy()) - ln_ms[places])).groupby("table")["off"].median()
    return sorted(off[off > _NOISE].index)


def _newest_first(members: Sequence[_Member]) -> list[_Member]:
    return sorted(members, key=lambda member: [int(n) for n in re.findall(r"\d+", member.version)], reverse=True)


def _columns_needed(table: Table) -> list[str]:
    """Columns that a table must have before it is prepared."""
    prepared = {"window_size", "context", "bytes", "mode", "phase", "ep_size"}
    return [name for name in (*table.shape.values(), *table.sizes.values()) if name not in prepared]


def _counted(rows: Frame, table: Table, where: str) -> Frame:
    """Our columns, sizes and `ms`: of rows alike the fastest, of parts the sum where all are there."""
    rows = table.prepare(rows)
    ours = {**table.shape, **table.sizes}
    counted = pd.DataFrame({name: rows[column] for name, column in ours.items()}).assign(**table.fixed)
    counted = counted.replace({"kv_dtype": {"fp8_e4m3": "fp8"}})
    counted["ms"], counted["part"] = rows["latency"], rows.get("part", 0)
    if not ((counted["ms"] >= 0) & np.isfinite(counted["ms"])).all():
        raise InputError(f"{where}: latency must be at least 0 ms, got {counted['ms'].min()}.", hint=_GIVE)
    counted["ms"] = counted["ms"].clip(lower=_LEAST_MS)
    keys = [name for name in counted if name not in ("ms", "part")]
    fastest = counted.groupby([*keys, "part"], as_index=False)["ms"].min()
    grouped = fastest.groupby(keys)["ms"]
    complete = grouped.sum()[grouped.size() == counted["part"].nunique()]
    return pd.DataFrame(complete.reset_index())


def _gridded(operation: Operation, rows: Frame, columns: Sequence[str]) -> tuple[KernelGrid, list[str]]:
    """The grid, and shapes that were measured at a corner of it alone, which says nothing of the rest."""
    coded, words = rows, {}
    for column in columns:
        if rows[column].dtype.kind not in "iu":
            words[column] = tuple(sorted(set(rows[column])))
            coded = coded.assign(**{column: rows[column].map({word: at for at, word in enumerate(words[column])})})
    shapes, ln_ms, _ = _series(operation, coded, columns)
    axes = {}
    for axis, size in enumerate(operation.tables[0].sizes, start=1):
        values = np.unique(rows[size])
        axes[size] = _thinned(values, operation.sizes_kept.get(size, ()))
        ln_ms = ln_ms.take(np.searchsorted(values, axes[size]), axis=axis)
    share = (~np.isnan(ln_ms)).mean(axis=tuple(range(1, ln_ms.ndim)))
    measured = share > _CORNER
    corners = [
        " ".join(words[c][v] if c in words else str(v) for c, v in zip(columns, shape, strict=True))
        for shape in shapes[(share > 0) & ~measured].tolist()
    ]
    grid = KernelGrid(
        columns=tuple(columns),
        words=words,
        shapes=shapes[measured].astype(np.int64),
        axes={size: values.astype(np.float64) for size, values in axes.items()},
        ln_ms=ln_ms[measured].astype(np.float32),
        versions=tuple(dict.fromkeys(rows.sort_values("rank", kind="stable")["version"])),
        monotone=operation.monotone,
    )
    return grid, corners


def _series(
    operation: Operation, rows: Frame, columns: Sequence[str]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64], tuple[npt.NDArray[np.intp], ...]]:
    """The shapes there are, ln(ms) of each over all sizes there are, never falling, and each row's place in it."""
    shapes = rows[[*columns]].drop_duplicates().sort_values([*columns], kind="stable")
    row = pd.MultiIndex.from_frame(shapes).get_indexer(pd.MultiIndex.from_frame(rows[[*columns]]))
    sizes = {size: np.unique(rows[size]) for size in operation.tables[0].sizes}
    places = (row, *(np.searchsorted(values, rows[size]) for size, values in sizes.items()))
    ln_ms = np.full((len(shapes), *map(len, sizes.values())), np.nan)
    ln_ms[places] = np.log(rows["ms"])
    for axis, size in enumerate(sizes, start=1):
        if size in operation.monotone:
            ln_ms = _never_falling(ln_ms, axis)
    return shapes.to_numpy(), ln_ms, places


def _thinned(values: npt.NDArray[Any], chosen: Sequence[int]) -> npt.NDArray[Any]:
    """The sizes of a grid: those wanted among the measured ones, and the ends; all where few would be left."""
    subset = values[np.isin(values, [*chosen, values[0], values[-1]])]
    return subset if chosen and len(subset) >= min(len(values), 6) else values


def _never_falling(ln_ms: npt.NDArray[np.float64], axis: int) -> npt.NDArray[np.float64]:
    """The nearest series along the axis, by squares, that never falls, after outliers; holes stay holes.

    At i it is the largest over j <= i of the smallest over k >= i of the mean of j..k."""
    table = np.moveaxis(ln_ms, axis, -1)
    return np.moveaxis(np.stack([_isotonic(part) for part in table]), -1, axis)  # a shape at a time: squares of sizes


def _isotonic(table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Likewise along the last axis."""
    if table.shape[-1] == 1:
        return table
    table = _without_outliers(table)
    measured = ~np.isnan(table)
    sums, counts = (_from_to(np.where(measured, table, 0.0)), _from_to(measured.astype(np.float64)))
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    means = np.where(np.tri(table.shape[-1], k=-1, dtype=np.bool_), np.nan, means)
    lowest = np.flip(np.fmin.accumulate(np.flip(means, -1), axis=-1), -1)
    highest = np.fmax.accumulate(lowest, axis=-2)
    return np.where(measured, np.diagonal(highest, axis1=-2, axis2=-1), np.nan)


def _from_to(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Sums from each place to each later one."""
    sums = np.cumsum(numbers, axis=-1)
    return np.asarray(sums[..., None, :] - (sums - numbers)[..., :, None])


def _without_outliers(table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Peaks of twice both neighbours and more cut to the higher one, then such dips filled to the lower one. Lesser
    ones are real: a GEMM of one row more than a tile takes up to twice as long."""
    for sign in (1, -1):
        signed = sign * table
        neighbour = np.maximum(signed[..., :-2], signed[..., 2:])
        inner = np.where(signed[..., 1:-1] > neighbour + _OUTLIER, neighbour, signed[..., 1:-1])
        table = sign * np.concatenate([signed[..., :1], inner, signed[..., -1:]], axis=-1)
    return table
