"""Inference engines as data: what one version accepts, and the rules that follow from it.

`profile` has the records, `layers` which layers GPUs must be able to share out, and where DeepEP serves. The
cost model asks before a configuration is priced, the export before it is written: both by the same functions.
"""

from planner.domain.engine.layers import (
    ExchangeSite,
    LayerFault,
    Loading,
    deepep_obstacle,
    layer_faults,
    overlap_obstacle,
    pod_sizes,
)
from planner.domain.engine.profile import (
    Arithmetic,
    DraftRules,
    EngineProfile,
    ExchangeRules,
    LayerRules,
    MethodRule,
    Over,
    OverlapRules,
    PrecisionRule,
    SharedExpert,
    StageRules,
    TransferRule,
)

__all__ = [
    "Arithmetic",
    "DraftRules",
    "EngineProfile",
    "ExchangeRules",
    "ExchangeSite",
    "LayerFault",
    "LayerRules",
    "Loading",
    "MethodRule",
    "Over",
    "OverlapRules",
    "PrecisionRule",
    "SharedExpert",
    "StageRules",
    "TransferRule",
    "deepep_obstacle",
    "layer_faults",
    "overlap_obstacle",
    "pod_sizes",
]
