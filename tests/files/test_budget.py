"""Few bytes that stand for hours of work, and many that stand for nothing: refused before the work, by their place."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files import load_workload, read_trace
from planner.files.disk import budget, documents
from planner.files.disk.documents import parse_json, read_json, read_yaml
from planner.files.disk.opening import MOST_OF_A_LIST, read_unpacked
from planner.files.tables.traces.options import trace_options
from planner.runs.workloads import profile_of_trace

HEAD = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,100,5\n"
ROW = b"2023-11-16 18:00:01,100,5\n"


def told(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.hint
    return caught.value.message


def passing(path: Path) -> object:
    return profile_of_trace(path, trace_options(path))[0].requests


@pytest.mark.parametrize(
    ("name", "pack", "data", "words"),
    [
        ("t.csv.gz", gzip.compress, b"\n" * 2**22, "must have requests; it has more than 1 MiB of blanks"),
        ("t.csv", bytes, b" " * 2**21 + HEAD, "must have requests; it has more than 1 MiB of blanks"),
        ("t.csv", bytes, HEAD + b"\n" * 100_003, "100,003 of its first 100,005 lines are empty"),
        ("t.csv.gz", gzip.compress, HEAD + b",,\n" * 200_000, "100,003 of its first 100,005 lines are empty"),
        ("t.jsonl", bytes, b'{"a": 1}\n' + b"\n" * 200_000, "lines are empty"),
        ("t.csv.bz2", bz2.compress, HEAD + ROW * 240_000, "must unpack to at most 1100 times its size"),
        ("t.json", bytes, b"[" + b" " * 2**20 + b"\n" * 2**20, "blanks in a row"),
    ],
)
def test_traces_of_nothing_are_refused(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes], data: bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(pack(data))
    for read in (read_trace, passing, lambda path: load_workload(str(path))):
        message = told(lambda read=read: read(path))
        assert message.startswith(f"{path}: ")
        assert words in message


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"\n" * 90_000 + ROW,  # a few
        HEAD.replace(b"\n", b"\n\n") + (ROW + b"\r\n") * 110_000,  # one behind each row
        gzip.compress(HEAD + ROW * 200_000),  # as repetitive as rows can be
        lzma.compress(HEAD + ROW * 100_000),
    ],
)
def test_what_people_write_is_taken(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    assert passing(path)


def test_a_table_has_a_bound_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a," * budget.MOST_COLUMNS + b"a\n")
    assert "line 1 must have at most 100,000 cells, has 100,001" in told(lambda: read_trace(path))


@pytest.mark.parametrize("depth", [budget.DEEPEST, budget.DEEPEST + 1, 100_000])
@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_documents_have_a_depth(tmp_path: Path, depth: int, kind: str) -> None:
    path = tmp_path / f"d.{kind}"
    path.write_text(f'{{"a": {"[" * (depth - 1)}{"]" * (depth - 1)}}}')
    read = read_json if kind == "json" else read_yaml
    if depth == budget.DEEPEST:
        assert "a" in read(path)
    else:
        assert told(lambda: read(path)) == (
            f"{path}: is nested too deeply: at most 100 lists and mappings may stand in one another."
        )


@pytest.mark.parametrize("text", ['"[[[" ', '"\\\\"', '"\\"[["', '"\\\\\\"[{"', '["", "[", "]"]'])
def test_brackets_in_texts_do_not_nest(text: str) -> None:
    many = f'{{"a": [{", ".join([text] * 200)}]}}'
    assert "a" in parse_json(many, file="f")


def test_a_long_number_is_named_by_its_key(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    for digits in (41, 5000, 10**6):
        path.write_text(f'{{"a": 1,\n"name": "{"7" * 60}", "pods": [{{"gpus": -{"9" * digits}}}]}}')
        assert told(lambda: read_json(path)) == (
            f"{path}: line 2: gpus must be a whole number of at most 40 digits, got one of {digits:,} digits."
        )
    path.write_text(f'{{"a": 0.{"3" * 60}, "b": 1{"0" * 50}.5, "c": "{"7" * 60}", "d": {"9" * 40}}}')
    assert len(read_json(path)) == 4
    yaml = tmp_path / "d.yaml"
    yaml.write_text(f"a: 1\nb:\n- gpus: {'9' * 41}\n")
    assert "d.yaml: line 3, column 9: is not readable YAML: gpus must be a whole number of at most 40" in told(
        lambda: read_yaml(yaml)
    )


def test_yaml_has_a_bound_of_values(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    most = 2**20 // budget.BYTES_A_VALUE
    path.write_text(f"a: [{'1,' * (most - 5)}1]\n")
    assert read_yaml(path, most_bytes=2**20)
    path.write_text(f"a: [{'1,' * most}1]\n")
    assert f"must hold at most {most:,} values" in told(lambda: read_yaml(path, most_bytes=2**20))
    path.write_text("a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + f"b: [{'*a,' * (most // 10)}*a]\n")
    assert f"must hold at most {most:,} values" in told(lambda: read_yaml(path, most_bytes=2**20))
    path.write_text("a: |\n" + "  4096,1\n" * 40_000)  # one value, however long
    assert read_yaml(path, most_bytes=2**20)


@pytest.mark.parametrize("entry", ["- 1\n", "- [1]\n", "- {}\n", "k%d: 1\n"])
def test_yaml_has_a_bound_of_what_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    """A cluster's file may have half a gigabyte; one of bare values is told from it by what it begins with."""
    monkeypatch.setattr(documents, "MOST_PLAIN", 1000)
    path = tmp_path / "d.yaml"
    path.write_text("a:\n" + "  - {a: 1}\n" * 5000)
    assert read_yaml(path, most_bytes=MOST_OF_A_LIST)
    lines = [f"  {entry.replace('%d', str(k))}" for k in range(1001)]
    path.write_text("a:\n" + "".join(lines[:1000]))
    assert read_yaml(path, most_bytes=MOST_OF_A_LIST)
    path.write_text("a:\n" + "".join(lines) + "]")  # what comes behind is not read
    message = told(lambda: read_yaml(path, most_bytes=MOST_OF_A_LIST))
    assert message.startswith(f"{path}: line 1002, column ")
    assert "more than 1,000 plain values, or a mapping more keys" in message


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_documents_are_bounded(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "packed"
    path.write_bytes(pack(b"sound"))
    assert read_unpacked(path, most_bytes=2**20) == b"sound"
    path.write_bytes(pack(b"ab" * 2**22))
    message = told(lambda: read_unpacked(path, most_bytes=2**20))
    assert message.startswith(f"{path}: must ")
    assert "1 MiB unpacked" in message or "unpack to at most 1100 times its size" in message
    path.write_bytes(pack(b"sound" * 100)[:-9])
    assert "must be a whole" in told(lambda: read_unpacked(path, most_bytes=2**20))
