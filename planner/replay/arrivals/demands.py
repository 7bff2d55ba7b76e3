"""What is asked of a stream: how long it is, its process, its rate, its seed."""

import math
from dataclasses import dataclass

import numpy as np

from planner.domain.arrivals import POISSON_VARIATION, ArrivalProcess, ArrivalSettings
from planner.errors import InputError

MOST_REQUESTS = 20_000_000
"""Of a stream: 2 GB on the way, and hours of any replay; who asks for more mistook a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLength:
    """One of the two is None."""

    count: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.count is None) == (self.seconds is None):
            raise InputError(
                f"A stream of requests must have either a count or seconds, got count {self.count} and seconds "
                f"{self.seconds}.",
                hint="Give one of the two.",
            )
        if self.count is not None and self.count < 1:
            raise InputError(f"Stream: count must be at least 1, got {self.count}.", hint="Ask for more requests.")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise InputError(f"Stream: seconds must be above 0 and finite, got {self.seconds:g}.", hint="Correct it.")
        if self.count is not None:
            require_fits(self.count)


def require_fits(requests: float) -> None:
    """InputError beyond what fits into memory."""
    if requests > MOST_REQUESTS:
        raise InputError(
            f"Stream: must take at most {MOST_REQUESTS:,} requests of the trace to make, it would take "
            f"{requests:,.0f}.",
            hint="Ask for fewer requests or seconds, or for a rate nearer to the trace's.",
        )


def require_sense(settings: ArrivalSettings) -> None:
    """InputError for a setting that its process does not heed: somebody counts on it."""
    process = settings.process
    heeded = (
        ("compress", settings.compress, (ArrivalProcess.TRACE,)),
        ("variation", settings.variation != POISSON_VARIATION, (ArrivalProcess.GAMMA, ArrivalProcess.DIURNAL)),
        ("curve", settings.curve is not None, (ArrivalProcess.DIURNAL,)),
        ("curve_start_s", settings.curve_start_s != 0, (ArrivalProcess.DIURNAL,)),
    )
    for key, stated, processes in heeded:
        if stated and process not in processes:
            raise InputError(
                f"Arrivals: {key} must be left out for the process {process}, which does not heed it.",
                hint=f"Leave it out, or choose the process {' or '.join(processes)}.",
            )
    if process is ArrivalProcess.DIURNAL and settings.curve is None:
        raise InputError(
            "Arrivals: curve must be given for the process diurnal; it is missing.",
            hint="Give a rate curve, shipped ones by name: `planner.files.load_rate_curve('servegen-m-large')`.",
        )


def require_rate(name: str, rate_rps: float) -> float:
    """The rate, if it is one; `name` is the workload's."""
    if not 0 < rate_rps < math.inf:
        raise InputError(
            f"Stream of {name}: rate_rps must be above 0 and finite, got {rate_rps:g}.",
            hint="Give requests a second, or leave it out for the workload's own rate.",
        )
    return rate_rps


def require_some(name: str, requests: int, rate_rps: float, seconds: float | None) -> None:
    """InputError for a stream of no requests, which only so many seconds may have."""
    if not requests:
        raise InputError(
            f"Stream of {name}: must hold at least one request; at {rate_rps:g} requests/s none came in {seconds:g} s.",
            hint="Ask for more seconds, or give a count.",
        )


def generators(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    """Of arrivals and of lengths, apart: another rate does not change the lengths."""
    if seed < 0:
        raise InputError(f"Stream: seed must be a whole number of at least 0, got {seed}.", hint="Give another.")
    arrivals, lengths = np.random.SeedSequence(seed).spawn(2)
    return np.random.default_rng(arrivals), np.random.default_rng(lengths)
