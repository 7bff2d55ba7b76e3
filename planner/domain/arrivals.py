"""What a replay is asked for beside a plan: its requests, what fails, and how it is measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Annotated

from planner.domain.keys import INTERNAL, Bounds, Key
from planner.domain.serving.routers import LEAST_WORK, RouterBehaviour
from planner.domain.workload import PromptBlocks
from planner.errors import InputError
from planner.units import MS_PER_S

POISSON_VARIATION = 1.0
"""Squared coefficient of variation of exponential gaps."""


class ArrivalProcess(StrEnum):
    """When requests come. `trace`: when they came in the trace, bursts and all; for another rate it is thinned, or
    copies of it are laid over each other. `poisson`: independently of each other. `gamma`: gaps drawn with
    `variation`. `diurnal`: as `gamma`, at the rate of a `curve`."""

    TRACE = "trace"
    POISSON = "poisson"
    GAMMA = "gamma"
    DIURNAL = "diurnal"


class SessionPace(StrEnum):
    """When later turns of sessions come. `open`: when they came in the trace, whatever became of the turn before.
    `closed`: their pause after its answer has ended."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RateCurve:
    """A rate over time that repeats every `span_s` seconds.

    `rates[i]`, in any one unit, holds from `starts_s[i]` to `starts_s[i + 1]`, the last one to `span_s`. Starts ascend
    from 0; rates are finite, none below 0 and one at least above. InputError otherwise.
    """

    name: str
    starts_s: tuple[float, ...]
    rates: tuple[float, ...]
    span_s: float
    licence: str = ""
    citation: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        edges = (*self.starts_s, self.span_s)
        # written so that NaN fails each comparison
        checks = (
            (len(self.starts_s) == len(self.rates), f"as many rates as starts, got {len(self.rates)} rates"),
            (self.starts_s[:1] == (0,), f"starts_s from 0, got {self.starts_s[:1]}"),
            (
                all(before < after < float("inf") for before, after in pairwise(edges)),
                f"starts_s that ascend and end before span_s, got span_s {self.span_s:g}",
            ),
            (all(0 <= rate < float("inf") for rate in self.rates), "finite rates of at least 0"),
            (any(rate > 0 for rate in self.rates), "a rate above 0; all are 0"),
        )
        for holds, rule in checks:
            if not holds:
                raise InputError(f"Rate curve {self.name}: must have {rule}.", hint="Mend its rows of seconds, rate.")

    @property
    def mean_rate(self) -> float:
        """Over all of the span, in the unit of `rates`."""
        ends = (*self.starts_s[1:], self.span_s)
        return sum(r * (b - a) for r, a, b in zip(self.rates, self.starts_s, ends, strict=True)) / self.span_s

    def over(self, span_s: float) -> "RateCurve":
        """The same curve squeezed or stretched to `span_s` seconds: a day in an hour."""
        scale = span_s / self.span_s
        return replace(self, starts_s=tuple(start * scale for start in self.starts_s), span_s=span_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalSettings:
    """How a trace becomes a stream.

    `between`: from and up to which second of the trace requests are taken, all where it is None; what corrects a model
    and what tests it are disjoint parts. `compress`: the trace meets another rate by running faster or slower, which
    changes how long its bursts last; for comparison only. `curve`: of the process `diurnal`, from `curve_start_s` on.
    """

    process: Annotated[ArrivalProcess, Key("when requests come")] = ArrivalProcess.TRACE
    variation: Annotated[float, Bounds(low=0), Key("squared coefficient of variation of gaps; Poisson: 1")] = (
        POISSON_VARIATION
    )
    between: Annotated[tuple[float, float] | None, Key("of the trace, which part", unit="s")] = None
    compress: Annotated[bool, Key("whether the trace is run faster, not laid over itself")] = False
    curve: Annotated[RateCurve | None, Key("of the rate")] = None
    curve_start_s: Annotated[float, Bounds(low=0), Key("where on the curve the stream begins")] = 0.0
    sessions: Annotated[SessionPace, Key("when later turns of sessions come", sparse=True)] = SessionPace.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Requests of the trace that no stream has, by the first reason that held: prompts of no tokens, answers of none,
    prompts beyond the model's context, and answers that would end beyond it."""

    empty_prompts: int = 0
    empty_answers: int = 0
    long_prompts: int = 0
    long_answers: int = 0

    @classmethod
    def of(cls, counts: Sequence[int]) -> "LeftOut":
        """Counts in the order of the fields."""
        return cls(empty_prompts=counts[0], empty_answers=counts[1], long_prompts=counts[2], long_answers=counts[3])

    @property
    def total(self) -> int:
        """Of all reasons."""
        return self.empty_prompts + self.empty_answers + self.long_prompts + self.long_answers

    @property
    def words(self) -> str:
        """What was left out, by reason; empty where nothing was."""
        return ", ".join(f"{count} {reason}" for reason, count in self.reasons if count)

    @property
    def reasons(self) -> tuple[tuple[str, int], ...]:
        """Reasons in words, and how many requests were left out for each."""
        return (
            ("without a prompt", self.empty_prompts),
            ("without an answer", self.empty_answers),
            ("with prompts beyond the context", self.long_prompts),
            ("with answers that end beyond the context", self.long_answers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTurns:
    """The turns that a stream's requests are, a row for each.

    `sessions`: the session's number, those of different copies of a trace apart; `later`: whether a turn of it came
    before in the trace. `pause_s`: from the end of the answer before, where later turns of the stream come so, whatever
    their time of arrival; empty where all come at theirs.
    """

    sessions: Sequence[int]
    later: Sequence[bool]
    pause_s: Sequence[float] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """A stream of requests. Three columns of one length, in the order of arrival: ms from the start of the stream
    (>= 0, ascending), tokens of the prompt and of the answer (>= 1 each).

    `blocks`: of the prompts, where the trace has them; ids of different copies of it differ. `turns`: of sessions,
    where the trace tells them. `left_out`: of the trace.
    `same_instant`: requests that came in the same instant as the one before. `notes`: what a reader of results must
    know of how the stream was made, a sentence each. `classes`: whose each request is, as a number; empty: all are of
    one.
    """

    name: str
    arrival_ms: Sequence[float]
    prompt_tokens: Sequence[int]
    answer_tokens: Sequence[int]
    blocks: PromptBlocks | None = None
    turns: StreamTurns | None = None
    left_out: LeftOut = LeftOut()
    same_instant: int = 0
    notes: tuple[str, ...] = ()
    classes: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.arrival_ms)

    @property
    def rate_rps(self) -> float:
        """Mean rate (requests/s) from the first arrival to the last; NaN where that is no time."""
        span_s = (self.arrival_ms[-1] - self.arrival_ms[0]) / MS_PER_S if len(self) else 0.0
        return (len(self) - 1) / span_s if span_s > 0 else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An island loses so many nodes `at_s` seconds after the start, or all its servers (`nodes` 0).

    `servers`: rows of island and servers that die, its own and those that share its nodes; whoever knows the plan says
    which.
    """

    island: str
    at_s: Annotated[float, Bounds(low=0)]
    nodes: Annotated[int, Bounds(low=0)] = 1
    back_after_s: Annotated[float | None, Bounds(low=0), Key("else what loading the weights takes")] = None
    servers: Annotated[tuple[tuple[str, int], ...], INTERNAL] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """`requests`: how many of the process are replayed, warm-up included; `warm_up`: share of them that is not counted.

    `storage_gb_s`: bandwidth at which a server that comes back reads its weights. `overflow_ms`: work before a bucket's
    servers from which on the policy `overflow` looks at longer buckets. `length_spread`: of what the router takes for a
    prompt's length, over the true one: standard deviation of its logarithm, 0 where it counts tokens.
    """

    router: RouterBehaviour = LEAST_WORK
    arrivals: ArrivalSettings = field(default_factory=lambda: ArrivalSettings(process=ArrivalProcess.POISSON))
    seeds: tuple[int, ...] = (0, 1, 2)
    requests: Annotated[int, Bounds(low=1)] = 20_000
    warm_up: Annotated[float, Bounds(low=0, below=1)] = 0.1
    moments: Annotated[int, Bounds(low=1)] = 60
    storage_gb_s: Annotated[float, Bounds(above=0)] = 2.0
    overflow_ms: Annotated[float, Bounds(low=0)] = 1000.0
    length_spread: Annotated[float, Bounds(low=0, high=1)] = 0.0
    failures: tuple[Failure, ...] = ()
