"""Makes planner/files/measurement_sets/peer.csv.xz anew: what the peer's tables say of the given runs, NVIDIA's alone.

Needs the extra `peer`; half a minute, of which it prints the CPU seconds:

    PYTHONPATH=tests/cost python tests/cost/make_peer_figures.py

The peer has steps, not loops; the loop is one line, of n requests in flight on an attention group: TPOT = (step of n
half-way through their answers + n prompts / answer) / gain of drafts, TTFT = a prompt and a token, and the rate by
Little's law. (With the requests that are in decode in place of n it does no better.) A pool of decode alone has no
prompts, and the requests that were in it. The drafts' gain is ours; degrees are those of the runs as we read them.
"""

import contextlib
import csv
import io
import logging
import lzma
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from aiconfigurator_core.sdk import EngineHandle
from benchmark_evidence import given_runs

from planner.cost.benchmarks.batches import gain_of, in_decode
from planner.cost.benchmarks.engines import engine_shares, habits
from planner.domain import BenchmarkRun, Load, Metric, Pool
from planner.files.tables.measurements import PEER

SYSTEMS = {
    **{"DGX-B200": "b200_sxm", "DGX-B300": "b300_sxm", "H100": "h100_sxm", "H200": "h200_sxm"},
    **{"GB200-NVL72": "gb200", "GB300-NVL72": "gb300", "A100": "a100_sxm", "L40S": "l40s"},
}
BACKENDS = {"trt": "trtllm", "sglang": "sglang", "vllm": "vllm"}
# its checkpoint of a model in a format, and what that leaves open
CHECKPOINTS: dict[tuple[str, str], tuple[str, dict[str, str]]] = {
    ("deepseek", "fp8"): ("deepseek-ai/DeepSeek-R1", {}),
    ("deepseek", "fp4"): ("nvidia/DeepSeek-V3.1-NVFP4", {}),
    ("glm-5", "fp8"): ("zai-org/GLM-5-FP8", {}),
    ("glm-5", "fp4"): ("nvidia/GLM-5-NVFP4", {}),
    ("gpt-oss-120b", ""): ("openai/gpt-oss-120b", {}),
    ("kimi-k2.5", "int4"): ("moonshotai/Kimi-K2.5", {}),
    ("kimi-k2.5", "fp4"): ("nvidia/Kimi-K2.5-NVFP4", {}),
    ("llama-3.1-70b", "fp8"): ("nvidia/Llama-3.1-70B-Instruct-FP8", {}),
    ("llama-3.1-70b", "fp4"): ("meta-llama/Meta-Llama-3.1-70B", {"gemm_quant_mode": "nvfp4"}),
    ("llama-3.1-8b", "bf16"): ("meta-llama/Meta-Llama-3.1-8B", {}),
    ("llama-3.1-8b", "fp8"): ("meta-llama/Meta-Llama-3.1-8B", {"gemm_quant_mode": "fp8"}),
    ("minimax-m2.5", "fp8"): ("MiniMaxAI/MiniMax-M2.5", {}),
    ("minimax-m2.5", "fp4"): ("nvidia/MiniMax-M2.5-NVFP4", {}),
    ("qwen3-235b", "fp8"): ("Qwen/Qwen3-235B-A22B-FP8", {}),
    ("qwen3-32b", "bf16"): ("Qwen/Qwen3-32B", {}),
    ("qwen3-32b", "fp8"): ("Qwen/Qwen3-32B-FP8-Static-PerTensor", {}),
    ("qwen3.5", "bf16"): ("Qwen/Qwen3.5-397B-A17B", {}),
    ("qwen3.5", "fp8"): ("Qwen/Qwen3.5-397B-A17B", {"gemm_quant_mode": "fp8_block", "moe_quant_mode": "fp8_block"}),
    ("qwen3.5", "fp4"): ("nvidia/Qwen3.5-397B-A17B-NVFP4", {}),
}
# where it has no table of 8-bit attention
_SLOW = {"fmha_quant_mode": "bfloat16"}
SECOND_CHOICES: tuple[dict[str, str], ...] = ({}, _SLOW, _SLOW | {"kvcache_quant_mode": "bfloat16"})
LARGEST_BATCH = 2048


@cache
def engine(
    path: str, system: str, backend: str, pool: Pool, drafts: int, modes: tuple[tuple[str, str], ...]
) -> EngineHandle:
    degrees = {"tp_size": pool.tp, "attention_dp_size": pool.dp}
    degrees |= {"moe_ep_size": pool.ep, "moe_tp_size": max(1, pool.worker_gpus // pool.ep)}
    return EngineHandle.compile(path, system, backend, nextn=drafts, **degrees, **dict(modes))


def choices(run: BenchmarkRun) -> Iterator[tuple[str, str, str, Pool, int, tuple[tuple[str, str], ...]]]:
    """What `engine` may be asked for a run, the nearest first."""
    text = run.precision.text.lower()
    checkpoints = [own for (start, of), own in CHECKPOINTS.items() if run.model.startswith(start) and of in ("", text)]
    if checkpoints and run.gpu in SYSTEMS and run.engine:
        path, modes = checkpoints[0]
        place = (path, SYSTEMS[run.gpu], BACKENDS[habits(run.engine).name])
        for second in SECOND_CHOICES:
            yield (*place, run.decode, run.precision.mtp_tokens, tuple((modes | second).items()))


def decode_ms(peer: EngineHandle, sequences: float, run: BenchmarkRun) -> float:
    """A step of a batch that need not be whole."""
    within = min(max(sequences, 1.0), LARGEST_BATCH)
    low = int(within)
    ends = [peer.decode_step_latency(n, run.input_tokens, run.output_tokens) for n in (low, low + 1)]
    return ends[0] + (within - low) * (ends[1] - ends[0])


def figures_of(peer: EngineHandle, run: BenchmarkRun) -> dict[Metric, float]:
    gain = gain_of(run, engine_shares(habits(run.engine).name, None))
    if run.disaggregated:
        return {Metric.TPOT: decode_ms(peer, in_decode(run), run) / gain}
    prompt_ms = peer.predict_prefill_latency(1, run.input_tokens)
    flying = (run.concurrency or 1.0) / (run.decode.workers * run.decode.dp)
    tpot = (decode_ms(peer, flying, run) + flying * prompt_ms / run.output_tokens) / gain
    ttft = prompt_ms + tpot
    rate = flying * run.output_tokens / (ttft + run.output_tokens * tpot) / run.decode.tp * 1000
    return {Metric.OUTPUT_RATE: rate, Metric.TTFT: ttft, Metric.TPOT: tpot}


def predicted(run: BenchmarkRun) -> dict[Metric, float]:
    """Nothing where its tables have no operation of the run, which it tells by one of many errors."""
    for choice in choices(run):
        with contextlib.suppress(ValueError, RuntimeError, KeyError, NotImplementedError):
            return figures_of(engine(*choice), run)
    return {}


def main() -> None:
    logging.disable(logging.CRITICAL)
    begin = time.process_time()
    runs = [entry.run for entry in given_runs() if entry.run.load is Load.CLOSED_LOOP and not entry.reason]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("file", "row", "metric", "predicted"))
    answered = 0
    for run in runs:
        answers = predicted(run)
        answered += bool(answers)
        writer.writerows((Path(run.file).name, run.row, metric, f"{value:.5g}") for metric, value in answers.items())
    PEER.write_bytes(lzma.compress(text.getvalue().encode(), preset=9 | lzma.PRESET_EXTREME))
    sys.stdout.write(f"{answered} of {len(runs)} runs in {time.process_time() - begin:.0f} CPU seconds\n")


if __name__ == "__main__":
    main()
