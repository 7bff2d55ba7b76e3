"""Efficiency factors: what kernels and links reach of data-sheet figures, each with unit, origin and source."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.band import MeasuredBand
from planner.domain.keys import OneOf

ANY_FAMILY = "any"

# factors by name, with the values that they may have
_SHARE = (0.001, 1.0)
_TIME = (0.0, 1e6)
BOUNDS = {
    "gemm": _SHARE,
    "gemm_half": (0.0, 1e5),
    "expert": _SHARE,
    "expert_half": (0.0, 1e5),
    "expert_power": (0.05, 2.0),
    "expert_fp4": (0.01, 10.0),
    "attention_prefill": _SHARE,
    "attention_decode": _SHARE,
    "memory": _SHARE,
    "cache": _SHARE,
    "weight_only": _SHARE,
    "nvlink": _SHARE,
    "nic_prefill": _SHARE,
    "nic_decode": _SHARE,
    "all_to_all_us": _TIME,
    "all_to_all_node_us": _TIME,
    "all_reduce_us": _TIME,
    "all_reduce_node_us": _TIME,
    "transfer_us": _TIME,
    "layer_us": _TIME,
    "step_prefill_ms": _TIME,
    "step_decode_ms": _TIME,
    "passes": (0.0, 1e3),
    "overlap": (0.0, 1.0),
    "imbalance": (1.0, 100.0),
    "rank_imbalance": (1.0, 100.0),
    "prefill_pool": _SHARE,
    "kernels_prefill": _SHARE,
    "kernels_decode": _SHARE,
    "engine_prefill": (0.05, 20.0),
    "engine_decode": (0.05, 20.0),
    "mtp_gain": (1.0, 9.0),
    "ttft_fixed_ms": _TIME,
    "ttft_steps": (0.0, 100.0),
    "ttft_answers": (0.0, 100.0),
}


_MOST_MODELS = 3  # that a provenance names


class Origin(StrEnum):
    """Where a number comes from, from the firmest to the weakest for the machine at hand."""

    USER = "user's measurement"
    PUBLISHED = "published measurement"
    CARRIED = "carried over"
    DATA_SHEET = "data sheet"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """One factor of one GPU family, of a vendor (for families that have none of their own), or of any.

    `gpus` are the GPU types that it was measured on, `measured` these with the model: for another type or model it is
    carried over. Kernels measured apart from a model, and calibration files of before, have `gpus` alone.
    """

    name: Annotated[str, OneOf(tuple(BOUNDS))]
    family: str
    value: float
    unit: str
    origin: Origin
    source: str
    gpus: tuple[str, ...] = ()
    measured: tuple[tuple[str, str], ...] = ()

    def origin_for(self, gpu: str, model: str) -> Origin:
        """The factor's origin where `model` on `gpu` uses it."""
        if self.origin not in (Origin.USER, Origin.PUBLISHED):
            return self.origin
        vouched = (gpu, model) in self.measured if self.measured else gpu in self.gpus
        return self.origin if vouched else Origin.CARRIED

    @property
    def provenance(self) -> str:
        """On which model and GPUs it was measured, and its source; the source alone where it was not measured."""
        if self.origin not in (Origin.USER, Origin.PUBLISHED):
            return self.source
        models = dict.fromkeys(model for _, model in self.measured)
        if len(models) > _MOST_MODELS:
            return f"measured with {len(models)} models on {', '.join(self.gpus)}: {self.source}"
        places = [f"{name} on {', '.join(gpu for gpu, model in self.measured if model == name)}" for name in models]
        return f"measured on {' and '.join(places) or ', '.join(self.gpus)}: {self.source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Factors under one name; later factors stand in for earlier ones of the same name and family.

    `bands`: how far rates by these factors are off what was measured, each measurement left out of its own fit.
    """

    name: str
    factors: tuple[Factor, ...]
    bands: tuple[MeasuredBand, ...] = ()

    def factor(self, name: str, *families: str) -> Factor:
        """The factor of the first of `families` that has one, or else of any. Raises KeyError where none has."""
        for wanted in (*families, ANY_FAMILY):
            for factor in reversed(self.factors):
                if (factor.name, factor.family) == (name, wanted):
                    return factor
        raise KeyError(f"{name} ({', '.join(families)})")
