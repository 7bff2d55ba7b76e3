"""The fitted factors: what `calibration.fit_calibration` finds for the published measurements (a test fits them anew).

Accuracy, leave-one-out included: `planner cost accuracy`. GPUs that no measurement is from take the factors of their
family, or those of all families; these, and models that were not measured, are called carried over.
"""

from planner.domain.efficiency import ANY_FAMILY, Factor, Origin

_HOPPER = ("H100", "H800")
_SET = "planner/files/measurement_sets/published.csv"


def _fitted(name: str, family: str, value: float, count: int, gpus: tuple[str, ...], remark: str = "") -> Factor:
    model = "qwen3-30b-a3b" if family == "h20" else "deepseek-v3"
    return Factor(
        name=name,
        family=family,
        value=value,
        unit="1",
        origin=Origin.PUBLISHED,
        source=f"fitted to {count} published step time{'s' * (count > 1)} ({_SET}){remark}",
        gpus=gpus,
        measured=tuple((gpu, model) for gpu in gpus),
    )


FITTED = (
    _fitted("kernels_prefill", ANY_FAMILY, 0.7185, 5, _HOPPER),
    _fitted("kernels_decode", ANY_FAMILY, 0.6641, 2, _HOPPER),
    _fitted("imbalance", ANY_FAMILY, 1.3022, 5, ("GB200-NVL72", "H100")),
    _fitted("kernels_decode", "blackwell", 0.5001, 1, ("GB200-NVL72",)),
    _fitted("kernels_prefill", "h20", 1.0, 1, ("H20",), "; at its bound"),
    _fitted("kernels_decode", "h20", 0.8404, 1, ("H20",)),
)
