"""Plans that are not the cheapest by the hour, and make a schedule with reserved GPUs cheaper.

Where GPUs are reserved, one that idles costs nothing meanwhile, and one beyond them all of its price: plans that go
together are seldom the cheapest at their rates. Further plans are priced in two ways, until none is new:

- by the duals of the best schedule's relaxation, what a GPU of each type is worth in each of its stretches (they move
  the reservation)
- at a reservation R, that of the best schedule and each of its fleets: the least of sum_g p_g max(0, n_g - R_g) is,
  for some set of types, the cheapest fleet that has those types at their price and of all others the reserved GPUs for
  nothing

Rates are those of the best schedule's stretches, and of the stretches that it would have if plans cost what lies
between those that were made; of fleets within R also quantiles, as a smaller one costs nothing less until R is smaller.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np

from planner.assignment import reservation_prices
from planner.domain import InventoryItem
from planner.domain.replanning.rates import RateSeries
from planner.domain.replanning.schedules import Tariff, TariffKind
from planner.replanning.schedules.levels import SAME, LevelBook, LevelSet
from planner.replanning.schedules.reservations import best_plans
from planner.replanning.schedules.switching import Switching, best_switching
from planner.replanning.schedules.tariffs import HOUR_S, window_usd

MOST_PRICED = 96  # questions, of up to a CPU-second
IMAGINED = 48
LOW = 8
FREE = 1e-3  # of its price: what a GPU counts for that costs nothing, so that none is used for nothing
DIGITS = 2  # of a price's share of the type's: prices alike give the same plan

Offer = tuple[InventoryItem, ...]
"""The GPUs that may be used, at what they count for."""


def price_further(book: LevelBook, series: RateSeries, tariff: Tariff, most_changes: int) -> None:
    """Such plans in the book beside all others; only where GPUs of several types can be reserved."""
    items = [item for item in book.scenario.inventory.items if item.count]
    answers = _Answers(book)
    while tariff.kind is TariffKind.RESERVED and len(items) > 1:
        levels, planned = book.all(), len(book.all().levels)
        switching, reserved = best_plans(levels, book.scenario, series, tariff, most_changes)
        stretches = _stretches(series, switching)
        for rate, offer in _by_duals(levels, items, stretches, tariff):
            answers.ask(rate, offer)
        rates = {*stretches, *_imagined_rates(book, levels, series, tariff, most_changes, reserved)}
        fleets = [reserved, *(dict(levels.levels[k].gpus) for k in dict.fromkeys(switching.plans))]
        for gpus in fleets:
            for rate in sorted({*rates, *_low_rates(series)}):
                for offer in _within(items, gpus):
                    answers.ask(rate, offer)
        for gpus in fleets:
            for rate in sorted(rates):
                for offer in _beyond(items, gpus):
                    answers.ask(rate, offer)
        if len(book.all().levels) == planned:
            return


class _Answers:
    """Asks for plans once: the fleet for a rate is that of every rate above it that it promises, and where there is
    none, there is none for higher rates."""

    def __init__(self, book: LevelBook) -> None:
        self._book, self._asked = book, 0
        self._spans: dict[tuple[object, ...], list[tuple[float, float]]] = {}

    def ask(self, rate: float, offer: Offer) -> None:
        """Have the plan in the book, up to `MOST_PRICED` questions."""
        key = tuple((item.gpu.name, item.count, item.price_usd_per_gpu_hour) for item in offer)
        spans = self._spans.setdefault(key, [])
        if self._asked < MOST_PRICED and not any(low <= rate <= high for low, high in spans):
            self._asked += 1
            spans.append((rate, self._book.add_priced(rate, offer)))


def _stretches(series: RateSeries, switching: Switching) -> dict[float, float]:
    """Highest rates above 0 of the stretches between changes, and their hours."""
    stretches = dict[float, float]()
    for first, after in pairwise([0, *switching.changes, len(series.windows)]):
        rate = max(series.rates_rps[first:after])
        stretches[rate] = stretches.get(rate, 0.0) + (after - first) * series.window_s / HOUR_S
    return {rate: hours for rate, hours in stretches.items() if rate}


def _imagined_rates(
    book: LevelBook,
    levels: LevelSet,
    series: RateSeries,
    tariff: Tariff,
    most_changes: int,
    reserved: Mapping[str, int],
) -> list[float]:
    """Highest rates of the stretches over plans imagined at many rates, beyond the reservation as dear as lies between
    those that were made."""
    usd = window_usd(book.scenario, series, levels.levels, tariff, reserved)[0]
    promises = np.array(levels.promises_rps)
    least = np.minimum.accumulate(usd[::-1])[::-1]  # a plan that promises more does, too
    rates = np.array(series.rates_rps)
    imagined = np.unique([*np.quantile(rates[rates > 0], np.linspace(0, 1, IMAGINED)), promises.max()])
    costs = np.interp(imagined, promises, least)
    free = np.zeros((len(imagined), len(imagined)))
    plans = best_switching(rates.tolist(), imagined.tolist(), costs, free, days=series.days, most_changes=most_changes)
    return list(_stretches(series, plans))


def _by_duals(
    levels: LevelSet, items: Sequence[InventoryItem], stretches: Mapping[float, float], tariff: Tariff
) -> Iterator[tuple[float, Offer]]:
    """The rate of every stretch at what GPUs are worth in it."""
    usual = [item.price_usd_per_gpu_hour for item in items]
    prices = reservation_prices(
        [[dict(level.gpus).get(item.gpu.name, 0) for item in items] for level in levels.levels],
        [[k for k, most in enumerate(levels.promises_rps) if most >= rate * (1 - SAME)] for rate in stretches],
        list(stretches.values()),
        usual,
        tariff.reserved_discount,
    )
    for rate, gpu_usd in zip(stretches, prices, strict=True):
        shares = [max(FREE, round(usd / whole, DIGITS)) for usd, whole in zip(gpu_usd, usual, strict=True)]
        yield rate, tuple(_at(item, item.count, share) for item, share in zip(items, shares, strict=True))


def _within(items: Sequence[InventoryItem], reserved: Mapping[str, int]) -> Iterator[Offer]:
    """None but reserved GPUs: as few as can be, and as few as can be of each type."""
    there = [item for item in items if reserved.get(item.gpu.name)]
    for spared in (None, *there) if len(there) > 1 else there:
        shares = [1.0 if item is spared else FREE for item in there]
        yield tuple(_at(i, reserved[i.gpu.name], share) for i, share in zip(there, shares, strict=True))


def _beyond(items: Sequence[InventoryItem], reserved: Mapping[str, int]) -> Iterator[Offer]:
    """Each set of types beyond the reservation, but for all of them: that is the cheapest plan."""
    for size in range(1, len(items)):
        for paid in combinations(items, size):
            free = (i for i in items if i not in paid and reserved.get(i.gpu.name))
            yield (*paid, *(_at(item, reserved[item.gpu.name], FREE) for item in free))


def _low_rates(series: RateSeries) -> list[float]:
    rates = np.array(series.rates_rps)
    return [float(rate) for rate in np.quantile(rates[rates > 0], np.linspace(0, 1, LOW), method="higher")]


def _at(item: InventoryItem, count: int, share: float) -> InventoryItem:
    return replace(item, count=count, price_usd_per_gpu_hour=share * item.price_usd_per_gpu_hour)
