"""One queue with the requests of several services: each judged by its own levels."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from planner.domain.arrivals import ReplaySettings, Requests
from planner.domain.fleet import ReplayFleet
from planner.domain.replay import ReplayResult, ServiceReplay
from planner.domain.slo import SloSettings
from planner.replay.measures.columns import spread
from planner.replay.measures.results import SeedRun, levels_of
from planner.replay.simulate import Progress, Promise, judge, played


def simulate_classes(
    fleet: ReplayFleet,
    promise: Promise,
    settings: ReplaySettings,
    rate_rps: float,
    arrivals_of: Callable[[float, int], Requests],
    services: Sequence[tuple[str, SloSettings]],
    progress: Progress = lambda _: None,
) -> tuple[ReplayResult, tuple[ServiceReplay, ...]]:
    """All requests by the promise's levels, and those of each class by the levels of the service of that number. Raises
    as `simulate` does."""
    classes: dict[int, Sequence[int]] = {}

    def arrivals(rate: float, seed: int) -> Requests:
        requests = arrivals_of(rate, seed)
        classes[seed] = requests.classes
        return requests

    runs = played(fleet, settings, rate_rps, arrivals, progress)
    result = judge(fleet, promise, settings, rate_rps, runs)
    return result, judge_classes(fleet, promise, runs, [classes[seed] for seed in settings.seeds], services)


def judge_classes(
    fleet: ReplayFleet,
    promise: Promise,
    runs: Sequence[SeedRun],
    classes: Sequence[Sequence[int]],
    services: Sequence[tuple[str, SloSettings]],
) -> tuple[ServiceReplay, ...]:
    """The requests of each class by the levels of the service of that number, whoever chose the servers; `classes`: of
    all requests of each run."""
    labels = [
        np.array(numbers, dtype=int)[-len(run.columns.arrival) :] for numbers, run in zip(classes, runs, strict=True)
    ]
    replays = []
    for number, (service, slo) in enumerate(services):
        members = [label == number for label in labels]
        of_service = [
            replace(run, columns=run.columns.of_rows(rows))
            for run, rows in zip(runs, members, strict=True)
            if rows.any()
        ]
        replays.append(_service(service, slo, fleet, promise, of_service, sum(run.span_s for run in runs)))
    return tuple(replays)


def _service(
    name: str, slo: SloSettings, fleet: ReplayFleet, promise: Promise, runs: Sequence[SeedRun], seconds: float
) -> ServiceReplay:
    requests = sum(len(run.columns.arrival) for run in runs)
    return ServiceReplay(
        service=name,
        deployment=promise.plan,
        rate_rps=requests / seconds,
        requests=requests,
        within_levels=spread([float(np.logical_and(*run.columns.within_bounds(slo)).mean()) for run in runs]),
        levels=levels_of(runs, fleet, slo) if runs else (),
    )
