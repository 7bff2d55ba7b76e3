"""Streams of a workload that is known by its lengths alone, as the shipped ones are."""

from array import array

import numpy as np

from planner.domain import LengthProfile
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, LeftOut, Requests
from planner.errors import InputError
from planner.replay.arrivals.demands import StreamLength, generators, require_rate, require_sense, require_some
from planner.replay.arrivals.gaps import drawn_times
from planner.replay.arrivals.parts import Places, Reals, faults_of
from planner.units import MS_PER_S

_MEANS = "Answers are as long as the mean answer to prompts of their length: how they vary is not in the workload."


def requests_of_profile(
    profile: LengthProfile,
    settings: ArrivalSettings,
    *,
    seed: int,
    rate_rps: float | None = None,
    count: int | None = None,
    seconds: float | None = None,
    most_tokens: int | None = None,
) -> Requests:
    """As `requests_of`, with prompts drawn by their probability and arrivals drawn, as there are none to replay.

    An answer is the mean one to prompts of that length, rounded up or down at random so that the mean stays, and of one
    token at least. `rate_rps` None: the workload's own.
    """
    length = StreamLength(count=count, seconds=seconds)
    require_sense(settings)
    _require_drawn(profile, settings)
    rate = _rate(profile) if rate_rps is None else require_rate(profile.name, rate_rps)
    times, lengths = generators(seed)
    prompts, means = _columns(profile)
    probabilities, left_out, notes = _sound(profile, prompts, means, most_tokens)
    arrival_s = drawn_times(settings, rate, length, times)
    require_some(profile.name, len(arrival_s), rate, seconds)
    places = _draws(probabilities, len(arrival_s), lengths)
    answers = np.maximum(np.floor(means[places] + lengths.random(len(places))), 1.0)
    return Requests(
        name=profile.name,
        arrival_ms=array("d", (arrival_s * MS_PER_S).tobytes()),
        prompt_tokens=array("i", prompts[places].astype(np.intc).tobytes()),
        answer_tokens=array("i", answers.astype(np.intc).tobytes()),
        left_out=left_out,
        same_instant=int((np.diff(arrival_s) == 0).sum()),
        notes=(*notes, _MEANS),
    )


def _require_drawn(profile: LengthProfile, settings: ArrivalSettings) -> None:
    if settings.process is ArrivalProcess.TRACE or settings.between is not None:
        key = "process trace" if settings.process is ArrivalProcess.TRACE else "between"
        raise InputError(
            f"Workload {profile.name}: must be a trace for {key}; it is a table of lengths, which says nothing of when "
            "requests came.",
            hint="Give the trace itself, or draw arrivals: `process: poisson`, and no `between`.",
        )


def _rate(profile: LengthProfile) -> float:
    if profile.arrival_rps is None:
        raise InputError(
            f"Workload {profile.name}: must have arrival_rps where no rate is given; it has none.",
            hint="Give a rate in requests/s.",
        )
    return profile.arrival_rps


def _columns(profile: LengthProfile) -> tuple[Places, Reals]:
    """Prompt lengths, and the mean answer to each."""
    prompts = np.asarray(profile.input_tokens, dtype=np.int64)
    means = profile.output_tokens or (profile.mean_output_tokens,) * len(prompts)
    return prompts, np.asarray(means, dtype=np.float64)


def _sound(
    profile: LengthProfile, prompts: Places, means: Reals, most_tokens: int | None
) -> tuple[Reals, LeftOut, tuple[str, ...]]:
    """Probabilities of what can be served, what cannot, and a note on that."""
    faults = faults_of(prompts, np.ceil(means).astype(np.int64), most_tokens)
    weights = np.asarray(profile.probabilities)
    shares = (faults * weights).sum(axis=1)
    left_out = LeftOut.of([round(share * (profile.requests or 0)) for share in shares.tolist()])
    probabilities = np.where(faults.any(axis=0), 0.0, weights)
    note = f"Left out are {shares.sum():.2%} of the requests: without a prompt or an answer, or beyond the context."
    if not probabilities.any():
        raise InputError(
            f"Workload {profile.name}: must hold a request that can be served; none is left. {note}",
            hint="Give another workload, or a model with a longer context.",
        )
    return probabilities, left_out, (note,) if shares.any() else ()


def _draws(probabilities: Reals, count: int, random: np.random.Generator) -> Places:
    """Rows by their probability, which need not sum to 1."""
    ends = np.cumsum(probabilities)
    # from the right: past rows without probability, whose ends are alike
    return np.asarray(np.searchsorted(ends, random.random(count) * ends[-1], side="right"), dtype=np.int64)
