"""What engines read KV caches with, which has to be the same on both sides of a hand-over.

`common_reader` is what the export writes where caches go between generations of GPUs; `own_reader` what an engine takes
by itself, so that one that was started before another generation joined may run on. Sources: vLLM's
docs/design/attention_backends.md (priorities by compute capability); FlashMLA's and FlashAttention 3's kernels are not
for 8.x, which leaves Triton's for latent attention.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from planner.domain.gpu import GpuSpec
from planner.domain.model import GroupedAttention, ModelSpec

PAGE_SIZE = 64
"""Tokens of SGLang's pages where caches go between generations: its backends' defaults differ."""

_FLASHINFER_HEADS = (64, 128, 256)
_AMPERE, _HOPPER, _BLACKWELL = 8, 9, 10  # compute capability


def spans_generations(gpus: Collection[GpuSpec]) -> bool:
    """Whether engines on these GPUs have different defaults."""
    return len({_generation(gpu) for gpu in gpus}) > 1


def _generation(gpu: GpuSpec) -> tuple[str, int | str]:
    return gpu.vendor.upper(), int(gpu.compute_capability) or gpu.name


def common_reader(engine: str, model: ModelSpec, gpus: Collection[GpuSpec]) -> str:
    """What engines are told to read caches with that go between these GPUs: vLLM's attention backend, SGLang's tokens
    of a page. Empty where they are of one generation, or nothing is known to run on all."""
    return _COMMON.get(engine, _common_backend)(model, gpus) if spans_generations(gpus) else ""


def _common_backend(model: ModelSpec, gpus: Collection[GpuSpec]) -> str:
    attention = model.attention
    if not all(gpu.vendor.upper() == "NVIDIA" and gpu.compute_capability >= _AMPERE for gpu in gpus):
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
    return _OWN.get(engine, _own_backend)(model, gpu)


def _own_backend(model: ModelSpec, gpu: GpuSpec) -> str:
    attention, capability = model.attention, gpu.compute_capability
    known = gpu.vendor.upper() == "NVIDIA" and model.kv_bytes > 1
    if not known or not _AMPERE <= capability < _BLACKWELL:
        return ""
    if isinstance(attention, GroupedAttention):
        return "" if attention.windowed_layers else "FLASH_ATTN"
    return "TRITON_MLA" if capability < _HOPPER else ""


_COMMON: Mapping[str, Callable[[ModelSpec, Collection[GpuSpec]], str]] = MappingProxyType(
    {"sglang": lambda _model, _gpus: str(PAGE_SIZE)}
)
_OWN: Mapping[str, Callable[[ModelSpec, GpuSpec], str]] = MappingProxyType({"sglang": lambda _model, _gpu: ""})
"""By engine, where it is not vLLM's."""
