"""What islands may do under bounds on TTFT, each with the share of its time that its queue lets it work.

The table caps each range as if its island served nothing else. A queue holds all ranges of its island, and the one that
can wait least decides for all. So an island may be given a role: a phase, a configuration, and an interval of lengths.
The intervals of a configuration begin where a bound on TTFT changes, and end where what a range alone may be worked
falls below a step of `STEPS`. Shares are those of the workload's own mixture over the interval.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from planner.assignment import IslandKind, in_role
from planner.cost import FIRST_STEP_MS, Mixture, admitted_shares
from planner.domain import PHASES, ClassPerformance, LengthRange, Phase, PhasePerformance, SloSettings
from planner.domain.service import range_bounds
from planner.evaluation.goodput import misses_of, slack_ms

STEPS = (0.0, 0.1, 0.3, 0.5, 0.65, 0.8, 0.9)
ALONE = 1e-9  # of a rate: less is none


def kinds_of(
    rows: Sequence[ClassPerformance], ranges: Sequence[LengthRange], slo: SloSettings, mean_output_tokens: float
) -> tuple[IslandKind, ...]:
    """Every role of the classes of `rows`, with its share."""
    roles = [
        (row, phase, performance, first, after)
        for row in rows
        for phase in PHASES
        for performance in row.choices(phase)
        for first, after in dict.fromkeys(_intervals(phase, performance, ranges, slo))
    ]
    mixtures = [
        _mixture(phase, performance, ranges, slo, first, after) for _, phase, performance, first, after in roles
    ]
    shares = admitted_shares(mixtures, mean_output_tokens, misses_of(slo))
    return tuple(
        IslandKind(
            island=in_role(row.island, phase, performance, ranges[first].start, ranges[after - 1].end),
            phase=phase,
            rates_rps=performance.among([first <= j < after for j in range(len(ranges))]).rates_rps,
            limits=performance.utilisation_limits,
            share=share,
        )
        for (row, phase, performance, first, after), share in zip(roles, shares, strict=True)
        if share > 0
    )


def _intervals(
    phase: Phase, performance: PhasePerformance, ranges: Sequence[LengthRange], slo: SloSettings
) -> Iterator[tuple[int, int]]:
    """(first range, range after the last), all ranges first. Decode has one interval: all its ranges wait alike."""
    yield 0, len(ranges)
    if phase is Phase.DECODE:
        return
    bounds = [range_bounds(slo, span)[0] for span in ranges]
    # a looser bound begins there: ranges before it would hold back all after it
    starts = [0, *(j + 1 for j, (a, b) in enumerate(pairwise(bounds)) if a != b)]
    for first in starts:
        ends = [*starts, len(ranges)]
        for step in STEPS:
            after = first
            # longer prompts leave less of the bound to wait: where a step is passed, another interval ends
            while after < len(ranges) and _worked(performance, after) > step:
                after += 1
            ends.append(after)
        for after in ends:
            if after > first and any(performance.rates_rps[j] > 0 for j in range(first, after)):
                yield first, after


def _worked(performance: PhasePerformance, j: int) -> float:
    return performance.utilisation_limit(j) if performance.rates_rps[j] > 0 else 0.0


def _mixture(
    phase: Phase,
    performance: PhasePerformance,
    ranges: Sequence[LengthRange],
    slo: SloSettings,
    first: int,
    after: int,
) -> Mixture:
    """An island that serves these ranges as the workload has them."""
    served = [j for j in range(first, after) if performance.rates_rps[j] > 0]
    busy = [0.0] * len(ranges)
    for j in served:
        busy[j] = ranges[j].probability * performance.utilisation_limit(j) / performance.rates_rps[j]
    slacks = (slack_ms(phase, performance, j, ranges[j], slo, _first_step_ms(slo, ranges[j])) for j in served)
    return Mixture(
        phase=phase,
        performance=performance,
        busy=tuple(busy),
        slack_ms=min((slack for slack in slacks if slack is not None), default=float("inf")),
    )


def _first_step_ms(slo: SloSettings, span: LengthRange) -> float:
    bound = range_bounds(slo, span)[1]
    return FIRST_STEP_MS if bound is None else bound
