"""Who gets which nodes: a programme over all services, held against what plans on its shares serve.

The programme prices the servers of a deployment for what it needs to serve at most. How much that is follows from a
bound on the objective, and the bound from the prices: of divisible servers as if nothing waited, then with the queues
at that bound, a few times. What it divides is planned, deployment by deployment, as any other scenario; where a plan
serves less than the programme thought, the programme hears so, and divides anew. Shares of nodes serve no more than
what was worked out for them, or for more, so that ends with the best division of plans, or at the limit of rounds.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.assignment import (
    BucketOffer,
    DeploymentOffer,
    Division,
    FleetOffer,
    NodePrices,
    Partition,
    RateLimit,
    ServiceTerms,
    alternatives_of,
    divide,
    node_prices,
    relaxed_values,
)
from planner.domain import AssignmentSettings, ObjectiveSettings, Question, ServingForm
from planner.domain.fleets import Deployment, FleetAim, FleetScenario, on_gpus
from planner.domain.stocks import Stock, inventory_stocks
from planner.errors import InfeasibleError, InputError, SolverError
from planner.evaluation.buckets.prices import LESS_ROOM, BucketPrices
from planner.evaluation.evaluator import Evaluator
from planner.proposing.buckets.pools import solve_buckets
from planner.proposing.certificate import layout_settings
from planner.proposing.feasibility import posed

PASSES = 2
RESTS = 0.005
ROUGH = 0.003
"""Of a bound: what rough prices may be off by."""
MOST_ALTERNATIVES = 4
"""Offers and partitions of a deployment that the programme of whole servers looks at; the relaxation knows all."""

SMALL, LARGE = 24, 256
"""Nodes of a fleet up to which divisions are tried until the search's gap is proven, and until 1 % is. Of larger ones
the first will do: what is left between a plan and its bound is what it gives up to be simple."""

GAP = 0.01
MET = 1e-4
MOST_ROUNDS = 24
FEW_ROUNDS = 3

Tell = Callable[[str], None]
Alternatives = tuple[tuple[BucketOffer, Partition], ...]
Gpus = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedFleet:
    """The best division that was found, by deployment: its GPUs, and what a plan on them serves; the value that these
    plans reach together, and what none pass. `prices`: of the relaxation."""

    pricing: "FleetPricing"
    gpus: tuple[Mapping[str, int], ...]
    rates_rps: tuple[float, ...]
    value: float
    bound: float
    prices: NodePrices


class FleetPricing:
    """The offers of all deployments of a fleet, priced for what they have to serve."""

    def __init__(self, fleet: FleetScenario, deployments: Sequence[Deployment]) -> None:
        self.fleet, self.deployments = fleet, tuple(deployments)
        self.stocks = inventory_stocks(fleet.inventory, [item.rent_usd_per_gpu_hour for item in fleet.inventory.items])
        self._prices = [BucketPrices(_by_rate(deployment)) for deployment in deployments]
        self._aggregated: set[int] = set()
        self.names = [service.name for service in fleet.interactive]
        self.partial = False

    @property
    def settings(self) -> AssignmentSettings:
        """The solver's, by the first deployment."""
        return layout_settings(self.deployments[0].scenario)

    def aggregate(self, deployment: int) -> None:
        """Its plans are of aggregated pools: so are its offers from now on."""
        self._aggregated.add(deployment)

    def may_split(self, deployment: int) -> bool:
        """Whether its pools may have either form."""
        free = self.deployments[deployment].scenario.serving_form is ServingForm.AUTO
        return free and deployment not in self._aggregated

    def relaxed(self) -> NodePrices:
        """The relaxation at prices for what it allows, with its prices; queues are priced for that from now on."""
        most_rps = [math.inf] * len(self.deployments)
        best = self._roughly(most_rps)
        for _ in range(PASSES):
            before, most_rps = best, self.needed(best.value)
            best = self._roughly(most_rps)
            if best.value >= before.value * (1 - RESTS) or self.fleet.objective.kind is not FleetAim.MULTIPLE:
                break
        self.price_below(best.value)
        return best

    def price_below(self, bound: float) -> None:
        """Queues are priced for what a bound on the objective allows."""
        self._price_for(self.needed(bound))

    def needed(self, value: float) -> list[float]:
        """Rate of each deployment beyond which nothing is gained, where the objective is no better than this."""
        multiple = value if self.fleet.objective.kind is FleetAim.MULTIPLE else 1.0
        demands = {service.name: service.demand_rps for service in self.fleet.interactive}
        return [
            LESS_ROOM * multiple * max(demands[name] / part for name, part in deployment.parts) / deployment.promised
            for deployment in self.deployments
        ]

    def _price_for(self, most_rps: Sequence[float]) -> None:
        self._prices = [prices.priced_for(rate) for prices, rate in zip(self._prices, most_rps, strict=True)]

    def _of_form(self, j: int) -> BucketPrices:
        prices = self._prices[j]
        return prices.aggregated.priced_for(prices.served_rps) if j in self._aggregated else prices

    def least_rent(self, promised_rps: Sequence[float], services: Collection[int]) -> float:
        """The least rent (USD/hour) at which divisible servers promise so much to some of the services. Raises
        InfeasibleError where they cannot."""
        members = sorted(services)
        chosen = [
            j for j, d in enumerate(self.deployments) if {self.names.index(n) for n, _ in d.parts} <= set(members)
        ]
        offers = []
        for j in chosen:
            prices = self._of_form(j)
            offer = self._offer(j, alternatives_of([prices.divisible()], prices.partitions), math.inf)
            serves = {members.index(s): part for s, part in offer.serves.items()}
            offers.append(replace(offer, serves=serves))
        terms = tuple(ServiceTerms(demand_rps=promised_rps[s]) for s in members)
        fleet = replace(self._fleet_offer(offers, ()), services=terms)
        return node_prices(fleet, FleetAim.TARGET, self.settings).value

    def _roughly(self, most_rps: Sequence[float]) -> NodePrices:
        offers = []
        for j, rate_limit in enumerate(most_rps):
            prices = self._of_form(j)
            offer = prices.divisible(rate_limit)
            offers.append(self._offer(j, alternatives_of([offer], prices.partitions), rate_limit))
        return node_prices(self._fleet_offer(offers, ()), self.fleet.objective.kind, self.settings)

    def offer(self, most_rps: Sequence[float], limits: Sequence[RateLimit]) -> FleetOffer:
        """What the programme of whole servers chooses from."""
        offers = []
        for j, rate_limit in enumerate(most_rps):
            prices = self._of_form(j)
            every = alternatives_of(prices.offers(self.stocks, prices.partitions), prices.partitions)
            likely = self._likely(every)
            self.partial = self.partial or len(likely) < len(every)
            offers.append(self._offer(j, likely, rate_limit))
        return self._fleet_offer(offers, limits)

    def _likely(self, alternatives: "Alternatives") -> "Alternatives":
        """Those that serve most of the whole inventory."""
        if len(alternatives) <= MOST_ALTERNATIVES:
            return alternatives
        values = [
            max(relaxed_values(offer, [partition], ObjectiveSettings(), self.settings).values(), default=0.0)
            for offer, partition in alternatives
        ]
        order = sorted(range(len(values)), key=lambda a: -values[a])
        return tuple(alternatives[a] for a in sorted(order[:MOST_ALTERNATIVES]))

    def _offer(self, j: int, alternatives: "Alternatives", most_rps: float) -> DeploymentOffer:
        deployment = self.deployments[j]
        return DeploymentOffer(
            alternatives=alternatives,
            serves={self.names.index(name): part * deployment.promised for name, part in deployment.parts},
            most_rps=most_rps,
        )

    def _fleet_offer(self, offers: Sequence[DeploymentOffer], limits: Sequence[RateLimit]) -> FleetOffer:
        return FleetOffer(
            counts=tuple(stock.units for stock in self.stocks),
            hosts=tuple(self.fleet.host(stock.gpu) for stock in self.stocks),
            charges=tuple(stock.charge for stock in self.stocks),
            services=terms_of(self.fleet),
            deployments=tuple(offers),
            limits=tuple(limits),
        )


class SharePlans:
    """What plans of deployments serve on their GPUs, worked out once each."""

    def __init__(self, deployments: Sequence[Deployment]) -> None:
        self._deployments = deployments
        self._rates: dict[tuple[int, Gpus], tuple[float, ServingForm | None]] = {}

    def rate(self, j: int, stocks: Sequence[Stock], gpus: Gpus) -> tuple[float, ServingForm | None]:
        """(requests/s, the form of the pools where it was free) of a deployment on its GPUs; 0 where nothing serves."""
        if not any(gpus):
            return 0.0, None
        if (j, gpus) not in self._rates:
            deployment = self._deployments[j]
            question = _by_rate(deployment, {stock.gpu: n for stock, n in zip(stocks, gpus, strict=True)})
            try:
                choice = solve_buckets(Evaluator(question))
                form = choice.forms.chosen if choice.forms else None
                self._rates[j, gpus] = choice.priced.rate_rps, form
            except InfeasibleError:
                self._rates[j, gpus] = 0.0, None
        return self._rates[j, gpus]


def divided(
    fleet: FleetScenario,
    deployments: Sequence[Deployment],
    tell: Tell = lambda _: None,
    plans: SharePlans | None = None,
) -> DividedFleet:
    """The best division of the fleet's nodes. `plans`: where rates on shares are kept that others ask for, too. Raises
    InfeasibleError where demands or floors cannot be met together, InputError where a deployment has no pools behind
    buckets."""
    tell("pricing servers of every deployment")
    pricing, plans = FleetPricing(fleet, deployments), plans or SharePlans(deployments)
    relaxed = pricing.relaxed()
    aim, settings = fleet.objective.kind, pricing.settings
    sign = -1.0 if aim.row.minimises else 1.0
    bound, limits = _first_bound(fleet, relaxed.value * (1 + sign * ROUGH)), list[RateLimit]()
    best: tuple[tuple[float, ...], float, Division, tuple[float, ...]] | None = None
    nodes = sum(stock.units // fleet.host(stock.gpu) for stock in pricing.stocks)
    gap = settings.gap if nodes <= SMALL else GAP
    for number in range(MOST_ROUNDS if nodes <= SMALL else FEW_ROUNDS if nodes <= LARGE else 1):
        tell(f"dividing the nodes, round {number + 1}")
        try:
            division = divide(pricing.offer(pricing.needed(bound), limits), aim, replace(settings, gap=gap / 4))
        except (InfeasibleError, SolverError):
            if best is None or not math.isfinite(best[1]):
                raise
            break  # plans that meet a demand but for the tolerance are short of it for the programme
        if not pricing.partial:
            bound = sign * min(sign * bound, sign * division.bound)
        outcomes = [plans.rate(j, pricing.stocks, gpus) for j, gpus in enumerate(division.gpus)]
        rates = tuple(rate for rate, _ in outcomes)
        rank, value = worth_of_rates(fleet, deployments, rates, rent_of_shares(pricing.stocks, division.gpus))
        if best is None or rank > best[0]:
            best = rank, value, division, rates
        if math.isfinite(best[1]) and sign * (bound - best[1]) <= gap * abs(bound):
            break
        fresh = [
            RateLimit(deployment=j, gpus=gpus, rate_rps=rate)
            for j, (gpus, rate) in enumerate(zip(division.gpus, rates, strict=True))
            if any(gpus)
        ]
        split = [j for j, (_, form) in enumerate(outcomes) if form is ServingForm.AGGREGATED and pricing.may_split(j)]
        if not split and all(limit in limits for limit in fresh):
            break
        for j in split:
            pricing.aggregate(j)
        limits += [limit for limit in fresh if limit not in limits]
        pricing.price_below(bound)
    assert best is not None, "there is a first round"
    _, value, division, rates = best
    return DividedFleet(
        pricing=pricing,
        gpus=tuple(
            {s.gpu: n for s, n in zip(pricing.stocks, gpus, strict=True) if n and rate}
            for gpus, rate in zip(division.gpus, rates, strict=True)
        ),
        rates_rps=rates,
        value=value,
        bound=sign * max(sign * bound, sign * value),
        prices=relaxed,
    )


def _first_bound(fleet: FleetScenario, relaxed: float) -> float:
    """What no division passes before one is known: the relaxation, which is of the multiple where places are served
    in order, and then says nothing."""
    if fleet.objective.kind is not FleetAim.PRIORITY:
        return relaxed
    return float(len({service.priority for service in fleet.interactive}))


def worth_of_rates(
    fleet: FleetScenario, deployments: Sequence[Deployment], rates_rps: Sequence[float], rent: float
) -> tuple[tuple[float, ...], float]:
    """(what is compared, the more the better; the objective's value) of deployments that serve so much; a value of inf
    or -inf where demands or floors are not met."""
    services = fleet.interactive
    promised = promised_rps(fleet, deployments, rates_rps)
    shares = [rps / service.demand_rps for rps, service in zip(promised, services, strict=True)]
    floor, aim = fleet.objective.floor, fleet.objective.kind
    short = min(shares) < (1.0 if aim is FleetAim.TARGET else floor) * (1 - MET)
    if aim is FleetAim.TARGET:
        return ((-math.inf, min(shares)), math.inf) if short else ((-rent, 0.0), rent)
    if aim is FleetAim.MULTIPLE:
        return (min(shares),), min(shares)
    if short:
        return (-math.inf, min(shares)), -math.inf
    if aim is FleetAim.WEIGHTED:
        value = sum(s.weight * min(rps, s.demand_rps) for s, rps in zip(services, promised, strict=True))
        return (value,), value
    places = sorted({service.priority for service in services})
    by_place = [
        min(1.0, *(share for share, s in zip(shares, services, strict=True) if s.priority == place)) for place in places
    ]
    return tuple(round(share, 3) for share in by_place), sum(by_place)


def promised_rps(
    fleet: FleetScenario, deployments: Sequence[Deployment], rates_rps: Sequence[float]
) -> tuple[float, ...]:
    """What deployments that serve so much promise every service with a demand."""
    return tuple(
        sum(
            rate * deployment.promised * dict(deployment.parts).get(service.name, 0.0)
            for deployment, rate in zip(deployments, rates_rps, strict=True)
        )
        for service in fleet.interactive
    )


def terms_of(fleet: FleetScenario) -> tuple[ServiceTerms, ...]:
    """What the services with a demand ask the programme for."""
    return tuple(
        ServiceTerms(
            demand_rps=service.demand_rps,
            weight=service.weight,
            priority=service.priority,
            floor=fleet.objective.floor,
        )
        for service in fleet.interactive
    )


def rent_of_shares(stocks: Sequence[Stock], gpus: Sequence[Gpus]) -> float:
    """Of the GPUs of all deployments, USD/hour."""
    return sum(stock.charge * n for row in gpus for stock, n in zip(stocks, row, strict=True))


def _by_rate(deployment: Deployment, gpus: Mapping[str, int] | None = None) -> Question:
    """The question of what a deployment serves at most, on these GPUs."""
    scenario = deployment.scenario
    if not scenario.bucketed:
        raise InputError(
            f"fleet: {deployment.name}: must have pools behind buckets, got {scenario.beyond_buckets}.",
            hint="Leave that key out, or plan this service by itself.",
        )
    placed = scenario if gpus is None else on_gpus(scenario, gpus)
    return posed(replace(placed, objective=ObjectiveSettings()))
