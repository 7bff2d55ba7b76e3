"""Buckets that a phase may have: cut points, the partitions between them, and what may miss in each.

Cut points are quantiles of work (prompt tokens of prefill, cached tokens of decode), so that every bucket between two
of them has something to do, and lengths where a bound changes. Under a percentile that counts over all requests, a
partition has two ways to part what may miss the bound: evenly, or half of an even share for all buckets but that of the
longest prompts, which gets the rest.

Servers that do both phases serve buckets of the same lengths in both: where they may be, decode is cut at the points of
prefill as well.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product

import numpy as np

from planner.assignment import Halves, Partition
from planner.cost.serving import Buckets, Interval, Levels
from planner.domain import PHASES, Phase, Question, ServingForm, SloScope, SloSettings

PREFILL_CUTS = 10  # more gain less than 0.2 % on the shipped workloads
DECODE_CUTS = 3
MOST_CHANGES = 4  # lengths where a bound changes that are cut points, too
MOST_EDGES = 3  # cuts at further lengths alone


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBuckets:
    """Buckets that a phase may have: `intervals` of ranges, with the share of their requests that may miss. `aligned`:
    partitions at cut points of the other phase."""

    buckets: Buckets
    levels: Levels
    partitions: tuple[tuple[int, ...], ...]
    aligned: tuple[tuple[int, ...], ...] = ()

    def intervals(self, partition: tuple[int, ...]) -> tuple[Interval, ...]:
        """The intervals of a partition's buckets."""
        return tuple(self.buckets.intervals[bucket] for bucket in partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSpace:
    """Everything that a plan may be cut into. `phases`: buckets of prefill and decode, and of both, which are those of
    prefill. `serving`: what servers may do. `partitions`: fewest buckets first."""

    phases: Mapping[Phase, PhaseBuckets]
    serving: tuple[Phase, ...]
    partitions: tuple[Partition, ...]
    halves: Mapping[int, Halves]


_SERVING = {
    ServingForm.SPLIT: PHASES,
    ServingForm.AGGREGATED: (Phase.MIXED,),
    ServingForm.AUTO: tuple(Phase),
}


def bucket_space(question: Question, limit: int, edges: Collection[int] = ()) -> BucketSpace:
    """What a plan of at most `limit` buckets a phase may be cut into; `edges`: lengths where it may be, too."""
    serving = _SERVING[question.scenario.serving_form]
    mixed = Phase.MIXED in serving
    prefill, decode = (phase_buckets(question, phase, limit, edges, aligned=mixed) for phase in PHASES)
    numbers = {interval: number for number, interval in enumerate(decode.buckets.intervals)}
    halves = {
        bucket: ((Phase.PREFILL, bucket), (Phase.DECODE, numbers[interval]))
        for bucket, interval in enumerate(prefill.buckets.intervals)
        if mixed and interval in numbers
    }
    pairs = list(product(prefill.partitions, decode.partitions))
    pairs += [
        (first, other)
        for first, other in product(prefill.partitions, decode.aligned)
        if prefill.intervals(first) == decode.intervals(other)
    ]
    partitions = [
        Partition(first, other, tuple(b for b in first if b in halves and halves[b][1][1] in other))
        for first, other in dict.fromkeys(pairs)
    ]
    if Phase.PREFILL not in serving:
        partitions = [partition for partition in partitions if partition.mixed == partition.prefill]
    return BucketSpace(
        phases={Phase.PREFILL: prefill, Phase.DECODE: decode, Phase.MIXED: prefill},
        serving=serving,
        partitions=tuple(sorted(partitions, key=lambda partition: sum(partition.counts))),
        halves=halves,
    )


def phase_buckets(
    question: Question, phase: Phase, limit: int, edges: Collection[int] = (), *, aligned: bool = False
) -> PhaseBuckets:
    """What a phase may have of at most `limit` buckets; `edges`: lengths where it may be cut, too; `aligned`: decode at
    the cut points of prefill, too."""
    workload, slo = question.workload, question.scenario.slo
    rows: dict[tuple[Interval, float], int] = {}
    chances = np.array([span.probability for span in workload.ranges])

    def numbered(of_phase: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
        for ends in of_phase:
            intervals = list(pairwise(ends))
            for misses in _ways_to_miss(slo, phase, [float(chances[a:b].sum()) for a, b in intervals]):
                yield tuple(rows.setdefault(key, len(rows)) for key in zip(intervals, misses, strict=True))

    partitions = tuple(numbered(_edges(question, phase, limit, edges)))
    others = (
        tuple(numbered(_edges(question, Phase.PREFILL, limit, edges)[1:])) if aligned and phase is Phase.DECODE else ()
    )
    buckets = Buckets.of(workload, [interval for interval, _ in rows])
    levels = Levels.of(slo, workload, np.array([share for _, share in rows]))
    return PhaseBuckets(buckets=buckets, levels=levels, partitions=partitions, aligned=others)


def _edges(question: Question, phase: Phase, limit: int, edges: Collection[int]) -> list[tuple[int, ...]]:
    """Where partitions of at most `limit` buckets begin, cut and end; that of a single bucket is the first. `edges`:
    lengths where it may be cut, too; at these alone into as many buckets as they make, and no more than `MOST_EDGES`.
    """
    cuts = _cut_points(question, phase, PREFILL_CUTS if phase is Phase.PREFILL else DECODE_CUTS) if limit > 1 else []
    n = len(question.workload.ranges)
    further = sorted({sum(span.end <= edge for span in question.workload.ranges) for edge in edges} - {0, n})
    every = sorted({*cuts, *further}) if limit > 1 else []
    inner = [ends for count in range(min(limit, len(every) + 1)) for ends in combinations(every, count)]
    counts = range(1, min(MOST_EDGES, len(further)) + 1)
    inner += [ends for count in counts for ends in combinations(further, count)]
    return [(0, *ends, n) for ends in dict.fromkeys(inner)]


def _ways_to_miss(slo: SloSettings, phase: Phase, chances: Sequence[float]) -> Iterator[tuple[float, ...]]:
    """Shares of each bucket's requests that may miss: evenly, or the longest prompts more than the others."""
    missed = 0.0 if slo.percentile is None else 1 - slo.percentile / 100
    yield (missed,) * len(chances)
    uneven = slo.scope is SloScope.OVERALL and slo.percentile is not None and phase is Phase.PREFILL
    bounded = slo.ttft_ms is not None or any(limits.ttft_ms is not None for limits in slo.ranges)
    if uneven and bounded and len(chances) > 1:
        last = (missed - missed / 2 * (1 - chances[-1])) / chances[-1]
        yield (*((missed / 2,) * (len(chances) - 1)), min(last, 1.0))


def _cut_points(question: Question, phase: Phase, count: int) -> list[int]:
    """Starts of ranges at quantiles of work, and where a bound changes, as a scenario's own ranges say."""
    spans = question.workload.ranges
    answers = [span.mean_output_tokens or question.workload.mean_output_tokens for span in spans]
    if phase is Phase.PREFILL:
        work = np.array([span.probability * max(1.0, span.mean_input_tokens) for span in spans])
    else:
        work = np.array([s.probability * n * (s.mean_input_tokens + n) for s, n in zip(spans, answers, strict=True)])
    done = np.cumsum(work) / work.sum()
    marks = [(k + 1) / (count + 1) for k in range(count)]
    cuts = {int(np.searchsorted(done, mark)) + 1 for mark in marks}
    edges = sorted({edge for limits in question.scenario.slo.ranges for edge in (limits.start, limits.end)})
    changes = [sum(span.start < edge for span in spans) for edge in edges]
    cuts |= set([cut for cut in changes if 0 < cut < len(spans)][:MOST_CHANGES])
    return sorted(cut for cut in cuts if 0 < cut < len(spans))
