"""How long a stream is: so many requests, or so many seconds."""

import math
from dataclasses import dataclass

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
