"""Levels of a fleet's schedule replayed: do requests that bunch keep the levels while batches have the other nodes?"""

import math
from collections.abc import Callable

from planner.domain import LengthProfile, RequestTrace
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, ReplaySettings
from planner.domain.serving.fleets.lending import FleetSchedule, ReplayedLevel
from planner.evaluation.replay.replaying import PlanReplay
from planner.proposing.feasibility import posed
from planner.replanning.fleets.ladders import plan_of_level

WARM_UP = 0.4
SECONDS = 40.0
"""Of requests, at least: fewer do not tell of levels."""
POISSON = 1.0


def replayed_levels(
    schedule: FleetSchedule,
    burstiness: float = 2.0,
    requests: int = 4000,
    seeds: tuple[int, ...] = (0,),
    traces: Callable[[str], RequestTrace | LengthProfile | None] = lambda _deployment: None,
) -> tuple[ReplayedLevel, ...]:
    """Every level that stands in some window, with its servers alone, at the highest rate of those windows. `traces`:
    whose lengths a deployment's requests have (None: those that it was planned for)."""
    process = ArrivalProcess.POISSON if burstiness == POISSON else ArrivalProcess.GAMMA
    arrivals = ArrivalSettings(process=process, variation=burstiness**2)
    answers = []
    for place, (ladder, part) in enumerate(zip(schedule.ladders, schedule.plan.parts, strict=True)):
        for number, level in enumerate(ladder.levels):
            rates = [window.rates_rps[place] for window in schedule.windows if window.levels[place] == number]
            if not any(rates):
                continue
            plan = plan_of_level(part, level)
            trace = traces(part.name) or plan.scenario.workload
            count = max(requests, math.ceil(SECONDS * max(rates)))
            settings = ReplaySettings(arrivals=arrivals, seeds=seeds, requests=count, warm_up=WARM_UP)
            result = PlanReplay(plan, posed(plan.scenario).workload, trace, settings).at(max(rates))
            answer = ReplayedLevel(
                deployment=part.name,
                level=number,
                windows=len(rates),
                rate_rps=max(rates),
                promise_rps=level.promise_rps,
                burstiness=burstiness,
                holds=result.holds,
                within_levels=result.total.within_levels.mean,
            )
            answers.append(answer)
    return tuple(answers)
