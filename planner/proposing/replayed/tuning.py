"""Door: a plan's servers as they stand, with other flags and weights: settings judged by replays, short ones and long.

The plan's own setting comes first. All settings meet the first stream in short replays; of every round the best so far
meets all streams of the search, twice as long. The model sees the short values, corrected by what the long ones were
off as a rule. What is best in the search is held against the plan on streams that neither has met, pair by pair.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from planner.domain import BucketPool, LengthProfile, Plan, Question, RequestTrace
from planner.domain.arrivals import ReplaySettings
from planner.domain.serving.tuning import WORTH, Stream, TunedPlan, TuneGain, TuneGoal, TuneSettings, TuneTrial
from planner.errors import InputError
from planner.evaluation.replay.pooled import PooledReplay
from planner.evaluation.replay.replaying import served_part, with_dying_servers
from planner.evaluation.replay.streams import gain_of, logs, middle, streams_of, stretches_of
from planner.proposing.feasibility import SAME_RATE
from planner.proposing.replayed.choice import LONGER, fresh_seeds, search_seeds, simplest_near_best
from planner.proposing.replayed.knobs import fixed_knobs, knob_of
from planner.proposing.replayed.rounds import Judges
from planner.proposing.replayed.space import Point, ReplaySpace

_LONG_STREAMS, _FRESH_STREAMS = 2, 8
_SPREAD = 0.4  # chance of a dial to be turned in a setting that is drawn
_DRAWS = 40  # for every setting that is wanted
_CLIPPED = math.log(2)  # twice as bad, or useless: it is all the same to a model
_PRIME = 1_000_003


def find_tuned(
    question: Question,
    saved: Plan,
    source: RequestTrace | LengthProfile,
    replays: ReplaySettings,
    settings: TuneSettings,
    progress: Callable[[float], None],
) -> tuple[TunedPlan, tuple[BucketPool, ...]]:
    """What turning the plan's knobs gains, and the pools that it leads to; none where there is nothing to gain.

    `replays`: how requests come and what fails. Raises InputError where the plan has no pools behind buckets, is placed
    or has a network, the goals do not go with its levels, or its pools take none of the source's prompts.
    """
    _require(saved, settings)
    served, _ = served_part(source, max(pool.end for pool in saved.outlook.pools))
    replay = PooledReplay(question, served, with_dying_servers(replays, saved))
    space = ReplaySpace(question, None, saved.outlook.pools)
    judges = Judges(question, space, replay, saved.throughput_rps)
    for_search, unseen = stretches_of(served)
    if replays.arrivals.between is not None:
        for_search = unseen = [replays.arrivals.between]
    tuning = Tuning(
        space=space,
        meeting=Meeting(judges, settings),
        settings=settings,
        streams=streams_of(for_search, _seeds(settings, search_seeds), _LONG_STREAMS),
        fresh=streams_of(unseen, _seeds(settings, fresh_seeds), _FRESH_STREAMS),
        least_rps=saved.scenario.objective.target_rps * (1 - SAME_RATE),
    )
    tuning.run(progress)
    point, gains = tuning.verdict()
    chosen = bool(gains) and _worth_it(gains)
    tuned = TunedPlan(
        plan=saved.scenario.name,
        trace=source.name,
        arrivals=replay.arrivals,
        settings=settings,
        knobs=tuple(knob_of(space, dial, point) for dial in space.dials if len(dial.values) > 1),
        fixed=tuple(fixed_knobs(saved, space)),
        streams=tuning.streams,
        fresh=tuning.fresh,
        trials=tuning.trials,
        best=None if point == space.base else list(tuning.judged).index(point),
        gains=gains,
        chosen=chosen,
        capacity_rps=saved.throughput_rps,
    )
    return tuned, judges.priced(point).pools if chosen else ()


def _seeds(settings: TuneSettings, of: Callable[[int], tuple[int, ...]]) -> tuple[int, ...]:
    first = of(settings.seed)[0]
    return tuple(range(first, first + _FRESH_STREAMS))


def _require(saved: Plan, settings: TuneSettings) -> None:
    scenario = saved.scenario
    name = f"plan {scenario.name}: tune:"
    if not saved.outlook.pools:
        raise InputError(
            f"{name} must be of pools behind buckets, got {scenario.beyond_buckets or 'none'}.",
            hint="Plan it with routing.form buckets.",
        )
    if scenario.cluster is not None or scenario.network is not None:
        where = "placed on nodes" if scenario.cluster is not None else "with a network"
        raise InputError(
            f"{name} must be of pools that are not placed and share no uplinks, which its replays do not know, got a "
            f"plan {where}.",
            hint="Tune the plan before it is placed.",
        )
    if TuneGoal.GOODPUT in settings.goals and not scenario.slo.bounds_anything:
        raise InputError(
            f"{name} goal goodput must go with service levels, the plan has none.",
            hint="Choose another goal, or plan with slo.ttft_ms or slo.tpot_ms.",
        )


def _worth_it(gains: Sequence[TuneGain]) -> bool:
    """Whether some goal gains for sure, and none loses as much."""
    lows = [gain.gain.low if gain.gain.low is not None else -1.0 for gain in gains]
    return max(lows) >= WORTH and min(lows) > -WORTH


class Meeting:
    """Values of the goals where a setting meets streams."""

    def __init__(self, judges: Judges, settings: TuneSettings) -> None:
        self.judges = judges
        self._settings = settings
        self._of_stretch: dict[tuple[float, float] | None, Judges] = {}

    def values(self, point: Point, stream: Stream, requests: int) -> tuple[float, ...]:
        """A value a goal, in its unit."""
        judges = self._of_stretch.setdefault(stream.between, self.judges.between(stream.between))
        group = judges.at(point, self._settings.rate_rps, (stream.seed,), requests).total
        values = {
            TuneGoal.GOODPUT: group.goodput_rps.mean,
            TuneGoal.TTFT: math.inf if group.ttft_ms is None else group.ttft_ms.p99.mean,
        }
        return tuple(values[goal] for goal in self._settings.goals)

    def together(self, point: Point, streams: Sequence[Stream], requests: int) -> tuple[float, ...]:
        """The middle of the streams' values, a goal each."""
        rows = [self.values(point, stream, requests) for stream in streams]
        return tuple(middle(column) for column in zip(*rows, strict=True))


@dataclass(kw_only=True)
class Tuning:
    """A search under way. `judged`: settings in their order; `least_rps`: of capacity that is asked for."""

    space: ReplaySpace
    meeting: Meeting
    settings: TuneSettings
    streams: tuple[Stream, ...]
    fresh: tuple[Stream, ...]
    least_rps: float

    def __post_init__(self) -> None:
        self.judged: dict[Point, TuneTrial] = {}
        self._refused: set[Point] = set()

    @property
    def trials(self) -> tuple[TuneTrial, ...]:
        """In the order in which they were judged."""
        return tuple(self.judged.values())

    def run(self, progress: Callable[[float], None]) -> None:
        """All rounds; fewer where nothing is left to try."""
        for number in range(self.settings.rounds):
            points = self._proposed(number)
            for point in points:
                short = self.meeting.values(point, self.streams[0], self.settings.requests)
                setting = self.space.parameters(point)
                self.judged[point] = TuneTrial(round=number, setting=setting, short=short)
            if not number:
                self._judge_long(self.space.base)
            waiting = [point for point, trial in self.judged.items() if trial.long is None]
            if waiting:
                self._judge_long(max(waiting, key=lambda point: sum(self._worth(point))))
            progress((number + 1) / self.settings.rounds)
            if not points:
                return

    def _judge_long(self, point: Point) -> None:
        values = self.meeting.together(point, self.streams, LONGER * self.settings.requests)
        self.judged[point] = replace(self.judged[point], long=values)

    def _worth(self, point: Point) -> list[float]:
        """By goal how much better than the plan a setting is, as a logarithm; of short replays where there are no
        others, less what these promised too much as a rule."""
        trial, base = self.judged[point], self.judged[self.space.base]
        if trial.long is not None and base.long is not None:
            return self._gained(base.long, trial.long)
        off = [
            [long - short for long, short in zip(*pair, strict=True)]
            for other in self.judged.values()
            if other.long is not None and base.long is not None and other is not base
            for pair in [(self._gained(base.long, other.long), self._gained(base.short, other.short))]
        ]
        usual = [sum(column) / len(off) for column in zip(*off, strict=True)] or [0.0] * len(trial.short)
        return [gained + more for gained, more in zip(self._gained(base.short, trial.short), usual, strict=True)]

    def _gained(self, before: Sequence[float], after: Sequence[float]) -> list[float]:
        rows = zip(self.settings.goals, before, after, strict=True)
        gains = [logs([b], [a], less_is_better=goal is TuneGoal.TTFT)[0] for goal, b, a in rows]
        return [min(max(gain, -_CLIPPED), _CLIPPED) for gain in gains]

    def _proposed(self, number: int) -> list[Point]:
        """Settings that nobody has judged yet: first the plan's own and some drawn, then by the model."""
        rng = Random(self.settings.seed * _PRIME + number)  # noqa: S311  (no secrets: to be repeated)
        if not number:
            return [self.space.base, *self._drawn(rng, self.settings.batch - 1)]
        few = math.prod(len(dial.values) for dial in self.space.dials) <= self.settings.rounds * self.settings.batch
        points = [] if few else self._of_model(rng)
        return [*points, *self._drawn(rng, self.settings.batch - len(points), points)]

    def _drawn(self, rng: Random, count: int, beside: Sequence[Point] = ()) -> list[Point]:
        """By chance, near the best that were judged."""
        ranked = sorted(self.judged, key=lambda point: -sum(self._worth(point))) or [self.space.base]
        points: list[Point] = []
        for _ in range(_DRAWS * count):
            origin = ranked[min(int(rng.expovariate(1.0)), len(ranked) - 1)]
            point = tuple(
                rng.choice(dial.values) if rng.random() < _SPREAD else value
                for dial, value in zip(self.space.dials, origin, strict=True)
            )
            if len(points) < count and point not in (*points, *beside, self.space.base) and self._allowed(point):
                points.append(point)
        return points

    def _allowed(self, point: Point) -> bool:
        """Whether a setting is new, can be deployed, leaves every server work, and has the capacity asked for."""
        if point in self.judged or point in self._refused:
            return False
        if self.space.pools(point):
            priced = self.meeting.judges.priced(point)
            # a pool without capacity would have no route in the plan
            if priced.rate_rps > self.least_rps and all(pool.capacity_rps > 0 for pool in priced.pools):
                return True
        self._refused.add(point)
        return False

    def _of_model(self, rng: Random) -> list[Point]:
        """What the library proposes; settings that cannot be deployed are as bad to it as any may be."""
        from planner.proposing.search.experiment import DialProposer  # noqa: PLC0415  (torch, only where it is needed)

        goals = len(self.settings.goals)
        dials = {dial.name: dial.values for dial in self.space.dials if len(dial.values) > 1}
        judged = [(point, self._worth(point)) for point in self.judged]
        judged += [(point, [-_CLIPPED] * goals) for point in sorted(self._refused)]
        told_all = [({name: round(dict(self.space.parameters(p))[name]) for name in dials}, w) for p, w in judged]
        proposer = DialProposer(dials, [-_CLIPPED / 4] * goals)
        settings = proposer.propose(told_all, self.settings.batch, rng.randrange(2**31 - 1))
        base = dict(self.space.parameters(self.space.base))
        points = [self.space.point({**base, **setting}) for setting in settings]
        return [point for point in dict.fromkeys(points) if self._allowed(point)]

    def verdict(self) -> tuple[Point, tuple[TuneGain, ...]]:
        """The simplest of the best settings of the search, else the plan's nearest rival, and what it gains on fresh
        streams; the plan's own and nothing where no other was replayed at length."""
        base = self.space.base
        worth = {point: self._worth(point) for point, trial in self.judged.items() if trial.long is not None}
        sound = {point: math.exp(sum(each)) for point, each in worth.items() if min(each) > -WORTH}
        best = simplest_near_best(self.space, sound, WORTH / 2)
        rivals = [point for point in worth if point != base]
        if not rivals:
            return base, ()
        best = max(rivals, key=lambda point: sum(worth[point])) if best == base else best
        requests = LONGER * self.settings.requests
        pairs = [[self.meeting.values(point, stream, requests) for stream in self.fresh] for point in (base, best)]
        before, after = (list(zip(*rows, strict=True)) for rows in pairs)
        gains = (
            TuneGain(goal=goal, before=b, after=a, gain=gain_of(b, a, less_is_better=goal is TuneGoal.TTFT))
            for goal, b, a in zip(self.settings.goals, before, after, strict=True)
        )
        return best, tuple(gains)
