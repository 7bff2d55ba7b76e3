"""Small inner problems with made-up rates, and the rates of an answer worked out from its own duties."""

from collections.abc import Sequence

import numpy as np

from planner.domain import (
    PHASES,
    Assignment,
    ClassPerformance,
    IslandClass,
    Layout,
    LengthRange,
    ParallelConfig,
    PerformanceTable,
    Phase,
    PhasePerformance,
)

Rates = Sequence[Sequence[float]]


def ranges_of(probabilities: Sequence[float]) -> tuple[LengthRange, ...]:
    """Ranges of 256 tokens with the given probabilities."""
    return tuple(
        LengthRange(
            start=256 * j,
            end=256 * j + 256,
            midpoint=256 * j + 128,
            probability=p,
            mean_input_tokens=256.0 * j,
            longest_input_tokens=256 * j + 255,
        )
        for j, p in enumerate(probabilities)
    )


def _phase(rates: Sequence[float], size: int) -> PhasePerformance:
    serves = any(rates)
    return PhasePerformance(
        parallel=ParallelConfig(tp=1, dp=size) if serves else None,
        rates_rps=tuple(map(float, rates)),
        batch_sizes=tuple(int(rate > 0) for rate in rates),
        step_ms=tuple(1000 / rate if rate else 0.0 for rate in rates),
        reason="" if serves else "made up to serve nothing",
    )


def table_of(probabilities: Sequence[float], prefill: Rates, decode: Rates) -> PerformanceTable:
    """Class k has k + 1 GPUs and the k-th rows of rates (requests/s)."""
    rows = tuple(
        ClassPerformance(
            island=IslandClass(gpu="H200", size=k + 1), prefill=_phase(own, k + 1), decode=_phase(other, k + 1)
        )
        for k, (own, other) in enumerate(zip(prefill, decode, strict=True))
    )
    return PerformanceTable(ranges=ranges_of(probabilities), classes=rows)


def layout_of(table: PerformanceTable, counts: Sequence[int]) -> Layout:
    """`counts[k]` islands of the table's k-th class."""
    return Layout(counts=tuple((row.island, n) for row, n in zip(table.classes, counts, strict=True)))


def random_problem(
    rng: np.random.Generator, *, islands: int, ranges: int, zeros: float = 0.0, largest_count: int = 3
) -> tuple[PerformanceTable, Layout]:
    """`islands` islands in classes of up to `largest_count`; each rate is 0 with probability `zeros`."""
    counts: list[int] = []
    while sum(counts) < islands:
        counts.append(int(rng.integers(1, min(largest_count, islands - sum(counts)) + 1)))
    shape = (len(counts), ranges)
    prefill, decode = (rng.uniform(1, 20, shape) * (rng.random(shape) >= zeros) for _ in PHASES)
    table = table_of(rng.dirichlet(np.full(ranges, 2.0)).tolist(), prefill.tolist(), decode.tolist())
    return table, layout_of(table, counts)


def expand(layout: Layout) -> list[IslandClass]:
    """The islands one by one."""
    return [island for island, count in layout.counts for _ in range(count)]


def served(table: PerformanceTable, assignment: Assignment, phase: Phase) -> list[float]:
    """Requests/s of each range in a phase, from the duties' time shares."""
    return [
        sum(
            duty.count * duty.time_shares[j] * table.row(duty.island).phase(phase).rates_rps[j]
            for duty in assignment.duties
            if duty.phase is phase
        )
        for j in range(len(table.ranges))
    ]
