"""Only regular files are opened, none beyond its size is read, and what nobody can build is told as bad input."""

import os
import resource
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files import load_model, load_run, load_scenario, load_workload, read_trace, write_file
from planner.files.disk.csv_rows import csv_rows
from planner.files.disk.documents import parse_large_yaml, parse_yaml, read_json, read_yaml
from planner.files.disk.opening import MOST_OF_A_DOCUMENT, input_hash, read_bytes, text_lines
from planner.workload import summarize

Refused = Callable[..., None]
Write = Callable[[str, str], Path]

READERS: dict[str, Callable[[Path], object]] = {
    "scenario": lambda path: load_scenario(path, summarize),
    "model": lambda path: load_model(f"{path.parent}/{path.name}"),
    "workload": lambda path: load_workload(f"{path.parent}/{path.name}"),
    "trace": read_trace,
    "table": lambda path: list(csv_rows(path, ("a",))),
    "run": load_run,
    "hash": input_hash,
}


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # its path must be short
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


THINGS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a folder": (Path.mkdir, "it is a folder"),
    "a pipe": (_pipe, "it is a pipe"),
    "a socket": (_socket, "it is a socket"),
    "an endless device": (lambda path: path.symlink_to("/dev/zero"), "it is a device"),
    "a link to itself": (lambda path: path.symlink_to(path), "symbolic links"),
    "nothing": (lambda _: None, "no such file"),
}


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("reader", READERS)
def test_only_regular_files_are_opened(tmp_path: Path, refused: Refused, reader: str, thing: str) -> None:
    make, words = THINGS[thing]
    path = tmp_path / "given"
    make(path)
    if reader in ("run", "model") and thing == "a folder":
        words = "no such file"  # of a run or a model, and without a plan.json or config.json in it
    refused(lambda: READERS[reader](path), "given", words)


def test_a_document_has_a_most_and_the_error_states_it(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "large.yaml"
    path.touch()
    os.truncate(path, 200 * 2**20)  # a hole: no disk is used
    for reader in ("scenario", "model", "workload"):
        refused(lambda reader=reader: READERS[reader](path), "must have at most 32 MiB, has 200", hint="CSV")
    os.truncate(path, MOST_OF_A_DOCUMENT)
    assert len(read_bytes(path)) == MOST_OF_A_DOCUMENT
    refused(lambda: load_run(path), "must be JSON")  # a plan may be longer


def test_a_line_has_a_most_too(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "line.csv"
    path.write_bytes(b"a\n" + b"x" * (2**20 + 1))
    refused(lambda: list(text_lines(path)), "line 2 must have at most 1 MiB")
    refused(lambda: read_trace(path), "must have one column of arrival_s")


def test_the_first_bad_byte_of_a_long_file_is_named(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a\n" + b"1\n" * 50_000 + b"caf\xe9\n" + b"1\n" * 9)
    refused(lambda: list(csv_rows(path, ("a",))), "UTF-8", "line 50002", "0xe9")


@pytest.mark.parametrize("columns", [20_000])
def test_wide_tables_are_told_at_once(write: Write, columns: int) -> None:
    path = write("wide.csv", ",".join(f"column{k}" for k in range(columns)) + "\n" + "1," * (columns - 1) + "1\n")
    for call in (lambda: read_trace(path), lambda: list(csv_rows(path, ("sn", "cpu"))), lambda: _measurements(path)):
        with pytest.raises(InputError) as caught:
            call()
        assert len(str(caught.value)) < 3_000
    twice = write("twice.csv", "sn," * columns + "sn\n" + "1," * columns + "1\n")
    spent = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    with pytest.raises(InputError, match="twice: sn"):
        list(csv_rows(twice, ("sn",)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - spent < 1.0  # counted name by name: 3.5 s


def _measurements(path: Path) -> object:
    from planner.files import load_measurements

    return load_measurements(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('a: !!bool "maybe"', ("line 1", "a must be true or false", "got 'maybe'")),
        ('a: !!int ""', ("a must be a whole number", "got ''")),
        ('a: !!int "0x1F"', ("a must be a whole number", "got '0x1F'")),
        ('a: !!float ""', ("a must be a number", "got ''")),
        ("a: !!float x", ("a must be a number", "got 'x'")),
        ("a: !!timestamp x", ("a must be a date", "got 'x'")),
        ("a: 2025-13-45", ("a must be a date", "got '2025-13-45'")),
        ("b: 1\na: [!!bool maybe]", ("line 2", "the value must be true or false")),
        ("a: " + "9" * 5000, ("a must be a whole number of at most 40", "got '999")),
        ("a: !!binary é", ("line 1",)),
        ("a: !!omap x", ("line 1",)),
        ("a: !!python/name:os.system x", ("line 1", "tag")),
        ("a: &x {b: 1}\nc: &y {<<: [" + "*x, " * 60_000 + "*x]}\nd: {<<: [*y, *y]}", ("merge keys",)),
        ("a: " + "[" * 3000, ("nested too deeply",)),
        ("a: " + "x" * 2**21 + "\nb: !!timestamp 2024-01-01", ("tags, dates or merge keys", "100,000 characters")),
    ],
)
@pytest.mark.parametrize("parse", [parse_yaml, parse_large_yaml])
def test_what_yaml_cannot_build_is_bad_input(
    refused: Refused, parse: Callable[..., object], text: str, words: tuple[str, ...]
) -> None:
    refused(lambda: parse(text, file="f.yaml"), "f.yaml", *words)


def test_merge_keys_that_double_again_and_again_end_early(refused: Refused) -> None:
    levels = "a0: &a0 {x: 1}\n" + "".join(
        f"a{k}: &a{k} {{<<: [{', '.join([f'*a{k - 1}'] * 10)}], y{k}: 1}}\n" for k in range(1, 10)
    )
    refused(lambda: parse_large_yaml(levels, file="f"), "merge keys (<<) stand for more than 100000 pairs")


def test_sizes_of_models_have_bounds(tmp_path: Path, refused: Refused) -> None:
    import json

    from planner.files import shipped_models

    config = json.loads(shipped_models()["deepseek-v3"])
    path = tmp_path / "m.json"
    for key in ("hidden_size", "num_hidden_layers", "vocab_size", "n_routed_experts", "max_position_embeddings"):
        for size in (2**64, 10**30, 10**12):
            path.write_text(json.dumps(config | {key: size}))
            refused(lambda: load_model(str(path)), "m.json", key, "at most", hint="Correct")
    path.write_text(json.dumps(config).replace(str(config["hidden_size"]), "9" * 5000, 1))
    refused(lambda: load_model(str(path)), "m.json", hint="numbers of ordinary size")


def test_halves_of_characters_are_refused(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"a": "\\ud800", "b": ["\\udfff"], "c": "\\ud83d\\ude00"}')
    section = read_json(path)
    refused(lambda: section.text("a"), "a must be Unicode text")
    refused(lambda: section.texts("b"), "b must be a list of texts")
    assert section.text("c") == "\U0001f600"
    path.write_text('a: !!str "\\ud800"\n')
    refused(lambda: read_yaml(path).text("a"), "m.json")


def test_lists_in_lists_are_no_bomb(refused: Refused) -> None:
    levels = "a0: &a0 [x, x]\n" + "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 40))
    refused(lambda: parse_large_yaml(levels, file="f"), "f: must hold at most 524,288 values")


def test_paths_that_no_system_takes_are_bad_input(write: Write, refused: Refused) -> None:
    for name in ("m" * 5000 + "/x", "~nobody-of-this-name/x.json", "a\0b/x"):
        refused(lambda name=name: load_model(name), name[:20])


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077, 0o002])
def test_a_new_file_has_the_permissions_that_the_user_gives_new_files(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "out.yaml"
    before = os.umask(mask)
    try:
        write_file(path, b"a: 1\n")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    write_file(path, b"a: 2\n", force=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["out.yaml"]


PROGRAM = """
import sys
from pathlib import Path
from planner.files import read_trace
from planner.workload import summarize
summarize(read_trace(Path(sys.argv[1])))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def _peak_kb(path: Path) -> int:
    """Most memory of a fresh process that summarises a trace."""
    answer = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True)
    return int(answer.stdout)


def test_a_long_trace_takes_little_memory(tmp_path: Path) -> None:
    few, many = tmp_path / "few.csv", tmp_path / "many.csv"
    for path, rows in ((few, 1_000), (many, 400_000)):
        with path.open("w") as stream:
            stream.write("arrival_s,input_tokens,output_tokens\n")
            stream.writelines(f"{k / 50},{k % 5000 + 1},{k % 700}\n" for k in range(rows))
    assert (_peak_kb(many) - _peak_kb(few)) / 400_000 * 1024 < 150  # bytes a request; as lists of rows 300
