"""Raw data of Dynamo's profiler: what points become, and what is refused before it is unpacked."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference_data import FOLDER

from planner.domain import Load, Metric, Pool
from planner.errors import InputError
from planner.files import Conditions, load_benchmarks

SAID = Conditions(gpu="H200", model="deepseek-r1", tp=1, dp=8, ep=8, gpus=8, precision="FP8")
DECODE = {
    "x_kv_usage": np.array([0.1, 0.5]),
    "y_context_length": np.array([1024, 1024]),
    "z_itl": np.array([9.0, 14.0]),
    "z_thpt_per_gpu": np.array([300.0, 900.0]),
    "max_kv_tokens": np.array([1_200_000]),
}
PREFILL = {
    "prefill_isl": np.array([512, 1024]),
    "prefill_ttft": np.array([60.0, 110.0]),
    "prefill_thpt_per_gpu": np.array([8500.0, 9300.0]),
}
Profile = Callable[..., Path]


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    def write(arrays: dict[str, Any]) -> Path:
        path = tmp_path / "raw_data"
        with path.open("wb") as stream:
            np.savez(stream, **arrays)
        return path

    return write


def test_decode_points_of_a_file() -> None:
    runs = load_benchmarks([FOLDER / "benchmark_results" / "invented_decode_raw_data.npz"], SAID)
    assert [(run.row, run.load, run.input_tokens) for run in runs] == [
        (row, Load.DECODE_STEP, length) for row, length in enumerate([1024] * 3 + [4096] * 3, start=1)
    ]
    # 0.1 of 1.2 million tokens at 1024 a sequence, over 8 ranks
    assert runs[0].batch_per_rank == pytest.approx(120_000 / 1024 / 8)
    assert dict(runs[0].measured) == {Metric.OUTPUT_RATE: 300, Metric.TPOT: 9}
    assert (runs[0].decode, runs[0].concurrency) == (Pool(tp=1, dp=8, ep=8), None)


def test_prefill_points_of_a_file() -> None:
    runs = load_benchmarks([FOLDER / "benchmark_results" / "invented_prefill_raw_data.npz"], SAID)
    assert [(run.load, run.concurrency, run.input_tokens, dict(run.measured)[Metric.TTFT]) for run in runs] == [
        (Load.PROMPT_BATCH, 1, length, ms) for length, ms in ((512, 60), (1024, 110), (2048, 215), (4096, 430))
    ]


def test_the_cache_may_be_a_plain_number(profile: Profile) -> None:
    assert load_benchmarks([profile(DECODE | {"max_kv_tokens": np.array(1_200_000)})], SAID)


def test_a_profile_is_of_one_worker(profile: Profile) -> None:
    with pytest.raises(InputError, match=r"is of one worker: --gpus must be --tp x --dp \(8\), got 16"):
        load_benchmarks(
            [profile(DECODE)],
            Conditions(
                **{name: getattr(SAID, name) for name in ("gpu", "model", "tp", "dp", "ep", "precision")}, gpus=16
            ),
        )


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "must hold the arrays prefill_isl"),
        ({"prefill_isl": np.array([1])}, "must hold the arrays prefill_isl.* got prefill_isl"),
        (PREFILL | {"prefill_ttft": np.array([60.0])}, "must have equally many values, 1 to 100000, got 2, 1, 2"),
        (PREFILL | {"prefill_ttft": np.array([60.0, -1])}, r"prefill_ttft\[1\] must be a number above 0.* got -1"),
        (PREFILL | {"prefill_ttft": np.array([0.06, 0.11])}, "prefill_ttft must be in ms, got 0.06 for 512 tokens"),
        (PREFILL | {"prefill_isl": np.array(["a", "b"])}, "prefill_isl must be a row of numbers"),
        (PREFILL | {"prefill_isl": np.ones((2, 2))}, "prefill_isl must be a row of numbers.* shape"),
        (PREFILL | {"prefill_isl": np.array([None, {}], dtype=object)}, "prefill_isl must be a row of numbers"),
        ({name: np.array([]) for name in PREFILL}, "must have equally many values, 1 to 100000, got 0, 0, 0"),
        (
            DECODE | {"x_kv_usage": np.array([0.1, 1.5])},
            r"x_kv_usage\[1\] must be a number above 0 and at most 1, got 1.5",
        ),
        (DECODE | {"z_itl": np.array([9.0, np.nan])}, r"z_itl\[1\] must be a number above 0"),
        (DECODE | {"max_kv_tokens": np.array([1, 2])}, "max_kv_tokens must hold one number, got 2"),
        (
            DECODE | {"z_thpt_per_gpu": np.array([300.0, 9e5])},
            "point 2: the requests in decode must be at most the 585",
        ),
    ],
)
def test_what_cannot_be_is_named(profile: Profile, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        load_benchmarks([profile(arrays)], SAID)
    assert "/raw_data: " in refusal.value.message


def packed(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in PREFILL:
            archive.writestr(f"{name}.npy", content)
    return path


def test_an_array_that_claims_too_much_gets_no_room(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with pytest.raises(InputError, match="prefill_isl must be a row of numbers"):
        load_benchmarks([packed(tmp_path / "raw_data", header.getvalue() + b"\0" * 64)], SAID)


def test_an_array_that_unpacks_to_too_much_is_not_unpacked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="prefill_isl must have at most 100000 values"):
        load_benchmarks([packed(tmp_path / "raw_data", b"\0" * (40 * 2**20))], SAID)


@pytest.mark.parametrize("content", [b"PK\x03\x04", b"PK\x03\x04" + b"\xff" * 500])
def test_a_damaged_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "raw_data"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is no readable npz file"):
        load_benchmarks([path], SAID)
