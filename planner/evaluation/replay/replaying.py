"""A plan with a trace, ready to be replayed at any rate."""

from collections.abc import Callable
from dataclasses import replace

from planner.domain import CacheRate, Plan, RequestTrace, Workload
from planner.domain.replay.arrivals import ArrivalProcess, ArrivalSettings, Requests
from planner.domain.replay.results import ReplayResult, ReplaySweep
from planner.domain.replay.settings import ReplaySettings
from planner.evaluation.replay.fleet import replay_fleet
from planner.replay import Promise, simulate, sweep
from planner.replay.arrivals import requests_of

Progress = Callable[[float], None]


class PlanReplay:
    """Replays of one plan; its fleet is priced once. Raises InputError where the trace does not suit the plan."""

    def __init__(self, plan: Plan, workload: Workload, trace: RequestTrace, settings: ReplaySettings) -> None:
        self._trace, self._settings = trace, settings
        self._auto = plan.scenario.cost.kv_cache_rate == CacheRate.AUTO
        self.fleet = replay_fleet(
            plan,
            workload,
            replay_prefixes=self._auto and trace.blocks is not None,
            storage_gb_s=settings.storage_gb_s,
        )
        self.promise = Promise(
            plan=plan.scenario.name,
            trace=trace.name,
            arrivals=_words(settings.arrivals),
            promise_rps=plan.throughput_rps if plan.buckets is None else plan.buckets.promise_rps,
            capacity_rps=plan.throughput_rps,
            slo=plan.scenario.slo,
        )

    def requests(self, rate_rps: float, seed: int) -> Requests:
        """Requests at a rate of the whole mix; those that no pool takes are left out, and counted."""
        return requests_of(
            self._trace,
            self._settings.arrivals,
            seed=seed,
            rate_rps=rate_rps,
            count=self._settings.requests,
            most_tokens=self.fleet.context,
            longest_prompt=self.fleet.intervals[-1].end - 1,
        )

    def at(self, rate_rps: float, progress: Progress = lambda _: None) -> ReplayResult:
        """One rate."""
        result = simulate(self.fleet, self.promise, self._settings, rate_rps, self.requests, progress)
        first = self.requests(rate_rps, self._settings.seeds[0])
        notes = (*first.notes, *self._notes())
        return replace(result, left_out=first.left_out.reasons, notes=notes)

    def sweep(self, progress: Progress = lambda _: None) -> ReplaySweep:
        """The highest rate that holds the levels."""
        return sweep(self.promise.capacity_rps, self.at, progress=progress)

    def _notes(self) -> tuple[str, ...]:
        if self._auto and self._trace.blocks is None:
            return ("The trace has no hashes of its prompts: prefix caches find what the plan counts on.",)
        return ()


def _words(arrivals: ArrivalSettings) -> str:
    """How requests come."""
    if arrivals.process is ArrivalProcess.GAMMA:
        return f"gamma, squared variation {arrivals.variation:g}"
    if arrivals.process is ArrivalProcess.DIURNAL and arrivals.curve is not None:
        return f"diurnal, {arrivals.curve.name}"
    if arrivals.process is ArrivalProcess.TRACE and arrivals.compress:
        return "trace, compressed"
    return arrivals.process.value
