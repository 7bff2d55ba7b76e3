"""What a watch came to, and what it lost by not changing: against sequences of its own plans, all to come known."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from planner.domain.watching import DAY_S, Cause, Fleet, WatchSettings, WatchStep, WatchTally, WatchWindow
from planner.replanning.schedules.switching import best_switching

ChangeUsd = Callable[[Fleet, Fleet], float]


def tally(
    steps: Sequence[WatchStep],
    settings: WatchSettings,
    change_usd: ChangeUsd,
    *,
    last_s: float,
    start: Fleet | None = None,
) -> WatchTally:
    """The tally of a decision log; its last window lasts `last_s`. `start`: the plan that stood before the first line;
    `change_usd`: what changing from one of the plans to another costs. Windows before the first plan count nothing."""
    windows = [window for window in windows_of(steps, last_s, start) if window.fleet is not None]
    changed = [
        (step.observation.at_s, step.decision.cause)
        for step in steps
        if step.decision.fleet is not None and step.decision.cause is not Cause.START
    ]
    loads = [window.step.observation.load_rps or 0.0 for window in windows]
    beyond = [max(0.0, load - window.promise_rps) for load, window in zip(loads, windows, strict=True)]
    requests = sum(load * window.hours for load, window in zip(loads, windows, strict=True))
    static_usd, hindsight_usd, free_usd = _sequences(windows, settings, change_usd)
    return WatchTally(
        hours=sum(window.hours for window in windows),
        usd=sum(window.usd for window in windows),
        change_usd=sum(step.decision.fleet.change_usd for step in steps if step.decision.fleet is not None),
        gpus_touched=sum(step.decision.fleet.gpus_touched for step in steps if step.decision.fleet is not None),
        changes=tuple(
            (cause.value, sum(other is cause for _, other in changed)) for cause in Cause if cause is not Cause.START
        ),
        most_in_a_day=most_in_a_day([at_s for at_s, _ in changed]),
        bound_a_day=settings.most_changes,
        short_hours=sum(window.hours for window, short in zip(windows, beyond, strict=True) if short),
        unserved=sum(b * w.hours for b, w in zip(beyond, windows, strict=True)) / requests if requests else 0.0,
        static_usd=static_usd,
        hindsight_usd=hindsight_usd,
        free_usd=free_usd,
    )


def most_in_a_day(times_s: Sequence[float]) -> int:
    """The most of these times, ascending, within any 24 hours."""
    return max((sum(at_s - DAY_S < other <= at_s for other in times_s) for at_s in times_s), default=0)


def windows_of(steps: Sequence[WatchStep], last_s: float, start: Fleet | None = None) -> list[WatchWindow]:
    """A window a step, those before the first plan among them."""
    windows, fleet, before, ready_s = [], start, start, 0.0
    ends = [later.observation.at_s for _, later in pairwise(steps)]
    ends += [steps[-1].observation.at_s + last_s] if steps else []
    for step, end_s in zip(steps, ends, strict=True):
        at_s, changed_to = step.observation.at_s, step.decision.fleet
        if changed_to is not None:
            before, fleet, ready_s = fleet, changed_to, at_s + changed_to.change_s
        hours = max(0.0, end_s - at_s) / 3600
        loading = before is not None and at_s < ready_s
        standing = [fleet, *([before] if loading else [])]
        promise_rps = min((plan.promise_rps for plan in standing if plan is not None), default=0.0)
        changing = changed_to.change_usd if changed_to is not None else 0.0
        window = WatchWindow(step=step, hours=hours, fleet=fleet, promise_rps=promise_rps, usd=changing)
        windows.append(replace(window, usd=changing + window.usd_per_hour * hours))
    return windows


def _sequences(
    windows: Sequence[WatchWindow], settings: WatchSettings, change_usd: ChangeUsd
) -> tuple[float | None, float, float]:
    """The cheapest that carry what the watch carried: one plan all the time (None: no plan does), plans with at most
    as many changes a day as a watch may make, and plans that change for nothing."""
    fleets = list({fleet.plan: fleet for window in windows if (fleet := window.fleet) is not None}.values())
    if not fleets:
        return None, 0.0, 0.0
    usd = np.array([[_window_usd(window, fleet) for fleet in fleets] for window in windows])
    carried = [min(window.step.observation.load_rps or 0.0, window.promise_rps) for window in windows]
    promises = [fleet.promise_rps for fleet in fleets]
    fits = np.where(np.array(promises)[None, :] >= np.array(carried)[:, None] - 1e-9, usd, np.inf)
    static_usd = float(fits.sum(axis=0).min())
    best = best_switching(
        [0.0] * len(windows),
        promises,
        fits,
        [[0.0 if fleet is other else change_usd(fleet, other) for other in fleets] for fleet in fleets],
        days=[int(window.step.observation.at_s // DAY_S) for window in windows],
        most_changes=settings.most_changes,
    )
    watched_usd = sum(window.usd for window in windows)  # one of those sequences, changed at the prices of the time
    return static_usd if np.isfinite(static_usd) else None, min(best.usd, watched_usd), float(fits.min(axis=1).sum())


def _window_usd(window: WatchWindow, fleet: Fleet) -> float:
    """Infinite where its GPUs or nodes could not be had, unless it is the plan that stood."""
    observation = window.step.observation
    available = dict(observation.available)
    short = any(count > available.get(gpu, 0) for gpu, count in fleet.gpus)
    elsewhere = window.fleet is None or fleet.plan != window.fleet.plan
    if elsewhere and (short or not set(fleet.nodes).isdisjoint(observation.lost_nodes)):
        return float("inf")
    return fleet.usd_per_hour(dict(window.step.observation.prices)) * window.hours
