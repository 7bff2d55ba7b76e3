"""Service levels: how long a request may wait for its first token, and for each further one."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds, Key

LONGEST_PROMPT = 100_000_000
"""Tokens; beyond any model."""
UNASKED = 99.0
"""The percentile that is told of times where nothing is bounded (%)."""
_THOUSAND = 1000.0

FirstToken = Annotated[int, Bounds(low=0, high=LONGEST_PROMPT), Key("shortest prompt", unit="tokens", name="from")]
EndToken = Annotated[
    int, Bounds(high=LONGEST_PROMPT), Key("prompts are shorter than this, and some longer than `from`", "tokens", "to")
]
_Milliseconds = Annotated[float | None, Bounds(above=0, high=1e9)]


class SloScope(StrEnum):
    """Of which requests a percentile counts: `overall` of all, `every_bucket` of those of each bucket (in a table's
    plans: of each range) by itself."""

    OVERALL = "overall"
    EVERY_BUCKET = "every_bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSlo:
    """Bounds for prompts of `start` <= tokens < `end`; None leaves the general bound."""

    start: FirstToken = 0
    end: EndToken = LONGEST_PROMPT
    ttft_ms: Annotated[_Milliseconds, Key("bound on time to first token")] = None
    tpot_ms: Annotated[_Milliseconds, Key("bound on time per output token")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SloSettings:
    """Bounds on times; None: no bound. `ranges` stand over the general bounds for the prompts that they cover, a later
    one over an earlier one."""

    ttft_ms: Annotated[_Milliseconds, Key("bound on time to first token")] = None
    ttft_ms_per_1k_tokens: Annotated[
        float, Bounds(low=0, high=1e9), Key("that the bound on TTFT grows by with the prompt", unit="ms")
    ] = 0.0
    tpot_ms: Annotated[_Milliseconds, Key("bound on time per output token")] = None
    percentile: Annotated[
        float | None,
        Bounds(above=0, below=100),
        Key("of how many requests the bounds hold; else of the mean", unit="%"),
    ] = None
    scope: Annotated[SloScope, Key("of which requests the percentile counts")] = SloScope.EVERY_BUCKET
    ranges: Annotated[tuple[RangeSlo, ...], Key("bounds for prompts of some lengths")] = ()

    @property
    def bounds_anything(self) -> bool:
        """Whether any bound is set."""
        general = self.ttft_ms is not None or self.tpot_ms is not None
        return general or any(r.ttft_ms is not None or r.tpot_ms is not None for r in self.ranges)

    @property
    def needed(self) -> float:
        """Share of the requests that must keep a bound; 0 where the mean must."""
        return 0.0 if self.percentile is None else self.percentile / 100

    @property
    def over_all(self) -> bool:
        """Whether a bucket may miss the bound on TTFT as long as all requests together keep it."""
        return self.scope is SloScope.OVERALL

    @property
    def late_share(self) -> float | None:
        """Share of the requests that are later than the time that is told; None where the mean is told."""
        percentile = self.percentile if self.bounds_anything else UNASKED
        return None if percentile is None else 1 - percentile / 100

    @property
    def statistic(self) -> str:
        """What of times is told beside bounds: the percentile asked for, or the mean; P99 where nothing is bounded."""
        if not self.bounds_anything:
            return f"P{UNASKED:g}"
        return "mean" if self.percentile is None else f"P{self.percentile:g}"

    def bounds(self, tokens: float) -> tuple[float | None, float | None]:
        """(TTFT, TPOT) bounds for a prompt of so many tokens."""
        ttft, tpot = self.ttft_ms, self.tpot_ms
        for limits in self.ranges:
            if limits.start <= tokens < limits.end:
                ttft = limits.ttft_ms if limits.ttft_ms is not None else ttft
                tpot = limits.tpot_ms if limits.tpot_ms is not None else tpot
        return None if ttft is None else ttft + self.ttft_ms_per_1k_tokens * tokens / _THOUSAND, tpot
