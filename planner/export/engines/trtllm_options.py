"""TensorRT-LLM's options that its command line has no flag for: a YAML file of `LlmArgs`, written as JSON, which YAML
holds; or, one by one, flags of Dynamo's workers (`--trtllm.kv_cache_config.dtype fp8`), so that all values are plain.

| option | why |
|---|---|
| kv_cache_config.free_gpu_memory_fraction | f of what weights and buffers W leave: f (M - W) >= f M - W, the planned |
| kv_cache_config.host_cache_size | bytes of a GPU's caches in host memory, of plans with that tier |
| enable_attention_dp | attention groups |
| enable_chunked_prefill | prompts ride with answers by chunks, and may be longer than the token budget |
| moe_config | the kernels of experts, and how many are there twice |
| cache_transceiver_config | caches are handed over |
| disable_overlap_scheduler | of context servers, as all of upstream's examples have it |
| cuda_graph_config | all batches of the plan run as graphs, which upstream captures up to 128; none of prompts |
| return_perf_metrics, enable_iter_perf_stats | metrics are there to be scraped |

Sources: NVIDIA/TensorRT-LLM, tensorrt_llm/llmapi/llm_args.py (of the 1.2 line) and tensorrt_llm/usage/
llm_args_golden_manifest.json (main, 2026); kernels: docs/source/deployment-guide; flags: ai-dynamo/dynamo,
components/src/dynamo/trtllm/dynamic_flags.py.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import ENGINE_MEMORY_SHARE, EngineProfile, Phase
from planner.domain.model import WeightFormat
from planner.domain.serving.caches.tiers import HOST
from planner.errors import InputError
from planner.export.engines.expert_exchange import ExpertExchange
from planner.export.engines.loading import draft_tokens
from planner.export.engines.tiers import tier_bytes
from planner.export.islands import ServingIsland

Options = dict[str, Any]
"""Option -> plain value, or options of its own."""
FLAG = "--trtllm."
_HOPPER, _BLACKWELL, _WORKSTATION = 9, 10, 12  # compute capability
_OF_FOUR_BITS = (WeightFormat.MXFP4, WeightFormat.NVFP4)


def options_of(island: ServingIsland, profile: EngineProfile, exchange: ExpertExchange | None) -> Options:
    """The options of one copy of the model."""
    cache: Options = {"free_gpu_memory_fraction": ENGINE_MEMORY_SHARE}
    if island.model.kv_bytes == 1:
        cache["dtype"] = "fp8"
    if host := tier_bytes(island, HOST, 1):
        cache["host_cache_size"] = host
    shown = {"return_perf_metrics": True, "enable_iter_perf_stats": True}
    options: Options = {**shown, "kv_cache_config": cache, "enable_chunked_prefill": True}
    if island.parallel.dp > 1:
        options["enable_attention_dp"] = True
    if island.model.experts:
        options["moe_config"] = {"backend": _expert_kernels(island)}
    if exchange and exchange.redundant_experts and island.model.architecture not in profile.layers.without_redundant:
        slots, updates = island.model.routed_experts + exchange.redundant_experts, int(exchange.balanced)
        options["moe_config"]["load_balancer"] = {"num_slots": slots, "layer_updates_per_iter": updates}
    if not island.mixed:
        options["cache_transceiver_config"] = {"backend": "NIXL", "max_tokens_in_buffer": island.max_model_len}
    if island.phase is Phase.PREFILL:
        options |= {"disable_overlap_scheduler": True, "cuda_graph_config": None}
    else:
        options["cuda_graph_config"] = {"enable_padding": True, "max_batch_size": island.batch_size}
    if island.model.own_code:
        options["trust_remote_code"] = True
    return options | _drafts(island, profile)


def _expert_kernels(island: ServingIsland) -> str:
    """By generation and format: what is chosen unasked does not suit all (docs of `moe_config.backend`)."""
    formats, capability = island.model.weight_formats, int(island.gpu.compute_capability)
    if capability == _HOPPER and WeightFormat.MXFP4 in formats:
        return "TRITON"
    if not _BLACKWELL <= capability < _WORKSTATION:
        return "CUTLASS"
    if any(weights in formats for weights in _OF_FOUR_BITS):
        return "TRTLLM"
    return "DEEPGEMM" if island.model.weight_block else "CUTLASS"


def _drafts(island: ServingIsland, profile: EngineProfile) -> Options:
    drafted = draft_tokens(island, profile)
    if not drafted:
        return {}
    if not island.draft_uri:
        return {"speculative_config": {"decoding_type": profile.drafts.method, "num_nextn_predict_layers": drafted}}
    eagle = {"decoding_type": "Eagle", "max_draft_len": drafted, "speculative_model_dir": island.draft_uri}
    return {"speculative_config": eagle}


def options_text(options: Options) -> str:
    """The options as a command line holds them."""
    return json.dumps(options, ensure_ascii=False)


def option_words(text: str) -> Iterator[str]:
    """The options of `options_text` as flags of Dynamo's workers, each followed by its value."""
    yield from _words(json.loads(text), FLAG)


def _words(options: Mapping[str, Any], before: str) -> Iterator[str]:
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from _words(value, f"{before}{key}.")
        else:
            yield from (f"{before}{key}", value if isinstance(value, str) else json.dumps(value))


def read_options(arguments: Sequence[str]) -> Options:
    """The options of a command line, in either form; those inside another are left out of flags.

    Raises:
        InputError: what stands in their place cannot be read.
    """
    texts = [argument for argument in arguments if argument.startswith("{")]
    options = _document(texts[0]) if texts else {}
    if options is None or len(texts) > 1:
        raise InputError(
            f"Command line of trtllm: options must be one object of JSON, got {texts[-1]:.60}.",
            hint="Give them as `planner export` writes them.",
        )
    for argument in arguments:
        if argument.startswith(FLAG):
            key, _, value = argument.removeprefix(FLAG).partition("=")
            options[key] = {"true": True, "false": False}.get(value.lower(), value)
    return options


def _document(text: str) -> Options | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
