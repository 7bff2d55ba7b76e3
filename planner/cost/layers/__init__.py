"""What one layer of each kind of attention costs on one GPU of a group of tp: a file each, behind one seam."""

from collections.abc import Mapping
from types import MappingProxyType

from planner.cost.layers.compressed import COMPRESSED
from planner.cost.layers.grouped import GROUPED
from planner.cost.layers.latent import LATENT
from planner.cost.layers.recurrent import LINEAR, MAMBA2
from planner.cost.layers.seam import Decoded, Intake, LayerCost, LayerWork
from planner.domain import Attention, GroupedAttention, MlaAttention
from planner.domain.model import CompressedAttention, LinearAttention, Mamba2

__all__ = ["Decoded", "Intake", "LayerCost", "LayerWork", "cost_of"]

_COSTS: Mapping[type, LayerCost] = MappingProxyType(
    {
        CompressedAttention: COMPRESSED,
        GroupedAttention: GROUPED,
        LinearAttention: LINEAR,
        Mamba2: MAMBA2,
        MlaAttention: LATENT,
    }
)


def cost_of(kind: Attention) -> LayerCost:
    """The formulas of a kind of attention."""
    return _COSTS[type(kind)]
