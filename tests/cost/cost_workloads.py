"""Workloads by hand: a few ranges with chosen midpoints."""

from collections.abc import Sequence

from planner.domain import LengthRange, Workload


def workload(
    midpoints: Sequence[int] = (128, 1024, 4096),
    probabilities: Sequence[float] | None = None,
    *,
    mean_output_tokens: float = 28,
    max_output_tokens: int = 1899,
) -> Workload:
    """Ranges of two tokens around each midpoint, equally likely unless said otherwise."""
    shares = probabilities or [1 / len(midpoints)] * len(midpoints)
    ranges = tuple(
        LengthRange(
            start=m - 1, end=m + 1, midpoint=m, probability=p, mean_input_tokens=float(m), longest_input_tokens=m
        )
        for m, p in zip(midpoints, shares, strict=True)
    )
    return Workload(
        name="by hand",
        ranges=ranges,
        mean_input_tokens=sum(r.midpoint * r.probability for r in ranges),
        mean_output_tokens=mean_output_tokens,
        max_output_tokens=max_output_tokens,
    )
