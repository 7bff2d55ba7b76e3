"""Length ranges: a profile cut into [k W, (k+1) W).

| symbol | meaning | unit | source |
|---|---|---|---|
| W | width of a range | tokens | scenario, `ranges.width` |
| p_j | probability mass of range j | 1 | sum over its lengths |
| midpoint | k W + floor(W / 2), the length at which the cost model looks | tokens | Rignall 2025, chapter 4 |
"""

import math
from collections import defaultdict

from planner.domain import LengthProfile, LengthRange, Workload
from planner.errors import InputError


def divide(profile: LengthProfile, width: int) -> Workload:
    """Cut a profile into ranges of `width` tokens.

    They run from 0 to the first multiple of `width` above the longest prompt. Every length falls into exactly
    one range; ranges without mass are left out.
    """
    if width < 1:
        raise InputError(f"ranges.width must be at least 1 token; came {width}.", hint="Give a width such as 256.")
    members: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
    for length, probability in zip(profile.input_tokens, profile.probabilities, strict=True):
        if probability > 0.0:
            members[length // width].append((length, probability))
    return Workload(
        name=profile.name,
        ranges=tuple(_range(k * width, width, members[k]) for k in sorted(members)),
        mean_input_tokens=profile.mean_input_tokens,
        mean_output_tokens=profile.mean_output_tokens,
        max_output_tokens=profile.max_output_tokens,
    )


def _range(start: int, width: int, members: list[tuple[int, float]]) -> LengthRange:
    mass = math.fsum(probability for _, probability in members)
    return LengthRange(
        start=start,
        end=start + width,
        midpoint=start + width // 2,
        probability=mass,
        # from the start, so that rounding cannot leave the range
        mean_input_tokens=start + math.fsum((length - start) * p for length, p in members) / mass,
        longest_input_tokens=max(length for length, _ in members),
    )
