"""Every window of a schedule replayed: do requests at its rate, through the plan that stands, keep the levels?

A window's rate counts as the next hundredth of the promise above it (a rung), so windows with the same plan and rung
are replayed once, at a rate that none of them exceeds. A window without requests holds. Rates above `MOST` times the
promise overload a plan and are not replayed: they do not hold. Nor do windows in which a change takes servers.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.domain import LengthProfile, RequestTrace
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, ReplaySettings
from planner.domain.schedules import ReplayedRung, Schedule, ScheduledWindow
from planner.errors import InputError
from planner.evaluation.replay.replaying import PlanReplay
from planner.proposing.feasibility import posed

RUNGS = 100  # of a promise
HIGHEST_SHARE = 1.5
MOST_REQUESTS = 10_000_000
POISSON = 1.0
_BURSTINESS_STEP = 1.25
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReplay:
    """`bursty`: gaps between requests vary as the rates' file says of each window (gamma), else as Poisson's. A rung
    takes `seconds` of requests a seed, and `requests` at least; the share `warm_up` of them, while the fleet fills,
    does not count."""

    requests: int = 4000
    seconds: float = 40.0
    warm_up: float = 0.4
    seeds: tuple[int, ...] = (0,)
    bursty: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.requests <= MOST_REQUESTS or not self.seeds:
            raise InputError(
                f"replay of a schedule: must have 1 to {MOST_REQUESTS:,} requests and at least one seed, got "
                f"{self.requests} and {len(self.seeds)}.",
                hint="Leave them out for 4000 requests of one seed.",
            )

    def of(self, burstiness: float, rate_rps: float) -> ReplaySettings:
        """The settings of one rung's replay."""
        poisson = burstiness == POISSON
        arrivals = ArrivalSettings(
            process=ArrivalProcess.POISSON if poisson else ArrivalProcess.GAMMA, variation=burstiness**2
        )
        requests = max(self.requests, math.ceil(self.seconds * rate_rps))
        return ReplaySettings(arrivals=arrivals, seeds=self.seeds, requests=requests, warm_up=self.warm_up)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Rung:
    level: int
    hundredths: int
    burstiness: float


def replay_schedule(
    schedule: Schedule,
    trace: RequestTrace | LengthProfile,
    settings: WindowReplay,
    progress: Callable[[float], None] = lambda _: None,
) -> Schedule:
    """The schedule with `holds` of every window and the rungs behind it; `progress` hears the share done.

    Raises InputError where the trace does not suit a plan.
    """
    rungs = [_rung_of(schedule, window, settings) for window in range(len(schedule.windows))]
    windows_by_rung = Counter(rung for rung in rungs if rung is not None)
    results: dict[_Rung, ReplayedRung] = {}
    replays: dict[int, PlanReplay] = {}
    for number, rung in enumerate(sorted(windows_by_rung)):
        progress(number / len(windows_by_rung))
        results[rung] = _replayed(schedule, rung, windows_by_rung[rung], trace, settings, replays)
    progress(1.0)
    windows = (
        replace(window, holds=number not in schedule.thin_windows and (True if rung is None else results[rung].holds))
        for number, (window, rung) in enumerate(zip(schedule.windows, rungs, strict=True))
    )
    return replace(schedule, windows=tuple(windows), replayed=tuple(results.values()))


def _rung_of(schedule: Schedule, number: int, settings: WindowReplay) -> _Rung | None:
    """What a window is replayed as; None where it has no requests."""
    window: ScheduledWindow = schedule.windows[number]
    rates = schedule.series.windows[number]
    if not rates.rate_rps:
        return None
    share = rates.rate_rps / schedule.levels[window.level].promise_rps
    burstiness = rates.burstiness if settings.bursty and rates.burstiness else POISSON
    return _Rung(
        level=window.level,
        hundredths=max(1, math.ceil(RUNGS * share * (1 - _ROUNDING))),
        burstiness=_rounded_up(burstiness),
    )


def _rounded_up(burstiness: float) -> float:
    """The next power of `_BURSTINESS_STEP`: rungs of the same burstiness are few."""
    if burstiness == POISSON:
        return POISSON
    return float(_BURSTINESS_STEP ** math.ceil(math.log(burstiness, _BURSTINESS_STEP) - _ROUNDING))


def _replayed(
    schedule: Schedule,
    rung: _Rung,
    windows: int,
    trace: RequestTrace | LengthProfile,
    settings: WindowReplay,
    replays: dict[int, PlanReplay],
) -> ReplayedRung:
    """A rung's replay; fleets are priced once a plan."""
    level, share = schedule.levels[rung.level], rung.hundredths / RUNGS
    rate_rps, within = share * level.promise_rps, 0.0
    holds: bool | None = False
    # Far above the promise nothing holds, and a replay would only take long to show it.
    if share <= HIGHEST_SHARE:
        replay_settings = settings.of(rung.burstiness, rate_rps)
        if rung.level in replays:
            replay = replays[rung.level].with_settings(replay_settings)
        else:
            replay = PlanReplay(level.plan, posed(level.plan.scenario).workload, trace, replay_settings)
        replays[rung.level] = replay
        result = replay.at(rate_rps)
        holds, within = result.holds, result.total.within_levels.mean
    return ReplayedRung(
        level=rung.level,
        share=share,
        rate_rps=rate_rps,
        burstiness=rung.burstiness,
        windows=windows,
        holds=holds,
        within_levels=within,
    )
