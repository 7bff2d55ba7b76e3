"""How weights and caches are stored."""

import math
from collections.abc import Iterable
from enum import StrEnum

_FP8_BYTES, _MXFP4_BYTES, _FP4_BYTES = 1.0, 0.55, 0.6  # with scales: MXFP4 0.53125, NVFP4 0.5625


class WeightFormat(StrEnum):
    """Formats of weights, 16 bits aside."""

    FP8 = "fp8"
    MXFP8 = "mxfp8"
    INT8 = "int8"
    MXFP4 = "mxfp4"
    NVFP4 = "nvfp4"
    INT4 = "int4"

    @classmethod
    def of(cls, sizes: Iterable[float]) -> "tuple[WeightFormat, ...]":
        """The formats of weights of so many bytes each, where nobody told them; none for 16 bits and more."""
        return tuple(sorted({cls._of_one(size) for size in sizes if size <= _FP8_BYTES}))

    @classmethod
    def _of_one(cls, size: float) -> "WeightFormat":
        return cls.MXFP4 if size <= _MXFP4_BYTES else cls.NVFP4 if size <= _FP4_BYTES else cls.FP8


class CacheFormat(StrEnum):
    """Elements of the KV cache: as the model says, or of 8 or 16 bits."""

    AUTO = "auto"
    FP8 = "fp8"
    BF16 = "bf16"

    def element_bytes(self, told: float) -> float:
        """Bytes of an element, `told` by the model."""
        return {CacheFormat.AUTO: told, CacheFormat.FP8: 1.0, CacheFormat.BF16: 2.0}[self]


def bits(size: float) -> str:
    """Of a weight of so many bytes, without its scale."""
    return f"{2 ** round(math.log2(8 * size))} bits"
