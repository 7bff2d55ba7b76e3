"""The rate that a prefill pool may be given, against a simulation of its requests one by one."""

from dataclasses import dataclass

import numpy as np
import pytest
from cost_figures import gpu, model
from prefill_simulation import PrefillPool, arrivals_ms

from planner.cost import CostContext
from planner.cost.serving import Arrivals, Buckets, Levels, PrefillServers
from planner.cost.serving.step_curves import STEP_TOKENS
from planner.domain import CostSettings, ParallelConfig, SloSettings, Workload
from planner.files import load_workload
from planner.workload import divide

REQUESTS, BURN_IN = 12_000, 1_000


def code() -> Workload:
    return divide(load_workload("azure-code-2023"), 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`servers` of one shape on H200s, for ranges `first` to `after`."""

    servers: int
    parallel: ParallelConfig
    budget: int = 8192
    first: int = 0
    after: int | None = None
    ttft_ms: float = 4000
    variation: float = 1.0


class Pool:
    """A case, priced, and the same servers as they are simulated."""

    def __init__(self, case: Case) -> None:
        self.case, self.workload = case, code()
        context = CostContext(gpu=gpu("H200"), model=model("deepseek-v3"), settings=CostSettings())
        after = case.after or len(self.workload.ranges)
        self.buckets = Buckets.of(self.workload, [(case.first, after)])
        self.servers = PrefillServers.of(context, [(case.parallel, case.budget, False)], self.buckets)
        self.slo = SloSettings(ttft_ms=case.ttft_ms, tpot_ms=60, percentile=99)
        self.full = self.servers.full_rps(self.buckets)
        mix = self.buckets.weights[0] * self.servers.fresh[0]
        self.curve = (mix / mix.sum()) @ self.servers.step_ms[0]

    @property
    def cap_rps(self) -> float:
        """What the formula allows the whole pool."""
        together = self.full[0] * self.case.servers
        levels = Levels.of(self.slo, self.workload)
        return (
            float(self.servers.capped_rps(self.buckets, levels, together, Arrivals.varied(self.case.variation))[0, 0])
            * self.case.servers
        )

    def late(self, rate_rps: float, seed: int) -> float:
        """P99 of the TTFT that is simulated (ms)."""
        rng = np.random.default_rng(seed)
        ranges = rng.choice(len(self.workload.ranges), REQUESTS, p=self.buckets.weights[0])
        times = arrivals_ms(rate_rps, REQUESTS, seed + 1, self.case.variation)
        pool = PrefillPool(
            islands=self.case.servers,
            ranks=self.case.parallel.dp,
            budget=self.case.budget,
            pace=self.servers.pace,
            step_ms=lambda tokens: float(np.interp(tokens, STEP_TOKENS, self.curve)),
        )
        done = pool.finished_ms(times, self.servers.fresh[0][ranges].tolist())
        sent = self.servers.sent_ms[0][ranges]
        return float(np.quantile((done - times + sent + 60.0)[BURN_IN:], 0.99))

    def simulated_rps(self, seeds: int = 2) -> float:
        """The rate at which the simulated P99 meets the bound."""
        full_rps = float(self.full[0, 0]) * self.case.servers
        low, high = 0.3, 1.05
        for _ in range(8):
            middle = (low + high) / 2
            late = np.mean([self.late(middle * full_rps, seed) for seed in range(seeds)])
            low, high = (middle, high) if late <= self.case.ttft_ms else (low, middle)
        return low * full_rps


CASES = {
    "one bucket": Case(servers=8, parallel=ParallelConfig(tp=1, dp=8)),
    **{
        f"one bucket, {ms} ms": Case(servers=8, parallel=ParallelConfig(tp=1, dp=8), ttft_ms=ms)
        for ms in (1500, 2000, 2500, 3000, 3500)
    },
    "short prompts of two": Case(servers=3, parallel=ParallelConfig(tp=1, dp=8), after=10),
    "long prompts of two": Case(servers=5, parallel=ParallelConfig(tp=1, dp=8), first=10),
    "bursts": Case(servers=8, parallel=ParallelConfig(tp=1, dp=8), variation=9.0),
    "a large budget, 2500 ms": Case(servers=8, parallel=ParallelConfig(tp=1, dp=8), budget=16384, ttft_ms=2500),
    "single ranks, 1500 ms": Case(servers=8, parallel=ParallelConfig(tp=8, dp=1), ttft_ms=1500),
    "one server": Case(servers=1, parallel=ParallelConfig(tp=1, dp=8)),
    "single ranks": Case(servers=8, parallel=ParallelConfig(tp=8, dp=1)),
}


BETWEEN = [f"one bucket, {ms} ms" for ms in (2000, 2500, 3000, 3500)]
"""Cases between others, simulated by `make study`."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.study] if name in BETWEEN else []) for name in CASES]
)
def test_the_cap_is_near_the_rate_that_a_simulation_allows(name: str) -> None:
    pool = Pool(CASES[name])
    assert pool.cap_rps == pytest.approx(pool.simulated_rps(), rel=0.1)
