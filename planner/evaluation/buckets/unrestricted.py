"""What no layout can exceed, deployable or not: islands of every size, every range routed by itself, no queues.

The prices are those of the deployable servers, so both bounds are of one model. A GPU of a type does at most what it
does in its best server on each range; the relaxation shares GPUs out over types, phases and ranges.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from planner.assignment import BucketOffer, BucketOption, Partition, Place, relaxed_buckets
from planner.cost import CostContext
from planner.cost.parallelism import replica_shapes
from planner.cost.serving import Buckets, DecodeServers, Interval, Levels, MixedServers, PrefillServers
from planner.cost.serving.shapes import node_sizes
from planner.domain import (
    PHASES,
    InventoryItem,
    ObjectiveSettings,
    ParallelConfig,
    Phase,
    Scenario,
    SloSettings,
    Workload,
)
from planner.evaluation.buckets.prices import BucketPrices

EVERY_SIZE = 32
"""Up to so many GPUs every size is looked at; above multiples of 4, between which rates per GPU hardly differ; beyond
`LARGEST` those that can be deployed."""

LARGEST = 320
_AT_ONCE = 200
MOST_KEPT = 64
"""Types, phases and numbers of GPUs whose rates are remembered: a plan and what is asked beside it ask again."""


def unrestricted_rps(prices: BucketPrices, counts: dict[str, int]) -> float | None:
    """The bound for so many GPUs of each type (requests/s); None where they cannot serve."""
    scenario, ranges = prices.question.scenario, prices.question.workload.ranges
    chances = [span.probability for span in ranges]
    items = [item for item in scenario.inventory.items if counts.get(item.gpu.name)]
    serving = prices.space.serving
    options: dict[Place, list[BucketOption]] = {(phase, j): [] for phase in serving for j in range(len(ranges))}
    for t, item in enumerate(items):
        for phase in serving:
            for j, rate in enumerate(_per_gpu(prices, scenario, item, phase)):
                if rate > 0:
                    options[phase, j].append(BucketOption(stock=t, use=1, server=0, kind=0, rate_rps=float(rate)))
    offer = BucketOffer(
        counts=tuple(counts[item.gpu.name] for item in items),
        charges=(0.0,) * len(items),
        options={place: tuple(choices) for place, choices in options.items()},
        probabilities={(phase, j): p for phase in PHASES for j, p in enumerate(chances)},
        halves={(Phase.MIXED, j): ((Phase.PREFILL, j), (Phase.DECODE, j)) for j in range(len(ranges))},
    )
    every = tuple(range(len(ranges)))
    partition = Partition(every, every, every if Phase.MIXED in serving else ())
    relaxed = relaxed_buckets(offer, partition, ObjectiveSettings(), scenario.assignment)
    return None if relaxed is None else relaxed.rate_rps


def _per_gpu(prices: BucketPrices, scenario: Scenario, item: InventoryItem, phase: Phase) -> np.ndarray:
    """Best rate of one GPU on each range."""
    context = CostContext(gpu=item.gpu, model=scenario.model, settings=scenario.cost)
    intervals = prices.phases[phase].buckets.intervals
    return _best_per_gpu(
        context, item.count, phase, prices.question.workload, scenario.slo, intervals, prices.budgets()
    )


@lru_cache(maxsize=MOST_KEPT)
def _best_per_gpu(
    context: CostContext,
    count: int,
    phase: Phase,
    workload: Workload,
    slo: SloSettings,
    intervals: tuple[Interval, ...],
    token_budgets: tuple[int, ...],
) -> np.ndarray:
    """`_per_gpu` by what it follows from; few numbers, which take hundreds of servers to find."""
    singles = [(j, j + 1) for j in range(len(workload.ranges))]
    levels = Levels.of(slo, workload)
    all_buckets = Buckets.of(workload, [*dict.fromkeys((*intervals, *singles))])
    best = np.zeros(len(workload.ranges))
    for shapes in _pieces(context, count, stages=phase is not Phase.MIXED):
        ways = [(shape, flag) for shape in shapes for flag in (False, True) if not flag or _may_hide(context, shape)]
        gpus = np.array([float(shape.devices) for shape, _ in ways])[:, None]
        if phase is Phase.PREFILL:
            options = [(shape, budget, flag) for shape, flag in ways for budget in token_budgets]
            servers = PrefillServers.of(context, options, all_buckets, queued=False)
            gpus = np.array([float(config.parallel.devices) for config in servers.configs])[:, None]
            rates = servers.range_rps()
        elif phase is Phase.MIXED:
            pairs = [(shape, budget) for shape in shapes for budget in token_budgets]
            both = [
                MixedServers.of(context, pairs, all_buckets, workload.max_output_tokens, drafted=drafted)
                for drafted in context.settings.drafting.choices
            ]
            gpus = both[0].devices[:, None]
            rates = np.max([servers.range_rps(all_buckets, levels) for servers in both], axis=0)
        else:
            apart = (
                DecodeServers.of(context, ways, all_buckets, workload.max_output_tokens, drafted=drafted)
                for drafted in context.settings.drafting.choices
            )
            rates = np.max([servers.range_rps(all_buckets, levels) for servers in apart], axis=0)
        best = np.maximum(best, (rates / gpus).max(axis=0))
    best.flags.writeable = False  # whoever asks for the same is given this array
    return best


def _may_hide(context: CostContext, shape: ParallelConfig) -> bool:
    """Whether communication might be hidden, whatever engines can."""
    return context.settings.two_micro_batches and context.model.experts is not None and shape.stage_devices > 1


def _pieces(context: CostContext, count: int, *, stages: bool) -> Iterator[list[ParallelConfig]]:
    """Shapes of every size, a few hundred at a time; with pipeline `stages` or without."""
    piece: list[ParallelConfig] = []
    sizes = (size for size in range(1, min(count, LARGEST) + 1) if size <= EVERY_SIZE or size % 4 == 0)
    for devices in sorted({*sizes, *node_sizes(context.gpu, count)}):
        piece += [shape for shape in replica_shapes(context, devices) if stages or shape.pp == 1]
        if len(piece) >= _AT_ONCE:
            yield piece
            piece = []
    if piece:
        yield piece
