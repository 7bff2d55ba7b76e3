"""What the thesis leaves open, how its own code settles it, and the cells of table 5.1 under each reading."""

from dataclasses import dataclass
from enum import StrEnum


class Point(StrEnum):
    """A point of chapters 4 and 5 that can be read in two ways; in a reading's set: as the thesis's code has it.

    Source: N. Rignall's repository NathanRignall/llm-scheduling, commit cd34abe, read for these facts alone.
    """

    TRACE = "trace"
    WIDTH = "width"
    HITS = "hits"
    DEGREES = "degrees"
    MEAN = "mean"
    BATCH = "batch"
    HIDDEN = "hidden"
    TOKENS = "tokens"
    WORST = "worst"


MEANINGS: dict[Point, str] = {
    Point.TRACE: "Azure's week of May 2024 (answers of 22 tokens; conversation 106), not the hour of 2023",
    Point.WIDTH: "ranges of 100 tokens, not of 256",
    Point.HITS: "prefill finds every prompt in the prefix cache (`kv_cache_rate` 1), not none",
    Point.DEGREES: "degrees up to 8, each a divisor of the island, not all of its divisors",
    Point.MEAN: "configurations compete by their mean over all ranges, not weighted by the mix",
    Point.BATCH: "batches are those that fit at a range's end, at least 8, not at its midpoint",
    Point.HIDDEN: "decode never waits for communication",
    Point.TOKENS: "an answer takes one token less",
    Point.WORST: "the worst configuration is taken: the least of differences that are negative, not of their size",
}
"""As the thesis's code has it, and what we read."""

Reading = frozenset[Point]
OURS: Reading = frozenset()
THESIS: Reading = frozenset(Point)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCell:
    """A cell of table 5.1 under a reading: what the best layout serves (requests/s), and what none exceeds."""

    reading: Reading
    fleet: str
    trace: str
    rate_rps: float
    bound_rps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenLayout:
    """The best layout of one of the thesis's own searches, under a reading with its formulation (requests/s).

    `searched_rps`: what its own run reports for it, noise of a few per cent included.
    """

    fleet: str
    trace: str
    trial: int
    prefill_rps: float
    decode_rps: float
    deviation_rps: float
    searched_rps: float

    @property
    def rate_rps(self) -> float:
        """R_total: the slower phase's."""
        return min(self.prefill_rps, self.decode_rps)
