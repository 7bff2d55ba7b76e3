"""Times of one bucket at one load, predicted or replayed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTimes:
    """P50 and P99 (ms; None: the queue has no end) of a bucket at a rate of the whole mix; `bounds_ms`: the least and
    the largest bound on its prompts, empty where there is none."""

    bucket: str
    load: str
    rate_rps: float
    p50_ms: float | None
    p99_ms: float | None
    bounds_ms: tuple[float, ...]

    @property
    def spare(self) -> float | None:
        """What P99 leaves of the least bound (%)."""
        if not self.bounds_ms or self.p99_ms is None:
            return None
        return 100 * (1 - self.p99_ms / min(self.bounds_ms))
