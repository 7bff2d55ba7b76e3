"""What engines read KV caches with, which has to be the same on both sides of a hand-over.

`common_reader` is what the export writes where caches go between generations of GPUs; `own_reader` what an engine takes
by itself, so that one that was started before another generation joined may run on. Sources: vLLM's
docs/design/attention_backends.md (priorities by compute capability); FlashMLA's and FlashAttention 3's kernels are not
for 8.x, which leaves Triton's for latent attention.
"""

from collections.abc import Collection

from planner.domain.gpu import GpuSpec
from planner.domain.model import GroupedAttention, ModelSpec

PAGE_SIZE = 64
"""Tokens of SGLang's pages where caches go between generations: its backends' defaults differ."""

_FLASHINFER_HEADS = (64, 128, 256)
_BLACKWELL = 10


def spans_generations(gpus: Collection[GpuSpec]) -> bool:
    """Whether engines on these GPUs have different defaults."""
    return len({_generation(gpu) for gpu in gpus}) > 1


def _generation(gpu: GpuSpec) -> tuple[str, int | str]:
    return gpu.vendor.upper(), int(gpu.compute_capability) or gpu.name


def common_reader(engine: str, model: ModelSpec, gpus: Collection[GpuSpec]) -> str:
    """What engines are told to read caches with that go between these GPUs: vLLM's attention backend, SGLang's tokens
    of a page. Empty where they are of one generation, or nothing is known to run on all."""
    if not spans_generations(gpus):
        return ""
    return str(PAGE_SIZE) if engine == "sglang" else _common_backend(model, gpus)


def _common_backend(model: ModelSpec, gpus: Collection[GpuSpec]) -> str:
    attention = model.attention
    if not all(gpu.vendor.upper() == "NVIDIA" and gpu.compute_capability >= 8 for gpu in gpus):
        return ""
    if not isinstance(attention, GroupedAttention):
        return "" if model.kv_bytes == 1 else "TRITON_MLA"
    if attention.windowed_layers:
        return "" if model.kv_bytes == 1 else "TRITON_ATTN"
    if model.kv_bytes == 1:
        return "FLASHINFER" if attention.head_dim in _FLASHINFER_HEADS else ""
    return "FLASH_ATTN"


def own_reader(engine: str, model: ModelSpec, gpu: GpuSpec) -> str:
    """What an engine takes that is told nothing; empty where that is not known."""
    attention, capability = model.attention, gpu.compute_capability
    known = engine != "sglang" and gpu.vendor.upper() == "NVIDIA" and model.kv_bytes > 1
    if not known or not 8 <= capability < _BLACKWELL:
        return ""
    if isinstance(attention, GroupedAttention):
        return "" if attention.windowed_layers else "FLASH_ATTN"
    return "TRITON_MLA" if capability < 9 else ""
