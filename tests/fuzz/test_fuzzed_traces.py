"""Traces with one thing wrong in a row: read as they say, or refused by file, row and column; the same in a stream."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.domain import LengthProfile
from planner.errors import InputError
from planner.files import read_trace
from planner.files.tables.traces.options import trace_options
from planner.runs.workloads import profile_of_trace
from planner.workload import summarize

COLUMNS = ("time", "input_tokens", "output_tokens")
ROWS = [[str(1_700_000_000 + k), str(100 + k), str(5 + k)] for k in range(12)]
QUICK = settings(
    max_examples=150, database=None, suppress_health_check=list(HealthCheck), deadline=None, print_blob=False
)

# what people, spreadsheets and programs leave in cells
CELLS = st.one_of(
    st.sampled_from([
        *("", " ", "null", "None", "NaN", "nan", "-", "inf", "-1", "0", "1e3", "1e999", "0x10", "1_000", "1,000"),
        *("1.5", "2026-01-01", "2026-13-01", "01/02/2026", "12:30", "yesterday", "1700000000000", "=A1", '"'),
        *("\u0663", "\x00"),
        *("2026-01-01T00:00:00+99:00", "9" * 400, "Infinity", "true", "{}", "1700000000.5 s", "\u202e1"),
    ]),
    st.text(max_size=8),
    st.floats().map(repr),
)  # fmt: skip


def outcome(path: Path, drop: list[str]) -> LengthProfile | str:
    """The profile, or the words of the refusal; in memory and in a stream the same."""
    try:
        in_memory: LengthProfile | str = summarize(read_trace(path, drop=drop))
    except InputError as error:
        in_memory = str(error)
    try:
        passing: LengthProfile | str = profile_of_trace(path, trace_options(path, drop=drop))[0]
    except InputError as error:
        passing = str(error)
    assert passing == in_memory
    return in_memory


def csv_of(rows: list[list[str]], separator: str) -> str:
    def quoted(cell: str) -> str:
        return '"' + cell.replace('"', '""') + '"' if re.search(r'[",;\t\r\n]', cell) else cell

    return "".join(separator.join(map(quoted, row)) + "\n" for row in ([*COLUMNS], *rows))


@given(
    row=st.integers(1, len(ROWS)),
    column=st.integers(0, 2),
    cell=CELLS,
    separator=st.sampled_from([",", ";", "\t"]),
    drop=st.sampled_from([[], ["faulty"]]),
)
@QUICK
def test_a_cell_is_read_or_named(
    tmp_path: Path, row: int, column: int, cell: str, separator: str, drop: list[str]
) -> None:
    rows = [list(cells) for cells in ROWS]
    rows[row - 1][column] = cell
    path = tmp_path / "t.csv"
    path.write_text(csv_of(rows, separator), encoding="utf-8", newline="")
    result = outcome(path, drop)
    if isinstance(result, LengthProfile):
        assert result.requests in ((len(ROWS),) if not drop else (len(ROWS), len(ROWS) - 1))
        return
    assert str(path) in result
    # the row and the column, or what is wrong with the column as a whole: its unit, its span, or the text of the file
    of_column = (f"column {COLUMNS[column]} must", "is not CSV", "most rows must be requests")
    assert f"row {row}, column {COLUMNS[column]}" in result or any(words in result for words in of_column), result


@given(row=st.integers(1, len(ROWS)), key=st.sampled_from(COLUMNS), value=st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
), lost=st.booleans(), array=st.booleans())  # fmt: skip
@QUICK
def test_a_value_of_json_is_read_or_named(
    tmp_path: Path, row: int, key: str, value: object, lost: bool, array: bool
) -> None:
    rows: list[dict[str, object]] = [dict(zip(COLUMNS, cells, strict=True)) for cells in ROWS]
    rows[row - 1][key] = value
    if lost:
        del rows[row - 1][key]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(rows) if array else "".join(f"{json.dumps(cells)}\n" for cells in rows))
    result = outcome(path, [])
    if isinstance(result, str):
        # a mapping is keys of its own, which may be named like a column
        words = (f"row {row}, column {key}", f"column {key} must", "several do")
        assert any(word in result for word in words), result
    else:
        assert result.requests == len(ROWS)


@given(cut=st.integers(0, 600), byte=st.integers(0, 255), place=st.integers(0, 600))
@QUICK
@pytest.mark.parametrize("form", ["csv", "jsonl", "json"])
def test_broken_files_are_read_or_refused(tmp_path: Path, form: str, cut: int, byte: int, place: int) -> None:
    rows = [dict(zip(COLUMNS, cells, strict=True)) for cells in ROWS]
    lines = "".join(f"{json.dumps(cells)}\n" for cells in rows)
    text = {"csv": csv_of(ROWS, ","), "jsonl": lines, "json": json.dumps(rows)}[form].encode()
    data = bytearray(text[: len(text) - cut % len(text)])
    data[place % len(data)] = byte
    path = tmp_path / f"t.{form}"
    path.write_bytes(data)
    result = outcome(path, [])
    assert isinstance(result, LengthProfile) or str(path) in result
