"""What drafts bring to every pool that decodes: its rate over that of the same servers without, at the same batch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from planner.cost.serving import Buckets, Levels
from planner.domain import BucketPool, CostMode, Phase, PoolDrafts, Question, Reach
from planner.evaluation.buckets.priced import full_rates, servers_of


def drafts_of(
    question: Question, pools: Sequence[BucketPool], reaches: Mapping[str, Reach] | None
) -> Iterator[PoolDrafts]:
    """Of the pools that draft, where nobody waits and no bound holds."""
    for pool in pools:
        cost = question.scenario.cost.with_drafted(pool.server.drafted)
        if pool.phase is Phase.PREFILL or cost.mode is CostMode.REFERENCE or not cost.drafting.drafted:
            continue
        reach = (reaches or {}).get(pool.island)
        plain = replace(pool, server=replace(pool.server, drafted=0))
        yield PoolDrafts(
            island=pool.island,
            tokens=cost.drafting.drafted,
            tokens_per_pass=cost.drafting.gain,
            gain=_rate(question, pool, reach) / _rate(question, plain, reach),
            carried_over=cost.drafting.carried_over(question.scenario.model.name),
        )


def _rate(question: Question, pool: BucketPool, reach: Reach | None) -> float:
    """Of one server on its bucket at its batch."""
    workload = question.workload
    rows = [j for j, span in enumerate(workload.ranges) if pool.start <= span.start and span.end <= pool.end]
    buckets = Buckets.of(workload, [(rows[0], rows[-1] + 1)])
    levels = Levels.of(question.scenario.slo, workload, None)
    unbound = replace(levels, tpot_ms=np.full_like(levels.tpot_ms, np.inf))
    return float(full_rates(pool, servers_of(question, pool, buckets, reach), buckets, unbound)[0])
