"""The fitted factors: what `benchmarks.fit_benchmarks` finds for the step times and benchmark runs that come along.

A study fits them anew (tests/cost/test_built_in_fit.py); how far they are off for what they have not seen:
`planner cost accuracy`. A family that nothing was measured of takes the factors of its vendor, or those of any.
"""

from planner.cost.residuals.band_table import MEASURED
from planner.domain.efficiency import ANY_FAMILY, Factor, Origin

# step times and benchmark runs of each family that can be predicted
_COUNTS = {"ampere": 4, "blackwell": 169, "cdna3": 15, "cdna4": 99, "h20": 3, "hopper": 83}
_OF_VENDOR = {"nvidia": ("ampere", "blackwell", "h20", "hopper"), "amd": ("cdna3", "cdna4")}

# name, family (or vendor, or engine), value
_VALUES: tuple[tuple[str, str, float], ...] = (
    ("kernels_decode", ANY_FAMILY, 0.6769),
    ("kernels_decode", "nvidia", 0.8626),
    ("kernels_decode", "amd", 0.4827),
    ("kernels_decode", "hopper", 0.8522),
    ("kernels_decode", "h20", 0.9999),
    ("kernels_decode", "blackwell", 1.0),
    ("kernels_decode", "ampere", 0.9271),
    ("kernels_decode", "cdna3", 0.2317),
    ("kernels_decode", "cdna4", 0.4605),
    ("kernels_prefill", ANY_FAMILY, 0.7287),
    ("kernels_prefill", "nvidia", 0.8552),
    ("kernels_prefill", "amd", 0.6175),
    ("kernels_prefill", "hopper", 0.9949),
    ("kernels_prefill", "h20", 0.9609),
    ("kernels_prefill", "blackwell", 0.7946),
    ("kernels_prefill", "ampere", 0.973),
    ("kernels_prefill", "cdna3", 0.5568),
    ("kernels_prefill", "cdna4", 0.4887),
    ("expert", ANY_FAMILY, 0.3278),
    ("expert", "hopper", 0.3312),
    ("expert", "blackwell", 0.1842),
    ("expert", "cdna3", 0.3635),
    ("expert", "cdna4", 0.3422),
    ("expert_half", ANY_FAMILY, 261.8),
    ("expert_power", ANY_FAMILY, 0.7267),
    ("expert_fp4", "blackwell", 1.104),
    ("expert_fp4", "cdna4", 0.755),
    ("weight_only", ANY_FAMILY, 0.7359),
    ("cache", ANY_FAMILY, 0.5541),
    ("imbalance", ANY_FAMILY, 1.005),
    ("rank_imbalance", ANY_FAMILY, 1.147),
    ("all_reduce_us", ANY_FAMILY, 24.28),
    ("all_reduce_node_us", ANY_FAMILY, 54.43),
    ("all_to_all_us", ANY_FAMILY, 49.85),
    ("all_to_all_node_us", ANY_FAMILY, 46.2),
    ("prefill_pool", ANY_FAMILY, 0.69),
    ("prefill_pool", "trt", 0.82),
    ("engine_prefill", "trt", 0.8494),
    ("engine_decode", "trt", 1.148),
    ("engine_decode", "atom", 1.196),
    ("mtp_gain", "trt", 2.426),
    ("mtp_gain", "sglang", 2.024),
    ("mtp_gain", "atom", 2.192),
)
_UNITS = {
    "expert_half": "tokens",
    "mtp_gain": "tokens",
    "all_reduce_us": "us",
    "all_reduce_node_us": "us",
    "all_to_all_us": "us",
    "all_to_all_node_us": "us",
}
_SETS = "planner/files/measurement_sets"


def _fitted(name: str, family: str, value: float) -> Factor:
    families = (family,) if family in _COUNTS else _OF_VENDOR.get(family, tuple(_COUNTS))
    behind = sum(_COUNTS[member] for member in families)
    return Factor(
        name=name,
        family=family,
        value=value,
        unit=_UNITS.get(name, "1"),
        origin=Origin.PUBLISHED,
        source=f"fitted to {behind} published step times and benchmark runs ({_SETS})",
        gpus=tuple(dict.fromkeys(gpu for of, gpu, *_ in MEASURED if of in families)),
    )


FITTED = tuple(_fitted(name, family, value) for name, family, value in _VALUES)
