"""Figures of the facts, written down a second time, so that the tests' arithmetic owes nothing to the package.

DeepSeek-V3's shape, and the parts of the published formulas that several tests need.
"""

from planner.domain import GpuSpec, ModelSpec
from planner.files import load_gpu_spec, load_model

HIDDEN, HEADS, LAYERS, DENSE_LAYERS = 7168, 128, 61, 3
QUERY_RANK, KV_RANK, NOPE, ROPE, VALUE = 1536, 512, 128, 64, 128
EXPERTS, ACTIVE, EXPERT_FFN, DENSE_FFN = 256, 8, 2048, 18432
KV_WIDTH = KV_RANK + ROPE
MI = 1024**2

ATTENTION_PARAMETERS = (
    HIDDEN * QUERY_RANK
    + QUERY_RANK * HEADS * (NOPE + ROPE)
    + KV_RANK * HEADS * NOPE
    + HIDDEN * (KV_RANK + ROPE)
    + KV_RANK * HEADS * VALUE
    + HEADS * VALUE * HIDDEN
)
EXPERT_PARAMETERS = 3 * HIDDEN * EXPERT_FFN
DENSE_PARAMETERS = 3 * HIDDEN * DENSE_FFN
EMBEDDING_PARAMETERS = 2 * 129280 * HIDDEN


def gpu(name: str) -> GpuSpec:
    """A shipped GPU type."""
    return load_gpu_spec(name)


def model() -> ModelSpec:
    """DeepSeek-V3."""
    return load_model("deepseek-v3")


def derated(rate: float) -> float:
    """What kernels see of a data-sheet rate."""
    return 0.85 * rate


def prefill_rate(tflops: float, spec: GpuSpec) -> float:
    """An arithmetic rate in prefill, when some SMs communicate."""
    return derated(tflops) * (spec.sms - spec.sms_for_communication) / spec.sms


def projection_macs(s: float, *, queries: float, fresh: float) -> float:
    """Prefill GEMMs of one layer: `queries` tokens ask, `fresh` tokens are written to the cache, `s` are expanded."""
    return (
        queries * HIDDEN * QUERY_RANK
        + queries * QUERY_RANK * HEADS * (NOPE + ROPE)
        + fresh * HIDDEN * KV_WIDTH
        + s * KV_RANK * HEADS * (NOPE + VALUE)
    )


def score_macs(pairs: float, *, queries: float) -> float:
    """Prefill attention over `pairs` of query and key, and the output projection."""
    return HEADS * pairs * (ROPE + NOPE + VALUE) + queries * HEADS * VALUE * HIDDEN


def expert_gflop(tokens: float) -> float:
    """`tokens` through one expert."""
    return 2 * tokens * EXPERT_PARAMETERS / 1e9


def expert_load_ms(memory_gb_s: float, *, weight_bytes: float = 1) -> float:
    """One expert out of memory."""
    return EXPERT_PARAMETERS * weight_bytes / MI / derated(memory_gb_s)


def message_ms(tokens: float, copies: float, gb_s: float) -> float:
    """`copies` of each token's activations, one byte an element, over one link."""
    return tokens * HIDDEN * copies / MI / derated(gb_s)
