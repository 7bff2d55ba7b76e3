"""The fitted factors: what `benchmarks.fit_benchmarks` finds for the step times and benchmark runs that come along.

A study fits them anew (tests/cost/test_built_in_fit.py); how far they are off for what they have not seen:
`planner cost accuracy`. A family that nothing was measured of takes the factors of its vendor, or those of any; its
estimates, and those for models that were not measured on a GPU type, are called carried over.
"""

from planner.domain.efficiency import ANY_FAMILY, Factor, Origin

# (GPU type, model) that were measured, by family; models of one shape (deepseek-v3, deepseek-r1) vouch for each other
_MEASURED: dict[str, tuple[tuple[str, str], ...]] = {
    "ampere": (
        ("A100", "gpt-oss-120b"),
        ("A100", "llama-3.1-70b"),
        ("A100", "qwen3-235b-a22b"),
    ),
    "blackwell": (
        ("DGX-B200", "deepseek-r1"),
        ("DGX-B200", "deepseek-v3"),
        ("DGX-B200", "gpt-oss-120b"),
        ("DGX-B200", "llama-3.1-405b"),
        ("DGX-B200", "llama-3.1-70b"),
        ("DGX-B200", "qwen3-235b-a22b"),
        ("DGX-B200", "qwen3-30b-a3b"),
        ("DGX-B300", "deepseek-r1"),
        ("DGX-B300", "deepseek-v3"),
        ("GB200-NVL72", "deepseek-r1"),
        ("GB200-NVL72", "deepseek-v3"),
        ("GB200-NVL72", "llama-3.1-70b"),
    ),
    "cdna3": (
        ("MI300X", "deepseek-r1"),
        ("MI300X", "deepseek-v3"),
        ("MI300X", "llama-3.1-405b"),
        ("MI300X", "llama-3.1-70b"),
    ),
    "cdna4": (
        ("MI355X", "deepseek-r1"),
        ("MI355X", "deepseek-v3"),
    ),
    "h20": (
        ("H20", "deepseek-r1"),
        ("H20", "deepseek-v3"),
        ("H20", "qwen3-30b-a3b"),
    ),
    "hopper": (
        ("H100", "deepseek-r1"),
        ("H100", "deepseek-v3"),
        ("H100", "gpt-oss-120b"),
        ("H100", "llama-3.1-405b"),
        ("H100", "llama-3.1-70b"),
        ("H200", "deepseek-r1"),
        ("H200", "deepseek-v3"),
        ("H200", "kimi-k2"),
        ("H200", "llama-3.1-405b"),
        ("H200", "llama-3.1-70b"),
        ("H200", "qwen3-235b-a22b"),
        ("H800", "deepseek-r1"),
        ("H800", "deepseek-v3"),
    ),
}
_PREFILL_NOT_MEASURED = (("H20", "deepseek-r1"), ("H20", "deepseek-v3"))
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
    untold = _PREFILL_NOT_MEASURED if name == "kernels_prefill" else ()
    measured = tuple(place for member in families for place in _MEASURED[member] if place not in untold)
    behind = sum(_COUNTS[member] for member in families)
    return Factor(
        name=name,
        family=family,
        value=value,
        unit=_UNITS.get(name, "1"),
        origin=Origin.PUBLISHED,
        source=f"fitted to {behind} published step times and benchmark runs ({_SETS})",
        gpus=tuple(dict.fromkeys(gpu for gpu, _ in measured)),
        measured=measured,
    )


FITTED = tuple(_fitted(name, family, value) for name, family, value in _VALUES)
