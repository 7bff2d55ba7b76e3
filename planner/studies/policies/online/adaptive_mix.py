"""The weight of PWR in its mixture with FGD, chosen by how full the cluster is.

While GPUs are plentiful what counts is which of them are woken; near saturation every fragment is a pod that fails. So
PWR weighs much at first, less once the cheap GPUs are taken, and nothing in the end. FGD picks the GPU throughout.
"""

from bisect import bisect_right
from dataclasses import dataclass

ADAPTIVE = ("adaptive", "pwr+fgd:load")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlphaByLoad:
    """`alphas[k]` is PWR's weight, FGD has the rest, from a share `loads[k - 1]` of used milli-GPU on (0 for k = 0).

    Weights are whole thousandths within [0, 1]; `loads` ascend.
    """

    loads: tuple[float, ...]
    alphas: tuple[float, ...]

    def alpha(self, load: float) -> float:
        """PWR's weight at a share of used milli-GPU."""
        return self.alphas[bisect_right(self.loads, load)]


BY_LOAD = AlphaByLoad(loads=(0.2, 0.77), alphas=(0.7, 0.3, 0.0))
