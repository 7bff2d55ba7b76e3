"""A shorter trace that is like a long one: stretches of time, drawn alike and laid end to end.

| symbol | meaning | unit |
|---|---|---|
| n, T | requests and span of the long trace | 1, s |
| N | requests wanted | 1 |
| m | stretches that are drawn | 1 |
| M = ceil(m n / N) | stretches of w = T / M seconds that the trace is cut into | 1 |

Each stretch is drawn with the same chance, so rate, lengths and peaks of up to w seconds are those of the long trace on
average, and requests within a stretch come as they came; the sample has about N of them. Requests drawn one by one
would lose how arrivals bunch, and one long stretch the rhythm of the day.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from planner.errors import InputError
from planner.workload.summary import Requests

STRETCHES = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretches:
    """Places (ascending) of the stretches of `width_s` seconds each that are taken of all `many`."""

    width_s: float
    many: int
    places: tuple[int, ...]


def draw_stretches(*, requests: int, span_s: float, wanted: int, seed: int) -> Stretches:
    """Stretches that together hold about `wanted` of a trace's requests. Raises InputError for no request."""
    if wanted < 1:
        raise InputError(f"requests: must be at least 1, got {wanted}.", hint="Say how many the sample is to have.")
    if wanted >= requests or span_s <= 0:
        return Stretches(width_s=max(span_s, 1.0), many=1, places=(0,))
    drawn = min(STRETCHES, wanted)
    many = -(-drawn * requests // wanted)
    places = np.sort(np.random.default_rng(seed).choice(many, size=drawn, replace=False))
    return Stretches(width_s=span_s / many, many=many, places=tuple(places.tolist()))


def take_stretches(blocks: Iterable[Requests], stretches: Stretches) -> Iterator[Requests]:
    """The requests in these stretches, which follow each other without a gap."""
    places = np.array(stretches.places)
    for arrivals, inputs, outputs in blocks:
        # the last request ends the last stretch, it does not begin another
        at = np.minimum(np.floor(arrivals / stretches.width_s), stretches.many - 1)
        position = np.searchsorted(places, at)
        chosen = places[np.minimum(position, len(places) - 1)] == at
        moved = arrivals[chosen] - (at[chosen] - position[chosen]) * stretches.width_s
        yield moved, inputs[chosen], outputs[chosen]
