"""Raw data of Dynamo's profiler: npz files of prefill and decode of one worker.

Prefill: `prefill_isl` (tokens), `prefill_ttft` (ms) of one prompt at a time, `prefill_thpt_per_gpu` (tokens/s), which
follows from them and only serves to see that times are in ms. Decode: `x_kv_usage` (share of the cache), mean context
`y_context_length` (tokens), `z_itl` (ms), `z_thpt_per_gpu` (tokens/s), and `max_kv_tokens` of the worker: so many
requests were in decode as fill that share of the cache at that context.

Arrays are read without pickle, their sizes looked at before.
"""

import io
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from planner.domain import Load
from planner.errors import InputError
from planner.files.benchmarks.conditions import Stated
from planner.files.benchmarks.tool_runs import MOST_IN_FLIGHT, MOST_MS, MOST_TOKENS_PER_S, ToolResult, ToolRun
from planner.files.disk.opening import MIB, read_bytes
from planner.files.sections import MOST_TOKENS

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")  # of a zip archive, and of an empty one
MOST_POINTS = 100_000
_MOST_BYTES = 32 * MIB
_PREFILL = ("prefill_isl", "prefill_ttft", "prefill_thpt_per_gpu")
_DECODE = ("x_kv_usage", "y_context_length", "z_itl", "z_thpt_per_gpu")
_CACHE = "max_kv_tokens"
_IN_SECONDS = 100  # tokens/s per GPU over those of the times: GPUs of a group in ms, a thousand times less in s
# all that zipfile raises for damaged archives
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError),
    *(ValueError, LookupError, NotImplementedError, RuntimeError, MemoryError, OverflowError),
)
Floats = npt.NDArray[np.float64]


def read_dynamo_profile(path: Path) -> ToolResult:
    """The points of a profile, each a run. InputError names file, array and place."""
    arrays = _arrays(path)
    if set(_PREFILL) <= arrays.keys():
        runs = _prefill_runs(path, *_columns(path, arrays, _PREFILL))
    elif {*_DECODE, _CACHE} <= arrays.keys():
        runs = _decode_runs(path, arrays)
    else:
        raise InputError(
            f"{path}: must hold the arrays {', '.join(_PREFILL)}, or {', '.join((*_DECODE, _CACHE))}; got "
            f"{', '.join(sorted(arrays))[:200] or 'none of them'}.",
            hint="Give raw_data.npz as Dynamo's profiler writes it.",
        )
    return ToolResult(stated=Stated(file=str(path)), runs=runs, source="Dynamo's profiler", of_one_worker=True)


def _prefill_runs(path: Path, lengths: Floats, times_ms: Floats, rates: Floats) -> tuple[ToolRun, ...]:
    _check(path, _PREFILL[0], lengths, MOST_TOKENS)
    _check(path, _PREFILL[1], times_ms, MOST_MS)
    _check(path, _PREFILL[2], rates, MOST_TOKENS_PER_S)
    group_gpus = lengths / (times_ms / 1000) / rates
    if float(np.median(group_gpus)) > _IN_SECONDS:
        raise InputError(
            f"{path}: prefill_ttft must be in ms, got {times_ms[0]:g} for {lengths[0]:g} tokens at {rates[0]:g} "
            "tokens/s per GPU: these are seconds.",
            hint="Give the profile as Dynamo writes it.",
        )
    return tuple(
        ToolRun(
            row=row,
            place=f"point {row}",
            load=Load.PROMPT_BATCH,
            input_tokens=float(length),
            output_tokens=1,
            concurrency=1,
            ttft_ms=float(ttft_ms),
        )
        for row, (length, ttft_ms) in enumerate(zip(lengths, times_ms, strict=True), start=1)
    )


def _decode_runs(path: Path, arrays: dict[str, Floats]) -> tuple[ToolRun, ...]:
    usage, contexts, times_ms, rates = _columns(path, arrays, _DECODE)
    (cache,) = _columns(path, arrays, (_CACHE,))
    limits = (1.0, MOST_TOKENS, MOST_MS, MOST_TOKENS_PER_S)
    for name, values, bound in zip(_DECODE, (usage, contexts, times_ms, rates), limits, strict=True):
        _check(path, name, values, bound)
    _check(path, _CACHE, cache, 1e12)
    if len(cache) != 1:
        raise InputError(f"{path}: {_CACHE} must hold one number, got {len(cache)}.", hint="Give one worker's profile.")
    requests = usage * cache[0] / contexts
    _check(path, f"{_DECODE[0]} x {_CACHE} / {_DECODE[1]}", requests, MOST_IN_FLIGHT)
    return tuple(
        ToolRun(
            row=row,
            place=f"point {row}",
            load=Load.DECODE_STEP,
            input_tokens=float(context),
            output_tokens=1,
            batch=float(batch),
            output_rate_per_gpu=float(rate),
            tpot_ms=float(itl_ms),
        )
        for row, (context, batch, itl_ms, rate) in enumerate(zip(contexts, requests, times_ms, rates, strict=True), 1)
    )


def _check(path: Path, name: str, values: Floats, limit: float) -> None:
    """InputError for the first value that is not above 0 and at most `limit`."""
    wrong = np.flatnonzero(~((values > 0) & (values <= limit)))
    if len(wrong):
        raise InputError(
            f"{path}: {name}[{wrong[0]}] must be a number above 0 and at most {limit:g}, got {values[wrong[0]]:g}.",
            hint="Leave the point out, or profile it again.",
        )


def _columns(path: Path, arrays: dict[str, Floats], names: Iterable[str]) -> list[Floats]:
    """Arrays of equal length."""
    columns = [arrays[name] for name in names]
    lengths = {len(column) for column in columns}
    if len(lengths) > 1 or not all(0 < length <= MOST_POINTS for length in lengths):
        raise InputError(
            f"{path}: {', '.join(names)} must have equally many values, 1 to {MOST_POINTS}, got "
            f"{', '.join(str(len(column)) for column in columns)}.",
            hint="Give the profile as Dynamo writes it.",
        )
    return columns


def _arrays(path: Path) -> dict[str, Floats]:
    """The arrays that profiles have, by name; others are left alone."""
    data = read_bytes(path, most_bytes=_MOST_BYTES)
    arrays = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in (*_PREFILL, *_DECODE, _CACHE):
                if f"{name}.npy" in archive.namelist():
                    arrays[name] = _array(path, name, archive)
    except _DAMAGED as error:
        raise InputError(f"{path}: is no readable npz file: {str(error)[:120]}.", hint="Copy the file again.") from None
    return arrays


def _array(path: Path, name: str, archive: zipfile.ZipFile) -> Floats:
    """One array of numbers, in one dimension. Its header is looked at before room is made for it."""
    if archive.getinfo(f"{name}.npy").file_size > _MOST_BYTES:
        raise InputError(f"{path}: {name} must have at most {MOST_POINTS} values, has more.", hint="Split the file.")
    data = archive.read(f"{name}.npy")
    try:
        stream = io.BytesIO(data)
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0
        shape, _, dtype = (read_header if version == (1, 0) else np.lib.format.read_array_header_2_0)(stream)
        if dtype.kind not in "iuf" or len(shape) > 1 or not 0 <= math.prod(shape) * dtype.itemsize <= len(data):
            raise ValueError(f"it holds {dtype} of shape {shape}")
        return np.atleast_1d(np.load(io.BytesIO(data), allow_pickle=False)).astype(np.float64)
    except (ValueError, SyntaxError, TypeError, EOFError, MemoryError, OverflowError) as error:
        reason = str(error).partition("\n")[0][:120]
        raise InputError(
            f"{path}: {name} must be a row of numbers, at most {MOST_POINTS}: {reason}.",
            hint="Give the profile as Dynamo writes it.",
        ) from None
