"""Several streams of requests as one: lengths, answers and arrivals of their mixture.

| symbol | meaning | unit |
|---|---|---|
| w_i | share of the requests that stream i has | 1 |
| p_i(s), o_i(s) | probability of a prompt length, mean answer to it | 1, tokens |
| D_i | variance over mean of the arrivals in a window | 1 |

p(s) = sum_i w_i p_i(s)    o(s) = sum_i w_i p_i(s) o_i(s) / p(s)    D = sum_i w_i D_i, as variances and means of
independent streams add up
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import repeat

from planner.domain import LengthProfile
from planner.domain.workload import CountDispersion


def mixed_profile(name: str, streams: Sequence[tuple[LengthProfile, float]]) -> LengthProfile:
    """The profile of streams with their rates (requests/s). How prompts begin alike is not known of a mixture; how
    arrivals bunch where it is known of all streams in the same windows."""
    total = math.fsum(rate for _, rate in streams)
    masses: dict[int, list[float]] = defaultdict(list)
    answers: dict[int, list[float]] = defaultdict(list)
    for profile, rate in streams:
        outputs = profile.output_tokens or repeat(profile.mean_output_tokens)
        for tokens, probability, answer in zip(profile.input_tokens, profile.probabilities, outputs, strict=False):
            masses[tokens].append(rate / total * probability)
            answers[tokens].append(rate / total * probability * answer)
    lengths = sorted(masses)
    return LengthProfile(
        name=name,
        input_tokens=tuple(lengths),
        probabilities=tuple(math.fsum(masses[s]) for s in lengths),
        output_tokens=tuple(math.fsum(answers[s]) / math.fsum(masses[s]) for s in lengths),
        mean_output_tokens=math.fsum(rate / total * profile.mean_output_tokens for profile, rate in streams),
        max_output_tokens=max(profile.max_output_tokens for profile, _ in streams),
        arrival_rps=total,
        counts=_mixed_counts([(profile.counts, rate / total) for profile, rate in streams]),
    )


def _mixed_counts(streams: Sequence[tuple[CountDispersion | None, float]]) -> CountDispersion | None:
    (first, _), *_ = streams
    if first is None or any(counts is None or counts.windows_s != first.windows_s for counts, _ in streams):
        return None
    rows = [(counts.dispersion, share) for counts, share in streams if counts is not None]
    mixed = tuple(math.fsum(share * dispersion[k] for dispersion, share in rows) for k in range(len(first.windows_s)))
    return CountDispersion(windows_s=first.windows_s, dispersion=mixed)
