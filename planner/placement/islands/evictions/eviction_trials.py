"""Which islands get the evictions that limits allow: several tries, of which the one that serves most is kept.

Islands that have room without evictions stay where they are in the first tries: the pods of the scenario's rule first,
then those that free most GPUs, as several islands may fit where one pod was. Where islands are still left out, all are
placed anew, in one order after the other: an island on an idle GPU may stand where a larger one would need one eviction
less. Larger islands come first, then those that were left out; of a handful every set of islands that would serve more
is tried, those that serve most first; then those come first that gain most for their GPUs, and of a handful every order
is tried, as long as the work allows; of a small cluster the best set is solved for in the end. The phase that has least
never gets less than it has without evictions, and what is placed never serves less than the island that serves most
alone.

| symbol | meaning | unit | source |
|---|---|---|---|
| g_p | share that phase p gets of the rate of its islands (of their GPUs where rates are not known) | 1 | |
| R | rate of the phase whose islands serve least, all placed | requests/s | demands |
| w | what a lost GPU-hour counts as | requests/s per GPU-hour | scenario |
| L | work that the evictions lose | GPU-hours | cluster |

A try is worth (min_p g_p - w L / R, sum_p g_p), compared from left to right; of equal ones the earlier is kept.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, permutations

from planner.domain import PlacementDemand, PlacementSettings, Pod
from planner.placement.islands.evictions.eviction_limits import Allowance, Excess
from planner.placement.islands.evictions.eviction_order import Eviction, gains
from planner.placement.islands.evictions.eviction_rivals import may_hold, rivals_of
from planner.placement.islands.evictions.preemption import (
    BY_RULE,
    FEWEST,
    FREEING,
    LEAST_LOST,
    Preemption,
    Tariff,
    kind_of,
    pods_that_may_go,
)
from planner.placement.islands.filling import largest_first
from planner.placement.islands.fleet import Occupancy, Site
from planner.placement.islands.second_tries.evicted_sets import Worth, lost_share, most_worth, placed_as

MOST_LOOKED_AT = 1_000
"""Nodes asked about in the tries of a small placement."""

MORE_WORK = 3
"""Nodes asked about in further tries, over those of the first ones, where the placement is large."""

MOST_TRIES = 150
"""Tries in which all are placed anew."""

MOST_IN_EVERY_ORDER = 6
"""Islands of which every set and every order is tried."""

MOST_FOR_SETS = 5_000
"""Nodes asked about for sets of islands: less than half a second of work."""


@dataclass(frozen=True, slots=True)
class Evictions:
    """Islands that came late, in the order of placing; all that are there in the end; limits that keep others out.

    `rivals`: of those that would have room, were others not there: whose place would do (None: it takes several).
    """

    done: Sequence[Eviction] = ()
    placed: Mapping[str, Site] = field(default_factory=dict)
    kept_out: Mapping[str, Sequence[Excess]] = field(default_factory=dict)
    rivals: Mapping[str, Site | None] = field(default_factory=dict)

    @property
    def pods(self) -> list[tuple[Pod, str]]:
        """Who goes, and for which island."""
        return [(pod, eviction.island) for eviction in self.done for pod in eviction.pods]


def evicted_for(
    demands: Sequence[PlacementDemand],
    settled: Mapping[str, Site],
    occupancy: Occupancy,
    settings: PlacementSettings,
) -> Evictions:
    """Place as many of the islands that are not `settled` as evictions within the limits allow, in `occupancy`.

    Where that serves more, those that are there move, or stand back for others.
    """
    trials = Trials.of(demands, settled, occupancy, settings)
    best = trials.best()
    moved = {demand.island for demand in trials.moving} & settled.keys() if best.anew else set()
    for island in sorted(moved):
        settled[island].leave(occupancy)
    for eviction in best.done:
        for pod in eviction.pods:
            occupancy.evict(occupancy.fleet.number[pod.node], [pod])
        eviction.site.enter(occupancy)
    limits: dict[PlacementDemand, list[Excess]] = {}
    kept_out = {}
    for demand in trials.left_out(best):
        # Alike islands are kept out by the same limits: each kind is asked about once.
        if kind_of(demand) not in limits:
            limits[kind_of(demand)] = best.state.limits_of(demand)
        kept_out[demand.island] = limits[kind_of(demand)]
    stayed = {island: site for island, site in settled.items() if island not in moved}
    sites = stayed | {done.island: done.site for done in best.done}
    competing = [demand for demand in trials.left_out(best) if demand in trials.able]
    return Evictions(best.done, sites, kept_out, rivals_of(competing, sites, best.state))


@dataclass(frozen=True, slots=True)
class Way:
    """Which pods go first, and whether islands lie as the score says or as cheaply as they can."""

    first: str
    close: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """One try: the state at its end, what was done, and what it is worth. `got`: what each phase has."""

    state: Preemption
    done: list[Eviction]
    got: Mapping[str, float]
    worth: tuple[float, float]
    anew: bool


@dataclass(slots=True)
class Trials:
    """What every try begins from: islands of the GPU types of which some find no room, and where the others are.

    `ways`: those that are tried; `kinds`: numbers of what islands ask for, by name; `tried`: tries that were made, by
    their way and the kinds of islands in order.
    """

    demands: Sequence[PlacementDemand]
    settled: Mapping[str, Site]
    occupancy: Occupancy
    settings: PlacementSettings
    gain: Mapping[str, float]
    pods: dict[int, list[Pod]]
    tariff: Tariff
    ways: tuple[Way, ...]
    kinds: Mapping[str, int]
    rate_rps: float
    looked_at: int = 0
    able: list[PlacementDemand] = field(default_factory=list)
    tried: set[tuple[Way, tuple[int, ...]]] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        demands: Sequence[PlacementDemand],
        settled: Mapping[str, Site],
        occupancy: Occupancy,
        settings: PlacementSettings,
    ) -> "Trials":
        """Tries to place `demands`, of which some are `settled`."""
        types = {demand.gpu for demand in demands if demand.island not in settled}
        pods = pods_that_may_go(occupancy, types, settings)
        tariff = Tariff.of(pods, settings, occupancy.fleet)
        ways = [Way(BY_RULE, True), Way(FREEING, True), Way(FREEING, False), Way(BY_RULE, False)]
        # Every limit has a way that spares it.
        if settings.most_victims is not None:
            ways.append(Way(FEWEST, False))
        if settings.most_lost_gpu_hours is not None:
            ways.append(Way(LEAST_LOST, False))
        rates: dict[str, float] = defaultdict(float)
        for demand in demands:
            rates[demand.phase] += demand.rate_rps
        rate_rps = min(rates.values()) if all(demand.rate_rps > 0 for demand in demands) else 0.0
        numbers: dict[PlacementDemand, int] = {}
        kinds = {demand.island: numbers.setdefault(kind_of(demand), len(numbers)) for demand in demands}
        return cls(demands, settled, occupancy, settings, gains(demands), pods, tariff, tuple(ways), kinds, rate_rps)

    @property
    def moving(self) -> list[PlacementDemand]:
        """Islands that are placed once more where all are, the largest first."""
        types = {demand.gpu for demand in self.demands if demand.island not in self.settled}
        return sorted((demand for demand in self.demands if demand.gpu in types), key=largest_first)

    def left_out(self, trial: Trial) -> list[PlacementDemand]:
        """Islands without a place."""
        placed = {eviction.island for eviction in trial.done}
        if not trial.anew:
            placed |= set(self.settled)
        return [demand for demand in self.moving if demand.island not in placed]

    def best(self) -> Trial:
        """The try that is worth most."""
        best = self._run(Way(BY_RULE, True))
        if self.left_out(best) and Allowance.of(self.occupancy.fleet.cluster, self.settings).binds:
            best = max(best, self._run(Way(FREEING, True)), key=_worth_of)
        # Work, not time: the same input has the same tries on any machine.
        work_limit = max(MOST_LOOKED_AT, self.looked_at * (1 + MORE_WORK))
        self.able = self._able(best)
        if self._lacks(best):
            best = self._best_alone(best)
            best = self._best_of(self._left_out_first(), best, work_limit)
            best = self._best_set(best)
            best = self._best_of(self._in_every_order(), best, work_limit)
            best = max((best, *self._solved(best)), key=_worth_of) if self._lacks(best) else best
        return best

    def _best_of(self, trials: Iterator[Trial], best: Trial, work_limit: int) -> Trial:
        """The best so far or one of these tries, until every island has a place or `work_limit` nodes are looked at."""
        for _ in range(MOST_TRIES):
            if self.looked_at >= work_limit or not self._lacks(best):
                break
            best = max(best, next(trials, best), key=_worth_of)
        return best

    def _lacks(self, trial: Trial) -> bool:
        """Whether an island that could be placed is left out."""
        return any(demand in self.able for demand in self.left_out(trial))

    def _best_alone(self, best: Trial) -> Trial:
        """The island that serves most alone comes first, where that is more than the best so far."""
        first = max(self.able, key=lambda demand: self._worth((), self._shares([demand])))
        if self._worth((), self._shares([first])) > best.worth:
            best = max((best, *self._together(Way(BY_RULE, True), [first])), key=_worth_of)
        return best

    def _best_set(self, best: Trial) -> Trial:
        """Of a handful the set of islands that serves most, where that is more than the best so far."""
        if len(self.able) > MOST_IN_EVERY_ORDER:
            return best
        work_limit = self.looked_at + MOST_FOR_SETS
        emptied = self._begin(Way(BY_RULE, True), self.moving).occupancy
        for node, pods in self.pods.items():
            emptied.evict(node, pods)
        sets: dict[tuple[int, ...], tuple[PlacementDemand, ...]] = {}
        for some in chain.from_iterable(combinations(self.able, count) for count in range(1, len(self.able) + 1)):
            # Sets of alike islands are one set.
            sets.setdefault(tuple(self.kinds[demand.island] for demand in some), some)
        rated = [(self._worth((), self._shares(some)), some) for some in sets.values()]
        for worth, some in sorted(rated, key=lambda row: row[0], reverse=True):
            # In falling order: no later set is worth more.
            if worth <= best.worth:
                break
            # A quick no spares every way of a set.
            for way in self.ways if may_hold(emptied, some) else ():
                if worth > best.worth and self.looked_at < work_limit:
                    best = max((best, *self._together(way, some)), key=_worth_of)
        return best

    def _solved(self, best: Trial) -> Iterator[Trial]:
        """The try that a programme proposes; nothing where it is too large, or finds none that is worth more."""
        state, got = self._begin(Way(BY_RULE, True), self.moving), self._shares(())
        prices = self.tariff.prices[BY_RULE]
        worth = Worth(gain=self.gain, got=got, lost=lost_share(self.settings, self.rate_rps), to_beat=best.worth)
        answer = most_worth(self.able, state.occupancy, self.pods, prices, state.allowance, worth)
        if answer is not None:
            done = [*placed_as(answer, self.able, state)]
            for eviction in done:
                got[eviction.site.demand.phase] += self.gain.get(eviction.island, 0.0)
            yield Trial(state, done, got, self._worth(done, got), True)

    def _together(self, way: Way, some: Sequence[PlacementDemand]) -> Iterator[Trial]:
        """The try that places all of these, and of the others who still fits; nothing where it cannot.

        The largest come first, then those first that found no room.
        """
        order, others = list(some), [demand for demand in self.able if demand not in some]
        for _ in some:
            state, got = self._begin(way, self.moving), self._shares(())
            done = state.place_all(order, self.gain, got)
            stuck = len(done)
            if stuck == len(order):
                done += state.place((), self.gain, got, others)
                yield Trial(state, done, got, self._worth(done, got), True)
            self.looked_at += state.looked_at
            # Who finds no room though it came first never will.
            if stuck in (0, len(order)):
                return
            order.insert(0, order.pop(stuck))

    def _shares(self, placed: Iterable[PlacementDemand]) -> dict[str, float]:
        """What each phase has once those that are not placed anew are there, and of the others these."""
        got: dict[str, float] = {demand.phase: 0.0 for demand in self.demands}
        moving = {demand.island for demand in self.moving}
        staying = (demand for demand in self.demands if demand.island in self.settled and demand.island not in moving)
        for demand in chain(staying, placed):
            got[demand.phase] += self.gain.get(demand.island, 0.0)
        return got

    def _able(self, trial: Trial) -> list[PlacementDemand]:
        """Those that are placed anew: who has a place, and who would have one, were nobody else there."""
        out = set(self.left_out(trial))
        bare = self._begin(Way(BY_RULE, True), self.moving)
        alone = {kind: bare.has_room(kind) for kind in {kind_of(demand) for demand in out}}
        self.looked_at += bare.looked_at
        return [demand for demand in self.moving if demand not in out or alone[kind_of(demand)]]

    def _left_out_first(self) -> Iterator[Trial]:
        """The largest first, then those first that were left out, for every way."""
        orders = dict.fromkeys(self.ways, self.able)
        while orders:
            for way, order in list(orders.items()):
                # The order has come round: this way has nothing new to say.
                if not self._is_new(way, order):
                    del orders[way]
                    continue
                trial = self._run(way, order)
                yield trial
                out = [demand for demand in self.left_out(trial) if demand in self.able]
                orders[way] = [*out, *(demand for demand in order if demand not in out)]

    def _in_every_order(self) -> Iterator[Trial]:
        """Those that gain most for their GPUs; then each one first, and of a handful every order."""
        dense = sorted(self.able, key=lambda demand: -self.gain.get(demand.island, 0.0) / demand.size)
        few = len(dense) <= MOST_IN_EVERY_ORDER
        one_first = ([demand, *(other for other in self.able if other is not demand)] for demand in self.able)
        # Lazily: mostly the work runs out, or all have a place, long before the last order.
        for order in chain([dense], one_first, permutations(self.able) if few else ()):
            for way in self.ways:
                if self._is_new(way, order):
                    yield self._run(way, order)

    def _is_new(self, way: Way, order: Sequence[PlacementDemand]) -> bool:
        key = way, tuple(self.kinds[demand.island] for demand in order)
        new = key not in self.tried
        self.tried.add(key)
        return new

    def _begin(self, way: Way, moving: Iterable[PlacementDemand]) -> Preemption:
        """The state in which a try begins that places these islands anew."""
        trial = self.occupancy.copy()
        for demand in moving:
            if demand.island in self.settled:
                self.settled[demand.island].leave(trial)
        return Preemption.of(trial, self.settings, self.pods, self.tariff, way.first, close=way.close)

    def _run(self, way: Way, order: Sequence[PlacementDemand] | None = None) -> Trial:
        """One try; with an `order`, of all anew."""
        stay = () if order is not None else [demand for demand in self.moving if demand.island in self.settled]
        got = self._shares(stay)
        state = self._begin(way, () if order is None else self.moving)
        late = [demand for demand in self.demands if demand.island not in self.settled]
        done = state.place(late, self.gain, got, order)
        self.looked_at += state.looked_at
        return Trial(state, done, got, self._worth(done, got), order is not None)

    def _worth(self, done: Iterable[Eviction], got: Mapping[str, float]) -> tuple[float, float]:
        lost = 0.0
        if self.settings.lost_gpu_hour_rps and self.rate_rps:
            hours = (self.settings.lost_gpu_hours(pod) or 0.0 for eviction in done for pod in eviction.pods)
            lost = self.settings.lost_gpu_hour_rps * sum(hours) / self.rate_rps
        # Rounded, so that sums added up in another order are still ties.
        return round(min(got.values()) - lost, 9), round(sum(got.values()), 9)


def _worth_of(trial: Trial) -> tuple[float, float]:
    return trial.worth
