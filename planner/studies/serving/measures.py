"""Figures of merit of a run (section 5.3 of the thesis), and the counts by minute that its plots show.

A request's wait ends when a machine begins with it; its completion is from arrival to answer; it misses its deadline
where its answer comes later. Minutes are those of arrival.
"""

from dataclasses import dataclass, fields

import numpy as np

from planner.studies.serving.arrivals import S_PER_MINUTE
from planner.studies.serving.records import Action, ServingPool
from planner.studies.serving.simulation.log import ACTIONS, ActionLog, Reals, ServedRequests
from planner.studies.serving.simulation.run import ServingRun


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingFigures:
    """`load_s`: machine-seconds of loading, loads that are broken off included. `machine_h`: reserve only while awake.

    `span_s`: until the last answer. `misses_per_minute`: mean over the minutes of arrivals.
    `infer_percent`, `load_percent`: of the machine-hours.
    """

    requests: int
    met_percent: float
    misses_per_100: float
    misses_per_minute: float
    most_misses_a_minute: int
    wait_mean_s: float
    wait_p95_s: float
    wait_p99_s: float
    wait_max_s: float
    completion_mean_s: float
    completion_p50_s: float
    completion_p99_s: float
    completion_max_s: float
    throughput_per_minute: float
    loads: int
    load_s: float
    infer_percent: float
    load_percent: float
    machine_h: float
    span_s: float


FIGURE_NAMES = tuple(field.name for field in fields(ServingFigures))


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteRow:
    """A minute's requests, and how many of them missed their deadlines."""

    minute: int
    requests: int
    missed: int


def missed(requests: ServedRequests) -> "np.ndarray":
    """Whether each request missed its deadline."""
    return requests.finish_s > requests.deadline_s


def by_minute(requests: ServedRequests) -> tuple[MinuteRow, ...]:
    """From the first minute to that of the last arrival."""
    minutes = (requests.arrival_s // S_PER_MINUTE).astype(int)
    arrivals = np.bincount(minutes)
    late = np.bincount(minutes[missed(requests)], minlength=len(arrivals))
    return tuple(
        MinuteRow(minute=minute, requests=count, missed=lost)
        for minute, (count, lost) in enumerate(zip(arrivals.tolist(), late.tolist(), strict=True))
    )


def figures_of(run: ServingRun, pool: ServingPool) -> ServingFigures:
    """The run's figures of merit."""
    requests, actions = run.requests, run.actions
    wait_s, completion_s = requests.start_s - requests.arrival_s, requests.finish_s - requests.arrival_s
    minutes = by_minute(requests)
    late = int(missed(requests).sum())
    count, span_s = len(wait_s), float(requests.finish_s.max())
    load_s, infer_s = seconds_of(actions, Action.LOAD), seconds_of(actions, Action.INFER)
    machine_s = _machine_s(actions, pool, span_s)
    return ServingFigures(
        requests=count,
        met_percent=100 * (1 - late / count),
        misses_per_100=100 * late / count,
        misses_per_minute=late / len(minutes),
        most_misses_a_minute=max(row.missed for row in minutes),
        wait_mean_s=float(wait_s.mean()),
        wait_p95_s=_percentile(wait_s, 95),
        wait_p99_s=_percentile(wait_s, 99),
        wait_max_s=float(wait_s.max()),
        completion_mean_s=float(completion_s.mean()),
        completion_p50_s=_percentile(completion_s, 50),
        completion_p99_s=_percentile(completion_s, 99),
        completion_max_s=float(completion_s.max()),
        throughput_per_minute=count / (span_s / S_PER_MINUTE) if span_s else 0.0,
        loads=int((actions.action == ACTIONS.index(Action.LOAD)).sum()),
        load_s=load_s,
        infer_percent=100 * infer_s / machine_s,
        load_percent=100 * load_s / machine_s,
        machine_h=machine_s / 3600,
        span_s=span_s,
    )


def seconds_of(actions: ActionLog, action: Action) -> float:
    """Machine-seconds of one kind of action."""
    chosen = actions.action == ACTIONS.index(action)
    return float((actions.end_s[chosen] - actions.start_s[chosen]).sum())


def _percentile(seconds: Reals, rank: float) -> float:
    return float(np.percentile(seconds, rank))


def _machine_s(actions: ActionLog, pool: ServingPool, span_s: float) -> float:
    """Machine-seconds: all of the time of machines beside the reserve, and of the reserve from waking to sleep."""
    total_s = sum(kind.machines for kind in pool.types) * span_s
    reserve, first = set[int](), 0
    for kind in pool.types:
        reserve |= set(range(first + kind.machines, first + kind.machines + kind.reserve))
        first += kind.machines + kind.reserve
    for machine in sorted(reserve):
        of_machine = actions.machine == machine
        up_s = actions.start_s[of_machine & (actions.action == ACTIONS.index(Action.SCALE_UP))]
        down_s = actions.end_s[of_machine & (actions.action == ACTIONS.index(Action.SCALE_DOWN))]
        total_s += (len(up_s) - len(down_s)) * span_s + float(down_s.sum()) - float(up_s.sum())
    return max(total_s, 1e-12)
