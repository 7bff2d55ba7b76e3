"""Pools behind buckets as requests meet them, before they are a plan: what a search replays, many times.

All candidates meet the same requests: streams depend on the rate and the seed alone. A server's step times are worked
out once for each configuration.
"""

from collections.abc import Sequence
from dataclasses import replace

from planner.domain import (
    BucketPool,
    CacheRate,
    DrawnFrom,
    Phase,
    Question,
    RouterPolicy,
    Scenario,
    ServerConfig,
    kv_gb,
)
from planner.domain.arrivals import POISSON_VARIATION, ArrivalProcess, ArrivalSettings, ReplaySettings, Requests
from planner.domain.fleet import ReplayFleet, ReplayPool
from planner.domain.replay import ReplayResult
from planner.errors import InputError
from planner.evaluation.replay.fleet import Duty, ReplayServers, intervals_of
from planner.replay import Promise, simulate
from planner.replay.arrivals import requests_of, requests_of_profile


class PooledReplay:
    """Replays of pools for one question, with the requests that its objective names.

    Raises InputError where those are to be the trace's and the scenario has lost it."""

    def __init__(self, question: Question) -> None:
        self._scenario = question.scenario
        self._settings = ReplaySettings(arrivals=_arrivals(question.scenario))
        trace = question.scenario.trace
        self.prefixes = (
            question.scenario.cost.kv_cache_rate == CacheRate.AUTO and trace is not None and trace.blocks is not None
        )
        self._servers = ReplayServers(
            scenario=question.scenario,
            workload=question.workload,
            replay_prefixes=self.prefixes,
            storage_gb_s=self._settings.storage_gb_s,
        )
        self._pools: dict[tuple[str, Phase, ServerConfig], ReplayPool] = {}

    @property
    def arrivals(self) -> str:
        """How requests come, in words."""
        settings = self._settings.arrivals
        varied = f", squared variation {settings.variation:g}" if settings.process is ArrivalProcess.GAMMA else ""
        drawn = "trace" if self._scenario.objective.drawn_from is DrawnFrom.TRACE else "lengths"
        return f"{settings.process.value}{varied}, drawn from the {drawn} of {self._scenario.workload.name}"

    def fleet(self, pools: Sequence[BucketPool]) -> ReplayFleet:
        """The pools, in their order, with their shares."""
        scenario = self._scenario
        return ReplayFleet(
            name=scenario.name,
            model=scenario.model.name,
            pools=tuple(self._pool(pool) for pool in pools),
            intervals=intervals_of(
                [
                    Duty(
                        phase=Phase.DECODE if pool.phase is Phase.DECODE else Phase.PREFILL,
                        start=pool.start,
                        end=pool.end,
                        pool=number,
                        share=pool.share,
                    )
                    for number, pool in enumerate(pools)
                    if pool.share > 0
                ]
            ),
            kv_gb_per_token=kv_gb(scenario.model, 1.0),
            context=scenario.model.max_context,
        )

    def _pool(self, pool: BucketPool) -> ReplayPool:
        key = (pool.gpu, pool.phase, pool.server)
        if key not in self._pools:
            self._pools[key] = self._servers.pool(*key)
        return replace(self._pools[key], island=pool.island, servers=pool.count)

    def at(
        self, fleet: ReplayFleet, policy: RouterPolicy, rate_rps: float, seeds: Sequence[int], requests: int
    ) -> ReplayResult:
        """One rate, with every seed."""
        scenario = self._scenario
        promise = Promise(
            plan=scenario.name,
            trace=scenario.workload.name,
            arrivals=self.arrivals,
            promise_rps=rate_rps,
            capacity_rps=rate_rps,
            slo=scenario.slo,
        )
        settings = replace(self._settings, policy=policy, seeds=tuple(seeds), requests=requests)
        return simulate(fleet, promise, settings, rate_rps, lambda rate, seed: self._requests(rate, seed, requests))

    def _requests(self, rate_rps: float, seed: int, count: int) -> Requests:
        scenario, settings, context = self._scenario, self._settings.arrivals, self._scenario.model.max_context
        if scenario.objective.drawn_from is DrawnFrom.TRACE and scenario.trace is not None:
            return requests_of(scenario.trace, settings, seed=seed, rate_rps=rate_rps, count=count, most_tokens=context)
        return requests_of_profile(
            scenario.workload, settings, seed=seed, rate_rps=rate_rps, count=count, most_tokens=context
        )


def _arrivals(scenario: Scenario) -> ArrivalSettings:
    objective, burstiness = scenario.objective, scenario.workload.burstiness
    if objective.drawn_from is DrawnFrom.TRACE and scenario.trace is None:
        raise InputError(
            f"scenario {scenario.name}: workload {scenario.workload.name} must be a trace, at hand, where "
            "objective.drawn_from is trace; it is a table of lengths, which is all that a run keeps of a trace.",
            hint="Name the trace's file as the workload; to resume, name the scenario: `planner plan SCENARIO --resume "
            "DIR`.",
        )
    if objective.arrivals is not ArrivalProcess.GAMMA:
        return ArrivalSettings(process=objective.arrivals)
    variation = POISSON_VARIATION if burstiness is None else burstiness**2
    return ArrivalSettings(process=objective.arrivals, variation=variation)
