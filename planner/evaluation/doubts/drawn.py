"""What servers do where it is not known how fast they are: rates of a programme, and of pools, a number a draw.

| symbol | meaning | unit |
|---|---|---|
| eps[g, p, s] | pace of servers of GPU type g in phase p in draw s (`planner.cost.residuals.pace_draws`) | 1 |
| k | paces that all servers are priced at, from the slowest draw's to the fastest's | 1 |
| R[o, B](k) | rate of a server within the levels where all are so fast, and X is what those serve | requests/s |

Rates of a programme lie on lines between those at the two paces next to eps. A server has the batch that is best as
predicted: where it is faster than that it serves no more than eps times as much. Pools are judged without lines:
each draw is priced as a scenario of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest

import numpy as np

from planner.assignment import BucketOption, DrawnOffer, Partition, Place
from planner.cost import band_of
from planner.cost.residuals.pace_draws import pace_dimensions, pace_draws, uniform_draws
from planner.domain import PHASES, Band, BucketPool, Phase, Question, Scenario
from planner.domain.serving.cost import ServerPace
from planner.domain.stocks import Stock
from planner.evaluation.buckets.columns import hash_of, of_types
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.service import BucketService

SLOWER, FASTER = 12, 5  # paces to each side, where rates within levels fall steeply and where they do not
MOST_PARTITIONS = 6

Paces = Mapping[tuple[str, Phase], np.ndarray]


def bands_of_types(prices: BucketPrices) -> dict[tuple[str, Phase], Band]:
    """Of every GPU type of the inventory in every phase whose rates have one."""
    scenario = prices.question.scenario
    return {
        (item.gpu.name, phase): band
        for item in scenario.inventory.items
        for phase in prices.space.serving
        if (band := band_of(item.gpu, scenario.model, phase, scenario.cost)) is not None
    }


def drawn_paces(prices: BucketPrices, count: int, seed: int) -> Paces:
    """Paces of every GPU type of the inventory in every phase whose rates have a band; none where none has."""
    bands = bands_of_types(prices)
    if not bands:
        return {}
    points = uniform_draws(count, pace_dimensions(list(bands)), seed)
    return pace_draws(bands, points, prices.question.scenario.doubt.alike)


def rates_in_draws(question: Question, fleets: Sequence[Sequence[BucketPool]], paces: Paces) -> list[list[float]]:
    """What each of some fleets of pools serves within the levels in every draw (requests/s), requests routed anew; as
    far as the loss that is to be survived lets it be used, as predicted."""
    service = BucketService(question)
    used = [parts_used(service, pools) for pools in fleets]
    rates: list[list[float]] = [[] for _ in fleets]
    for draw in range(len(next(iter(paces.values())))):
        scenario = at_paces(question.scenario, {key: float(values[draw]) for key, values in paces.items()})
        drawn = BucketService(replace(question, scenario=scenario))
        for pools, parts, row in zip(fleets, used, rates, strict=True):
            row.append(drawn.unbroken(pools).used(parts).rate_rps)
    return rates


def at_paces(scenario: Scenario, paces: Mapping[tuple[str, Phase], float]) -> Scenario:
    """The scenario where servers are so many times as fast as predicted."""
    rows = tuple(ServerPace(gpu=gpu, phase=phase, pace=pace) for (gpu, phase), pace in paces.items())
    return replace(scenario, cost=replace(scenario.cost, paces=rows))


def parts_used(service: BucketService, pools: Sequence[BucketPool]) -> dict[Phase, float]:
    """Of what each phase serves, the part that is used, as others stand in for lost nodes: as predicted."""
    predicted, together = service.unbroken(pools), service.priced(pools)
    parts = {phase: (predicted.phase_rps(phase), together.phase_rps(phase)) for phase in PHASES}
    used = {phase: less / full if full else 0.0 for phase, (full, less) in parts.items()}
    return {**used, Phase.MIXED: min(used.values())}


@dataclass(frozen=True)
class DrawnPrices:
    """Servers of a question, each as fast as the draws say; `prices`: as predicted."""

    prices: BucketPrices
    paces: Paces

    @cached_property
    def grid(self) -> np.ndarray:
        """Paces that all servers are priced at."""
        every = np.concatenate([*self.paces.values(), [1.0]])
        return np.unique([*np.geomspace(every.min(), 1, SLOWER), *np.geomspace(1, every.max(), FASTER)])

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        """What the lengths may be cut into: what is best of divisible servers as predicted, and where all are slow."""
        shortlists = [self.prices.shortlist, *(self._at_grid[place].shortlist for place in (0, SLOWER // 2))]
        ranked = [partition for row in zip_longest(*shortlists) for partition in row if partition is not None]
        return tuple(dict.fromkeys(ranked))[:MOST_PARTITIONS]

    def offers(self, stocks: Sequence[Stock]) -> tuple[DrawnOffer, ...]:
        """What the programme may choose from, one offer for each family of GPU types, with drafts and without."""
        every = self._offer(stocks)
        families = [family for family in self.prices.families if any(stock.gpu in family for stock in stocks)]
        return tuple(
            replace(every, offer=offer)
            for family in families
            for offer in of_types(every.offer, stocks, family).by_drafts()
        )

    @cached_property
    def _at_grid(self) -> tuple[BucketPrices, ...]:
        question, most = self.prices.question, self.prices.most
        items, phases = question.scenario.inventory.items, self.prices.space.serving
        keys = [(item.gpu.name, phase) for item in items for phase in phases]
        scenarios = (at_paces(question.scenario, dict.fromkeys(keys, float(pace))) for pace in self.grid)
        return tuple(BucketPrices(replace(question, scenario=scenario), most) for scenario in scenarios)

    def _offer(self, stocks: Sequence[Stock]) -> DrawnOffer:
        """Every server that is worth an offer at some pace."""
        predicted = self.prices.offer(stocks, self.partitions)
        offers = [predicted, *(prices.offer(stocks, self.partitions) for prices in self._at_grid)]
        options: dict[Place, tuple[BucketOption, ...]] = {}
        rates: dict[tuple[Place, BucketOption], np.ndarray] = {}
        for place in predicted.options:
            some = {(option.stock, option.server): option for offer in offers for option in offer.options[place]}
            of_place = {self._as_predicted(option, stocks[option.stock], place): option for option in some.values()}
            options[place] = tuple(option for option in of_place if option.rate_rps > 0)
            for option in options[place]:
                rates[place, option] = self._rates(option, stocks[option.stock], place)
        return DrawnOffer(offer=replace(predicted, options=options), rates=rates)

    def _as_predicted(self, option: BucketOption, stock: Stock, place: Place) -> BucketOption:
        """A server that is offered at some pace, as it is at the predicted one."""
        (phase, bucket), row = place, option.server
        column, after = self.prices.column(stock.gpu, phase), self.prices.column_left(stock.gpu, phase)
        config = column.config(row, bucket)
        copies = _copies(stock, config.parallel.devices)
        return replace(
            option,
            kind=hash_of(config, mixed=phase is Phase.MIXED),
            rate_rps=float(column.capped[row, bucket]) * copies,
            left_rps=None if option.left_rps is None else float(after.capped[row, bucket]) * copies,
        )

    def _rates(self, option: BucketOption, stock: Stock, place: Place) -> np.ndarray:
        """Of one server in every draw."""
        phase, bucket = place
        devices = self.prices.column(stock.gpu, phase).config(option.server, bucket).parallel.devices
        copies = _copies(stock, devices)
        columns = (prices.column(stock.gpu, phase) for prices in self._at_grid)
        rates = np.array([copies * float(column.capped[option.server, bucket]) for column in columns])
        if phase is not Phase.PREFILL:
            rates = np.where(self.grid > 1, np.minimum(rates, self.grid * option.rate_rps), rates)
        draws = len(next(iter(self.paces.values())))
        return np.asarray(np.interp(self.paces.get((stock.gpu, phase), np.ones(draws)), self.grid, rates))


def _copies(stock: Stock, devices: int) -> int:
    return stock.unit // devices if stock.unit > 1 else 1
