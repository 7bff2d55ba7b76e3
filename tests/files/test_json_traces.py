"""Traces of JSON lines with the ids of their prompts' blocks, and the table of hit shares in a workload file."""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reference_data import reference_path

from planner.domain import LengthProfile, PrefixReuse
from planner.files import load_workload, read_trace, write_workload
from planner.workload import summarize

Refused = Callable[..., None]
Write = Callable[[str, str], Path]


def row(time: float, tokens: int, ids: object, answer: int = 5) -> dict[str, object]:
    return {"timestamp": time, "input_length": tokens, "output_length": answer, "hash_ids": ids}


def lines(*rows: Mapping[str, object]) -> str:
    return "".join(f"{json.dumps(one)}\n" for one in rows)


def test_ids_follow_the_order_of_arrival(write: Write) -> None:
    path = write("t.jsonl", lines(row(3, 9, [7, 8, 9]), row(1, 4, [1]), row(2, 6, [1, 2])))
    trace = read_trace(path, time_unit="s", block_tokens=4)
    assert list(trace.input_tokens) == [4, 6, 9]
    assert (list(trace.blocks.ids), list(trace.blocks.ends)) == ([1, 1, 2, 7, 8, 9], [1, 3, 6])


def test_ids_may_be_texts_and_large_numbers(write: Write) -> None:
    rows = row(0, 8, ["a1b2", 2**70]), row(1, 8, ["a1b2", 2**70]), row(2, 8, ["ffff", -4])
    blocks = read_trace(write("t.jsonl", lines(*rows)), time_unit="s", block_tokens=4).blocks
    ids = list(blocks.ids)
    assert ids[:2] == ids[2:4]
    assert len(set(ids)) == 4


@pytest.mark.parametrize("counts", [1, 2])
def test_the_last_short_block_may_have_an_id(write: Write, counts: int) -> None:
    rows = (row(k, 6, list(range(counts))) for k in range(2))
    blocks = read_trace(write("t.jsonl", lines(*rows)), time_unit="s", block_tokens=4).blocks
    assert len(blocks.ids) == 2 * counts


def test_ids_by_part_and_no_ids_are_read_as_lengths(write: Write) -> None:
    by_part = {"system": [1], "passages": [2, 3]}
    for ids in (by_part, None, "none"):
        trace = read_trace(write("t.jsonl", lines(row(0, 600, ids), row(5, 700, ids))), time_unit="s")
        assert trace.blocks is None
        assert list(trace.input_tokens) == [600, 700]


def test_packed_traces_are_read_as_the_plain_ones(write: Write, tmp_path: Path) -> None:
    for name, text in (
        ("t.jsonl", lines(row(0, 600, [1, 2]), row(5, 700, [1, 3]))),
        ("t.csv", "arrival_s,input_tokens,output_tokens\n0,10,2\n1,11,2\n"),
    ):
        plain, packed = write(name, text), tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress(text.encode()))
        assert read_trace(packed, time_unit="s") == read_trace(plain, time_unit="s")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]\n", ("row 1 of the array must be a JSON object", "'1, 2]")),
        (lines(row(0, 600, [1, 2])) + "{\n", ("row 2 must be a JSON object",)),
        (lines(row(0, 600, [1, 2]), row(1, 600, [1, 2, 3])), ("row 2, key hash_ids", "512", "1.17", "got 3 ids")),
        (lines(row(0, 600, [1, 2]), row(1, 2000, None)), ("row 2, key hash_ids", "got 0 ids")),
        (lines(row(0, 600, [1, 2.5])), ("row 1, key hash_ids", "whole numbers or texts", "2.5")),
        (lines(row(0, 600, [1, True])), ("row 1, key hash_ids",)),
        (lines(row(0, 600, [1, 2]), {"timestamp": 1, "output_length": 2}), ("row 2, column input_length", "''")),
        (lines({"timestamp": 0, "hash_ids": [1]}), ("input_tokens", "none does")),
        ("", ("is empty",)),
    ],
)
def test_faulty_lines_are_refused(write: Write, refused: Refused, text: str, words: tuple[str, ...]) -> None:
    path = write("t.jsonl", text)
    refused(lambda: read_trace(path, time_unit="s"), *words)


def test_a_broken_packing_is_refused(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "t.jsonl.gz"
    packed = gzip.compress(lines(*(row(k, 600, [k, k + 1]) for k in range(3000))).encode())
    path.write_bytes(packed[: len(packed) // 2])
    refused(lambda: read_trace(path, time_unit="s"), "whole gzip file")
    path.write_bytes(b"no gzip at all")
    refused(lambda: read_trace(path, time_unit="s"), "t.jsonl.gz")


def test_a_scenario_names_the_tokens_of_a_block(
    read: Callable[[dict[str, Any]], Any], document: dict[str, Any], write: Write, refused: Refused
) -> None:
    path = write("t.jsonl", lines(*(row(k, 64, [1, 2, 3, 100 + k]) for k in range(9))))
    document["workload"] = {"kind": "trace", "file": str(path), "time_unit": "s", "block_tokens": 16}
    prefix = read(document).workload.prefix
    assert prefix.block_tokens == 16
    assert prefix.shares[0][-1] == pytest.approx(8 * 48 / (9 * 64), abs=1e-6)
    document["workload"]["block_tokens"] = 512
    refused(lambda: read(document), "workload.file", "row 1, key hash_ids", hint="block_tokens")


@pytest.fixture
def profile() -> LengthProfile:
    return summarize(read_trace(reference_path("mooncake/conversation_1500.jsonl.gz"), time_unit="ms"))


def test_a_workload_file_keeps_the_table(profile: LengthProfile, tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    write_workload(profile, path)
    assert profile.prefix is not None
    assert profile.prefix.affinity is not None
    assert load_workload(str(path)) == profile


def test_a_workload_without_affinity_is_written_as_before(profile: LengthProfile, tmp_path: Path) -> None:
    assert profile.prefix is not None
    older = replace(profile, prefix=replace(profile.prefix, affinity=None))
    path = tmp_path / "w.yaml"
    write_workload(older, path)
    assert "affinity" not in path.read_text()
    assert load_workload(str(path)) == older


WORKLOAD = """name: w
kind: lengths
mean_output_tokens: 9
max_output_tokens: 9
lengths: |
  input_tokens,requests
  9,1
"""


def with_table(*rows: str, block_tokens: object = 512) -> str:
    table = "".join(f"    {line}\n" for line in rows)
    return f"{WORKLOAD}prefix:\n  block_tokens: {block_tokens}\n  shares: |\n{table}"


HEADER = "from,prompt_tokens,16384,32768,unbounded"


def test_a_table_by_hand_is_read(write: Write) -> None:
    workload = load_workload(str(write("w.yaml", with_table(HEADER, "1,9,0,0.25,0.5", "64,99,0.1,0.1,0.9"))))
    assert isinstance(workload, LengthProfile)
    assert workload.prefix == PrefixReuse(
        block_tokens=512,
        cache_tokens=(16384, 32768),
        starts=(1, 64),
        prompt_tokens=(9, 99),
        shares=((0.0, 0.25, 0.5), (0.1, 0.1, 0.9)),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (with_table("from,prompt_tokens,unbounded", "1,9,0"), ("begin with from,prompt_tokens",)),
        (with_table("from,tokens,16384,unbounded", "1,9,0,0"), ("begin with from,prompt_tokens",)),
        (with_table("from,prompt_tokens,16384,8192,unbounded", "1,9,0,0,0"), ("ascend in sizes", "8192 after 16384")),
        (with_table("from,prompt_tokens,x,unbounded", "1,9,0,0"), ("whole numbers", "the header", "'x'")),
        (with_table(HEADER), ("at least one row",)),
        (with_table(HEADER, "1,9,0,0"), ("5 cells in row 1", "got 4")),
        (with_table(HEADER, "1,9,0,0,0", "1,9,0,0,0"), ("ascend in from", "1 after 1")),
        (with_table(HEADER, "1,9,0.3,0.2,0.5"), ("grow with the cache in row 1", "0.2 after 0.3")),
        (with_table(HEADER, "1,9,0,0,1"), ("below 1 in row 1", "'1'")),
        (with_table(HEADER, "1,0,0,0,0"), ("whole numbers of tokens from 1", "row 1", "'0'")),
        (with_table(HEADER, "1,9,0,0,0", block_tokens=0), ("prefix.block_tokens", "at least 1")),
    ],
)
def test_faulty_tables_are_refused(write: Write, refused: Refused, text: str, words: tuple[str, ...]) -> None:
    path = write("w.yaml", text)
    refused(lambda: load_workload(str(path)), "w.yaml", "prefix", *words)


USES = ("by,times,16384,unbounded", "any,1,0.1,0.3", "own,1,0.1,0.2", "other,1,0,0.1", "loose,1,0,0.1")
SPREAD = ("of,equal,skew", "prompts,9,0.1", "sessions,3,0.1", "fresh,4,0.1")


def with_affinity(
    uses: Sequence[str] = USES, spread: Sequence[str] = SPREAD, families: Sequence[str] = ("share", "0.7")
) -> str:
    tables = {"uses": uses, "spread": spread, "families": families}
    section = "".join(
        f"    {key}: |\n" + "".join(f"      {line}\n" for line in lines_of) for key, lines_of in tables.items()
    )
    return f"{with_table(HEADER, '1,9,0,0,0')}  affinity:\n{section}"


def test_affinity_by_hand_is_read(write: Write) -> None:
    workload = load_workload(str(write("w.yaml", with_affinity())))
    assert isinstance(workload, LengthProfile)
    assert workload.prefix is not None
    affinity = workload.prefix.affinity
    assert affinity is not None
    assert (affinity.windows, affinity.uses, affinity.own) == ((16384,), ((0.1, 0.3),), (0.1, 0.2))
    assert (affinity.others, affinity.loose, affinity.families) == (((0.0, 0.1),), ((0.0, 0.1),), (0.7,))
    assert (affinity.sessions.equal, affinity.fresh.equal, affinity.prompts.skew) == (3, 4, 0.1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (with_affinity(uses=("by,times,unbounded", *USES[1:])), ("uses", "begin with by,times")),
        (with_affinity(uses=("by,times,0,unbounded", *USES[1:])), ("uses", "ascending windows")),
        (with_affinity(uses=(*USES, "all,1,0,0")), ("uses", "rows of any, own, other, loose")),
        (with_affinity(uses=USES[:-1]), ("uses", "rows of any, own, other, loose")),
        (with_affinity(uses=(*USES[:-1], "loose,2,0,0.1")), ("uses", "times 1, 2, 4", "loose,2")),
        (with_affinity(uses=(*USES[:-1], "loose,1,0,1.1")), ("uses", "share from 0 to 1")),
        (with_affinity(uses=(*USES[:-1], "loose,1,0")), ("uses", "for each window")),
        (with_affinity(spread=SPREAD[:-1]), ("spread", "rows of prompts, sessions, fresh")),
        (with_affinity(spread=(*SPREAD[:-1], "fresh,0.5,0")), ("spread", "at least 1")),
        (with_affinity(families=("share",)), ("families", "at least one row")),
        (with_affinity(families=("share", "0.7", "0.7")), ("families", "a sum of at most 1", "1.4")),
    ],
)
def test_faulty_affinity_is_refused(write: Write, refused: Refused, text: str, words: tuple[str, ...]) -> None:
    path = write("w.yaml", text)
    refused(lambda: load_workload(str(path)), "w.yaml", "prefix.affinity", *words)
