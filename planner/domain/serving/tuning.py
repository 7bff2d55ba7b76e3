"""Knobs of servers that run already, turned by replays: what was tried, and what it gains where nobody had looked."""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.serving.levels import Spread

WORTH = 0.01
"""A gain of less is none: as little as a plan may give up for being simpler."""


class TuneGoal(StrEnum):
    """At one rate. `goodput`: requests/s within all levels. `ttft`: P99 of the time to the first token (ms). The
    highest rate that holds the levels is none: where requests bunch, one above a rate that breaks may hold."""

    GOODPUT = "goodput"
    TTFT = "ttft"


GOAL_WORDS = MappingProxyType(
    {
        TuneGoal.GOODPUT: "goodput (requests/s)",
        TuneGoal.TTFT: "TTFT P99 (ms)",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneSettings:
    """`requests`: of a short replay; long and fresh ones have twice as many. `rate_rps`: at which all are replayed."""

    goals: tuple[TuneGoal, ...] = (TuneGoal.GOODPUT,)
    rounds: Annotated[int, Bounds(low=1, high=1000), Key("of proposals, the plan's own setting in the first")] = 6
    batch: Annotated[int, Bounds(low=2, high=100), Key("settings a round")] = 6
    requests: Annotated[int, Bounds(low=100, high=1_000_000), Key("of a short replay, warm-up included")] = 2000
    seed: Annotated[int, Bounds(low=0, high=2**31 - 1), Key("of proposals and requests")] = 0
    rate_rps: Annotated[float, Bounds(above=0), Key("of all replays", unit="requests/s")] = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Requests that every setting meets alike: a stretch of the trace (s; None: it has no clock) and a seed."""

    between: tuple[float, float] | None
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """What has so many `choices`; `before` and `after`: as the plan and the best other setting have it."""

    name: str
    choices: int
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneTrial:
    """A setting: its values by knob, and what it reached by goal, in the goals' units. `short`: on the first stream;
    `long`: on all streams of the search (None: not replayed so)."""

    round: int
    setting: tuple[tuple[str, float], ...]
    short: tuple[float, ...]
    long: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneGain:
    """What the best setting gains in a goal on streams that the search did not see, which both met: `before` and
    `after` by stream. `gain`: share by which it is better, the mean of the logarithms with an interval of 95 %."""

    goal: TuneGoal
    before: tuple[float, ...]
    after: tuple[float, ...]
    gain: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedPlan:
    """`fixed`: what cannot be turned here, and why. `best`: the number of the trial that was held against fresh streams
    (None: none but the plan's own was replayed at length). `chosen`: it gains, and no goal loses."""

    plan: str
    trace: str
    arrivals: str
    settings: TuneSettings
    knobs: tuple[Knob, ...]
    fixed: tuple[tuple[str, str], ...]
    streams: tuple[Stream, ...]
    fresh: tuple[Stream, ...]
    trials: tuple[TuneTrial, ...]
    best: int | None
    gains: tuple[TuneGain, ...]
    chosen: bool
    capacity_rps: float
    tuned_capacity_rps: float | None = None
