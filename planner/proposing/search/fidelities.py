"""Which candidates a dear judge should look at, where a cheap one has looked at all.

| symbol | meaning |
|---|---|
| a, r | rate by the cheap judge, by the dear one |
| d = ln(r / a) | what the cheap judge is off by: a Gaussian process over the candidates' features |
| f* | ln of the best r so far |

A candidate is worth its expected improvement of ln r = ln a + d over f*. Where d varies less than r does, as few dear
looks tell as much of the rest as the cheap judge leaves open (the corrected model of Kennedy and O'Hagan, 2000).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_FEWEST = 3  # of which a model is made
_LEAST_SPREAD = 0.01  # of d: what the dear judge's rates are known to
Features = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A candidate that both have judged (requests/s, above 0); features lie in 0..1."""

    features: Features
    cheap_rps: float
    dear_rps: float


def most_promising(
    judged: Sequence[Judgement], features: Sequence[Features], cheap_rps: Sequence[float], count: int, seed: int
) -> list[int]:
    """Places of at most `count` candidates, each the best where what the model says of those before it came true; of
    equal ones the first. Until there is enough to learn from, the cheap judge's order."""
    guesses = np.log(np.asarray(cheap_rps, dtype=float))
    if len(judged) < _FEWEST or not features:
        return [int(place) for place in np.argsort(-guesses, kind="stable")[:count]]
    from planner.proposing.search.surrogate import SmoothFunction  # noqa: PLC0415  (torch only for a search that needs it)

    off = np.log([judgement.dear_rps / judgement.cheap_rps for judgement in judged])
    middle, scale = float(off.mean()), max(float(off.std()), _LEAST_SPREAD)
    points = np.array([judgement.features for judgement in judged])
    model, candidates = SmoothFunction(points, (off - middle) / scale, seed), np.array(features)
    best = float(np.log(max(judgement.dear_rps for judgement in judged)))
    chosen: list[int] = []
    while len(chosen) < min(count, len(features)):
        # of ln r over f*: that of d over what it takes to get there
        worth = model.log_expected_improvement(candidates, (best - middle - guesses) / scale)
        worth[chosen] = -np.inf
        place = int(np.argmax(worth))
        chosen.append(place)
        best = max(best, float(guesses[place] + middle + scale * model.believe(candidates[place])))
    return chosen
