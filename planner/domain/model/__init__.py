"""What a model's layers are made of: kinds of attention and of feed-forward blocks, a file each.

A kind says its weights, what it caches, and over what tensor parallelism splits it; what it costs is for the cost
formulas. Elements are counted, not bytes: precision is the model's. Biases, norms and rotary tables, below 0.1 % of the
whole, are left out.
"""

from dataclasses import dataclass
from typing import Annotated

from planner.domain.keys import Bounds
from planner.domain.model.compressed import CompressedAttention
from planner.domain.model.ffn import DenseFfn, Experts
from planner.domain.model.formats import CacheFormat, WeightFormat
from planner.domain.model.grouped import BlockIndexer, Gate, GroupedAttention
from planner.domain.model.latent import Indexer, MlaAttention
from planner.domain.model.recurrent import LinearAttention, Mamba2
from planner.domain.model.sizes import LARGEST_SIZE, MOST_LAYERS, Size, SizeOrNone

__all__ = [
    "LARGEST_SIZE",
    "MOST_LAYERS",
    "Attention",
    "BlockIndexer",
    "CacheFormat",
    "CompressedAttention",
    "DenseFfn",
    "Experts",
    "Ffn",
    "Gate",
    "GroupedAttention",
    "Indexer",
    "LayerGroup",
    "LinearAttention",
    "Mamba2",
    "MlaAttention",
    "Size",
    "SizeOrNone",
    "WeightFormat",
]

Attention = MlaAttention | GroupedAttention | CompressedAttention | LinearAttention | Mamba2
Ffn = DenseFfn | Experts


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """Equal layers of a model, `count` of them, wherever they stand in it. A layer may have attention alone, or a
    feed-forward block alone."""

    count: Annotated[int, Bounds(low=1, high=MOST_LAYERS)]
    attention: Attention | None
    ffn: Ffn | None
