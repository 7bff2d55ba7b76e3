"""Flags of command lines against the engines' own parsers: the tables' rows, argparse as the judge of how words are
read, and what `--check` says of a folder."""

import argparse
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seeded_mistakes import CASES

from planner.export import find_faults
from planner.export.engines.dialects import ENGINES
from planner.export.engines.flag_tables import FlagTable, flag_table, word_faults
from planner.export.targets.dynamo.engines import DYNAMO_ENGINES, RUNTIME_VERSION
from planner.files import load_engine

PROGRAMS = (*ENGINES, *(f"dynamo.{name}" for name in DYNAMO_ENGINES))
TYPES = ("text", "whole", "size", "number", "json", "object")
VLLM, SGLANG = flag_table("vllm"), flag_table("sglang")

# (words, what is wrong with them: empty where the engine's own parser takes them), tried on the parsers themselves
VLLM_WORDS = (
    (("--max-num-seqs=8",), ""),
    (("--max-num-seqs", "8"), ""),
    (("--max_num_seqs=8",), ""),
    (("--max-num-se=8",), ""),
    (("--max-num-batched-tokens=8k",), ""),
    (("--max-num-batched-tokens=1.5K",), "--max-num-batched-tokens must be a whole number"),
    (("--max-model-len=auto",), ""),
    (("--seed", "-1"), ""),
    (("-tp", "8"), ""),
    (("-tp=8",), ""),
    (("-O3",), ""),
    (("-O", "2"), ""),
    (("--enable-dbo",), ""),
    (("--no-enable-dbo",), ""),
    (("--kv-transfer-config.kv_role=kv_both",), ""),
    (("--kv-transfer-config.kv_role", "kv_both"), ""),
    (("--served-model-name", "a", "b", "--seed=1"), ""),
    (("--cudagraph-capture-sizes", "1", "2"), ""),
    (("--cudagraph-capture-sizes", "1", "two"), "--cudagraph-capture-sizes must be a whole number"),
    (("--cudagraph-capture-sizes",), "--cudagraph-capture-sizes must have a value"),
    (("--no-such-flag",), "--no-such-flag must be a flag of vllm 0.18.0"),
    (("--no-such-flag=3",), "--no-such-flag must be a flag of vllm 0.18.0"),
    (("--max-num-seq-s=8",), "--max-num-seq-s must be a flag of vllm 0.18.0 (--max-num-seqs is one)"),
    (("--max-num=8",), "--max-num must be written in full"),
    (("--max-num-seqs=many",), "--max-num-seqs must be a whole number"),
    (("--max-num-seqs=1k",), "--max-num-seqs must be a whole number"),
    (("--max-num-seqs",), "--max-num-seqs must have a value"),
    (("--max-num-seqs", "--enable-dbo"), "--max-num-seqs must have a value"),
    (("--gpu-memory-utilization=most",), "--gpu-memory-utilization must be a number"),
    (("--kv-cache-dtype=fp4",), "--kv-cache-dtype must be one of auto, bfloat16"),
    (("--eplb-config={num_redundant_experts: 1}",), "--eplb-config must be JSON of an object"),
    (("--kv-transfer-config=3",), "--kv-transfer-config must be JSON of an object"),
    (("--kv-transfer-config=None",), ""),
    (("--seed.key=1",), "--seed.key must be given without a key"),
    (("--enable-dbo=true",), "--enable-dbo must be given without a value"),
    (("--enable-dbo", "true"), "vllm 0.18.0 must be given flags and their values alone"),
    (("-z",), "-z must be a flag of vllm 0.18.0"),
)
SGLANG_WORDS = (
    (("--tp", "8"), ""),
    (("--tensor-parallel-size=8",), ""),
    (("--max-running-req=8",), ""),
    (("--context-length=8k",), ""),
    (("--context-length=8Ki",), ""),
    (("--context-length=8K",), "--context-length must be a whole number"),
    (("--max_running_requests=8",), "--max_running_requests must be a flag of sglang 0.5.18"),
    (("--moe-a2a-backend=deepsea",), "--moe-a2a-backend must be one of"),
    (("--enable-dbo",), "--enable-dbo must be a flag of sglang 0.5.18"),
    (("--enable-expert-distribution-metrics",), "--enable-expert-distribution-metrics must be a flag of sglang"),
    (("--trust-remote-code", "yes"), "sglang 0.5.18 must be given flags and their values alone"),
)


@pytest.mark.parametrize(("words", "told"), VLLM_WORDS, ids=lambda one: " ".join(one) if isinstance(one, tuple) else "")
def test_vllm_takes_what_its_parser_takes(words: tuple[str, ...], told: str) -> None:
    found = [expected for expected, _ in word_faults(words, VLLM)]
    assert [told] == [one[: len(told)] for one in found] if told else found == []


@pytest.mark.parametrize(
    ("words", "told"), SGLANG_WORDS, ids=lambda one: " ".join(one) if isinstance(one, tuple) else ""
)
def test_sglang_takes_what_its_parser_takes(words: tuple[str, ...], told: str) -> None:
    found = [expected for expected, _ in word_faults(words, SGLANG)]
    assert [told] == [one[: len(told)] for one in found] if told else found == []


def test_a_word_without_a_flag_is_the_model_where_the_program_takes_one() -> None:
    assert not list(word_faults(("org/model", "--seed=1"), VLLM, positional=1))
    assert list(word_faults(("org/model", "--seed=1", "more"), VLLM, positional=1))


def test_what_is_filled_in_later_is_of_any_type() -> None:
    assert not list(word_faults(("--data-parallel-start-rank=$(LWS_WORKER_INDEX)",), VLLM))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_table_is_of_the_version_that_is_exported(program: str) -> None:
    table = flag_table(program)
    dynamo = program.startswith("dynamo.")
    images = DYNAMO_ENGINES[program.removeprefix("dynamo.")].images if dynamo else dict(load_engine(program).images)
    assert images["NVIDIA"].rpartition(":")[2].removeprefix("v") == table.version
    assert not dynamo or table.version == RUNTIME_VERSION
    assert len(table.flags) > 200
    assert all(flag.values in "01?+*" and flag.type in TYPES for flag in rows(table))


def rows(table: FlagTable) -> set[object]:
    """Each flag of the table once."""
    return set(table.flags.values())


@pytest.mark.parametrize("program", PROGRAMS)
def test_tables_lie_in_the_form_that_the_script_prints(program: str) -> None:
    path = Path(str(__import__("planner.export").export.__file__)).parent / "flags" / f"{program}.json"
    text = path.read_text(encoding="utf-8")
    table = json.loads(text)
    assert table["licence"] == "Apache-2.0"
    assert table["source"]
    assert len(text) < 40_000
    assert text.count("\n[[") == len(table["flags"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    for flag in sorted(rows(TOY), key=lambda one: one.names):
        if flag.values == "0":
            parser.add_argument(*flag.names, action="store_true", dest=flag.names[0][2:])
        else:
            kind = {"whole": int, "number": float, "text": str}[flag.type]
            count = None if flag.values == "1" else flag.values
            parser.add_argument(*flag.names, nargs=count, type=kind, choices=flag.choices or None)
    return parser


def _toy() -> FlagTable:
    from planner.export.engines.flag_tables import Flag

    flags = (
        Flag(names=("--alpha", "-a"), values="1", type="whole", choices=(), words=()),
        Flag(names=("--alphabet",), values="1", type="text", choices=("abc", "xyz"), words=()),
        Flag(names=("--beta",), values="0", type="text", choices=(), words=()),
        Flag(names=("--gamma",), values="+", type="number", choices=(), words=()),
        Flag(names=("--delta",), values="?", type="text", choices=(), words=()),
    )
    by_name = {name: flag for flag in flags for name in flag.names}
    return FlagTable(program="toy", version="1", source="", flexible=False, exact=frozenset(), flags=by_name)


TOY = _toy()
_WORDS = ("--alpha", "--alpha=3", "--alpha=x", "--alph", "--alphab=abc", "--alphabet", "xyz", "--beta", "--bet=1", "3")
_MORE = ("--gamma", "--gamma=1.5", "-1", "1.5", "--delta", "--delta=z", "--epsilon", "--epsilon=3", "-a", "-b", "x")


@settings(max_examples=400, deadline=None)
@given(words=st.lists(st.sampled_from(_WORDS + _MORE), max_size=5))
def test_words_are_read_as_argparse_reads_them(words: list[str]) -> None:
    try:
        taken = not _parser().parse_known_args(words)[1]
    except (argparse.ArgumentError, SystemExit):
        taken = False
    assert taken == (not list(word_faults(words, TOY)))


FILES = {
    "lws": "02-h20-0.yaml",
    "lws, sglang": "02-h20-0.yaml",
    "kubernetes": "02-h20-0.yaml",
    "disaggregatedset": "disaggregatedset.yaml",
    "llm-d": "01.values.yaml",
    "script": "01-h200-0.sh",
}
_MEMORY = re.compile(r"( +(?:- )?)--(?:gpu-memory-utilization|mem-fraction-static)=\S+\n")


def with_flag(case: str, flag: str) -> dict[str, str]:
    """The case's manifests with one more flag in the last command line of a file."""
    files, file = CASES[case].files(), FILES[case]
    last = list(_MEMORY.finditer(files[file]))[-1]
    edited = f"{files[file][: last.end()]}{last[1]}{flag}\n{files[file][last.end() :]}"
    return {**files, file: edited}


@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize("flag", ["--no-such-flag", "--dtype=float7", "--port-number=3"])
def test_a_flag_that_the_engine_does_not_know_is_told_in_every_target(case: str, flag: str) -> None:
    faults = [str(fault) for fault in find_faults(with_flag(case, flag))]
    assert len(faults) == 1
    assert f": {flag.partition('=')[0]} must be " in faults[0]


@pytest.mark.parametrize("flag", ["--no-such-flag", "--dtype\n          - float7", "--enable-dbo=true"])
def test_dynamos_workers_have_flags_of_their_own(flag: str) -> None:
    files, line = CASES["dynamo"].files(), "          - --enable-dbo\n"
    own = files["01-prefill-0.yaml"].replace(line, f"{line}          - --engine-request-limit\n          - '64'\n")
    assert not find_faults({**files, "01-prefill-0.yaml": own})
    edited = files["01-prefill-0.yaml"].replace(line, f"{line}          - {flag}\n")
    told = [str(fault) for fault in find_faults({**files, "01-prefill-0.yaml": edited})]
    assert any(f": {flag.split(maxsplit=1)[0].partition('=')[0]} must be " in fault for fault in told)


def test_kserves_variable_is_held_to_the_table_too() -> None:
    files = {
        name: text.replace("--enable-dbo", "--enable-dbo --no-such") for name, text in CASES["kserve"].files().items()
    }
    assert any("--no-such must be a flag of vllm" in str(fault) for fault in find_faults(files))


def test_flags_of_another_version_are_not_looked_up() -> None:
    files = with_flag("lws", "--flag-of-tomorrow")
    assert find_faults(files)
    newer = {name: text.replace("vllm-openai:v0.18.0", "vllm-openai:v0.19.0") for name, text in files.items()}
    assert not find_faults(newer)
