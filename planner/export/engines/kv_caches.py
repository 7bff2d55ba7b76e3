"""Whether islands understand the KV caches that they hand to each other, and how their engines are set up for it.

fact                                                            source
vLLM's NixlConnector refuses a peer of another version,         vLLM pull request 29503, compute_nixl_compatibility_hash
attention backend, cache format or cache manager
Blackwell's default backend is another than Hopper's, and an    vLLM docs/design/attention_backends.md; FLASHMLA's dense
A100's MLA another than both                                    kernels are Hopper's alone
FLASH_ATTN takes 16-bit caches from 8.0, FLASHINFER FP8 too     same table
(head sizes 64, 128, 256), TRITON_ATTN windows and sinks
below 8.9 no MLA backend reads an FP8 cache: Triton has no      vLLM issue 52202, pull request 47060; SGLang issues
fp8e4nv there                                                   33194 and 38291
SGLang refuses a peer of another page size, whose default goes  SGLang pull request 14474 and
by attention backend; 64 suits them                             docs/advanced_features/attention_backend.md
peers ask for caches at vLLM's side channel, port 5600           vLLM docs/features/nixl_connector_usage.md
vLLM hands states over from convolutions by channel alone        vllm/distributed/kv_transfer/.../nixl/base_worker.py,
(VLLM_SSM_CONV_STATE_LAYOUT=DS)                                  "3-read Mamba conv transfer"
SGLang hands the index of block-sparse attention over between    sglang/srt/disaggregation/nixl/conn.py,
equal tensor-parallel degrees and from one stage                 MINIMAX_INDEX_K

A server of both phases hands nothing over.
"""

from types import MappingProxyType

from planner.domain import EngineProfile, MlaAttention, ModelSpec, Phase
from planner.domain.engine import profile as engine_profile
from planner.domain.engine.profile import PAGE_SIZE
from planner.errors import ExportError
from planner.export.engines.arguments import FlagValue
from planner.export.engines.tiers import event_rows, transfer_text, vllm_connector
from planner.export.islands import ServingIsland
from planner.export.seams import Deployment

CONNECTOR = "kv-transfer-config"
UNCHUNKED = "no-enable-chunked-prefill"
_WHOLE_CACHE = "cost.kv_cache_dtype: bf16"
_SIDE_CHANNEL_PORT = 5600
_KV_ROLES = MappingProxyType({Phase.PREFILL: "kv_producer", Phase.DECODE: "kv_consumer"})


def needs_cache_format(model: ModelSpec) -> bool:
    """Whether an engine that is told nothing may take an FP8 cache: where the checkpoint may say so, and of latent
    attention with an indexer, which vLLM's models/config.py gives one on some GPUs."""
    indexed = (isinstance(kind, MlaAttention) and kind.indexer is not None for kind, _ in model.attentions)
    return model.quantization in ("modelopt", "compressed-tensors") or any(indexed)


def check_cache_format(island: ServingIsland, profile: EngineProfile) -> None:
    """Refuse caches in a format that the engine does not read on the island's GPUs.

    Raises:
        ExportError: an FP8 cache of latent attention, on GPUs without FP8.
    """
    capability = island.gpu.compute_capability
    if not profile.reads_cache(island.gpu, island.model):
        raise ExportError(
            f"Island {island.id}, model.kv_bytes: must be 2 for latent attention on {island.gpu.name}, whose compute "
            f"capability of {capability:.1f} has no kernels that read an FP8 cache, got {island.model.kv_bytes:g}.",
            hint=f"Plan again with {_WHOLE_CACHE}, or without these GPUs.",
        )


def spans_generations(island: ServingIsland) -> bool:
    """Whether the island's caches come from, or go to, GPUs of several generations, whose engines default otherwise."""
    return engine_profile.spans_generations(island.exchange_gpus)


def vllm_backend(island: ServingIsland) -> str:
    """The attention backend that runs on all GPUs that the island's caches are exchanged over; empty where there are
    none of another generation, or none is known to run on all."""
    return engine_profile.common_reader("vllm", island.model, island.exchange_gpus)


def vllm_notes(island: ServingIsland) -> tuple[str, ...]:
    """What the reader must know of caches between generations."""
    if not spans_generations(island):
        return ()
    between, backend = f"KV caches go between {_names(island)}", vllm_backend(island)
    if unknown := [g.name for g in island.exchange_gpus if g.vendor.upper() == "NVIDIA" and not g.compute_capability]:
        return (
            f"WARNING: {between}: vLLM may choose different attention backends, and its NixlConnector refuses caches "
            f"of another backend (pull request 29503). Give compute_capability in the spec of {', '.join(unknown)}, so "
            "that one is chosen that suits all.",
        )
    if not backend:
        smaller = island.model.kv_bytes == 1
        remedy = f"plan with {_WHOLE_CACHE}" if smaller else "keep GPU types to ranges of their own"
        return (
            f"WARNING: {between}, for which vLLM chooses different attention backends, and none is known to suit all: "
            "its NixlConnector refuses caches of another backend (pull request 29503); try kv_connector_extra_config "
            f"enforce_handshake_compat false, or {remedy}.",
        )
    slower = backend.startswith("TRITON")
    note = f"{between}: their islands all use {backend}, as vLLM's NixlConnector refuses another backend's"
    return (f"WARNING: {note}; the plan's rates are of faster kernels.",) if slower else (f"{note}.",)


def sglang_notes(island: ServingIsland) -> tuple[str, ...]:
    """The same for SGLang, and tensor-parallel groups of different sizes where layers have windows."""
    notes = []
    if spans_generations(island):
        notes.append(f"KV caches go between {_names(island)}: their islands all have pages of {PAGE_SIZE} tokens.")
    if len({gpu.vendor.upper() for gpu in island.exchange_gpus}) > 1 and island.model.kv_bytes == 1:
        notes.append(f"WARNING: FP8 caches of different vendors' GPUs may differ in format; plan with {_WHOLE_CACHE}.")
    degrees = sorted({other.tp for other in island.partners} - {island.parallel.tp})
    if island.model.windowed and degrees:
        notes.append(
            "WARNING: SGLang hands caches of layers with windows over between equal tensor-parallel degrees only "
            f"(llm-d issue 2433), here are {island.parallel.tp} and {', '.join(map(str, degrees))}."
        )
    return tuple(notes)


def check_index(island: ServingIsland) -> None:
    """Refuse what SGLang's hand-over of a block index ends in while it serves.

    Raises:
        ExportError: stages, or partners of another tensor-parallel degree.
    """
    if island.mixed or not any(kind.indexer is not None for kind in island.model.grouped):
        return
    sides = {(island.parallel.tp, island.parallel.pp), *((other.tp, other.pp) for other in island.partners)}
    if len(sides) > 1 or island.parallel.pp > 1:
        came = " and ".join(f"tp {tp} in {pp} stages" for tp, pp in sorted(sides))
        raise ExportError(
            f"Island {island.id}, parallel: SGLang hands the block index of {island.model.name} over between equal "
            f"tensor-parallel degrees of one stage only, got {came}.",
            hint="Export for vllm, or plan with `serving: aggregated`.",
        )


def stages_fit(island: ServingIsland) -> bool:
    """Whether SGLang could hand the island's caches over: into as many stages as they come from, or into one (its pull
    request 14265)."""
    stages, others = island.parallel.pp, {other.pp for other in island.partners}
    return others <= {stages, 1} if island.phase is Phase.PREFILL else stages == 1 or others <= {stages}


def own_code_notes(island: ServingIsland) -> tuple[str, ...]:
    """That a model's repository runs code."""
    return (f"{island.model.name} brings code of its own, which the engine is told to run.",) * island.model.own_code


def _names(island: ServingIsland) -> str:
    gpus = sorted({gpu.name for gpu in island.exchange_gpus})
    return f"{', '.join(gpus[:-1])} and {gpus[-1]}"


def image_notes(island: ServingIsland, deployment: Deployment) -> tuple[str, ...]:
    """That several images have to be of one version, which their names may not show."""
    images = _images(island, deployment)
    if len(images) < 2:
        return ()
    names = " and ".join(f"{image} ({vendor})" for vendor, image in images)
    return (f"WARNING: KV caches go between {names}: both must hold one version of {deployment.engine.name}.",)


def _images(island: ServingIsland, deployment: Deployment) -> list[tuple[str, str]]:
    """(vendor, image) of the GPUs that the island's caches are exchanged over."""
    images = deployment.engine.images
    chosen = {vendor.upper(): image for vendor, image in deployment.options.images}
    pairs = {
        (vendor, chosen.get(vendor) or images.get(gpu.family) or images.get(vendor, ""))
        for gpu in island.exchange_gpus
        for vendor in [gpu.vendor.upper()]
    }
    return sorted((vendor, image) for vendor, image in pairs if image)


def vllm_transfer(island: ServingIsland) -> list[tuple[str, FlagValue]]:
    """The connector of the island's phase, of its tiers, or both; and where it tells what its caches hold."""
    connectors = [connector for connector in (vllm_connector(island), _nixl(island)) if connector]
    events = event_rows(island, switched=True)
    if not connectors:
        return events
    # a decode engine that recomputed a lost prompt would miss its latency unnoticed; the router can try again
    policy = "recompute" if island.tiers else "fail"
    return [(CONNECTOR, transfer_text(connectors, _KV_ROLES.get(island.phase, "kv_both"), policy)), *events]


def _nixl(island: ServingIsland) -> dict[str, str] | None:
    return None if island.mixed else {"kv_connector": "NixlConnector", "kv_role": _KV_ROLES[island.phase]}


def vllm_side_channel(island: ServingIsland, port_offset: int) -> list[tuple[str, str]]:
    """The variables with the port at which peers ask for caches, and with the layout of states that they read."""
    if island.mixed:
        return []
    layout = [("VLLM_SSM_CONV_STATE_LAYOUT", "DS")] if island.model.stateful else []
    return [("VLLM_NIXL_SIDE_CHANNEL_PORT", str(_SIDE_CHANNEL_PORT + port_offset)), *layout]


def vllm_addresses(island: ServingIsland) -> tuple[str, ...]:
    """Variables that hold the pod's own address for its peers."""
    return () if island.mixed else ("VLLM_NIXL_SIDE_CHANNEL_HOST",)
