"""What became of replayed requests: times, goodput, use of the servers; figures over seeds with their spread."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.layout import Phase
from planner.domain.serving.levels import LevelCheck, Spread, Standing, standing_of

_Amount = Annotated[float, Bounds(low=0)]
_Share = Annotated[float, Bounds(low=0, high=1)]
_Count = Annotated[int, Bounds(low=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Quantiles of a time over requests (ms), each over the seeds; None where no request has one."""

    mean: Spread
    p50: Spread
    p90: Spread
    p95: Spread
    p99: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundShare:
    """Of the prompts' tokens, the share that was found at a place: the GPU's own cache, a tier, or nowhere, so that it
    was computed."""

    place: str
    share: Spread


GPU_CACHE, COMPUTED = "gpu", "computed"
"""Where tokens of prompts come from beside tiers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayGroup:
    """The requests of one bucket, or all of them (`end` 0), that came after the warm-up.

    `within_levels`: share that kept every bound; `goodput_rps`: those of them, a second. `tokens_per_s_p05`: what 95 %
    of the requests got at least. `queue_ms`: from arrival to the start of the prefill; `transfer_ms`: from its end
    until the cache is there; `place_ms`: from there to a place in a batch. `hit_share`: of the prompts' tokens, found
    in a prefix cache; `found_at`: where, of all tokens, the fastest first (empty: there are no tiers).
    """

    start: _Count
    end: _Count
    requests: _Count
    rate_rps: _Amount
    within_levels: Spread
    goodput_rps: Spread
    ttft_ms: Times | None
    tpot_ms: Times | None
    end_to_end_ms: Times | None
    queue_ms: Times | None
    transfer_ms: Times | None
    place_ms: Times | None
    tokens_per_s_p05: Spread | None
    hit_share: Spread
    found_at: tuple[FoundShare, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReplay:
    """The `first` turns of sessions, or the `later` ones, with the levels as they keep them."""

    turn: str
    group: ReplayGroup
    levels: tuple[LevelCheck, ...]

    @property
    def standing(self) -> Standing | None:
        """What is known of their levels; None where there are none."""
        return standing_of(self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandUse:
    """What the servers of an island did after the warm-up: means over them and time, and the most at any time.

    `utilisation`: share of the time with a step under way. `batch`: sequences of an attention group. `step_tokens`:
    prompt tokens of a rank and step. `kv_share`: of the room for KV caches. `preempted`: sequences that gave up their
    place, a thousand requests.
    """

    island: str
    gpu: str
    phase: Phase
    servers: _Count
    requests: _Count
    rate_rps: _Amount
    utilisation: Spread
    batch: Spread
    step_tokens: Spread
    kv_share: Spread
    most_kv_share: Spread
    preempted: Spread
    wait_ms: Times | None
    hit_share: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What happened in `seconds` from `start_s` on, of the first seed; the clock of the failures, and the warm-up is
    left out."""

    start_s: _Amount
    seconds: _Amount
    arrived: _Count
    finished: _Count
    late: Annotated[_Count, Key("of those that arrived, how many broke a bound")]
    waiting: Annotated[_Amount, Key("requests before prefill, mean")]
    answering: Annotated[_Amount, Key("requests in decode, mean")]
    ttft_p99_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """One rate, replayed with every seed. `left_out`: requests of the trace that no server takes, by reason.

    `requests_to_tell`: requests a seed, the warm-up among them, that would tell where these are too few (0: they are
    enough). `unfinished`: requests by which those in flight grew, where no level tells of it (a fleet that cannot keep
    up); 0 where that may be chance. `bottleneck`: what holds the rate back, in words. `events`: seconds from the start
    and what happened then, such as a failure. `misrouted`: share of the requests that came to another bucket than their
    length's; `refused`: share that came to servers whose context is too short for them, which no engine answers.
    `turns`: first turns of sessions and later ones apart, where the trace tells them.
    """

    plan: str
    trace: str
    router: str
    arrivals: str
    rate_rps: _Amount
    promise_rps: _Amount
    capacity_rps: _Amount
    seeds: tuple[int, ...]
    warm_up_s: _Amount
    seconds: _Amount
    total: ReplayGroup
    buckets: tuple[ReplayGroup, ...]
    islands: tuple[IslandUse, ...]
    levels: tuple[LevelCheck, ...]
    moments: tuple[Moment, ...]
    left_out: tuple[tuple[str, int], ...] = ()
    requests_to_tell: _Count = 0
    unfinished: _Count = 0
    bottleneck: str = ""
    notes: tuple[str, ...] = ()
    events: tuple[tuple[float, str], ...] = ()
    misrouted: _Share = 0.0
    refused: _Share = 0.0
    turns: tuple[TurnReplay, ...] = ()

    @property
    def standing(self) -> Standing:
        """What is known: every bound is kept by as many requests as it must, those that nobody answers not among them,
        and the fleet keeps up; or not; or too little was seen."""
        judged = standing_of(self.levels)
        # the first requests meet an emptier fleet than later ones: what breaks in a short replay breaks in a long one
        if judged is Standing.BREAKS or not self._answers:
            return Standing.BREAKS
        if self.requests_to_tell:
            return Standing.UNTOLD
        return Standing.BREAKS if self.unfinished else Standing.HOLDS

    @property
    def holds(self) -> bool | None:
        """Whether the levels hold and the fleet keeps up; None where too little was seen to tell."""
        return None if self.standing is Standing.UNTOLD else self.standing is Standing.HOLDS

    @property
    def seems_to_hold(self) -> bool:
        """Whether they hold by what was seen, however little: what searches among many rates or fleets go by."""
        bounds_kept = all(level.seems_kept for level in self.levels if level.bound_ms is not None)
        return bounds_kept and self._answers and not self.unfinished

    @property
    def _answers(self) -> bool:
        """Whether so many requests are answered as must keep their bounds."""
        return not self.refused or all(level.keeping - self.refused >= level.needed for level in self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReplay:
    """The requests of a service in the replay of a deployment, by the service's own levels. `within_levels`: share of
    them that kept every bound."""

    service: str
    deployment: str
    rate_rps: _Amount
    requests: _Count
    within_levels: Spread
    levels: tuple[LevelCheck, ...]

    @property
    def standing(self) -> Standing | None:
        """What is known of its levels; None where it has none."""
        return standing_of(self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReplay:
    """Every deployment of a fleet at a rate (`results`), and every service in each of its deployments (`services`)."""

    fleet: str
    results: tuple[ReplayResult, ...]
    services: tuple[ServiceReplay, ...]

    @property
    def standing(self) -> Standing | None:
        """What is known of the levels of all services; None where none has any."""
        return standing_of([level for service in self.services for level in service.levels])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySweep:
    """Several rates of one plan and trace, ascending. `held_rps`: the highest rate that holds the levels (None: none of
    those tried), found between two rates that differ by no more than `step_rps`."""

    results: tuple[ReplayResult, ...]
    held_rps: float | None
    step_rps: _Amount

    @property
    def requests_to_tell(self) -> int:
        """Requests a seed that would tell whether the levels hold at `held_rps`; 0 where it is known."""
        return max((r.requests_to_tell for r in self.results if r.rate_rps == self.held_rps), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTimes:
    """TTFT or TPOT (ms) of replayed prompts of `start` <= tokens < `end`, by statistic (`P50`, `mean`); None where
    there is no end."""

    phase: Phase
    start: int
    end: int
    times_ms: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReplay:
    """`plan`: the scenario's name; `capacity_rps`: that plan's, by which a replay of another is known; `holds`: None
    where it is too short to tell."""

    plan: str
    capacity_rps: float
    rate_rps: float
    holds: bool | None
    summary: str
    buckets: tuple[StoredTimes, ...]

    def times(self, phase: Phase, start: int, end: int, statistic: str) -> tuple[float | None, float | None] | None:
        """P50 of a bucket and the time at a statistic; None where the replay has none of that bucket, or not that."""
        rows = [row for row in self.buckets if (row.phase, row.start, row.end) == (phase, start, end)]
        if not rows or statistic not in rows[0].times_ms:
            return None
        return rows[0].times_ms["P50"], rows[0].times_ms[statistic]
