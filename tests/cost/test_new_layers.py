"""Rates of models whose layers no fit has seen, against measured ones: aggregated runs by SGLang and vLLM.

Points: `tests/data/silicon` (its source: SOURCES.md there). A run keeps `silicon_concurrency` requests in flight; its
rate is concurrency / (TTFT + answer x TPOT), by Little's law.
"""

import hashlib
import re
import statistics
from collections.abc import Mapping

import pytest
from cost_figures import gpu
from reference_data import reference_rows

from planner.cost.benchmarks.prediction import figures
from planner.domain import BenchmarkRun, Load, Metric, ModelSpec, NamedRun, Pool, Precision
from planner.files import load_model

GPUS = {"b200_sxm": "DGX-B200", "b300_sxm": "DGX-B300", "h100_sxm": "H100", "h200_sxm": "H200"}
# of weights, of experts, of the cache
BYTES = {"fp8": (1.0, 1.0, 1.0), "fp4": (0.5625, 0.5625, 1.0), "bf16": (2.0, 2.0, 2.0), "int4": (2.0, 0.5625, 1.0)}
MXFP4 = (2.0, 0.53125, 1.0)  # gpt-oss'
RESERVED = "012345"
RULE = (
    *("model_path", "system", "backend", "backend_version", "precision", "mode", "isl", "osl"),
    *("gemm_quant_mode", "moe_quant_mode", "tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"),
    *("prefill_num_workers", "prefill_tp_size", "prefill_attention_dp_size"),
    *("decode_num_workers", "decode_tp_size", "decode_attention_dp_size", "decode_moe_ep_size"),
)
"""What decides whether a row is kept aside for acceptance."""


def _run(number: int, row: Mapping[str, str], model: ModelSpec) -> NamedRun | None:
    in_flight = re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"])
    if in_flight is None or row["mode"] != "agg" or row["system"] not in GPUS or row["precision"] not in BYTES:
        return None
    concurrency, prompt, answer = int(in_flight.group(1)), int(row["isl"]), int(row["osl"])
    pool = Pool(tp=int(row["tp_size"]), dp=int(row["attention_dp_size"] or 1), ep=int(row["moe_ep_size"] or 1))
    tpot = float(row["silicon_tpot_ms"])
    seconds = (float(row["silicon_ttft_ms"]) + answer * tpot) / 1000
    weights, experts, cache = MXFP4 if "gpt-oss" in model.name else BYTES[row["precision"]]
    run = BenchmarkRun(
        row=number,
        gpu=GPUS[row["system"]],
        model=model.name,
        load=Load.CLOSED_LOOP,
        decode=pool,
        input_tokens=prompt,
        output_tokens=answer,
        measured=((Metric.OUTPUT_RATE, concurrency / seconds * answer / pool.gpus), (Metric.TPOT, tpot)),
        concurrency=concurrency,
        engine=row["backend"],
        precision=Precision(weight_bytes=weights, expert_bytes=experts, kv_bytes=cache, text=row["precision"]),
    )
    return NamedRun(run=run, gpu=gpu(run.gpu), model=model)


# (model, its runs), mean error of the rate (what was reached), of TPOT
REACHED = {
    ("qwen3.5-397b-a17b", "Qwen/Qwen3.5-397B-A17B"): (190, 0.145, 0.13),
    ("glm-5-fp8", "zhipuai/GLM-5"): (59, 0.11, 0.075),
    ("minimax-m2.5", "MiniMaxAI/MiniMax-M2.5"): (299, 0.145, 0.155),
    # weights that are unpacked: without `expert_reads` 40 and 47 %
    ("kimi-k2.5", "moonshotai/Kimi-K2.5 int4"): (45, 0.175, 0.175),
    ("gpt-oss-120b", "openai/gpt-oss-120b h200_sxm"): (38, 0.115, 0.145),
}


@pytest.mark.parametrize(("name", "which"), REACHED)
def test_rates_are_near_the_measured_ones(name: str, which: str) -> None:
    count, of_rate, of_tpot = REACHED[name, which]
    path, *words = which.split()
    rows = [
        (n, row)
        for n, row in enumerate(reference_rows("silicon/silicon_given.csv"))
        if row["model_path"] == path and set(words) <= set(row.values()) and row["backend"] != "trtllm"
    ]
    model = load_model(name)
    runs = [run for n, row in rows if (run := _run(n, row, model)) is not None]
    assert len(runs) == count
    judged = figures(runs)
    for metric, most in ((Metric.OUTPUT_RATE, of_rate), (Metric.TPOT, of_tpot)):
        errors = [
            abs(figure.predicted / figure.measured - 1)
            for figure in judged
            if figure.metric is metric and figure.predicted is not None
        ]
        assert len(errors) == count
        assert statistics.fmean(errors) <= most, (name, metric, statistics.fmean(errors))


def test_no_row_is_one_that_is_kept_aside() -> None:
    for row in reference_rows("silicon/silicon_given.csv"):
        digest = hashlib.sha256("|".join(row[column] for column in RULE).encode()).hexdigest()
        assert digest[0] not in RESERVED, row["id"]
