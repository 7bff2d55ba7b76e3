"""Policies by name: `spotgpu` and the baseline `random`, with switches, as `spotgpu-prune`; how long evictions take.

| symbol | meaning | unit | source |
|---|---|---|---|
| mu, sigma | of the logarithm of the time in seconds | - | ASI paper, 4.2: mean 13 s, P95 48 s, the killed counted |
| L | the pod is killed after so long | s | ASI paper, 4.2: 60 s |
| Phi | distribution function of the standard normal law | - | - |

E[min(X, L)] = exp(mu + sigma^2 / 2) Phi((ln L - mu - sigma^2) / sigma) + L (1 - Phi((ln L - mu) / sigma)).
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from math import exp, log
from statistics import NormalDist

import numpy as np

from planner.errors import InputError
from planner.studies.spot.records import EvictionLaw, SpotPolicy

SPOTGPU = SpotPolicy(name="spotgpu")
RANDOM = SpotPolicy(name="random", by_cost=False, colocation=False, history=False, prune=False)
BASES = {policy.name: policy for policy in (SPOTGPU, RANDOM)}
SWITCHES = ("packing", "colocation", "history", "prune")
_SWITCH = re.compile(r"([+-])([a-z]+)")


def parse_spot_policy(text: str) -> SpotPolicy:
    """`spotgpu`, `random`, or one of them with switches: `spotgpu-colocation`, `random+prune`.

    `random` is the published comparison: nodes packed all the same, no co-location, no history, victims at random.
    InputError: another name, another switch, one that changes nothing.
    """
    base = re.match(r"[a-z]*", text)
    policy = BASES.get(base.group() if base else "")
    suffix = text[base.end() :] if base else text
    listed = _SWITCH.findall(suffix)
    if policy is None or "".join(map("".join, listed)) != suffix:
        raise _unknown(text)
    for sign, switch in listed:
        on = sign == "+"
        if switch not in SWITCHES or getattr(policy, switch) is on:
            raise _unknown(text)
        policy = replace(policy, **{switch: on})
    return replace(policy, name=text)


def _unknown(text: str) -> InputError:
    return InputError(
        f"policy: must be {' or '.join(BASES)}, perhaps with switches that change it (+ or - {', '.join(SWITCHES)}), "
        f"got {text!r}.",
        hint="Write spotgpu, random or, say, spotgpu-history.",
    )


_AT_ONCE = 1024


def eviction_times(law: EvictionLaw, generator: np.random.Generator) -> Iterator[float]:
    """Draws without end (s), cut at the law's longest time."""
    while True:
        drawn = np.minimum(generator.lognormal(law.mu, law.sigma, _AT_ONCE), law.longest_s)
        yield from drawn.tolist()


def mean_eviction_s(law: EvictionLaw) -> float:
    """Expected time (s), with pods killed after the longest time."""
    mean = exp(law.mu + law.sigma**2 / 2)
    normal, edge = NormalDist(), log(law.longest_s)
    below = normal.cdf((edge - law.mu - law.sigma**2) / law.sigma)
    return mean * below + law.longest_s * killed_share(law)


def killed_share(law: EvictionLaw) -> float:
    """Share of pods that do not end by themselves in time."""
    return 1 - NormalDist().cdf((log(law.longest_s) - law.mu) / law.sigma)


def quantile_eviction_s(law: EvictionLaw, share: float) -> float:
    """Time (s) within which this share of the pods is gone."""
    return min(law.longest_s, exp(law.mu + law.sigma * NormalDist().inv_cdf(share)))
