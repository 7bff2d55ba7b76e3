"""The built-in efficiency factors: data, each with unit, origin and source. Data-sheet figures live in gpu_specs/.

| name | meaning |
|---|---|
| gemm, expert | share of the data-sheet rate that large GEMMs and grouped GEMMs of experts reach |
| gemm_half, expert_half | tokens (of a GEMM; of one expert) at which half of that is reached: eta(m) = m / (m + half) |
| expert_power | exponent of that eta(m), of experts |
| expert_reads | most that few rows cost over the reading of an expert's weights, where these are unpacked |
| expert_fp4, weight_only | what experts in FP4 reach of it; in FP4 on a device without, unpacked to 16 bits |
| attention_prefill, attention_decode | share of the 16-bit rate in attention scores |
| memory, cache | share of the memory bandwidth: of weights and activations; of keys and values |
| nvlink, nic_prefill, nic_decode | share of the link rate |
| all_to_all_us, all_reduce_us, transfer_us | latency of a collective (all-reduce: of 8 GPUs), of a hand-over |
| all_to_all_node_us, all_reduce_node_us | latency that it has besides where it leaves a node |
| layer_us, indexer_us | fixed time of a layer's small kernels, of those of an indexer |
| step_prefill_ms, step_decode_ms | fixed time of a step: scheduling, sampling |
| passes | times that a token's activations pass through memory in a layer, outside of GEMMs and attention |
| overlap | share of the shorter of computation and communication that two micro-batches hide |
| imbalance | tokens of the busiest GPU over the mean, where experts are not equally popular |
| rank_imbalance | prompt tokens of the fullest attention rank over the mean |
| prefill_pool | rate of a prefill pool behind a router over that of its steps |
| engine_*, mtp_gain, ttft_* | of engines: `cost.benchmarks.engines` |
| kernels_prefill, kernels_decode | what a whole engine reaches of the kernels' speed: the fitted factors |
"""

from dataclasses import replace

from planner.cost.fitted_factors import FITTED
from planner.domain.efficiency import ANY_FAMILY, Calibration, Factor, Origin

_DEEPGEMM = "DeepGEMM README: up to 1 550 TFLOP/s of 1 979 on H800, dense; about 1 290 in grouped GEMMs"
_DEEPEP = "DeepEP documentation, H800 with 400 Gb/s NICs"
_FLASH = "FlashAttention-3 paper: 600-650 TFLOP/s of 989, causal"
_KERNELS = "InferSim's kernel measurements on H20 (bench_data of alibaba/InferSim)"
_INDEXER = "59 runs of GLM-5 by SGLang, H200, B200 and B300 (aiconfigurator-core 0.12.0, Apache-2.0): what a step lacks"
_UNPACKED = "168 runs of gpt-oss-120b and Kimi-K2.5 on H100, H200 and B200 (aiconfigurator-core 0.12.0, Apache-2.0)"
_OURS = "estimate"
_WAVES = "fitted to 1,885 aggregated runs with measured kernels, by engine (tests/cost/make_pace.py)"
_TTFT = "fitted to aggregated runs of InferenceX (facts on the fit of the cost model)"


def _row(
    name: str,
    value: float,
    unit: str,
    origin: Origin,
    source: str,
    family: str = ANY_FAMILY,
    gpus: tuple[str, ...] = (),
) -> Factor:
    return Factor(name=name, family=family, value=value, unit=unit, origin=origin, source=source, gpus=gpus)


def _of_deepseek(name: str, value: float, source: str) -> Factor:
    """Measured on H800, with kernels for the shapes of DeepSeek-V3: for other models it is carried over."""
    factor = _row(name, value, "1", Origin.PUBLISHED, source, gpus=("H800",))
    return replace(factor, measured=(("H800", "deepseek-v3"),))


def _on_h20(name: str, value: float, unit: str, source: str) -> Factor:
    return _row(name, value, unit, Origin.PUBLISHED, f"{_KERNELS}: {source}", "h20", gpus=("H20",))


_GENERAL = (
    _of_deepseek("gemm", 0.78, _DEEPGEMM),
    _row("gemm_half", 48, "tokens", Origin.DEFAULT, "estimate: a tile of 64 rows is half full"),
    _row("expert", 0.3, "1", Origin.DEFAULT, "prior of the fit"),
    _row("expert_half", 200, "tokens", Origin.DEFAULT, "prior of the fit"),
    _row("expert_power", 0.7, "1", Origin.DEFAULT, "prior of the fit"),
    _row("expert_reads", 1.5, "1", Origin.PUBLISHED, _UNPACKED),
    _row("expert_reads", 1000, "1", Origin.DEFAULT, "none: expert_half was fitted to runs on A100", "ampere"),
    _row("expert_fp4", 1.0, "1", Origin.DEFAULT, "prior of the fit"),
    _row("attention_prefill", 0.6, "1", Origin.PUBLISHED, _FLASH, gpus=("H100",)),
    _of_deepseek("attention_decode", 0.66, "FlashMLA README: 660 TFLOP/s of 989 on H800"),
    _of_deepseek("memory", 0.9, "FlashMLA README: 3 000 GB/s of 3 350 on H800"),
    _row("cache", 0.54, "1", Origin.DEFAULT, "prior of the fit"),
    _row("weight_only", 0.5, "1", Origin.DEFAULT, "prior of the fit"),
    _of_deepseek("nvlink", 0.78, f"{_DEEPEP}: 155 of 200 GB/s"),
    _of_deepseek("nic_prefill", 0.9, f"{_DEEPEP}: 43-51 of 50 GB/s, normal kernels"),
    _of_deepseek("nic_decode", 0.79, f"{_DEEPEP}: 39-40 of 50 GB/s, low-latency kernels at EP 128"),
    _row("all_to_all_us", 30, "us", Origin.DEFAULT, "prior of the fit"),
    _row("all_to_all_node_us", 50, "us", Origin.DEFAULT, "prior of the fit"),
    _row("all_reduce_us", 25, "us", Origin.DEFAULT, "prior of the fit"),
    _row("all_reduce_node_us", 40, "us", Origin.DEFAULT, "prior of the fit"),
    _row("transfer_us", 20, "us", Origin.DEFAULT, _OURS),
    _row("layer_us", 30, "us", Origin.DEFAULT, "estimate: about ten small kernels, replayed from a graph"),
    _row("indexer_us", 80, "us", Origin.PUBLISHED, _INDEXER),
    _row("step_prefill_ms", 10, "ms", Origin.DEFAULT, "estimate: scheduling of a batch"),
    _row("step_decode_ms", 2, "ms", Origin.DEFAULT, "estimate: scheduling and sampling"),
    _row("passes", 16, "1", Origin.DEFAULT, "estimate: norms, residuals, quantisation, activation, rotary embedding"),
    _row("overlap", 0.9, "1", Origin.DEFAULT, _OURS),
    _row("rank_imbalance", 1.1, "1", Origin.DEFAULT, "prior of the fit"),
    _row("prefill_pool", 0.8, "1", Origin.DEFAULT, "prior of the fit"),
    _row("imbalance", 1.2, "1", Origin.DEFAULT, "prior of the fit"),
    _row("kernels_prefill", 0.75, "1", Origin.DEFAULT, "prior of the fit"),
    _row("kernels_decode", 0.75, "1", Origin.DEFAULT, "prior of the fit"),
    _row("engine_prefill", 1.0, "1", Origin.DEFAULT, "SGLang's and vLLM's: what others are compared with"),
    _row("engine_decode", 1.0, "1", Origin.DEFAULT, "SGLang's and vLLM's: what others are compared with"),
    _row("pace_prefill", 1.0, "1", Origin.DEFAULT, "the built-in paces (`planner.cost.residuals.pace`)"),
    _row("pace_decode", 1.0, "1", Origin.DEFAULT, "the built-in paces (`planner.cost.residuals.pace`)"),
    _row("mtp_gain", 2.0, "tokens", Origin.DEFAULT, "prior of the fit: three tokens drafted a pass"),
    _row("ttft_fixed_ms", 50, "ms", Origin.PUBLISHED, _TTFT),
    _row("ttft_steps", 0.9, "1", Origin.PUBLISHED, _TTFT),
    _row("ttft_answers", 2.6, "1", Origin.PUBLISHED, _TTFT),
    _row("ttft_waves", 0.1, "1", Origin.DEFAULT, "between those of the engines that were fitted"),
    *(
        _row(f"ttft_{name}", value, "ms" if name == "fixed_ms" else "1", Origin.PUBLISHED, _WAVES, engine)
        for engine, values in {
            "sglang": (120, 0.8, 3.0, 0.157),
            "trt": (35, 1.6, 3.0, 0.079),
            "vllm": (19, 1.24, 0.0, 0.063),
            "atom": (10, 1.08, 0.0, 0.003),
        }.items()
        for name, value in zip(("fixed_ms", "steps", "answers", "waves"), values, strict=True)
    ),
)
# Kernels of its own: with the general prior its prefill would come out 57 % too low.
_H20 = (
    _on_h20("gemm", 0.94, "1", "GEMMs of 8 192 tokens and more"),
    _on_h20("gemm_half", 25, "tokens", "64-512 tokens"),
    _on_h20("expert", 0.89, "1", "grouped GEMMs, 4 096 tokens an expert"),
    _on_h20("expert_half", 60, "tokens", "grouped GEMMs, 64-1 024 tokens an expert"),
    _row("expert_power", 1.0, "1", Origin.DEFAULT, "as measured: m / (m + half)", "h20"),
    _row("attention_prefill", 0.85, "1", Origin.DEFAULT, "estimate: a device with few FLOP/s keeps them busy", "h20"),
    _row("attention_decode", 0.85, "1", Origin.DEFAULT, "estimate: as above", "h20"),
)

UNFITTED = Calibration(name="unfitted", factors=_GENERAL + _H20)
BUILT_IN = Calibration(name="built-in", factors=UNFITTED.factors + FITTED)
