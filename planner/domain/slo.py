"""Service levels: how long a request may wait for its first token, and for each further one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSlo:
    """Bounds for prompts of `start` <= tokens < `end`; None leaves the general bound."""

    start: int
    end: int
    ttft_ms: float | None = None
    tpot_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SloSettings:
    """Bounds on time to first token and time per output token (ms; None: no bound).

    `percentile` in (0, 100) says of how many requests they must hold; None: of the mean. `ranges` stand over the
    general bounds for the prompts that they cover; a later one over an earlier one.
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    percentile: float | None = None
    ranges: tuple[RangeSlo, ...] = ()

    @property
    def bounds_anything(self) -> bool:
        """Whether any bound is set."""
        general = self.ttft_ms is not None or self.tpot_ms is not None
        return general or any(r.ttft_ms is not None or r.tpot_ms is not None for r in self.ranges)

    def bounds(self, tokens: float) -> tuple[float | None, float | None]:
        """(TTFT, TPOT) bounds for a prompt of so many tokens."""
        ttft, tpot = self.ttft_ms, self.tpot_ms
        for one in self.ranges:
            if one.start <= tokens < one.end:
                ttft = one.ttft_ms if one.ttft_ms is not None else ttft
                tpot = one.tpot_ms if one.tpot_ms is not None else tpot
        return ttft, tpot
