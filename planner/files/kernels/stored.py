"""The file of measured kernels: grids of ln(ms) as whole thousandths, with their source and licence. No pickle."""

import io
import json
import lzma
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.errors import InputError

SCHEMA = 1
"""Of the file. A file of another schema is refused: its grids would be read wrongly."""

SHIPPED = Path(__file__).parent / "shipped"
"""One file `GPU.ENGINE.kernels` each, GPU being the planner's name of the type."""

_ENDING = ".kernels"

_STEPS = 1000
"""To ln(ms): a thousandth is a tenth of a percent, a tenth of what two measurements of a kernel differ by."""

_HOLE = np.int16(-32768)
"""What was not measured."""

_AGAIN = "Make the file again with `planner cost kernels import`."
_MOST_BYTES = 64 << 20
"""That a part of a file may unpack to: the largest shipped one has less than 1 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGrid:
    """The times of an operation by shape (exact) and size (a grid).

    `shapes`: a row a shape, a column each of `columns`; columns named in `words` hold places in that tuple.
    `axes`: name -> ascending sizes. `ln_ms`: (shapes, *sizes), NaN where nothing was measured; non-decreasing along
    the axes in `monotone`. `versions`: of the engine or library, the newest first."""

    columns: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]
    shapes: npt.NDArray[np.int64]
    axes: Mapping[str, npt.NDArray[np.float64]]
    ln_ms: npt.NDArray[np.float32]
    versions: tuple[str, ...]
    monotone: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFile:
    """All measured kernels of a GPU type and an engine, with where they are from. `date`: of the source.
    `left_out`: its tables that were noise for the most part, with their version, and formats that were measured at a
    corner of their grid alone."""

    gpu: str
    engine: str
    source: str
    licence: str
    date: str
    grids: Mapping[str, KernelGrid]
    left_out: tuple[str, ...]


def kernels_there(folder: Path | None = None) -> dict[tuple[str, str], Path]:
    """(GPU type, engine) -> the file of a folder, else the shipped one. Raises InputError where there is no folder."""
    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder}: must be a folder of measured kernels, is none.", hint=_AGAIN)
    paths = sorted((folder or SHIPPED).glob(f"*{_ENDING}"))
    return {(gpu, engine): path for path in paths for gpu, _, engine in [path.stem.rpartition(".")]}


def file_name(kernels: KernelFile) -> str:
    """Of the file of a GPU type and engine, which `kernels_there` finds it by."""
    return f"{kernels.gpu}.{kernels.engine}{_ENDING}"


def packed(kernels: KernelFile) -> bytes:
    """The file, the same bytes for the same tables."""
    head = {
        **{"schema": SCHEMA, "gpu": kernels.gpu, "engine": kernels.engine, "source": kernels.source},
        **{
            "licence": kernels.licence,
            "date": kernels.date,
            "left_out": kernels.left_out,
            "unit": "ln(ms) in thousandths",
        },
        "grids": {name: _described(grid) for name, grid in sorted(kernels.grids.items())},
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_LZMA) as archive:
        _put(archive, "head.json", json.dumps(head, indent=1).encode())
        for name, grid in sorted(kernels.grids.items()):
            _put(archive, f"{name}.shapes", _planes(grid.shapes.astype(np.int32)))
            _put(archive, f"{name}.ln_ms", _planes(_steps(grid.ln_ms)))
    return content.getvalue()


def _put(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_LZMA)


def _described(grid: KernelGrid) -> dict[str, Any]:
    return {
        "columns": list(grid.columns),
        "words": {column: list(words) for column, words in grid.words.items()},
        "shapes": len(grid.shapes),
        "axes": {name: sizes.tolist() for name, sizes in grid.axes.items()},
        "versions": list(grid.versions),
        "monotone": list(grid.monotone),
    }


def _steps(ln_ms: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """Differences along the last axis, wrapped: small numbers, which pack well."""
    steps = np.where(np.isnan(ln_ms), _HOLE, np.rint(np.nan_to_num(ln_ms) * _STEPS)).astype(np.int16)
    return np.diff(steps, axis=-1, prepend=np.int16(0))


def _planes(numbers: npt.NDArray[Any]) -> bytes:
    """The bytes of the numbers, all lowest ones first: high bytes are nearly all alike."""
    little = np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder("<")))
    return little.view(np.uint8).reshape(-1, numbers.dtype.itemsize).T.tobytes()


def read_kernels(path: Path) -> KernelFile:
    """The tables of a file. Raises InputError where it is none, damaged, or of another schema."""
    try:
        with zipfile.ZipFile(path) as archive:
            head = json.loads(_part(archive, "head.json"))
            if head["schema"] != SCHEMA:
                raise InputError(f"{path}: schema must be {SCHEMA}, got {head['schema']!r}.", hint=_AGAIN)
            grids = {name: _grid(archive, name, described) for name, described in head["grids"].items()}
        labels = {key: head[key] for key in ("gpu", "engine", "source", "licence", "date")}
        return KernelFile(**labels, grids=grids, left_out=tuple(head["left_out"]))
    except (OSError, zipfile.BadZipFile, lzma.LZMAError, EOFError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: is no readable table of kernels: {error}.", hint=_AGAIN) from None


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _MOST_BYTES:
        raise ValueError(f"{name} unpacks to more than {_MOST_BYTES} bytes")
    return archive.read(name)


def _grid(archive: zipfile.ZipFile, name: str, described: Mapping[str, Any]) -> KernelGrid:
    axes = {axis: np.array(sizes, dtype=np.float64) for axis, sizes in described["axes"].items()}
    shape = (described["shapes"], *map(len, axes.values()))
    steps = np.cumsum(_numbers(_part(archive, f"{name}.ln_ms"), np.dtype("<i2"), shape), axis=-1, dtype=np.int16)
    columns = tuple(described["columns"])
    shapes = _numbers(_part(archive, f"{name}.shapes"), np.dtype("<i4"), (described["shapes"], len(columns)))
    return KernelGrid(
        columns=columns,
        words={column: tuple(words) for column, words in described["words"].items()},
        shapes=shapes.astype(np.int64),
        axes=axes,
        ln_ms=np.where(steps == _HOLE, np.float32(np.nan), steps.astype(np.float32) / np.float32(_STEPS)),
        versions=tuple(described["versions"]),
        monotone=tuple(described["monotone"]),
    )


def _numbers(data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(np.frombuffer(data, np.uint8).reshape(dtype.itemsize, -1).T).view(dtype).reshape(shape)
