"""Pools behind buckets as requests meet them, before they are a plan: what a search replays, many times.

All candidates meet the same requests: streams depend on the rate and the seed alone. A server's step times are worked
out once for each configuration.
"""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace

from planner.domain import (
    BucketPool,
    CacheRate,
    DrawnFrom,
    LengthProfile,
    Phase,
    Question,
    RequestTrace,
    Scenario,
    ServerConfig,
)
from planner.domain.arrivals import POISSON_VARIATION, ArrivalProcess, ArrivalSettings, ReplaySettings, Requests
from planner.domain.fleet import ReplayFleet, ReplayPool
from planner.domain.replay import ReplayResult
from planner.errors import InputError
from planner.evaluation.replay.fleet import Duty, ReplayServers, intervals_of
from planner.replay import Promise, simulate
from planner.replay.arrivals import requests_of, requests_of_profile


class PooledReplay:
    """Replays of pools for one question, with the requests that its objective names, or those of a `source` that come
    as `settings` say.

    Raises InputError where those are to be the trace's and the scenario has lost it."""

    def __init__(
        self,
        question: Question,
        source: RequestTrace | LengthProfile | None = None,
        settings: ReplaySettings | None = None,
    ) -> None:
        self._scenario = scenario = question.scenario
        router = scenario.router
        self._settings = settings or ReplaySettings(
            arrivals=arrivals_of(scenario), router=router, length_spread=router.length_spread
        )
        of_trace = scenario.objective.drawn_from is DrawnFrom.TRACE and scenario.trace is not None
        self._source = source or (scenario.trace if of_trace else None) or scenario.workload
        self._name = (source or scenario.workload).name
        trace = source if isinstance(source, RequestTrace) else scenario.trace
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

    def between(self, stretch: tuple[float, float] | None) -> "PooledReplay":
        """The same with requests of a stretch of the trace (s; None: of all of it)."""
        other = copy(self)
        other._settings = replace(self._settings, arrivals=replace(self._settings.arrivals, between=stretch))
        return other

    @property
    def arrivals(self) -> str:
        """How requests come, in words."""
        settings = self._settings.arrivals
        varied = f", squared variation {settings.variation:g}" if settings.process is ArrivalProcess.GAMMA else ""
        drawn = "trace" if isinstance(self._source, RequestTrace) else "lengths"
        return f"{settings.process.value}{varied}, drawn from the {drawn} of {self._name}"

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
                        weight=pool.weight,
                    )
                    for number, pool in enumerate(pools)
                    if pool.share > 0
                ]
            ),
            context=scenario.model.max_context,
        )

    def _pool(self, pool: BucketPool) -> ReplayPool:
        key = (pool.gpu, pool.phase, pool.server)
        if key not in self._pools:
            self._pools[key] = self._servers.pool(*key)
        return replace(self._pools[key], island=pool.island, servers=pool.count)

    def at(self, fleet: ReplayFleet, rate_rps: float, seeds: Sequence[int], requests: int) -> ReplayResult:
        """One rate, with every seed."""
        scenario = self._scenario
        promise = Promise(
            plan=scenario.name,
            trace=self._name,
            arrivals=self.arrivals,
            promise_rps=rate_rps,
            capacity_rps=rate_rps,
            slo=scenario.slo,
        )
        settings = replace(self._settings, seeds=tuple(seeds), requests=requests)
        return simulate(fleet, promise, settings, rate_rps, lambda rate, seed: self._requests(rate, seed, requests))

    def _requests(self, rate_rps: float, seed: int, count: int) -> Requests:
        settings, context, source = self._settings.arrivals, self._scenario.model.max_context, self._source
        if isinstance(source, RequestTrace):
            return requests_of(source, settings, seed=seed, rate_rps=rate_rps, count=count, most_tokens=context)
        return requests_of_profile(source, settings, seed=seed, rate_rps=rate_rps, count=count, most_tokens=context)


def arrivals_of(scenario: Scenario) -> ArrivalSettings:
    """How the requests of a scenario's objective come. Raises InputError where they are its trace's, and it has lost
    it."""
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


STEP = 0.01
"""Between two rungs: what the rate is known to."""

_STRIDE = 4  # rungs of the first step up or down, doubled with every further one
_COARSE = 4  # rungs that are near enough for what cannot be the best any more
_LOWEST, _HIGHEST = -400, 400  # rungs: 2 % of the base, and 50 times it


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Rates `base_rps` times (1 + STEP) to the rung's number."""

    base_rps: float

    @classmethod
    def around(cls, rate_rps: float) -> "Ladder":
        """Rungs near a rate, the same ones for any rate: powers of 1 + STEP."""
        return cls(base_rps=(1 + STEP) ** round(math.log(rate_rps) / math.log1p(STEP)))

    def rate_rps(self, rung: int) -> float:
        """The rate of a rung."""
        return self.base_rps * (1 + STEP) ** rung

    def rung(self, rate_rps: float) -> int:
        """The rung nearest to a rate."""
        return max(_LOWEST, round(math.log(rate_rps / self.base_rps) / math.log1p(STEP)))

    def highest(self, holds: Callable[[float], bool], guess_rps: float, to_beat_rps: float = 0.0) -> float:
        """The highest rate that holds, begun at a guess; 0 where none does. Where it is not above `to_beat_rps`, it is
        at most `_COARSE` rungs too low."""
        goal = self.rung(to_beat_rps) if to_beat_rps > 0 else _LOWEST - 1
        low, high = self._bracket(holds, self.rung(guess_rps))
        while high - low > (_COARSE if high <= goal else 1) and low >= _LOWEST:
            middle = (low + high) // 2
            low, high = (middle, high) if holds(self.rate_rps(middle)) else (low, middle)
        return self.rate_rps(low) if low >= _LOWEST else 0.0

    def _bracket(self, holds: Callable[[float], bool], first: int) -> tuple[int, int]:
        """(a rung that holds, a higher one that does not); the first is below the ladder where none holds."""
        stride, rung = _STRIDE, first
        if holds(self.rate_rps(rung)):
            while rung < _HIGHEST and holds(self.rate_rps(rung + stride)):
                rung, stride = rung + stride, 2 * stride
            return rung, rung + stride
        while rung > _LOWEST:
            lower = max(rung - stride, _LOWEST)
            if holds(self.rate_rps(lower)):
                return lower, rung
            rung, stride = lower, 2 * stride
        return _LOWEST - 1, rung
