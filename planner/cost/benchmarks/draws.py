"""What rates may be, drawn from what is known of the factors, and what measurements would tell of a decision.

| symbol | meaning | unit |
|---|---|---|
| x[k], sd[k] | logarithm of factor k around its value in force, and how well it is known | 1 |
| R | correlation of the fitted factors' logarithms (`factor_spread`) | 1 |
| d[type, phase] | log of the true rate over the formulas', beyond what factors explain | 1 |

Fitted factors are drawn together, x ~ N(log value, sd R sd). A family that nothing was measured of has factors of its
own, which stray from those that it follows by the hierarchy's `sigma`. A factor that a user's measurements gave strays
by USER_SPREAD instead. d ~ N(0, STRUCTURE), N(0, USER_SPREAD) where the user measured the pace. A value beyond its
bounds is put at the bound.

What measurements are worth before they are made follows from draws (preposterior analysis):

| symbol | meaning | unit |
|---|---|---|
| V[k, l] | value of decision l where the machines are as in draw k | of the objective |
| y[k, m] | what measurement m shows in draw k: the log of a rate | 1 |
| e | noise of a measurement, NOISE | 1 |
| E | covariance over what is measured of the values that are then expected | of the objective, squared |
| S | covariance of the values over the draws | of the objective, squared |

Deciding now regrets R = mean_k max_l V - max_l mean_k V. After measurements the expected values are normal around their
means (linear regression of V on y + e), E = cov(V, y) (cov(y) + e^2)^-1 cov(y, V), and the regret that is expected to
go is mean max_l N(mean V, E) - max_l mean V, at most R. Of K draws p measurements explain p / (K - 1) of S by chance
alone, which is taken off, as an adjusted R^2 does: E - p / (K - 1 - p) (S - E), where it is positive.
Source: Raiffa and Schlaifer, Applied Statistical Decision Theory, 1961 (expected value of sample information).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from planner.cost.arrays import Array
from planner.cost.benchmarks.factor_spread import CORRELATION, SPREAD
from planner.cost.benchmarks.fit import BENCHMARK_FREE, VENDOR_OF_FAMILY
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
    measured = {(gpu, f.name) for f in present.factors if f.origin is Origin.USER for gpu in f.gpus}
    spreads = {
        (gpu, phase): USER_SPREAD if (gpu, f"pace_{phase}") in measured else STRUCTURE
        for gpu in sorted(gpu.name for gpu in gpus)
        for phase in PHASES
    }
    draws = []
    for number in range(count):
        factors = (*present.factors, *_moved(present, gpus, root, rng))
        draws.append(
            Draw(
                calibration=Calibration(name=f"draw {number}", factors=factors),
                on_bench=Calibration(name=f"draw {number} on a bench", factors=(*factors, *pools)),
                structure={kind: float(np.exp(rng.normal(0.0, spread))) for kind, spread in spreads.items()},
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


Table = Sequence[Sequence[float]]

NOISE = 0.05
"""Standard deviation of the log of a rate from run to run on one machine."""

_HALF_SAMPLES = 2048
_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A measurement chosen: its position, and by how much it reduces the regret beyond those chosen before it."""

    measurement: int
    reduction: float


def regret(values: Table) -> float:
    """R: what deciding now is expected to lose against knowing the machines. Rows are draws, columns decisions."""
    table = _array(values)
    return max(0.0, float(table.max(axis=1).mean() - table.mean(axis=0).max()))


def reduction(values: Table, shown: Table, measured: Sequence[int], noise: float = NOISE) -> float:
    """The part of the regret that is expected to go with these columns of `shown` measured; from 0 to R."""
    table, signals = _array(values), _array(shown)[:, list(measured)]
    if not len(measured):
        return 0.0
    means = table.mean(axis=0)
    expected = _expected(table - means, signals - signals.mean(axis=0), noise)
    gain = float((means + _normals(expected)).max(axis=1).mean() - means.max())
    return min(max(0.0, gain), regret(values))


def choose_measurements(values: Table, shown: Table, count: int, noise: float = NOISE) -> tuple[Choice, ...]:
    """Up to `count` measurements, each the one that reduces the regret most after those before it; the first of
    equals. Those that reduce nothing are left out."""
    chosen: list[Choice] = []
    columns = len(shown[0])
    for _ in range(min(count, columns)):
        before = [choice.measurement for choice in chosen]
        so_far = sum(choice.reduction for choice in chosen)
        others = [m for m in range(columns) if m not in before]
        gains = {m: reduction(values, shown, [*before, m], noise) - so_far for m in others}
        best = max(others, key=lambda m: gains[m])
        if not gains[best] > 0:
            break
        chosen.append(Choice(measurement=best, reduction=gains[best]))
    return tuple(chosen)


def _array(rows: Table) -> Array:
    return np.asarray(rows, dtype=np.float64)


def _expected(off: Array, signals: Array, noise: float) -> Array:
    """E, less what chance explains; both arguments are centred."""
    draws, measured = signals.shape
    free = draws - 1
    cross = off.T @ signals / free
    explained = cross @ np.linalg.solve(signals.T @ signals / free + noise**2 * np.eye(measured), cross.T)
    by_chance = measured / max(1, free - measured)
    return np.asarray(explained - by_chance * (off.T @ off / free - explained))


def _normals(covariance: Array) -> Array:
    """Samples of N(0, covariance), each with its opposite: their mean is 0, so that knowing more never looks worse."""
    values, vectors = np.linalg.eigh(covariance)
    # Rounding may leave small eigenvalues below 0.
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    half = np.random.default_rng(_SEED).standard_normal((_HALF_SAMPLES, len(values))) @ root.T
    return np.concatenate([half, -half])
