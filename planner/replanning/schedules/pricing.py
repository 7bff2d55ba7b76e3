"""Plans that are not the cheapest by the hour, and make a schedule with reserved GPUs cheaper.

Where GPUs are reserved, one that idles costs nothing meanwhile, and one beyond them all of its price: plans that go
together are seldom the cheapest at their rates.

| symbol | meaning | unit |
|---|---|---|
| n, R | fleet and reservation: GPUs of each type | |
| P(n) | promise; below `beyond(n)`, the least rate that is known to be too much for n | requests/s |
| f_R(d) | least of sum_g p_g max(0, n_g - R_g) over the fleets that may promise d: d < beyond(n) | USD/hour |

A rate is too much for n where a plan for it was asked for in vain on n or more GPUs, and where n costs less than the
bound of the cheapest plan for it. Over f_R the switching programme costs no more than any schedule that reserves R,
changes left out. The cheapest R is looked at: where a stretch there counts on fleets that no plan is known for, a plan
is asked for on the GPUs of such a fleet and the reservation, which cost no more. It is there, or f_R rises. Done until
no reservation promises to be cheaper than the schedule of the plans that were made.

All fleets are looked at where they are few; else a grid of them.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from planner.domain import InventoryItem
from planner.domain.schedules import RateSeries, ScheduleLevel, Tariff, TariffKind
from planner.replanning.schedules.levels import SAME, Floats, LevelBook
from planner.replanning.schedules.switching import best_plans, best_switching
from planner.units import SECONDS_PER_HOUR

MOST_PRICED = 96  # questions, of up to a CPU-second
MOST_FLEETS = 1200
MOST_TYPES = 3
GAIN = 1e-3  # of the schedule's cost: what a reservation has to promise

Gpus = dict[str, int]


def price_further(book: LevelBook, series: RateSeries, tariff: Tariff, most_changes: int) -> None:
    """Such plans in the book beside all others; only where GPUs of several types can be reserved."""
    levels = book.all()
    types = _types(book.scenario.inventory.items, levels.levels)
    if tariff.kind is not TariffKind.RESERVED or len(types) < 2:
        return
    switching, reserved = best_plans(levels, book.scenario, series, tariff, most_changes)
    standing_fleets = [dict(levels.levels[k].gpus) for k in sorted(set(switching.plans))]
    fleets = _Fleets(book, types, [reserved, *standing_fleets], series, tariff, most_changes)
    usd = switching.usd
    for _ in range(MOST_PRICED):
        question = fleets.question(usd * (1 - GAIN))
        if question is None:
            return
        rate, gpus, reserved = question
        if book.add_within(rate, gpus):
            fleets.learn()
            attempt, _ = best_plans(book.all(), book.scenario, series, tariff, most_changes, reserved=reserved)
            usd = min(usd, attempt.usd)
        else:
            fleets.refuse(rate, gpus)


def _types(items: Sequence[InventoryItem], levels: Sequence[ScheduleLevel]) -> list[InventoryItem]:
    """GPU types to be reserved: those that most plans use first."""
    used = [gpu for level in levels for gpu, _ in level.gpus]
    return sorted((item for item in items if item.count), key=lambda item: -used.count(item.gpu.name))[:MOST_TYPES]


class _Fleets:
    """What is known of fleets (F x types), each of which may be a reservation, too."""

    def __init__(
        self,
        book: LevelBook,
        types: Sequence[InventoryItem],
        fleets: Sequence[Mapping[str, int]],
        series: RateSeries,
        tariff: Tariff,
        most_changes: int,
    ) -> None:
        self._book, self._series, self._most_changes = book, series, most_changes
        self._names = [item.gpu.name for item in types]
        self._usd = np.array([item.rent_usd_per_gpu_hour for item in types])
        lowest_rps = min(rate for rate in series.rates_rps if rate)
        self._rates = np.maximum(series.rates_rps, lowest_rps)  # with no requests something stands, too
        self._steps = np.unique(self._rates)
        self._counts = np.array(
            list(product(*(_counts(item, len(types), book.all().levels, fleets) for item in types)))
        )
        self._beyond = np.full(len(self._counts), np.inf)
        self._plans: list[tuple[NDArray[np.int64], float]] = []
        for step in book.all_least():
            too_cheap = self._counts @ self._usd < step.usd_per_hour * (1 - SAME)
            self._beyond[too_cheap] = np.minimum(self._beyond[too_cheap], step.rate_rps)
        self.learn()
        self._hours = series.window_s / SECONDS_PER_HOUR
        self._always = len(self._rates) * self._hours * (1 - tariff.reserved_discount) * (self._counts @ self._usd)
        self._least = np.array([self._free(k) for k in range(len(self._counts))])

    def learn(self) -> None:
        """The plans of the book."""
        self._plans = [
            (np.array([dict(level.gpus).get(name, 0) for name in self._names]), level.promise_rps)
            for level in self._book.all().levels
            if {gpu for gpu, _ in level.gpus} <= set(self._names)
        ]

    def refuse(self, rate: float, gpus: Gpus) -> None:
        """A rate is too much for so many GPUs."""
        within = (self._counts <= [gpus.get(name, 0) for name in self._names]).all(axis=1)
        self._beyond[within] = np.minimum(self._beyond[within], rate)

    def question(self, usd: float) -> tuple[float, Gpus, Gpus] | None:
        """A rate, the GPUs to plan on and the reservation that may then cost less than `usd`; None where none may."""
        while True:
            k = int(self._least.argmin())
            if self._least[k] >= usd:
                return None
            self._least[k], stretches = self._best(k)
            if self._least[k] > self._least.min():
                continue
            for rate, gpus in stretches:
                if not any((plan <= gpus).all() and promise >= rate * (1 - SAME) for plan, promise in self._plans):
                    return rate, self._gpus(gpus), self._gpus(self._counts[k])
            self._least[k] = np.inf  # the plans of its best schedule are there: what it costs is known

    def _gpus(self, gpus: NDArray[np.int64]) -> Gpus:
        return {name: int(n) for name, n in zip(self._names, gpus, strict=True) if n}

    def _costs(self, k: int) -> tuple[Floats, NDArray[np.int64]]:
        """Least cost beyond the reservation k at every distinct rate, and the fleet that has it."""
        dear = np.maximum(0, self._counts - self._counts[k]) @ self._usd
        order = np.argsort(-self._beyond, kind="stable")
        cheapest = np.minimum.accumulate(dear[order])
        # In falling order of the rate that is too much for them: of those that may promise a rate a running least.
        first = np.flatnonzero(np.diff(cheapest, prepend=np.inf) < 0)
        able = np.searchsorted(-self._beyond[order], -self._steps, side="left") - 1
        fleets = order[first[np.searchsorted(first, able, side="right") - 1]]
        return cheapest[able], fleets

    def _free(self, k: int) -> float:
        """What the reservation costs at least, with any number of changes."""
        costs, _ = self._costs(k)
        return float(self._always[k] + self._hours * costs[np.searchsorted(self._steps, self._rates)].sum())

    def _best(self, k: int) -> tuple[float, list[tuple[float, NDArray[np.int64]]]]:
        """What the reservation costs at least; rates of that schedule's stretches, longest first, with fleets."""
        costs, fleets = self._costs(k)
        last = np.flatnonzero(np.diff(costs, append=np.inf) > 0)  # the highest rate of each cost
        switching = best_switching(
            list(self._rates),
            list(self._steps[last]),
            self._hours * costs[last],
            np.zeros((len(last), len(last))),
            days=self._series.days,
            most_changes=self._most_changes,
        )
        lengths: dict[int, int] = {}
        for first, after in pairwise([0, *switching.changes, len(self._rates)]):
            place = int(np.searchsorted(self._steps, self._rates[first:after].max()))
            lengths[place] = lengths.get(place, 0) + after - first
        places = sorted(lengths, key=lambda place: -lengths[place])
        stretches = [(float(self._steps[p]), np.maximum(self._counts[fleets[p]], self._counts[k])) for p in places]
        return float(self._always[k] + switching.usd), stretches


def _counts(
    item: InventoryItem, types: int, levels: Sequence[ScheduleLevel], fleets: Sequence[Mapping[str, int]]
) -> list[int]:
    """GPUs of a type in the grid: those of known fleets, and multiples of what servers of plans have."""
    name = item.gpu.name
    grain = math.gcd(*(dict(level.gpus).get(name, 0) for level in levels)) or 1
    counts = {0, item.count, *(gpus.get(name, 0) for gpus in fleets)}
    room = max(2, int(MOST_FLEETS ** (1 / types)) - len(counts))
    step = grain * max(1, math.ceil(item.count / grain / room))
    every = range(item.count + 1) if item.count < room else range(0, item.count, step)
    return sorted({*counts, *every})
