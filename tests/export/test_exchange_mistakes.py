"""Flags by which engines of several GPU generations read each other's KV caches, edited by hand: each mistake is told,
once; what the islands of an exchange change together, or what islands apart have otherwise, is none."""

import re
from dataclasses import replace
from functools import cache

import pytest
from export_plans import DENSE, gpu, island, plan_of, route
from plan_edits import flag
from plan_edits import text as replaced

from planner.domain import GroupedAttention, ParallelConfig, Phase, Plan
from planner.export import find_faults, render

_NODE = ParallelConfig(tp=8, dp=1)
_GPUS = (gpu("H200"), gpu("B200", compute_capability=10.0))
_WINDOWS = GroupedAttention(heads=64, kv_heads=8, head_dim=128, window=4096, windowed_layers=40)
_MODEL = replace(DENSE, kv_bytes=2, own_code=True, attention=_WINDOWS)
_ISLANDS = (
    island("H200-0", "H200", Phase.PREFILL, _NODE),
    island("B200-0", "B200", Phase.DECODE, _NODE),
    island("H200-1", "H200", Phase.PREFILL, _NODE),
    island("H200-2", "H200", Phase.DECODE, _NODE),
)
CASES = (
    *((target, "vllm") for target in ("lws", "kubernetes", "disaggregatedset", "llm-d", "kserve", "script")),
    *((target, "sglang") for target in ("lws", "kubernetes", "script")),
)
EXCHANGED = {"vllm": "attention-backend", "sglang": "page-size"}
VALUES = {"vllm": "TRITON_ATTN", "sglang": "64"}
WRITTEN = {"vllm": ("attention-backend", "no-disable-hybrid-kv-cache-manager"), "sglang": ("page-size",)}


@cache
def two_exchanges() -> Plan:
    """Short prompts go from Hopper to Blackwell, long ones stay on Hopper: the first two islands need one backend."""
    rows = tuple(
        route(one.id, one.phase, start, 1.0)
        for start, pair in ((0, _ISLANDS[:2]), (2048, _ISLANDS[2:]))
        for one in pair
        if one.phase is not None
    )
    return plan_of(_ISLANDS, gpus=_GPUS, name="exchanges", model=_MODEL, routing=rows)


@cache
def made(target: str, engine: str) -> dict[str, str]:
    """Sound manifests, rendered once."""
    return render(two_exchanges(), target=target, engine=engine)


def told(files: dict[str, str], plan: Plan | None) -> list[str]:
    """All faults as text."""
    return [str(fault) for fault in find_faults(files, plan)]


@pytest.mark.parametrize(("target", "engine"), CASES)
def test_islands_apart_may_read_their_caches_otherwise(target: str, engine: str) -> None:
    files = made(target, engine)
    written = "".join(files.values())
    assert len(re.findall(rf"--{EXCHANGED[engine]}\b", written)) == 2  # of four islands
    assert told(files, two_exchanges()) == told(files, None) == []


@pytest.mark.parametrize(("target", "engine"), CASES)
def test_one_side_of_an_exchange_cannot_have_it_otherwise(target: str, engine: str) -> None:
    name = EXCHANGED[engine]
    edited = flag(name, f"--{name}=7")(made(target, engine))
    for plan in (two_exchanges(), None):
        faults = told(edited, plan)
        assert len(faults) == 1
        assert f"--{name} must be the same on both sides of a KV transfer" in faults[0]


@pytest.mark.parametrize(("target", "engine"), CASES)
def test_both_sides_of_an_exchange_may(target: str, engine: str) -> None:
    name = EXCHANGED[engine]
    files = replaced(f"--{name}={VALUES[engine]}", f"--{name}=7", count=-1)(made(target, engine))
    assert told(files, two_exchanges()) == told(files, None) == []


@pytest.mark.parametrize(
    ("target", "engine", "name"),
    [(*case, name) for case in CASES for name in (*WRITTEN[case[1]], "trust-remote-code")],
)
def test_what_the_planner_writes_for_it_cannot_be_left_out(target: str, engine: str, name: str) -> None:
    bare = {file: re.sub(rf"--{name}(=\w+)?", "--dtype=auto", text) for file, text in made(target, engine).items()}
    faults = told(bare, two_exchanges())
    assert faults
    assert all(f"--{name} must be there as the plan needs" in fault for fault in faults)


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ("vllm", "trust-remote-code"),
        ("vllm", "attention-backend"),
        ("vllm", "kv-transfer-config"),
        ("vllm", "gpu-memory-utilization"),
        ("sglang", "page-size"),
        ("sglang", "tp-size"),
    ],
)
def test_a_flag_twice_is_told_once(engine: str, name: str) -> None:
    files = made("lws", engine)
    line = re.compile(rf"( *- )('?--{name}\b.*\n)")
    file = next(one for one in sorted(files) if line.search(files[one]))
    edited = files | {file: line.sub(r"\1\2\1\2", files[file], count=1)}
    for plan in (two_exchanges(), None):
        assert [f"--{name} must be given once" in fault for fault in told(edited, plan)] == [True]
