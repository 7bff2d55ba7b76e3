"""What the chapters show before any search: how a skew divides a type, and how long the traces' requests are.

Source: Rignall 2025, figure 4.8 (G_total 100, N_target 5; neither its skews nor its least size are printed, these are
ours) and figure 5.13 (Azure's traces of 2023).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from planner.domain import LengthProfile, RequestTrace
from planner.search.divider import divide
from planner.studies.chapter5.records import Division, TokenCounts

GPUS, ISLANDS, LEAST = 100, 5, 2
SKEWS = (-5.0, -2.0, -1.0, 0.0, 1.0, 2.0, 5.0)
CONTEXT, GENERATED = "context", "generated"
WIDTHS: Mapping[str, int] = {CONTEXT: 256, GENERATED: 32}
"""Tokens of a bin; of the context as wide as the ranges of a workload."""


def divisions() -> tuple[Division, ...]:
    """Figure 4.8: a division for each skew."""
    return tuple(
        Division(gpus=GPUS, least=LEAST, skew=skew, sizes=divide(GPUS, ISLANDS, skew, LEAST)) for skew in SKEWS
    )


def profile_tokens(profiles: Iterable[LengthProfile]) -> Iterator[TokenCounts]:
    """Figure 5.13 of workloads: their contexts alone, as they keep no more of their answers than means."""
    for profile in profiles:
        yield _counts(profile.name, CONTEXT, profile.input_tokens, profile.probabilities)


def trace_tokens(traces: Iterable[RequestTrace]) -> Iterator[TokenCounts]:
    """Figure 5.13 of traces: contexts and generated tokens."""
    for trace in traces:
        for side, tokens in ((CONTEXT, trace.input_tokens), (GENERATED, trace.output_tokens)):
            yield _counts(trace.name, side, tokens, [1 / len(tokens)] * len(tokens))


def _counts(trace: str, side: str, tokens: Sequence[int], weights: Sequence[float]) -> TokenCounts:
    width = WIDTHS[side]
    shares = [0.0] * (max(tokens) // width + 1)
    for length, weight in zip(tokens, weights, strict=True):
        shares[length // width] += weight
    return TokenCounts(
        trace=trace,
        side=side,
        width=width,
        starts=tuple(width * place for place in range(len(shares))),
        shares=tuple(shares),
        mean=sum(length * weight for length, weight in zip(tokens, weights, strict=True)),
    )
