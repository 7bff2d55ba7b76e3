"""Benchmark runs as commands: engines' own flags, quoted for a shell, one line a node."""

import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from planner.domain import ParallelConfig, Phase, ProposedRun, Scenario
from planner.errors import InputError
from planner.export import BenchmarkCommands, benchmark_commands, require_tools
from planner.files import scenario_from_document
from planner.workload import summarize

MODEL = "deepseek-ai/DeepSeek-V3"


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    document = {
        "name": "s",
        "model": "deepseek-v3",
        "workload": "azure-code-2023",
        "inventory": {"H200": 64, "H20": 64},
        "cost": {"mtp_tokens": 1},
    }
    return scenario_from_document(document, origin="test", base=Path(), summarize=summarize)


def proposed(**changes: Any) -> ProposedRun:
    run: dict[str, Any] = {
        "gpu": "H200",
        "phase": Phase.DECODE,
        "parallel": ParallelConfig(tp=1, dp=16),
        "batch_size": 128,
        "input_tokens": 256,
        "output_tokens": 3600,
        "concurrency": 2048,
        "requests": 4096,
        "predicted_tokens_per_s": 9000.0,
        "spread": 0.2,
        "hours": 0.5,
        "cost_usd": 32.0,
        "worth_rps": 3.0,
    }
    return ProposedRun(**{**run, **changes})


PREFILL = {"phase": Phase.PREFILL, "batch_size": 6, "input_tokens": 2502, "output_tokens": 1, "concurrency": 192}


def pairs(line: str) -> dict[str, str]:
    """Flag and value of every `--flag value` of a command."""
    words = shlex.split(line)
    return {a: b for a, b in pairwise(words) if a.startswith("--") and not b.startswith("--")}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("changes", [{}, PREFILL], ids=["decode", "prefill"])
@pytest.mark.parametrize("dp", [8, 16, 32])
def test_engines_take_the_flags_and_know_no_partner(
    scenario: Scenario, engine: str, changes: dict[str, Any], dp: int
) -> None:
    run = proposed(**{**changes, "parallel": ParallelConfig(tp=1, dp=dp)})
    made = benchmark_commands(scenario, run, engine=engine, tool="vllm")
    assert not made.refusal
    assert len(made.serve) == dp // 8
    for line in made.serve:
        for word in ("kv-transfer", "disaggregation", "NIXL", "low_latency' "):
            assert word not in line
        assert MODEL in line


def test_sglang_chooses_its_exchange_itself_where_prompts_come_too(scenario: Scenario) -> None:
    (line, _) = benchmark_commands(scenario, proposed(), engine="sglang", tool="vllm").serve
    assert "--deepep-mode=low_latency" not in line


def test_nodes_differ_by_their_rank(scenario: Scenario) -> None:
    first, second = benchmark_commands(scenario, proposed(), engine="vllm", tool="vllm").serve
    assert "--headless" in second
    assert "--headless" not in first
    assert "FIRST_NODE" in first
    ranks = [
        line.partition("--node-rank=")[2][0]
        for line in benchmark_commands(scenario, proposed(), engine="sglang", tool="vllm").serve
    ]
    assert ranks == ["0", "1"]


def test_vllm_bench_runs_the_loop_and_saves_its_result(scenario: Scenario) -> None:
    made = benchmark_commands(scenario, proposed(), engine="vllm", tool="vllm")
    assert shlex.split(made.load)[:3] == ["vllm", "bench", "serve"]
    told = pairs(made.load)
    assert told["--model"] == MODEL
    assert (told["--random-input-len"], told["--random-output-len"]) == ("256", "3600")
    assert (told["--max-concurrency"], told["--num-prompts"]) == ("2048", "4096")
    assert told["--base-url"] == "http://FIRST_NODE:8000"
    assert told["--result-filename"] == "h200-decode-tp1-dp16-pp1.json"
    assert {"--ignore-eos", "--save-result"} <= set(shlex.split(made.load))
    assert "--request-rate" not in made.load


def test_aiperf_runs_the_same_loop(scenario: Scenario) -> None:
    made = benchmark_commands(scenario, proposed(), engine="sglang", tool="aiperf")
    assert shlex.split(made.load)[:2] == ["aiperf", "profile"]
    told = pairs(made.load)
    assert (told["--synthetic-input-tokens-mean"], told["--output-tokens-mean"]) == ("256", "3600")
    assert (told["--concurrency"], told["--request-count"]) == ("2048", "4096")
    assert told["--url"] == "http://FIRST_NODE:30000"
    assert "ignore_eos:true" in made.load


def test_what_an_engine_cannot_load_is_told(scenario: Scenario) -> None:
    run = proposed(**PREFILL, gpu="H20", parallel=ParallelConfig(tp=1, dp=12))
    made = benchmark_commands(scenario, run, engine="sglang", tool="vllm")
    assert isinstance(made, BenchmarkCommands)
    assert "SGLang cannot load deepseek-v3 on its 12 GPUs" in made.refusal
    assert (made.serve, made.load) == ((), "")


def test_unknown_engines_and_tools_are_refused() -> None:
    with pytest.raises(InputError, match=r"Engine 'trt': must be one of vllm, sglang"):
        require_tools("trt", "vllm")
    with pytest.raises(InputError, match=r"Tool 'wrk': must be one of vllm, aiperf"):
        require_tools("vllm", "wrk")
