"""The division of an inventory among deployments as one programme.

| symbol | meaning | unit |
|---|---|---|
| t, N[t], h[t] | stock: a GPU type with its GPUs, those of a node (1 where services share nodes) | 1 |
| s, d[s] | service, its demand | requests/s |
| j, a | deployment, one of its alternatives: an offer of servers and a partition of lengths | 1 |
| r[j], r[j, a] | rate of a deployment, of an alternative | requests/s |
| b[j, s] | what a deployment promises a service for each request/s of its rate | 1 |
| n[j, t], p[j, t] | whole nodes of a deployment, whether it has the node that is not whole | 1; 0, 1 |
| z | servers; their rows are those of `PoolRows` | 1 |
| y[j, a] | whether the alternative is chosen | 0, 1 |
| g[s], lambda | served of a demand; the share of every demand that is served | requests/s, 1 |

node_<j>_<t>      sum_a use z <= h n + (N mod h) p         offered_<t>   sum_j n <= N div h,  sum_j p <= 1
rate_<j>          r[j] = sum_a r[j, a],  r[j, a] <= most y[j, a],  sum_a y <= 1
served_<s>        g <= sum_j b r
multiple          max lambda,  g >= lambda d
weighted          max sum_s w g,  g <= d,  g >= floor d
target            min sum charge (h n + (N mod h) p),  g >= d
priority          max sigma,  g >= sigma d of one place in the order after the other, sigma <= 1, earlier ones kept;
                  the value is the sum of all sigma
limit             r[j] <= r^ + most sum_t v[t],  GPUs of t >= (gpus^[t] + 1) v[t]

Of divisible servers and nodes, without y and the limits, the programme is its relaxation.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import pulp

from planner.assignment.buckets.offer import BucketOffer, Partition, columns_of, places_of
from planner.assignment.buckets.programme import SLACK, SURE, PoolRows, proves
from planner.assignment.fleets.offer import Division, FleetOffer, Gpus, NodePrices, RateLimit
from planner.domain import AssignmentSettings
from planner.domain.fleets import FleetAim
from planner.errors import InfeasibleError, SolverError
from planner.milp import dual_bound, solve

KEPT = 1e-6
"""Of a value that a later programme keeps: the size of the solver's tolerances."""

TIDY, TIDYING = 0.01, 4.0
"""Gap and work of the choice among equals: a node more or less that nobody needs is worth no minutes."""

MOST_EXTRA = 1000
"""Nodes of a type that may be missing."""

MOST_MULTIPLE = 1e6
"""A multiple beyond this is of demands that are next to nothing."""


def divide(offer: FleetOffer, aim: FleetAim, settings: AssignmentSettings) -> Division:
    """The best division, and of equals one with fewest deployments and then least charge.

    Raises InfeasibleError where demands (of `target`) or floors cannot be met, SolverError where nothing was found
    within the work limit.
    """
    if aim is FleetAim.PRIORITY:
        return _in_order(offer, settings)
    programme = FleetProgramme(offer)
    programme.aim(aim)
    best = programme.solved(settings)
    return _tidied(offer, aim, best, settings)


def node_prices(offer: FleetOffer, aim: FleetAim, settings: AssignmentSettings) -> NodePrices:
    """The relaxation and its prices; of `priority` that of the common multiple. Raises as `divide` does."""
    programme = FleetProgramme(offer, divisible=True)
    programme.aim(FleetAim.MULTIPLE if aim is FleetAim.PRIORITY else aim)
    solve(programme.model, settings)
    price = {name: abs(row.pi or 0.0) for name, row in programme.model.constraints.items()}
    value = float(pulp.value(programme.model.objective))
    return NodePrices(
        value=value,
        gpus=tuple(price[f"offered_{t}"] / host for t, host in enumerate(offer.hosts)),
        demands=tuple(price.get(f"served_{s}", 0.0) for s in range(len(offer.services))),
        rates_rps=tuple(float(rate.varValue or 0.0) for rate in programme.rates),
    )


def _in_order(offer: FleetOffer, settings: AssignmentSettings) -> Division:
    """One place in the order after the other: the share of its demands that is served, up to all of them."""
    promised: dict[int, float] = {}
    answers = []
    for place in sorted({service.priority for service in offer.services}):
        programme = FleetProgramme(offer)
        programme.aim_at_place(place, promised)
        answers.append(programme.solved(settings))
        promised[place] = answers[-1].value
    best = replace(
        answers[-1],
        value=sum(answer.value for answer in answers),
        bound=sum(min(1.0, answer.bound) for answer in answers),
        proven=all(answer.proven for answer in answers),
    )
    programme = FleetProgramme(offer)
    programme.keep_places(promised)
    return _tidied_by(programme, best, settings)


def cheapest_addition(offer: FleetOffer, settings: AssignmentSettings) -> Gpus:
    """GPUs, in whole nodes, that meet all demands together with those that are offered, for the least charge. Raises
    InfeasibleError where none do."""
    programme = FleetProgramme(offer, extensible=True)
    programme.aim(FleetAim.TARGET)
    charges = offer.charges if any(offer.charges) else (1.0,) * len(offer.counts)
    added = [(extra, charge * host) for extra, charge, host in zip(programme.extra, charges, offer.hosts, strict=True)]
    programme.model.setObjective(pulp.LpAffineExpression(added))
    solve(programme.model, settings)
    return tuple(host * round(extra.varValue or 0.0) for extra, host in zip(programme.extra, offer.hosts, strict=True))


def _tidied(offer: FleetOffer, aim: FleetAim, best: Division, settings: AssignmentSettings) -> Division:
    programme = FleetProgramme(offer)
    programme.keep(aim, best.value)
    return _tidied_by(programme, best, settings)


def _tidied_by(programme: "FleetProgramme", best: Division, settings: AssignmentSettings) -> Division:
    """As good a division with fewest deployments, and least charge among those; the best where none is found."""
    programme.fewest()
    try:
        tidy = programme.solved(replace(settings, work_limit=min(TIDYING, settings.work_limit), gap=TIDY))
    except (InfeasibleError, SolverError):  # within the tolerances of the solver there may be nothing as good
        return best
    return replace(tidy, value=best.value, bound=best.bound, proven=best.proven)


class FleetProgramme:
    """Deployments on one inventory. `divisible`: servers and nodes are, and nothing is chosen: the relaxation;
    `extensible`: there may be more nodes than are offered, `extra` of each stock."""

    def __init__(self, offer: FleetOffer, *, divisible: bool = False, extensible: bool = False) -> None:
        self.offer, self._divisible = offer, divisible
        most_extra = MOST_EXTRA if extensible else 0
        # a whole number would make the relaxation a search, which has no prices
        category = pulp.LpInteger if extensible else pulp.LpContinuous
        self.extra = [pulp.LpVariable(f"extra_{t}", 0, most_extra, category) for t in range(len(offer.counts))]
        self.model = pulp.LpProblem("fleet", pulp.LpMaximize)
        self._value: pulp.LpAffineExpression | None = None
        self.rates = [pulp.LpVariable(f"rate_{j}", 0, _finite(d.most_rps)) for j, d in enumerate(offer.deployments)]
        self._nodes: dict[tuple[int, int], pulp.LpVariable] = {}
        self._parts: dict[tuple[int, int], pulp.LpVariable] = {}
        self._open: list[pulp.LpVariable] = []
        self._rows = [self._deployment(j) for j in range(len(offer.deployments))]
        self._define_stocks()
        self._served = [self._define_service(s) for s in range(len(offer.services))]
        for n, limit in enumerate(() if divisible else offer.limits):
            self._define_limit(n, limit)

    def _deployment(self, j: int) -> list[PoolRows]:
        deployment = self.offer.deployments[j]
        rows = [
            PoolRows(self.model, self._with_extra(offer), partition, f"d{j}_{a}_", divisible=self._divisible)
            for a, (offer, partition) in enumerate(deployment.alternatives)
        ]
        for row in rows:
            # without it HiGHS, which solves small programmes unpresolved, has called a worse answer proven
            row.rate.upBound = _finite(deployment.most_rps)
        self.model += self.rates[j] - pulp.lpSum(row.rate for row in rows) <= 0, f"rate_{j}_of"
        optional = any(len(self._serving(s)) > 1 for s in deployment.serves)
        if not self._divisible and (len(rows) > 1 or optional):
            chosen = [pulp.LpVariable(f"chosen_{j}_{a}", cat=pulp.LpBinary) for a in range(len(rows))]
            for row, choice in zip(rows, chosen, strict=True):
                self.model += row.rate - deployment.most_rps * choice <= 0
                # what is not chosen has no servers, so that nobody is charged for them
                for variable in row.servers.values():
                    self.model += variable - variable.upBound * choice <= 0
            self.model += pulp.lpSum(chosen) <= 1, f"one_of_{j}"
            self._open += chosen if optional else []
        return rows

    def _with_extra(self, offer: BucketOffer) -> BucketOffer:
        """The offer with as many GPUs as there may be."""
        extra = (int(nodes.upBound) * host for nodes, host in zip(self.extra, self.offer.hosts, strict=True))
        return replace(offer, counts=tuple(count + more for count, more in zip(offer.counts, extra, strict=True)))

    def _serving(self, service: int) -> list[int]:
        """Deployments that may serve a service."""
        return [j for j, deployment in enumerate(self.offer.deployments) if service in deployment.serves]

    def _define_stocks(self) -> None:
        offer, category = self.offer, pulp.LpContinuous if self._divisible else pulp.LpInteger
        for t, (count, host) in enumerate(zip(offer.counts, offer.hosts, strict=True)):
            whole_nodes, part_gpus = divmod(count, host)
            for j, rows in enumerate(self._rows):
                # a bound of its own would take its part of a node's price
                upper = None if self._divisible else whole_nodes + self.extra[t].upBound
                self._nodes[j, t] = pulp.LpVariable(f"nodes_{j}_{t}", 0, upper, category)
                room = host * self._nodes[j, t]
                if part_gpus:
                    self._parts[j, t] = pulp.LpVariable(f"part_{j}_{t}", 0, 1, category)
                    room = room + part_gpus * self._parts[j, t]
                self.model += pulp.lpSum(row.used(t) for row in rows) - room <= 0, f"node_{j}_{t}"
            nodes = pulp.lpSum(self._nodes[j, t] for j in range(len(self._rows)))
            self.model += nodes - self.extra[t] <= whole_nodes, f"offered_{t}"
            if part_gpus:
                self.model += pulp.lpSum(self._parts[j, t] for j in range(len(self._rows))) <= 1, f"part_of_{t}"

    def _define_service(self, s: int) -> pulp.LpVariable:
        serving = [(j, self.offer.deployments[j]) for j in self._serving(s)]
        most_rps = sum(deployment.most_rps * deployment.serves[s] for _, deployment in serving)
        served = pulp.LpVariable(f"promised_{s}", 0, None if self._divisible else _finite(most_rps))
        terms = [(self.rates[j], deployment.serves[s]) for j, deployment in serving]
        self.model += pulp.LpAffineExpression(terms) - served >= 0, f"served_{s}"
        return served

    def _define_limit(self, n: int, limit: RateLimit) -> None:
        """No more than was worked out, unless there is more of some stock."""
        j, beyond = limit.deployment, []
        for t, gpus in enumerate(limit.gpus):
            if gpus < self.offer.counts[t]:
                more = pulp.LpVariable(f"more_{n}_{t}", cat=pulp.LpBinary)
                self.model += self._gpus(j, t) - (gpus + 1) * more >= 0
                beyond.append(more)
        self.model += self.rates[j] - self.offer.deployments[j].most_rps * pulp.lpSum(beyond) <= limit.rate_rps

    def _gpus(self, j: int, t: int) -> pulp.LpAffineExpression:
        """GPUs that a deployment has of a stock."""
        host, part_gpus = self.offer.hosts[t], self.offer.counts[t] % self.offer.hosts[t]
        return host * self._nodes[j, t] + (part_gpus * self._parts[j, t] if (j, t) in self._parts else 0)

    def charge(self) -> pulp.LpAffineExpression:
        """USD/hour of all nodes that deployments have."""
        charges = self.offer.charges
        return pulp.lpSum(charges[t] * self._gpus(j, t) for j, t in self._nodes)

    def aim(self, aim: FleetAim) -> None:
        """What is to be best."""
        services = self.offer.services
        if aim is FleetAim.TARGET:
            self.model.sense = pulp.LpMinimize
            self._value = self.charge()
            for s, service in enumerate(services):
                self.model += self._served[s] >= service.demand_rps, f"demand_{s}"
        elif aim is FleetAim.WEIGHTED:
            self._value = pulp.lpSum(services[s].weight * served for s, served in enumerate(self._served))
            for s, service in enumerate(services):
                self.model += self._served[s] <= service.demand_rps, f"demand_{s}"
                self.model += self._served[s] >= service.floor * service.demand_rps, f"floor_{s}"
        else:
            multiple = pulp.LpVariable("multiple", 0, MOST_MULTIPLE)
            for s, service in enumerate(services):
                self.model += self._served[s] - service.demand_rps * multiple >= 0, f"demand_{s}"
            self._value = 1 * multiple
        self.model.setObjective(self._value)

    def aim_at_place(self, place: int, promised: dict[int, float]) -> None:
        """The share of the demands at one place in the order; those before it keep theirs."""
        share = pulp.LpVariable("share", 0, 1)
        self.keep_places(promised)
        for s, service in enumerate(self.offer.services):
            if service.priority == place:
                self.model += self._served[s] - service.demand_rps * share >= 0, f"share_{s}"
        self._value = 1 * share
        self.model.setObjective(self._value)

    def keep_places(self, promised: dict[int, float]) -> None:
        """Shares of the demands that are promised already, and floors."""
        for s, service in enumerate(self.offer.services):
            share = promised.get(service.priority, 0.0) * (1 - KEPT)
            floor_rps = max(share, service.floor) * service.demand_rps
            self.model += self._served[s] >= floor_rps, f"floor_{s}"

    def keep(self, aim: FleetAim, value: float) -> None:
        """Whatever else is asked for, the objective has this value."""
        self.aim(aim)
        assert self._value is not None, "an aim has a value"
        if aim is FleetAim.TARGET:
            self.model += self._value <= value * (1 + KEPT), "kept"
        else:
            self.model += self._value >= value * (1 - KEPT), "kept"

    def fewest(self) -> None:
        """Fewest deployments, and least charge, or fewest GPUs where they cost nothing, among those."""
        charge = self.charge()
        if not any(self.offer.charges):
            charge = pulp.lpSum(self._gpus(j, t) for j, t in self._nodes)
        every = sum(c * n for c, n in zip(self.offer.charges, self.offer.counts, strict=True)) or sum(self.offer.counts)
        self.model.sense = pulp.LpMinimize
        self.model.setObjective(pulp.lpSum(self._open) + charge * (1 / (2 * every)))

    def solved(self, settings: AssignmentSettings) -> Division:
        """The division. Raises InfeasibleError and SolverError as `solve` does."""
        minimises = self.model.sense == pulp.LpMinimize
        outcome = solve(self.model, settings)
        value = float(pulp.value(self.model.objective))
        bound = dual_bound(self.model, value if outcome.proven else None)
        sign = 1.0 if minimises else -1.0
        bound = value if bound is None else bound * (1 - sign * SLACK)
        return Division(
            value=value,
            bound=min(bound, value) if minimises else max(bound, value),
            shares=tuple(
                float(served.varValue or 0.0) / service.demand_rps
                for served, service in zip(self._served, self.offer.services, strict=True)
            ),
            rates_rps=tuple(float(rate.varValue or 0.0) for rate in self.rates),
            gpus=tuple(self._gpus_of(j) for j in range(len(self._rows))),
            proven=proves(value, bound, settings.gap),
        )

    def _gpus_of(self, j: int) -> Gpus:
        """GPUs of a deployment: none where it has no rate."""
        if not (self.rates[j].varValue or 0.0) > KEPT:
            return (0,) * len(self.offer.counts)
        gpus = []
        for t, count in enumerate(self.offer.counts):
            host = self.offer.hosts[t]
            gpus_of_nodes = host * round(self._nodes[j, t].varValue or 0.0)
            part = (j, t) in self._parts and (self._parts[j, t].varValue or 0.0) > SURE
            gpus.append(gpus_of_nodes + (count % host if part else 0))
        return tuple(gpus)


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


def alternatives_of(
    offers: Sequence[BucketOffer], partitions: Sequence[Partition]
) -> tuple[tuple[BucketOffer, Partition], ...]:
    """Every offer with every partition that it has servers for in every bucket."""
    return tuple((offer, partition) for offer in offers for partition in partitions if _serves(offer, partition))


def _serves(offer: BucketOffer, partition: Partition) -> bool:
    served = {place for home, _ in columns_of(offer, partition) for place in offer.served_by(home)}
    return all(place in served for place in places_of(partition))
