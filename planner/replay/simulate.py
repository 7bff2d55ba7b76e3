"""One rate of a plan, replayed with every seed: the stage's door, and the search for the highest rate that holds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from planner.domain.arrivals import ReplaySettings, StreamTurns
from planner.domain.fleet import ReplayFleet
from planner.domain.replay import ReplayResult, ReplaySweep
from planner.domain.slo import SloSettings
from planner.domain.workload import PromptBlocks
from planner.errors import InputError
from planner.replay.engine import Engine
from planner.replay.measures.columns import Columns
from planner.replay.measures.results import (
    SeedRun,
    groups_of,
    islands_of,
    levels_of,
    misroutes_of,
    moments_of,
    turns_of,
)
from planner.replay.measures.telling import bottleneck_of, requests_to_tell
from planner.replay.requests import RequestTable
from planner.units import MS_PER_S

Progress = Callable[[float], None]
_HALVINGS = 6
_LOWEST = 1 / 16  # of the plan's capacity, below which no rate is tried
_HIGHEST = 2.0
LADDER = (0.5, 0.7, 0.8, 0.9, 1.0)


class Arrivals(Protocol):
    """Requests as they come: times from 0 on (ms, ascending), tokens, and what was left out of the trace, by reason."""

    @property
    def arrival_ms(self) -> Sequence[float]:
        """ms."""

    @property
    def prompt_tokens(self) -> Sequence[int]:
        """At least 1."""

    @property
    def answer_tokens(self) -> Sequence[int]:
        """At least 1."""

    @property
    def blocks(self) -> PromptBlocks | None:
        """None where prompts have none."""

    @property
    def turns(self) -> StreamTurns | None:
        """None where no sessions are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What is replayed, in the plan's words: names, and what the plan promises and can do (requests/s)."""

    plan: str
    trace: str
    arrivals: str
    promise_rps: float
    capacity_rps: float
    slo: SloSettings


def simulate(
    fleet: ReplayFleet,
    promise: Promise,
    settings: ReplaySettings,
    rate_rps: float,
    arrivals_of: Callable[[float, int], Arrivals],
    progress: Progress = lambda _: None,
) -> ReplayResult:
    """`arrivals_of(rate_rps, seed)` draws requests, those that nobody serves left out. Raises InputError on a rate that
    is none, and where a failure names no island."""
    runs = played(fleet, settings, rate_rps, arrivals_of, progress)
    return judge(fleet, promise, settings, rate_rps, runs)


def played(
    fleet: ReplayFleet,
    settings: ReplaySettings,
    rate_rps: float,
    arrivals_of: Callable[[float, int], Arrivals],
    progress: Progress = lambda _: None,
) -> list[SeedRun]:
    """The runs of all seeds; raises as `simulate` does."""
    _require(fleet, settings, rate_rps)
    runs: list[SeedRun] = []
    for number, seed in enumerate(settings.seeds):

        def listen(done: float, number: int = number) -> None:
            progress((number + done) / len(settings.seeds))

        runs.append(_run(fleet, settings, arrivals_of(rate_rps, seed), seed, listen))
    return runs


def judge(
    fleet: ReplayFleet, promise: Promise, settings: ReplaySettings, rate_rps: float, runs: Sequence[SeedRun]
) -> ReplayResult:
    """What runs at a rate, one a seed, make of the levels, whoever chose the servers; no islands where nothing is known
    of servers."""
    total, buckets = groups_of(runs, fleet, promise.slo)
    islands = islands_of(runs, fleet) if all(run.engine.usages for run in runs) else ()
    misrouted, refused = misroutes_of(runs, fleet)
    result = ReplayResult(
        plan=promise.plan,
        trace=promise.trace,
        router=settings.router.name,
        arrivals=promise.arrivals,
        rate_rps=rate_rps,
        promise_rps=promise.promise_rps,
        capacity_rps=promise.capacity_rps,
        seeds=settings.seeds,
        warm_up_s=float(runs[0].columns.arrival[0]) / MS_PER_S,
        seconds=sum(run.span_s for run in runs) / len(runs),
        total=total,
        buckets=buckets,
        islands=islands,
        levels=levels_of(runs, fleet, promise.slo),
        moments=moments_of(runs[0], promise.slo, settings.moments),
        # Levels tell whether the fleet keeps up; only without any must the growth in flight do so.
        unfinished=0 if promise.slo.bounds_anything else sum(run.columns.more_in_flight for run in runs),
        misrouted=misrouted,
        refused=refused,
        turns=turns_of(runs, fleet, promise.slo),
    )
    short = requests_to_tell(runs, result.levels)
    # A run too short to tell does not tell what holds the fleet back, either.
    return replace(result, requests_to_tell=short, bottleneck="" if short else bottleneck_of(result, fleet))


def _run(fleet: ReplayFleet, settings: ReplaySettings, arrivals: Arrivals, seed: int, listen: Progress) -> SeedRun:
    table = RequestTable(
        arrivals.arrival_ms,
        arrivals.prompt_tokens,
        arrivals.answer_tokens,
        fleet.lengths,
        arrivals.blocks,
        arrivals.turns,
    )
    if not len(table):
        raise InputError(
            "requests: must be at least one that can be served, got none.", hint="Replay a trace of more requests."
        )
    engine = Engine(fleet, table, settings, seed)
    first = int(len(table) * settings.warm_up)
    since, until = table.arrival_ms[first], table.arrival_ms[-1]
    engine.count_usage(since, until)
    engine.run(progress=listen)
    if table.turns is None or not table.turns.pause_s:
        return SeedRun(engine=engine, columns=Columns.of(engine, first))
    # Turns came when answers had ended: those count that did while sessions still began.
    columns = Columns.of(engine, 0).between(since, until)
    if not len(columns.arrival):
        raise InputError(
            f"requests: some must come after the warm-up and before the last session begins, {until / MS_PER_S:.4g} s; "
            "none did.",
            hint="Replay more requests, or let a smaller share of them be the warm-up.",
        )
    return SeedRun(engine=engine, columns=columns)


def _require(fleet: ReplayFleet, settings: ReplaySettings, rate_rps: float) -> None:
    if not settings.seeds:
        raise InputError("seeds: must be at least one, got none.", hint="Give seeds such as 0, 1 and 2.")
    if not 0 < rate_rps < float("inf"):
        raise InputError(f"rate: must be above 0 requests/s, got {rate_rps:g}.", hint="Give a rate such as 0.9x.")
    names = [pool.island for pool in fleet.pools]
    for failure in settings.failures:
        if failure.island not in names:
            raise InputError(
                f"failure: must name an island of the plan, got {failure.island!r}.",
                hint=f"Its islands are {', '.join(names)}.",
            )


def sweep(
    capacity_rps: float,
    replayed: Callable[[float], ReplayResult],
    step: float = 0.01,
    progress: Progress = lambda _: None,
) -> ReplaySweep:
    """The highest rate that seems to hold the levels, to `step` of the capacity, and the rates on the way to it: first
    a ladder, then halves between the last that holds and the first that does not."""
    results: dict[float, ReplayResult] = {}
    for share, done in _tried(results, step):
        progress(done)
        results[share] = replayed(share * capacity_rps)
    holding = _holding(results)
    return ReplaySweep(
        results=tuple(results[share] for share in sorted(results)),
        held_rps=max(holding) * capacity_rps if holding else None,
        step_rps=step * capacity_rps,
    )


def _holding(results: dict[float, ReplayResult]) -> list[float]:
    """Shares that hold, up to the lowest one that does not."""
    broken = min((share for share, result in results.items() if not result.seems_to_hold), default=float("inf"))
    # Above a rate that broke one that holds was lucky with its draw.
    return [share for share, result in results.items() if result.seems_to_hold and share < broken]


def _tried(results: dict[float, ReplayResult], step: float) -> Iterator[tuple[float, float]]:
    """(share of the capacity to try next, how far the sweep is)."""
    for number, share in enumerate(LADDER):
        yield share, number / (2 * len(LADDER))
    low = max(_holding(results), default=0.0)
    high = min((share for share, result in results.items() if not result.seems_to_hold), default=None)
    share = max(LADDER)
    while high is None and share < _HIGHEST:
        share *= 1.1
        yield share, 0.5
        low = max(_holding(results), default=0.0)
        high = min((s for s, result in results.items() if not result.seems_to_hold), default=None)
    while high is not None and high - low > step and high > _LOWEST:
        middle = (low + high) / 2
        yield middle, 0.75
        low, high = (middle, high) if results[middle].seems_to_hold else (low, middle)
