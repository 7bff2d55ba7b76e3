"""Makes tests/cost/engine_caches.csv anew: what vLLM's own classes say of the caches of published models.

Where vLLM 0.33.0 can be imported (it needs no GPU):

    python tests/cost/make_engine_caches.py > tests/cost/engine_caches.csv

A layer's specification has the arguments that its module's `get_kv_cache_spec` gives it, from the keys of config.json;
pages, groups and what a request takes are vLLM's own. Columns, of one GPU of a group of `tp`: `token_bytes` of one more
token where windows are full; `fixed_bytes` of states and full windows; `request_bytes` of a request of `tokens` that is
decoded, with the prefix cache on.
"""

import csv
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator as Shapes
from vllm.v1 import kv_cache_interface as specs
from vllm.v1.core import kv_cache_planning as planning

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from published import config_of

TOKENS = (1024, 131_072)
BF16, FP8, BYTES, FLOAT = torch.bfloat16, torch.float8_e4m3fn, torch.uint8, torch.float32
BLOCK, SPARSE_BLOCK, V4_BLOCK = 16, 64, 256  # tokens: CacheConfig's; of FlashMLA's and the indexer's kernels; of V4's
GDN_ALIGNMENT, LATENT_BLOCK = 64, 128  # tokens: FLASHINFER_GDN_CHECKPOINT_ALIGNMENT; of blocks beside states
ROWS: tuple[tuple[str, int, int], ...] = (  # model, tp, bytes of a cached element
    ("deepseek-ai/deepseek-v3.2", 1, 1),
    ("deepseek-ai/deepseek-v3.2", 8, 2),
    ("zai-org/glm-5", 8, 1),
    ("zai-org/glm-5.2", 8, 2),
    ("deepseek-ai/deepseek-v4-flash", 1, 1),
    ("deepseek-ai/deepseek-v4-flash", 8, 2),
    ("deepseek-ai/deepseek-v4-pro", 8, 1),
    ("nvidia/minimax-m3-nvfp4", 1, 1),
    ("nvidia/minimax-m3-nvfp4", 8, 2),
    ("google/gemma-4-26b-a4b", 1, 2),
    ("nvidia/gemma-4-31b-it-nvfp4", 2, 1),
    ("meta-llama/llama-4-maverick-17b-128e-instruct", 8, 2),
    ("xiaomimimo/mimo-v2-flash", 4, 1),
    ("stepfun-ai/step-3.7-flash", 8, 2),
    ("openai/gpt-oss-20b", 1, 2),
    ("qwen/qwen3.5-27b", 2, 2),
    ("qwen/qwen3.5-397b-a17b", 1, 1),
    ("qwen/qwen3.5-397b-a17b", 8, 2),
    ("nvidia/nvidia-nemotron-3-super-120b-a12b-fp8", 1, 2),
    ("nvidia/nvidia-nemotron-3-super-120b-a12b-fp8", 8, 1),
    ("nvidia/nvidia-nemotron-3-ultra-550b-a55b-bf16", 8, 2),
    ("nvidia/nemotron-h-56b-base-8k", 8, 2),
    ("moonshotai/kimi-k3", 1, 1),
    ("moonshotai/kimi-k3", 16, 2),
    ("nvidia/nvidia-nemotron-3-nano-30b-a3b-bf16", 1, 2),
    ("zai-org/glm-5.3", 8, 1),
)
Specs = Iterator[specs.KVCacheSpec]


def latent(config: Any, tp: int, kv: int) -> Specs:
    """mla_attention.py and deepseek_v2.py (DeepseekV32IndexerCache); SGLang's DSATokenToKVPool has the same entries."""
    kinds = config.get("indexer_types") or ["full"] * config["num_hidden_layers"]
    packed = (
        {"cache_dtype_str": "fp8_ds_mla", "state_content_bytes": 656, "dtype": BYTES} if kv == 1 else {"dtype": BF16}
    )
    width, index = config["kv_lora_rank"] + config["qk_rope_head_dim"], config["index_head_dim"]
    for kind in kinds:
        yield specs.MLAAttentionSpec(block_size=SPARSE_BLOCK, num_kv_heads=1, head_size=width, **packed)
        if kind == "full":
            yield specs.MLAAttentionSpec(
                block_size=SPARSE_BLOCK, num_kv_heads=1, head_size=index + index // 128 * 4, dtype=BYTES
            )


def compressed(config: Any, tp: int, kv: int) -> Specs:
    """deepseek_v4/attention.py, deepseek_v4/compressor.py, backends/mla/sparse_swa.py."""
    width, index = config["head_dim"], config["index_head_dim"]
    dtype, content, alignment = (BYTES, 584, 576) if kv == 1 else (BF16, None, 512)
    entry = {"num_kv_heads": 1, "head_size": width, "dtype": dtype, "state_content_bytes": content}
    for ratio in config["compress_ratios"][: config["num_hidden_layers"]]:
        window = config["sliding_window"]
        yield specs.SlidingWindowMLASpec(block_size=64, sliding_window=window, alignment=alignment, **entry)
        if not ratio:
            continue
        overlap = 1 + (ratio == 4)

        def state(of: int, ratio: int = ratio, overlap: int = overlap) -> specs.KVCacheSpec:
            return specs.SlidingWindowMLASpec(
                block_size=4 if ratio == 4 else 8,
                num_kv_heads=1,
                head_size=2 * overlap * of,
                dtype=FLOAT,
                sliding_window=overlap * ratio,
                alignment=alignment,
            )

        large = {"block_size": V4_BLOCK, "tokens_per_state": ratio, "alignment": alignment}
        yield specs.MLAAttentionSpec(**entry, **large)
        yield state(width)
        if ratio == 4:
            yield specs.MLAAttentionSpec(num_kv_heads=1, head_size=index + index // 128 * 4, dtype=BYTES, **large)
            yield state(index)


def sparse_blocks(config: Any, tp: int, kv: int) -> Specs:
    """minimax_m3/nvidia/model.py, minimax_m3/common/indexer.py (index keys of 16 bits unless told otherwise)."""
    for sparse in config["sparse_attention_config"]["sparse_attention_freq"]:
        yield grouped(config["num_key_value_heads"], config["head_dim"], tp, kv)
        if sparse:
            index = config["sparse_attention_config"]["sparse_index_dim"]
            yield specs.MLAAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=index, dtype=BF16)


def grouped(heads: int, width: int, tp: int, kv: int, *, values: int | None = None, **window: int) -> specs.KVCacheSpec:
    """attention.py, chunked_local_attention.py."""
    local = {"sliding_window": specs.SlidingWindowSpec, "attention_chunk_size": specs.ChunkedLocalAttentionSpec}
    kind = next((local[key] for key in window), specs.FullAttentionSpec)
    heads, dtype = max(1, heads // tp), FP8 if kv == 1 else BF16
    return kind(block_size=BLOCK, num_kv_heads=heads, head_size=width, head_size_v=values, dtype=dtype, **window)


def windowed(config: Any, tp: int, kv: int) -> Specs:
    """The modelling files of gemma4, llama4, mimo_v2_flash, step3p7, gpt_oss."""
    heads, width = config["num_key_value_heads"], config["head_dim"]
    for layer in range(config["num_hidden_layers"]):
        if "hybrid_layer_pattern" in config:  # MiMo
            near, value = config["hybrid_layer_pattern"][layer], config["v_head_dim"]
            swa = config["swa_num_key_value_heads"], config["swa_head_dim"]
            if near:
                yield grouped(*swa, tp, kv, values=config["swa_v_head_dim"], sliding_window=config["sliding_window"])
            else:
                yield grouped(heads, width, tp, kv, values=value)
        elif "attention_chunk_size" in config:  # Llama 4: every fourth layer sees all
            chunk = {} if (layer + 1) % 4 == 0 else {"attention_chunk_size": config["attention_chunk_size"]}
            yield grouped(heads, width, tp, kv, **chunk)
        elif config["layer_types"][layer] == "sliding_attention":
            yield grouped(heads, width, tp, kv, sliding_window=config["sliding_window"])
        else:  # of Gemma other heads
            all_heads = config.get("num_global_key_value_heads") or heads
            yield grouped(all_heads, config.get("global_head_dim", width), tp, kv)


def recurrent(config: Any, tp: int, kv: int) -> Specs:
    """mamba/abstract.py, qwen_gdn_linear_attn.py, mamba_mixer2.py, kimi_k3; blocks as in platforms/interface.py."""
    alignment = BLOCK
    if "linear_num_key_heads" in config:
        alignment = GDN_ALIGNMENT
        heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
        widths = config["linear_key_head_dim"], config["linear_value_head_dim"]
        shapes = Shapes.gated_delta_net_state_shape(tp, *heads, *widths, config["linear_conv_kernel_dim"])
        marks = [kind == "linear_attention" for kind in config["layer_types"]]
    elif "linear_attn_config" in config:
        alignment, kda = LATENT_BLOCK, config["linear_attn_config"]
        shapes = Shapes.kda_state_shape(
            tp, kda["num_heads"], kda["head_dim"], conv_kernel_size=kda["short_conv_kernel_size"]
        )
        marks = [layer + 1 in kda["kda_layers"] for layer in range(config["num_hidden_layers"])]
    else:
        count, width = config["mamba_num_heads"], config["mamba_head_dim"]
        groups, state = config["n_groups"], config["ssm_state_size"]
        shapes = Shapes.mamba2_state_shape(tp, count * width, groups, count, width, state, config["conv_kernel"])
        blocks = config.get("layers_block_type") or config["hybrid_override_pattern"]
        marks = [block in ("M", "mamba") for block in blocks if block in ("M", "mamba", "*", "attention")]
    if "kv_lora_rank" in config:
        latent_width = config["kv_lora_rank"] + config["qk_rope_head_dim"]
        dtype = FP8 if kv == 1 else BF16
        full = specs.MLAAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=latent_width, dtype=dtype)
    else:
        head = config["head_dim"] if "head_dim" in config else config["attention_head_dim"]
        full = grouped(config["num_key_value_heads"], head, tp, kv)
    states: dict[str, Any] = {"shapes": shapes, "dtypes": (BF16, FLOAT)}
    a_token = full.page_size_bytes // BLOCK
    state_bytes = specs.MambaSpec(block_size=-1, **states).page_size_bytes
    block = alignment * -(-state_bytes // (alignment * a_token))
    of_state = specs.MambaSpec(
        block_size=block,
        page_size_padded=block * a_token,
        mamba_cache_mode="align",
        num_prefill_checkpoint_blocks=1,
        prefill_checkpoint_alignment=alignment,
        **states,
    )
    for mark in marks:
        yield of_state if mark else full.copy_with_new_block_size(block)


READERS = {"index_topk": latent, "compress_ratios": compressed, "sparse_attention_config": sparse_blocks}
READERS |= dict.fromkeys(("linear_num_key_heads", "linear_attn_config", "mamba_num_heads"), recurrent)


def of_model(name: str, tp: int, kv: int) -> dict[str, specs.KVCacheSpec]:
    config = config_of(name)
    config = config.get("text_config", config)
    key = next((key for key in ("compress_ratios", *READERS) if key in config), "")
    return {f"layer.{n}": spec for n, spec in enumerate(READERS.get(key, windowed)(config, tp, kv))}


def token_bytes(spec: specs.KVCacheSpec) -> Fraction:
    """Of one more token."""
    grows = isinstance(spec, specs.FullAttentionSpec)
    return Fraction(spec.page_size_bytes, spec.block_size) if grows else Fraction(0)


def fixed_bytes(spec: specs.KVCacheSpec) -> Fraction:
    """Of a state, or a full window."""
    if isinstance(spec, specs.MambaSpec):
        return Fraction(spec.real_page_size_bytes)
    window = getattr(spec, "attention_chunk_size", None) or getattr(spec, "sliding_window", None) or 0
    if isinstance(spec, specs.FullAttentionSpec):
        return Fraction(0)
    return Fraction(spec.real_page_size_bytes, spec.block_size) * window


def request_bytes(layers: dict[str, specs.KVCacheSpec], tokens: int) -> int:
    """What a request that is decoded takes: one token is in flight."""
    of_v4 = any(isinstance(spec, specs.SlidingWindowMLASpec) for spec in layers.values())
    layout = specs.KVCacheLayout.BLHNC if of_v4 else specs.KVCacheLayout.LBHNC  # its indexer asks for that
    config = SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=tokens, supports_kv_cache_grouping=False),
        parallel_config=SimpleNamespace(decode_context_parallel_size=1),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        attention_config=SimpleNamespace(hisparse_config=None),
        cache_config=SimpleNamespace(
            mamba_cache_mode="align",
            get_resolved_kv_cache_layout=lambda: layout,
            num_gpu_blocks_override=None,
            prefix_cache_retention_interval=None,
        ),
        max_in_flight_tokens=1,
    )
    groups = planning.get_kv_cache_groups(config, dict(layers))
    return planning._max_memory_usage_bytes_from_groups(planning.DefaultKVCacheConfigBuilder(), config, groups)


def main() -> None:
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["model", "tp", "kv_bytes", "token_bytes", "fixed_bytes", "tokens", "request_bytes"])
    for name, tp, kv in ROWS:
        layers = of_model(name, tp, kv)
        grown, fixed = (sum(map(of, layers.values())) for of in (token_bytes, fixed_bytes))
        for tokens in TOKENS:
            out.writerow([name, tp, kv, float(grown), float(fixed), tokens, request_bytes(layers, tokens)])


if __name__ == "__main__":
    main()
