"""Garbled and hostile results: read, or refused in words; never anything else."""

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_data import FOLDER, reference_names, reference_text

from planner.domain import BenchmarkRun
from planner.errors import InputError
from planner.files import Conditions, load_benchmarks
from planner.files.benchmarks.benchmark_files import GIVEN_POINTS
from planner.files.disk.opening import text_lines

SAID = Conditions(gpu="H200", model="mine", tp=8, dp=1, ep=1, gpus=8, precision="FP8")
TEXTS = [name for name in reference_names("benchmark_results/*") if not name.endswith(".npz")]
JSON_TEXTS = [name for name in TEXTS if name.endswith(".json")]
RECORD = json.dumps(
    {
        "metadata": {"request_start_ns": 1_759_813_207_000_000_000, "request_end_ns": 1_759_813_208_000_000_000},
        "metrics": {"input_sequence_length": {"value": 9}, "output_sequence_length": {"value": 5, "unit": "tokens"}},
    }
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([0, -1, 1e308, 10**400, "", "inf", "1e5", "\ud800", "2026-13-45"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
often = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_or_refused(path: Path, content: bytes) -> tuple[BenchmarkRun, ...]:
    """The runs; none where the content is refused, in words that name the file."""
    path.write_bytes(content)
    try:
        return load_benchmarks([path], SAID)
    except InputError as error:
        refusal = error
    assert str(path) in refusal.message or "--" in refusal.message
    assert refusal.hint
    assert len(refusal.message) < 4000
    return ()


def places(document: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a document."""
    pairs = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [path for key, value in pairs for path in ((*above, key), *places(value, (*above, key)))]


@pytest.mark.parametrize("name", JSON_TEXTS)
@given(data=st.data())
@often
def test_a_document_with_a_strange_value(name: str, tmp_path: Path, data: st.DataObject) -> None:
    document = json.loads(reference_text(name))
    *above, key = data.draw(st.sampled_from(places(document)))
    section = document
    for step in above:
        section = section[step]
    if isinstance(section, dict) and data.draw(st.booleans()):
        del section[key]
    else:
        section[key] = data.draw(values)
    for run in read_or_refused(tmp_path / "result", json.dumps(document).encode()):
        assert all(0 < value < float("inf") for _, value in run.measured)
        assert run.concurrency is None or run.concurrency > 0


@pytest.mark.parametrize("name", TEXTS)
def test_a_damaged_text(name: str, tmp_path: Path) -> None:
    for seed in range(8):
        dice = random.Random(f"{name} {seed}")
        content = bytearray(reference_text(name).encode())
        for _ in range(dice.randint(1, 5)):
            begin = dice.randrange(len(content))
            content[begin : begin + dice.choice([0, 1, 30])] = dice.randbytes(dice.choice([0, 1, 3]))
        read_or_refused(tmp_path / "result", bytes(content))
        read_or_refused(tmp_path / "result", bytes(content[: dice.randrange(len(content))]))


@given(content=st.binary(max_size=300) | st.sampled_from([b"{" * 5000, b"[" * 5000, b"a: &a [*a]\n", b"\xff\xfe{}"]))
@often
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    assert read_or_refused(tmp_path / "result", content) == ()


@given(cells=st.dictionaries(st.sampled_from(["value", "unit", "values", ""]), values, max_size=3) | values)
@often
def test_a_record_with_a_strange_metric(tmp_path: Path, cells: Any) -> None:
    document = json.loads(RECORD)
    document["metrics"]["time_to_first_token"] = cells
    read_or_refused(tmp_path / "result", f"{RECORD}\n{json.dumps(document)}\n".encode())


@given(header=st.lists(st.sampled_from(["gpu", "model", "phase_or_metric", "disaggregated", "tp", ""]), max_size=6))
@often
def test_a_table_with_any_header(tmp_path: Path, header: list[str]) -> None:
    assert read_or_refused(tmp_path / "result", (",".join(header) + "\n" + ",".join(header) + "\n").encode()) == ()


@pytest.mark.parametrize("table", GIVEN_POINTS, ids=lambda path: path.stem)
@given(data=st.data())
@often
def test_a_row_with_a_strange_cell(table: Path, tmp_path: Path, data: st.DataObject) -> None:
    header, *rows = "".join(text_lines(table)).splitlines()
    (cells,) = csv.reader([data.draw(st.sampled_from(rows))])
    strange = data.draw(st.sampled_from(["", "0", "-1", "nan", "inf", "1e999", "x", "2_0", "True", '"', "9" * 400]))
    cells[data.draw(st.integers(0, len(cells) - 1))] = strange
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    for run in read_or_refused(tmp_path / "result", f"{header}\n{text.getvalue()}".encode()):
        assert all(0 < value < float("inf") for _, value in run.measured)


@pytest.mark.parametrize("name", ["invented_decode_raw_data.npz", "invented_prefill_raw_data.npz"])
def test_a_damaged_profile(name: str, tmp_path: Path) -> None:
    for seed in range(60):
        dice = random.Random(seed)
        content = bytearray((FOLDER / "benchmark_results" / name).read_bytes())
        for _ in range(dice.randint(1, 4)):
            content[dice.randrange(4, len(content))] = dice.randrange(256)
        read_or_refused(tmp_path / "result", bytes(content))


@given(
    lengths=st.lists(st.floats() | st.integers(-5, 10**6).map(float), max_size=4),
    dtype=st.sampled_from(["<f8", "<f4", "<i8", "<f2", ">f8", "<c16", "?", "<U4", "<M8[s]"]),
)
@often
def test_a_profile_of_strange_numbers(tmp_path: Path, lengths: list[float], dtype: str) -> None:
    with np.errstate(all="ignore"):
        try:
            array = np.array(lengths).astype(dtype)
        except (ValueError, TypeError):
            return
    stream = io.BytesIO()
    np.savez(stream, prefill_isl=array, prefill_ttft=array, prefill_thpt_per_gpu=array)
    for run in read_or_refused(tmp_path / "result", stream.getvalue()):
        assert run.input_tokens > 0
