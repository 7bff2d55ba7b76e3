"""What makes shapes of kernels near each other, and words that name them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.cost.kernels.grid import Floats
from planner.errors import InputError

WORDS: Mapping[str, tuple[str, ...]] = {
    "dtype": (
        *("bfloat16", "fp8", "fp8_block", "nvfp4", "int4_wo", "int8_wo", "sq"),
        *("w4a16_mxfp4", "w4a8_mxfp4_mxfp8", "w4afp8"),
    ),
    "kv_dtype": ("bfloat16", "fp8"),
    "distribution": ("balanced", "power_law_1.01", "power_law_1.2"),  # of tokens over experts
    "kind": ("mla", "dsa", "csa", "hca", "msa", "gdn", "kda"),  # of layers: latent, sparse, compressed (two), recurrent
    "phase": ("context", "generation", "dispatch", "combine"),
    "mode": ("graph", "eager", "low_latency", "normal"),
    "collective": ("all_gather", "all_reduce", "alltoall", "reduce_scatter"),
    "work": ("scale", "apply"),
}
"""That tables of some GPU have. What one GPU has not is answered by no time, what none has is refused."""

ELSEWHERE = 4.0
"""As far as another word in a column counts: as a factor of e^4 in a size."""

EXPERT_COLUMNS = ("hidden", "inter", "topk", "experts", "moe_tp", "moe_ep")
EXPERT_NEARNESS = {"hidden": 1.0, "inter": 1.0, "experts": 0.5, "load": 0.5, "moe_ep": 1.0}


Words = tuple[tuple[str, str], ...]
"""Column and word, of each column that has words."""


def checked_words(**words: str) -> Words:
    """The words, by column. Raises InputError for one that no table has."""
    for column, word in words.items():
        if word not in WORDS[column]:
            all_words = ", ".join(WORDS[column])
            raise InputError(
                f"Measured kernels: {column} must be one of {all_words}, got {word!r}.", hint="Choose one of them."
            )
    return tuple(words.items())


def has_gate(columns: Mapping[str, npt.ArrayLike]) -> npt.NDArray[np.bool_]:
    """Whether measured experts have a gate, which tables do not say: all but Nemotron 3's (22 of 512; 1,856 wide), that
    TensorRT-LLM's tables call `moe_torch_flow_nongated`."""
    topk, inter = np.asarray(columns["topk"]), np.asarray(columns["inter"])
    return np.asarray((topk != 22) & (inter != 1856))


def expert_shape(columns: Mapping[str, npt.ArrayLike], gated: npt.ArrayLike) -> dict[str, Floats]:
    """What a GPU has of the experts, and how many tokens an expert gets of one: what makes shapes near."""
    hidden, inter, topk, experts, moe_tp, moe_ep = (np.asarray(columns[c], np.float64) for c in EXPERT_COLUMNS)
    local = {"hidden": hidden, "inter": inter / moe_tp, "experts": experts / moe_ep, "moe_ep": moe_ep}
    matrices = np.where(gated, 3, 2)
    return {**local, "load": topk / experts, "weights": matrices * hidden * local["inter"] * local["experts"]}


def pairs(tokens: Floats | np.float64, window: int) -> Floats:
    """Pairs of tokens, an earlier and a later one, within a window (0: none)."""
    reach = np.minimum(tokens, window) if window else tokens
    return np.asarray(reach * reach / 2 + (tokens - reach) * reach, dtype=np.float64)


def far(measured: npt.ArrayLike, wished: npt.ArrayLike) -> Floats:
    """How many times one is the other, as a logarithm."""
    return np.asarray(np.abs(np.log(measured) - np.log(wished)), dtype=np.float64)


def distance_of(measured: Mapping[str, Any], wished: Mapping[str, Any], weights: Mapping[str, float]) -> Floats:
    """How far shapes are from one, over the columns that have weights."""
    parts = [weight * far(measured[column], wished[column]) for column, weight in weights.items()]
    return np.asarray(np.sum(parts, axis=0), dtype=np.float64)
