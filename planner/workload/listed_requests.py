"""Requests out of a table of lengths, for a replay whose arrivals are drawn: prompts as often as the table says."""

from array import array

import numpy as np

from planner.domain import LengthProfile, RequestTrace

REQUESTS = 10_000
"""How many stand for a table of probabilities, which does not say how many requests it counted."""

_SEED = 0


def requests_of_lengths(profile: LengthProfile) -> RequestTrace:
    """Requests with the table's prompt lengths, in an order without pattern, each with the mean answer to its length.

    Times are even, at the table's rate (1 request/s where it has none), and tell nothing of bursts; answers have a
    token at least.
    """
    count = profile.requests or REQUESTS
    # at even quantiles, so that each length comes as often as the table says
    places = np.searchsorted(np.cumsum(profile.probabilities), (np.arange(count) + 0.5) / count)
    places = np.random.default_rng(_SEED).permutation(np.minimum(places, len(profile.probabilities) - 1))
    means = profile.output_tokens or (profile.mean_output_tokens,) * len(profile.input_tokens)
    answers = np.maximum(1, np.rint(means))[places]
    seconds = np.arange(count) / (profile.arrival_rps or 1.0)
    return RequestTrace(
        name=profile.name,
        arrival_s=array("d", seconds.tobytes()),
        input_tokens=array("i", np.asarray(profile.input_tokens)[places].astype(np.intc).tobytes()),
        output_tokens=array("i", answers.astype(np.intc).tobytes()),
    )
