"""The fitted factors: what `benchmarks.fit_built_in` finds for the step times and benchmark runs that come along.

A study fits them anew (tests/cost/test_built_in_fit.py); how far they are off for what they have not seen:
`planner cost accuracy`. A family that nothing was measured of takes the factors of its vendor, or those of any; its
estimates, and those for models that were not measured on a GPU type, are called carried over.
"""

from planner.domain.efficiency import ANY_FAMILY, Factor, Origin

# (GPU type, model) that were measured, by family
_MEASURED: dict[str, tuple[tuple[str, str], ...]] = {
    "ampere": (
        ("A100", "gpt-oss-120b"),
        ("A100", "llama-3.1-70b"),
        ("A100", "qwen3-235b-a22b"),
    ),
    "blackwell": (
        ("DGX-B200", "deepseek-r1"),
        ("DGX-B200", "gpt-oss-120b"),
        ("DGX-B200", "llama-3.1-405b"),
        ("DGX-B200", "llama-3.1-70b"),
        ("DGX-B200", "qwen3-235b-a22b"),
        ("DGX-B200", "qwen3-30b-a3b"),
        ("DGX-B300", "deepseek-r1"),
        ("GB200-NVL72", "deepseek-r1"),
        ("GB200-NVL72", "deepseek-v3"),
        ("GB200-NVL72", "llama-3.1-70b"),
    ),
    "cdna3": (
        ("MI300X", "deepseek-r1"),
        ("MI300X", "llama-3.1-405b"),
        ("MI300X", "llama-3.1-70b"),
    ),
    "cdna4": (("MI355X", "deepseek-r1"),),
    "h20": (
        ("H20", "deepseek-r1"),
        ("H20", "qwen3-30b-a3b"),
    ),
    "hopper": (
        ("H100", "deepseek-r1"),
        ("H100", "deepseek-v3"),
        ("H100", "gpt-oss-120b"),
        ("H100", "llama-3.1-405b"),
        ("H100", "llama-3.1-70b"),
        ("H200", "deepseek-r1"),
        ("H200", "kimi-k2"),
        ("H200", "llama-3.1-405b"),
        ("H200", "llama-3.1-70b"),
        ("H200", "qwen3-235b-a22b"),
        ("H800", "deepseek-v3"),
    ),
}
_PREFILL_NOT_MEASURED = (("H20", "deepseek-r1"),)
# step times and benchmark runs of each family that can be predicted
_COUNTS = {"ampere": 4, "blackwell": 169, "cdna3": 15, "cdna4": 99, "h20": 3, "hopper": 83}
_OF_VENDOR = {"nvidia": ("ampere", "blackwell", "h20", "hopper"), "amd": ("cdna3", "cdna4")}

# name, family (or vendor, or engine), value
_VALUES: tuple[tuple[str, str, float], ...] = (
    ("kernels_decode", ANY_FAMILY, 0.6669),
    ("kernels_decode", "nvidia", 0.8475),
    ("kernels_decode", "amd", 0.4687),
    ("kernels_decode", "hopper", 0.8468),
    ("kernels_decode", "h20", 1.0),
    ("kernels_decode", "blackwell", 0.9999),
    ("kernels_decode", "ampere", 0.8603),
    ("kernels_decode", "cdna3", 0.2302),
    ("kernels_decode", "cdna4", 0.442),
    ("kernels_prefill", ANY_FAMILY, 0.7202),
    ("kernels_prefill", "nvidia", 0.8423),
    ("kernels_prefill", "amd", 0.6071),
    ("kernels_prefill", "hopper", 0.9959),
    ("kernels_prefill", "h20", 0.9643),
    ("kernels_prefill", "blackwell", 0.7922),
    ("kernels_prefill", "ampere", 0.8998),
    ("kernels_prefill", "cdna3", 0.546),
    ("kernels_prefill", "cdna4", 0.4735),
    ("expert", ANY_FAMILY, 0.3612),
    ("expert", "hopper", 0.3318),
    ("expert", "blackwell", 0.1827),
    ("expert", "cdna3", 0.371),
    ("expert", "cdna4", 0.357),
    ("expert_half", ANY_FAMILY, 242.0),
    ("expert_power", ANY_FAMILY, 0.7393),
    ("expert_fp4", "blackwell", 1.106),
    ("expert_fp4", "cdna4", 0.7556),
    ("weight_only", ANY_FAMILY, 0.7505),
    ("cache", ANY_FAMILY, 0.5556),
    ("imbalance", ANY_FAMILY, 1.003),
    ("rank_imbalance", ANY_FAMILY, 1.151),
    ("all_reduce_us", ANY_FAMILY, 24.11),
    ("all_reduce_node_us", ANY_FAMILY, 54.5),
    ("all_to_all_us", ANY_FAMILY, 50.35),
    ("all_to_all_node_us", ANY_FAMILY, 45.79),
    ("prefill_pool", ANY_FAMILY, 0.6559),
    ("prefill_pool", "trt", 0.8194),
    ("engine_prefill", "trt", 0.8495),
    ("engine_decode", "trt", 1.14),
    ("engine_decode", "atom", 1.181),
    ("mtp_gain", "trt", 2.429),
    ("mtp_gain", "sglang", 2.022),
    ("mtp_gain", "atom", 2.2),
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
    measured = tuple(place for one in families for place in _MEASURED[one] if place not in untold)
    behind = sum(_COUNTS[one] for one in families)
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
