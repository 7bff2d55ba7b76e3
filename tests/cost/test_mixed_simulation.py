"""Rates and times of servers that do both phases against a simulation of their passes, one server with one group.

| GPU, prompts, answers, budget | bound on TTFT | late, of 1 % allowed |
|---|---|---|
| H200, 1K, 200, 16K | 120, 150, 200 ms | 3.7, 2.3, 0.1 % |
| H200, 4K, 200, 2K | 400, 1000 ms | 0.6, 0 % |
| H200, 4K, 200, 16K | 250, 400, 800 ms | 0.6, 1.1, 0 % |
| H200, 256 and 4K, 200, 8K | 300, 400 ms | 1.1, 0.1 % |
| B200, 1K and 8K, 400, 8K | 250, 500, 1000 ms | 0.2, 0.6, 0 % |
| B200, 1K, 50, 16K | 120, 200 ms | 4.6, 0 % |

Bounds of less than 160 ms, twice the time of a prompt by itself, are missed too often: prompts that meet in a pass make
it longer. What engines need beside the passes (50 ms and 1.6 TPOT more of the fit) is left out of both sides.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from cost_figures import gpu, model
from cost_workloads import workload
from mixed_simulation import Outcome, PassTable, simulate

from planner.cost import CostContext
from planner.cost.serving import Buckets, Levels, MixedServers
from planner.domain import Calibration, CostSettings, Factor, Origin, ParallelConfig, SloSettings
from planner.domain.efficiency import ANY_FAMILY

BOUND_TPOT_MS = 50
SHAPE = ParallelConfig(tp=8, dp=1)
# passes alone: own chunks, and a pass's share of sequences where they are mixed
PASSES = Calibration(
    name="passes alone",
    factors=tuple(
        Factor(name=name, family=ANY_FAMILY, value=value, unit=unit, origin=Origin.USER, source="a test")
        for name, value, unit in (("ttft_fixed_ms", 0.0, "ms"), ("ttft_steps", 1.0, "1"), ("ttft_answers", 1.0, "1"))
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A server on one GPU type under a mix of lengths."""

    spec: str
    lengths: tuple[int, ...]
    chances: tuple[float, ...]
    answer: int
    budget: int

    def servers(self, levels: SloSettings) -> tuple[MixedServers, Buckets, Levels]:
        load = workload(self.lengths, self.chances, mean_output_tokens=self.answer, max_output_tokens=self.answer)
        buckets = Buckets.of(load, [(0, len(self.lengths))])
        servers = MixedServers.of(context_of(self.spec), [(SHAPE, self.budget)], buckets, self.answer)
        return servers, buckets, Levels.of(levels, load)

    def outcome(self, rate: float, batch: float, requests: int) -> Outcome:
        """What becomes of so many requests."""
        return simulate(
            table_of(self),
            rate_rps=rate,
            chances=self.chances,
            answer=self.answer,
            budget=self.budget,
            batch=int(batch),
            requests=requests,
            seed=1,
        )


def context_of(spec: str) -> CostContext:
    return CostContext(gpu=gpu(spec), model=model("deepseek-v3"), settings=CostSettings(calibration=PASSES))


@cache
def table_of(case: Case) -> PassTable:
    cached = float(np.dot(case.chances, case.lengths)) + case.answer / 2
    return PassTable.of(context_of(case.spec), SHAPE, case.lengths, cached)


SHORT = Case(spec="H200", lengths=(1024,), chances=(1.0,), answer=200, budget=16384)
CHUNKED = Case(spec="H200", lengths=(4096,), chances=(1.0,), answer=200, budget=2048)
WHOLE = Case(spec="H200", lengths=(4096,), chances=(1.0,), answer=200, budget=16384)
MIXTURE = Case(spec="H200", lengths=(256, 4096), chances=(0.8, 0.2), answer=200, budget=8192)
LONG = Case(spec="DGX-B200", lengths=(1024, 8192), chances=(0.8, 0.2), answer=400, budget=8192)


@pytest.mark.parametrize(
    ("case", "ttft_ms"), [(SHORT, 200), (CHUNKED, 1000), (WHOLE, 400), (MIXTURE, 300), (LONG, 500)]
)
def test_at_the_cap_bounds_hold_for_as_many_as_they_should(case: Case, ttft_ms: int) -> None:
    servers, buckets, levels = case.servers(SloSettings(tpot_ms=BOUND_TPOT_MS, ttft_ms=ttft_ms, percentile=99))
    batch, rate, full = servers.capped_rps(buckets, levels, servers.full_rps(buckets, levels)[1][0])
    assert 0.3 * full[0, 0] < rate[0, 0] < full[0, 0]
    outcome = case.outcome(float(rate[0, 0]), batch[0, 0], 6000)
    assert (outcome.ttft_ms > ttft_ms).mean() <= 0.0125
    assert (outcome.tpot_ms > BOUND_TPOT_MS).mean() <= 0.01


@pytest.mark.parametrize("case", [SHORT, CHUNKED, WHOLE, MIXTURE, LONG])
@pytest.mark.parametrize("part", [0.3, 0.6])
def test_times_per_token_at_a_part_of_the_full_rate(case: Case, part: float) -> None:
    """The mean is as much as 15 % longer where the load varies, P99 as near."""
    servers, buckets, levels = case.servers(SloSettings(tpot_ms=BOUND_TPOT_MS, percentile=99))
    batch, full = servers.full_rps(buckets, levels)
    outcome = case.outcome(float(part * full[0, 0]), batch[0, 0], 3000)
    mean, late = (float(servers.tpot_ms(buckets, part * full, batch, z)[0, 0]) for z in (0.0, 2.33))
    assert mean == pytest.approx(outcome.tpot_ms.mean(), rel=0.15)
    assert late == pytest.approx(np.quantile(outcome.tpot_ms, 0.99), rel=0.15)
    assert outcome.sequences == pytest.approx(part * full[0, 0] * case.answer * outcome.tpot_ms.mean() / 1000, rel=0.05)
