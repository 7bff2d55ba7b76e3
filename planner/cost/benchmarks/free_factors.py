"""What the built-in fit may move: every factor with whom it follows where little is measured, and how far it may stray.

A factor of a family follows that of its vendor, a vendor's that of all; one of an engine follows that of any engine.
`sigma` is the expected distance of its logarithm from the one that it follows, or from the value before the fit.
"""

from planner.cost.calibration import FreeFactor
from planner.domain.efficiency import ANY_FAMILY

VENDOR_OF_FAMILY = {
    "hopper": "nvidia",
    "h20": "nvidia",
    "blackwell": "nvidia",
    "ampere": "nvidia",
    "cdna3": "amd",
    "cdna4": "amd",
}


def _any(name: str, sigma: float, low: float, high: float) -> FreeFactor:
    return FreeFactor(name=name, family=ANY_FAMILY, sigma=sigma, low=low, high=high)


def _of(name: str, families: tuple[str, ...], sigma: float, low: float, high: float) -> tuple[FreeFactor, ...]:
    return tuple(FreeFactor(name=name, family=family, sigma=sigma, low=low, high=high) for family in families)


_VENDORS = ("nvidia", "amd")
_FAMILIES = tuple(VENDOR_OF_FAMILY)
_SERVED = ("hopper", "blackwell", "cdna3", "cdna4")  # MoE runs under load

BENCHMARK_FREE: tuple[FreeFactor, ...] = (
    _any("kernels_decode", 0.5, 0.05, 1),
    *_of("kernels_decode", _VENDORS, 0.3, 0.05, 1),
    *_of("kernels_decode", _FAMILIES, 0.4, 0.05, 1),
    _any("kernels_prefill", 0.5, 0.05, 1),
    *_of("kernels_prefill", _VENDORS, 0.2, 0.05, 1),
    *_of("kernels_prefill", _FAMILIES, 0.3, 0.05, 1),
    _any("expert", 0.7, 0.05, 1),
    *_of("expert", _SERVED, 0.3, 0.05, 1),
    _any("expert_half", 1.0, 10, 30_000),
    _any("expert_power", 0.3, 0.2, 1),
    *_of("expert_fp4", ("blackwell", "cdna4"), 0.5, 0.2, 5),
    _any("weight_only", 0.5, 0.05, 1),
    _any("cache", 0.5, 0.05, 1),
    _any("imbalance", 0.1, 1, 3),
    _any("rank_imbalance", 0.3, 1, 4),
    _any("all_reduce_us", 0.7, 1, 200),
    _any("all_reduce_node_us", 1.0, 1, 1000),
    _any("all_to_all_us", 0.7, 1, 300),
    _any("all_to_all_node_us", 1.0, 1, 1000),
    _any("prefill_pool", 0.3, 0.2, 1),
    *_of("prefill_pool", ("trt",), 0.3, 0.2, 1),
    *_of("engine_prefill", ("trt",), 0.2, 0.3, 3),
    *_of("engine_decode", ("trt", "atom"), 0.2, 0.3, 3),
    *_of("mtp_gain", ("trt", "sglang", "atom"), 0.2, 1.2, 3.9),
)
