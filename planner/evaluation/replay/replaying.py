"""A plan with a trace, ready to be replayed at any rate."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

from planner.domain import CacheRate, LengthProfile, Plan, RequestTrace, Workload
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, LeftOut, ReplaySettings, Requests, SessionPace
from planner.domain.replay import ReplayResult, ReplaySweep
from planner.domain.workload import PromptBlocks, SessionTurns
from planner.errors import InputError
from planner.evaluation.replay.fleet import replay_fleet, with_servers
from planner.replay import Promise, simulate, sweep
from planner.replay.arrivals import requests_of, requests_of_profile

Progress = Callable[[float], None]


class PlanReplay:
    """Replays of one plan; its fleet is priced once. Of a table of lengths prompts are drawn, with the mean answers.

    Raises InputError where the trace does not suit the plan, or a table the arrivals.
    """

    def __init__(
        self, plan: Plan, workload: Workload, trace: RequestTrace | LengthProfile, settings: ReplaySettings
    ) -> None:
        self._plan, self._settings = plan, with_dying_servers(settings, plan)
        self._auto = plan.scenario.cost.kv_cache_rate == CacheRate.AUTO
        self.fleet = replay_fleet(
            plan,
            workload,
            replay_prefixes=self._auto and _has_blocks(trace),
            storage_gb_s=settings.storage_gb_s,
        )
        self._trace, self._unserved = self._part_served(trace)
        self.promise = Promise(
            plan=plan.scenario.name,
            trace=trace.name,
            arrivals=_words(settings.arrivals),
            promise_rps=plan.outlook.promise_rps,
            capacity_rps=plan.throughput_rps,
            slo=plan.scenario.slo,
        )

    def with_settings(self, settings: ReplaySettings) -> "PlanReplay":
        """The same plan and trace, its fleet priced once, with other requests; `storage_gb_s` as before."""
        other = copy(self)
        other._settings = with_dying_servers(settings, self._plan)
        other.promise = replace(self.promise, arrivals=_words(settings.arrivals))
        return other

    def with_trace(self, trace: RequestTrace | LengthProfile) -> "PlanReplay":
        """The same plan, its fleet priced once, with requests like another trace's; raises as the class does."""
        other = copy(self)
        other._trace, other._unserved = self._part_served(trace)
        other.promise = replace(self.promise, trace=trace.name)
        return other

    def _part_served(self, trace: RequestTrace | LengthProfile) -> tuple[RequestTrace | LengthProfile, int]:
        """What of the trace some pool takes, and how many requests none does."""
        return served_part(trace, self.fleet.intervals[-1].end)

    @property
    def settings(self) -> ReplaySettings:
        """Of its requests."""
        return self._settings

    def requests(self, rate_rps: float, seed: int) -> Requests:
        """Requests at a rate of the whole mix; those that no pool takes are left out, and counted."""
        arrivals, count, context = self._settings.arrivals, self._settings.requests, self.fleet.context
        if isinstance(self._trace, LengthProfile):
            return requests_of_profile(
                self._trace, arrivals, seed=seed, rate_rps=rate_rps, count=count, most_tokens=context
            )
        return requests_of(self._trace, arrivals, seed=seed, rate_rps=rate_rps, count=count, most_tokens=context)

    def at(self, rate_rps: float, progress: Progress = lambda _: None) -> ReplayResult:
        """One rate."""
        result = simulate(self.fleet, self.promise, self._settings, rate_rps, self.requests, progress)
        first = self.requests(rate_rps, self._settings.seeds[0])
        notes = (*first.notes, *self._notes())
        return replace(result, left_out=self._left_out(first.left_out), notes=notes)

    def sweep(self, progress: Progress = lambda _: None) -> ReplaySweep:
        """The highest rate that holds the levels."""
        return sweep(self.promise.capacity_rps, self.at, progress=progress)

    def _left_out(self, of_stream: LeftOut) -> tuple[tuple[str, int], ...]:
        longer = ("with prompts longer than the plan serves", self._unserved)
        return tuple((words, count) for words, count in (longer, *of_stream.reasons) if count)

    def _notes(self) -> tuple[str, ...]:
        if self._auto and not _has_blocks(self._trace):
            return ("The trace has no hashes of its prompts: prefix caches find what the plan counts on.",)
        return ()


def with_dying_servers(settings: ReplaySettings, plan: Plan) -> ReplaySettings:
    """Settings whose failures say which servers of the plan die."""
    return replace(settings, failures=tuple(with_servers(failure, plan) for failure in settings.failures))


def served_part(trace: RequestTrace | LengthProfile, end: int) -> tuple[RequestTrace | LengthProfile, int]:
    """The requests with prompts below `end` tokens, and how many others there are. InputError where all are longer."""
    return _served_lengths(trace, end) if isinstance(trace, LengthProfile) else _served(trace, end)


def _has_blocks(trace: RequestTrace | LengthProfile) -> bool:
    return isinstance(trace, RequestTrace) and trace.blocks is not None


def _served_lengths(profile: LengthProfile, end: int) -> tuple[LengthProfile, int]:
    """(the lengths below `end` tokens, how many of the table's requests have others)."""
    rows = [row for row, tokens in enumerate(profile.input_tokens) if tokens < end]
    if not rows:
        raise _none_served(f"workload {profile.name}", end)
    served = replace(
        profile,
        input_tokens=tuple(profile.input_tokens[row] for row in rows),
        probabilities=tuple(profile.probabilities[row] for row in rows),
        output_tokens=tuple(profile.output_tokens[row] for row in rows) if profile.output_tokens else (),
    )
    return served, round((1 - sum(served.probabilities)) * (profile.requests or 0))


def _none_served(name: str, end: int) -> InputError:
    return InputError(
        f"{name}: must hold prompts that the plan serves, below {end} tokens; all of them are longer.",
        hint="Replay a trace like the one that was planned for, or plan for this one.",
    )


def _served(trace: RequestTrace, end: int) -> tuple[RequestTrace, int]:
    """(the requests whose prompts are shorter than `end` tokens, how many are not)."""
    rows = [row for row, tokens in enumerate(trace.input_tokens) if tokens < end]
    unserved = len(trace.input_tokens) - len(rows)
    if not unserved:
        return trace, 0
    if not rows:
        raise _none_served(f"trace {trace.name}", end)
    served = replace(
        trace,
        arrival_s=[trace.arrival_s[row] for row in rows],
        input_tokens=[trace.input_tokens[row] for row in rows],
        output_tokens=[trace.output_tokens[row] for row in rows],
        blocks=None if trace.blocks is None else _blocks_of(trace.blocks, rows),
        sessions=None if trace.sessions is None else _turns_of(trace.sessions, rows),
    )
    return served, unserved


def _blocks_of(blocks: PromptBlocks, rows: Sequence[int]) -> PromptBlocks:
    ids: list[int] = []
    ends: list[int] = []
    for row in rows:
        ids.extend(blocks.ids[blocks.ends[row - 1] if row else 0 : blocks.ends[row]])
        ends.append(len(ids))
    return replace(blocks, ids=ids, ends=ends)


def _turns_of(turns: SessionTurns, rows: Sequence[int]) -> SessionTurns:
    return replace(turns, ids=[turns.ids[row] for row in rows], pause_s=[turns.pause_s[row] for row in rows])


def _words(arrivals: ArrivalSettings) -> str:
    """How requests come."""
    if arrivals.process is ArrivalProcess.GAMMA:
        return f"gamma, squared variation {arrivals.variation:g}"
    if arrivals.process is ArrivalProcess.DIURNAL and arrivals.curve is not None:
        return f"diurnal, {arrivals.curve.name}"
    if arrivals.process is ArrivalProcess.TRACE and arrivals.compress:
        return "trace, compressed"
    if arrivals.sessions is SessionPace.CLOSED:
        return "trace, turns after answers"
    return arrivals.process.value
