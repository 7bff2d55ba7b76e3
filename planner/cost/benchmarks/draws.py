"""What rates may be: factors drawn from what is known of them, with how far the formulas' structure may be off.

| symbol | meaning | unit |
|---|---|---|
| x[k], sd[k] | logarithm of factor k around its value in force, and how well it is known | 1 |
| R | correlation of the fitted factors' logarithms (`factor_spread`) | 1 |
| d[type, phase] | log of the true rate over the formulas', beyond what factors explain | 1 |

Fitted factors are drawn together, x ~ N(log value, sd R sd). A family that nothing was measured of has factors of its
own, which stray from those that it follows by the hierarchy's `sigma`. A factor that a user's measurements gave strays
by USER_SPREAD instead. d ~ N(0, STRUCTURE). A value beyond its bounds is put at the bound.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from planner.cost.arrays import Array
from planner.cost.benchmarks.factor_spread import CORRELATION, SPREAD
from planner.cost.benchmarks.free_factors import BENCHMARK_FREE, VENDOR_OF_FAMILY
from planner.cost.efficiency import merged, vendor_family
from planner.domain import PHASES, Calibration, Factor, GpuSpec, Origin, Phase
from planner.domain.efficiency import ANY_FAMILY, BOUNDS

STRUCTURE = 0.2
"""Standard deviation of the log of a rate where its GPU type and model are left out of the fit, beyond the factors'."""

USER_SPREAD = 0.05
"""Of the log of a factor that a user measured: the trust of `planner cost calibrate` in a step time."""

POOL = "prefill_pool"
_VENDORS = frozenset(VENDOR_OF_FAMILY.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One of the ways that the machines may be: complete factors, and by GPU type and phase a multiple of the rate.

    `on_bench`: the factors as a benchmark of one engine shows them; the share of a prefill pool behind a router is
    that in force.
    """

    calibration: Calibration
    on_bench: Calibration
    structure: Mapping[tuple[str, Phase], float] = field(default_factory=dict)

    def multiple(self, gpu: str, phase: Phase) -> float:
        """True rate over the formulas'."""
        return self.structure.get((gpu, phase), 1.0)


def draws_of(gpus: Sequence[GpuSpec], calibration: Calibration | None, *, count: int, seed: int) -> tuple[Draw, ...]:
    """So many draws around the factors in force: those of `calibration` over the built-in ones."""
    present, rng = merged(calibration), np.random.default_rng(seed)
    root = _root()
    pools = tuple(factor for factor in present.factors if factor.name == POOL)
    kinds = [(gpu, phase) for gpu in sorted(gpu.name for gpu in gpus) for phase in PHASES]
    draws = []
    for number in range(count):
        factors = (*present.factors, *_moved(present, gpus, root, rng))
        draws.append(
            Draw(
                calibration=Calibration(name=f"draw {number}", factors=factors),
                on_bench=Calibration(name=f"draw {number} on a bench", factors=(*factors, *pools)),
                structure={kind: float(np.exp(rng.normal(0.0, STRUCTURE))) for kind in kinds},
            )
        )
    return tuple(draws)


def in_force(calibration: Calibration | None) -> Draw:
    """The machines as the factors in force say."""
    return Draw(calibration=merged(calibration), on_bench=merged(calibration))


def _root() -> Array:
    """A matrix A with A A' = sd R sd; rounding may have left R with small negative eigenvalues, which count as none."""
    spread = np.array([sd for _, _, sd in SPREAD])
    lower = np.zeros((len(SPREAD), len(SPREAD)))
    for k, row in enumerate(CORRELATION):
        lower[k, :k] = row
    correlation = (lower + lower.T) / 100 + np.eye(len(SPREAD))
    values, vectors = np.linalg.eigh(correlation * np.outer(spread, spread))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _moved(present: Calibration, gpus: Sequence[GpuSpec], root: Array, rng: np.random.Generator) -> Iterator[Factor]:
    """The drawn factors: those fitted, then those of families that have none of their own."""
    logs: dict[tuple[str, str], float] = {}
    for (name, family, _), strayed in zip(SPREAD, (root @ rng.standard_normal(len(SPREAD))).tolist(), strict=True):
        logs[name, family] = strayed
    # By name, so that draws do not depend on the order of an inventory.
    for gpu in sorted({gpu.family: gpu for gpu in gpus}.values(), key=lambda gpu: gpu.family):
        for name, sigma in _unmeasured(gpu):
            parent = (name, vendor_family(gpu))
            logs[name, gpu.family] = logs.get(parent, logs[name, ANY_FAMILY]) + rng.normal(0.0, sigma)
    for (name, family), strayed in logs.items():
        factor = _in_force(present, name, family, gpus)
        by_user = rng.normal(0.0, USER_SPREAD)  # drawn in any case: one user's factor changes no other's draw
        low, high = BOUNDS[name]
        moved = factor.value * np.exp(by_user if factor.origin is Origin.USER else strayed)
        yield replace(factor, family=family, value=float(np.clip(moved, low, high)))


def _in_force(present: Calibration, name: str, family: str, gpus: Sequence[GpuSpec]) -> Factor:
    """The family's own, its vendor's or that of any."""
    vendors = [vendor_family(gpu) for gpu in gpus if gpu.family == family]
    return present.factor(name, family, *vendors)


def _unmeasured(gpu: GpuSpec) -> Iterator[tuple[str, float]]:
    """Factors that the GPU's family would have of its own, had it been measured, and how far they stray.

    Those of a vendor of whom nothing was measured stray from all others, too.
    """
    measured = {(name, family) for name, family, _ in SPREAD}
    for name in [name for name, family, _ in SPREAD if family == ANY_FAMILY]:
        of_family = _sigma(name, frozenset(VENDOR_OF_FAMILY))
        if of_family and (name, gpu.family) not in measured:
            of_vendor = 0.0 if vendor_family(gpu) in _VENDORS else _sigma(name, _VENDORS)
            yield name, float(np.hypot(of_family, of_vendor))


def _sigma(name: str, families: frozenset[str]) -> float:
    """How far a factor of one of the families may stray from the one that it follows; 0 where none has its own."""
    return max((f.sigma for f in BENCHMARK_FREE if f.name == name and f.family in families), default=0.0)
