"""The policies by name, and how mixtures of them are written. A new one is a module beside this one, and a row here.

The weight of PWR in its mixture with FGD, chosen by how full the cluster is.

While GPUs are plentiful what counts is which of them are woken; near saturation every fragment is a pod that fails. So
PWR weighs much at first, less once the cheap GPUs are taken, and nothing in the end. FGD picks the GPU throughout.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from planner.errors import InputError
from planner.studies.policies.online.gradient_policies import FragmentationGradientDescent, PowerAware
from planner.studies.policies.online.packing_policies import BestFit, DotProd, GpuClustering, GpuPacking
from planner.studies.policies.online.seam import Policy, RandomPolicy, Scene

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """A policy: its name for people, and how it is made for a run.

    `alone`: it is not mixed with others. `picks_gpus`: of equal weights in a mixture it picks the GPUs. `saves_power`:
    watts are what it is judged by; `beside_power`: it may be mixed with such.
    """

    title: str
    make: Callable[[Scene], Policy]
    alone: bool = False
    picks_gpus: bool = False
    saves_power: bool = False
    beside_power: bool = False


POLICIES: Mapping[str, PolicyRow] = MappingProxyType(
    {
        "random": PolicyRow(
            title="Random",
            make=lambda scene: RandomPolicy(len(scene.pods), np.random.default_rng(scene.seed)),
            alone=True,
        ),
        "dotprod": PolicyRow(title="DotProd", make=lambda scene: DotProd(scene.pods, scene.semantics)),
        "gpuclustering": PolicyRow(
            title="GpuClustering", make=lambda scene: GpuClustering(scene.pods, scene.semantics)
        ),
        "gpupacking": PolicyRow(title="GpuPacking", make=lambda scene: GpuPacking(scene.pods, scene.semantics)),
        "bestfit": PolicyRow(title="BestFit", make=lambda scene: BestFit(scene.pods, scene.semantics)),
        "fgd": PolicyRow(
            title="FGD",
            make=lambda scene: FragmentationGradientDescent(scene.workload, scene.pods, scene.semantics),
            picks_gpus=True,
            beside_power=True,
        ),
        "pwr": PolicyRow(
            title="PWR", make=lambda scene: PowerAware(scene.pods, scene.power, scene.semantics), saves_power=True
        ),
    }
)
NAMES = tuple(POLICIES)
THOUSANDTHS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyMix:
    """Policies by name, each with its weight; under a `rule` those of PWR and FGD, its only terms, follow the load."""

    terms: tuple[tuple[str, float], ...]
    rule: AlphaByLoad | None = None

    @property
    def name(self) -> str:
        """As it is written: `fgd`, `pwr:0.1+fgd:0.9`, `adaptive`."""
        if self.rule is not None:
            return ADAPTIVE[0]
        if len(self.terms) == 1:
            return self.terms[0][0]
        return "+".join(f"{name}:{weight:g}" for name, weight in self.terms)

    @property
    def integer_weights(self) -> tuple[int, ...]:
        """Weights in thousandths, as the simulators take them, divided by what divides them all."""
        weights = [round(THOUSANDTHS * weight) for _, weight in self.terms]
        divisor = math.gcd(*weights) or 1
        return tuple(weight // divisor for weight in weights)

    @property
    def picks_gpus(self) -> int:
        """Number of the policy that picks the GPUs: the largest weight, FGD of equal ones, else the first."""
        largest = max(weight for _, weight in self.terms)
        heaviest = [k for k, (_, weight) in enumerate(self.terms) if weight == largest]
        return next((k for k in heaviest if POLICIES[self.terms[k][0]].picks_gpus), heaviest[0])


def parse_policy(text: str) -> PolicyMix:
    """`fgd`, or names with weights joined by `+`: `pwr:0.1+fgd:0.9`. InputError says what is wrong.

    `adaptive`, or `pwr+fgd:load`, is the mixture of PWR and FGD whose weights follow the load.
    """
    if "".join(text.lower().split()) in ADAPTIVE:
        return PolicyMix(terms=(("pwr", 0.5), ("fgd", 0.5)), rule=BY_LOAD)
    terms = [_term(part, text) for part in text.split("+")]
    names = [name for name, _ in terms]
    if len(set(names)) < len(names):
        raise _malformed(text, "must name each policy once", ", ".join(names))
    if len(terms) > 1 and any(weight is None for _, weight in terms):
        raise _malformed(text, "must give every policy of a mixture a weight", repr(text))
    lonely = [name for name in names if POLICIES[name].alone]
    if lonely and len(names) > 1:
        raise _malformed(text, f"must not mix {lonely[0]} with others", repr(text))
    if len(terms) == 1:
        return PolicyMix(terms=((names[0], 1.0),))
    return PolicyMix(terms=tuple((name, weight) for name, weight in terms if weight is not None))


def _term(part: str, text: str) -> tuple[str, float | None]:
    name, colon, weight = (piece.strip() for piece in part.strip().lower().partition(":"))
    if name not in NAMES:
        raise _malformed(text, f"must be one of {', '.join((*NAMES, ADAPTIVE[0]))}", repr(name))
    if not colon:
        return name, None
    try:
        value = Fraction(weight)
    except (ValueError, ZeroDivisionError):
        raise _malformed(text, f"must give {name} a number as its weight", repr(weight)) from None
    if not 0 < value <= 1 or (value * THOUSANDTHS).denominator != 1:
        raise _malformed(text, f"must give {name} a weight of whole thousandths, above 0 and at most 1", weight)
    return name, float(value)


def _malformed(text: str, rule: str, received: str) -> InputError:
    return InputError(f"policy {text!r} {rule}, got {received}.", hint="Write fgd, or pwr:0.1+fgd:0.9.")
