"""Room for islands where pods have to go: one try, from a state of the cluster and in an order of islands.

For every closeness of an island (replicas inside nodes, under switches, anywhere; all of it under one switch or not)
the cheapest evictions are looked for; of those within the limits the score decides, topology against evicted GPUs.
Where the cheapest evictions by the scenario's rule break a limit, fewer pods or less lost work are tried. The islands
come as the limits suggest (next is the one that gains most for what it takes of them) or in a given order; in both the
phase that has got least so far comes first. `eviction_trials` makes several tries and keeps the best.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.domain import EvictionRule, PlacementDemand, PlacementSettings, Pod
from planner.domain.node_room import Ask, Left
from planner.placement.islands.evictions.eviction_curves import cheapest, joined, whole_units
from planner.placement.islands.evictions.eviction_limits import Allowance, Excess
from planner.placement.islands.evictions.eviction_order import Eviction, pods_in_order
from planner.placement.islands.filling import asks_of, hold_group, largest_first
from planner.placement.islands.fleet import Fleet, Occupancy, Site
from planner.placement.islands.scoring import island_topology
from planner.placement.victims import Candidate, Curve, Step, node_curve
from planner.placement.victims.cheapest_sets import Price, may_go, prices_of

MOST_NODES = 400
"""Full nodes that evictions are looked for on: those whose pods are the cheapest."""

MOST_TRIALS = 400
"""Islands still to be placed, times kinds of islands: above, the placer's own order has to do."""

ROUNDING = 1e-9

BY_RULE, FREEING, FEWEST = "the scenario's rule", "few pods that free much", "fewest pods"
LEAST_LOST, BUDGETS_LAST = "least lost work", "pods of disruption budgets last"
"""Orders in which pods go."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A way to place one island: nodes, groups on each, and who goes there, for a price."""

    demand: PlacementDemand
    ask: Ask
    shares: tuple[tuple[int, int, tuple[Pod, ...]], ...]
    price: Price

    @property
    def pods(self) -> list[Pod]:
        """Everybody who goes."""
        return [pod for _, _, pods in self.shares for pod in pods]


def kind_of(demand: PlacementDemand) -> PlacementDemand:
    """What the island asks for and gains, its name, partners and other forms aside."""
    return replace(demand, island="", feeds=(), forms=())


@dataclass(frozen=True, slots=True)
class Tariff:
    """What pods that may go cost, by the name of the order in which they go, and what each holds; tries share it.

    `curves`: of nodes with so much free and these pods, as far as they have been asked for.
    """

    prices: Mapping[str, Mapping[str, Price]]
    holds: dict[str, Left] = field(default_factory=dict)
    curves: dict[tuple[str, Ask, int, Left, tuple[str, ...]], Curve] = field(default_factory=dict)

    @classmethod
    def of(cls, pods: Mapping[int, Sequence[Pod]], settings: PlacementSettings, fleet: Fleet) -> "Tariff":
        """Prices of the pods of each node in every order; of pods that free alike, first where more is idle beside."""
        listed = [pod for those in pods.values() for pod in those]
        idle = {pod.key: -fleet.free[node].idle for node, those in pods.items() for pod in those}
        by_rule = prices_of(listed, settings, settings.victim_rule)
        least_lost = prices_of(listed, settings, EvictionRule.LOST_WORK)
        last = by_rule if settings.most_lost_gpu_hours is None else least_lost
        return cls(
            {
                BY_RULE: by_rule,
                FREEING: {pod.key: (1, -pod.gpu_count, idle[pod.key], *by_rule[pod.key]) for pod in listed},
                FEWEST: {key: (1, *price) for key, price in by_rule.items()},
                LEAST_LOST: least_lost,
                BUDGETS_LAST: {pod.key: (int(bool(pod.disruption_budget)), 1, *last[pod.key]) for pod in listed},
            }
        )


def pods_that_may_go(occupancy: Occupancy, gpus: Iterable[str], settings: PlacementSettings) -> dict[int, list[Pod]]:
    """Those of each node of these GPU types that may go by their priority."""
    fleet, types = occupancy.fleet, set(gpus)
    return {
        node: [pod for pod in pods if may_go(pod, settings.priority)]
        for node, pods in fleet.pods_of.items()
        if fleet.open[node] and fleet.nodes[node].gpu in types
    }


@dataclass(slots=True)
class Preemption:
    """A cluster whose pods may go, and what is left of the limits.

    `pods`: those of each node that may go by their priority; `orders`: names of prices, tried one after the other;
    `close`: of the cheapest ways for every closeness the score decides, else the price; `able`: pods that may go now,
    by node, and `curves` of nodes where nothing has changed (both found when asked for); `looked_at`: nodes asked about
    so far, which is the work done.
    """

    occupancy: Occupancy
    settings: PlacementSettings
    allowance: Allowance
    tariff: Tariff
    pods: dict[int, list[Pod]]
    orders: tuple[str, ...]
    close: bool = True
    able: dict[int, list[Pod]] | None = None
    curves: dict[tuple[str, Ask, int], Curve] = field(default_factory=dict)
    looked_at: int = 0

    @classmethod
    def of(
        cls,
        occupancy: Occupancy,
        settings: PlacementSettings,
        pods: Mapping[int, list[Pod]],
        tariff: Tariff,
        first: str = BY_RULE,
        *,
        close: bool = True,
    ) -> "Preemption":
        """Before any eviction of `pods`, by node. `first`: the order that is tried before the others."""
        orders = [first, BY_RULE]
        if settings.most_victims is not None:
            orders.append(FEWEST)
        if settings.most_lost_gpu_hours is not None and settings.victim_rule is not EvictionRule.LOST_WORK:
            orders.append(LEAST_LOST)
        if occupancy.fleet.cluster.disruption_budgets:
            orders.append(BUDGETS_LAST)
        allowance = Allowance.of(occupancy.fleet.cluster, settings)
        return cls(occupancy, settings, allowance, tariff, dict(pods), tuple(dict.fromkeys(orders)), close)

    def place(
        self,
        late: Sequence[PlacementDemand],
        gain: Mapping[str, float],
        got: dict[str, float],
        order: Sequence[PlacementDemand] | None = None,
    ) -> list[Eviction]:
        """Place as many of the islands as the limits allow, in the order of placing.

        `gain`: each island's share of its phase; `got`: what the phases have of their islands, which is kept up;
        `order`: the islands in the order in which they come (None: as the limits suggest).
        """
        turns = self._as_limits_suggest(late, gain, got) if order is None else self._in_turn(order, got)
        return [self._placed(proposal, gain, got) for proposal in turns]

    def place_all(
        self, order: Iterable[PlacementDemand], gain: Mapping[str, float], got: dict[str, float]
    ) -> list[Eviction]:
        """Place the islands in just this order, up to the first that finds no room."""
        done = []
        for demand in order:
            proposal = self._within(demand)
            if proposal is None:
                break
            done.append(self._placed(proposal, gain, got))
        return done

    def _placed(self, proposal: Proposal, gain: Mapping[str, float], got: dict[str, float]) -> Eviction:
        got[proposal.demand.phase] += gain.get(proposal.demand.island, 0.0)
        return self._carry_out(proposal)

    def has_room(self, demand: PlacementDemand) -> bool:
        """Whether evictions within the limits make room for an island now."""
        return self._within(demand) is not None

    def limits_of(self, demand: PlacementDemand) -> list[Excess]:
        """The limits that keep an island out now."""
        # Of all pods that may go by priority, or the limits themselves would hide what breaks them.
        ways = list(self._ways(demand, BY_RULE, self.pods))
        return list(self.allowance.broken_by(self._best(ways).pods)) if ways else []

    def _as_limits_suggest(
        self, late: Sequence[PlacementDemand], gain: Mapping[str, float], got: Mapping[str, float]
    ) -> Iterator[Proposal]:
        waiting = sorted(late, key=largest_first)
        while (proposal := self._next(waiting, gain, got)) is not None:
            waiting.remove(proposal.demand)
            yield proposal

    def _in_turn(self, order: Sequence[PlacementDemand], got: Mapping[str, float]) -> Iterator[Proposal]:
        """The first of the phase that has got least; who finds no room asks again once the others have had theirs."""
        waiting, aside, closed, moved = list(order), list[PlacementDemand](), set[PlacementDemand](), False
        while waiting:
            # Of equal phases the one that comes first in the order; sums of floats are rounded for that.
            demand = min(waiting, key=lambda candidate: round(got[candidate.phase], 9))
            waiting.remove(demand)
            proposal = None if kind_of(demand) in closed else self._within(demand)
            if proposal is None:
                closed.add(kind_of(demand))
                aside.append(demand)
            else:
                moved = True
                yield proposal
            if moved and not waiting:
                waiting, aside, closed, moved = aside, [], set(), False

    def _next(
        self, waiting: Sequence[PlacementDemand], gain: Mapping[str, float], got: Mapping[str, float]
    ) -> Proposal | None:
        """The island that is placed next, and how; None where none can be."""
        kinds: dict[PlacementDemand, PlacementDemand] = {}
        for demand in waiting:
            kinds.setdefault(kind_of(demand), demand)
        ranked = self.allowance.binds and len(waiting) * len(kinds) <= MOST_TRIALS
        proposals = []
        for place, demand in enumerate(kinds.values()):
            proposal = self._within(demand)
            # Without limits nothing is scarce, and ranking a large plan would ask too much.
            if proposal is not None and not ranked:
                return proposal
            if proposal is not None:
                worth = gain.get(demand.island, 0.0) / (self.allowance.share_of(proposal.pods) + ROUNDING)
                proposals.append(((bool(proposal.pods), round(got[demand.phase], 9), -worth, place), proposal))
        return min(proposals, key=lambda entry: entry[0])[1] if proposals else None

    def _within(self, demand: PlacementDemand) -> Proposal | None:
        """The best way to place an island within the limits, by the first order of prices that has one."""
        for order in self.orders:
            for spared in (False, True):  # the cheapest pods may all be of one budget
                ways = list(self._ways(demand, order, self._spared(order) if spared else self._able()))
                able = [way for way in ways if not any(self.allowance.broken_by(way.pods))]
                if able:
                    return self._best(able) if self.close else min(able, key=lambda way: way.price)
                if not self.allowance.budgets:
                    break
        return None

    def _able(self) -> Mapping[int, Sequence[Pod]]:
        """Pods of each node that may go now, each alone."""
        if self.able is None:
            self.able = {node: [pod for pod in pods if self.allowance.may_go(pod)] for node, pods in self.pods.items()}
        return self.able

    def _spared(self, order: str) -> Mapping[int, Sequence[Pod]]:
        """Of the pods of each disruption budget only the cheapest may go, as many as it allows."""
        of_budget: dict[str, list[str]] = defaultdict(list)
        for pod in (pod for those in self._able().values() for pod in those):
            if pod.disruption_budget:
                of_budget[pod.disruption_budget].append(pod.key)
        chosen = {
            key
            for budget, keys in of_budget.items()
            for key in sorted(keys, key=lambda k: (self.tariff.prices[order][k], k))[: self.allowance.budgets[budget]]
        }
        return {
            node: [pod for pod in pods if not pod.disruption_budget or pod.key in chosen]
            for node, pods in self._able().items()
        }

    def _best(self, ways: Sequence[Proposal]) -> Proposal:
        """The way of the best score; of equal ones the cheapest, then the closest."""
        if len(ways) == 1:
            return ways[0]
        scores = [self._score(way) for way in ways]
        return min(zip(scores, ways, strict=True), key=lambda pair: (-pair[0], pair[1].price))[1]

    def _score(self, way: Proposal) -> float:
        site = self._laid(way)
        topology = island_topology(site, self.occupancy.fleet)
        self._lifted(way, site)
        evicted = sum(pod.gpu_count for pod in way.pods) / way.demand.size
        weights = self.settings.weights
        return round(weights.topology * topology - weights.preemption * evicted, 9)

    def _ways(self, demand: PlacementDemand, order: str, pods: Mapping[int, Sequence[Pod]]) -> Iterator[Proposal]:
        """The cheapest ways, for every closeness, each once; `pods`: those of each node that may go."""
        keys = set()
        for ask in asks_of(demand):
            for step in self._cheapest(demand, ask, order, pods):
                key = (ask, tuple(sorted((node, groups) for node, groups, _ in step.shares)))
                if key not in keys:
                    keys.add(key)
                    yield Proposal(demand, ask, step.shares, step.price)

    def _cheapest(
        self, demand: PlacementDemand, ask: Ask, order: str, pods: Mapping[int, Sequence[Pod]]
    ) -> Iterator[Step]:
        """Inside nodes, under switches, anywhere: all of it in one place (`Places`), then spread."""
        replicas, unit = demand.replicas, demand.groups
        by_place: dict[int, list[Curve]] = defaultdict(list)
        for node in self._nodes(ask, order, pods):
            name = self.occupancy.fleet.nodes[node].name
            servers = replicas if ask.spread is None else min(replicas, ask.spread.servers(name))
            curve = self._curve(node, ask, order, pods, servers * unit)
            by_place[self.occupancy.fleet.places.of[node]].append(curve)
        inside = {s: joined((whole_units(c, unit) for c in curves), replicas) for s, curves in by_place.items()}
        steps = [cheapest(inside, replicas), cheapest({0: joined(inside.values(), replicas)}, replicas)]
        if unit > 1 and ask.spread is None:
            groups = {s: joined(curves, replicas * unit) for s, curves in by_place.items()}
            under = joined((whole_units(curve, unit) for curve in groups.values()), replicas)
            anywhere = joined(groups.values(), replicas * unit)
            steps += [
                cheapest(groups, replicas * unit),
                cheapest({0: under}, replicas),
                cheapest({0: anywhere}, replicas * unit),
            ]
        yield from (step for step in steps if step is not None)

    def _nodes(self, ask: Ask, order: str, pods: Mapping[int, Sequence[Pod]]) -> list[int]:
        """Nodes with room, and those whose pods are the cheapest to make room."""
        prices, suited, full = self.tariff.prices[order], [], []
        for node, groups in self.occupancy.groups(ask).items():
            if groups:
                suited.append(node)
            else:
                node_prices = sorted(prices[pod.key] for pod in pods.get(node, ()))
                if node_prices:
                    full.append((node_prices[: ask.kind.tp], node))  # a group's GPUs have no more holders
        return sorted([*suited, *(node for _, node in sorted(full)[:MOST_NODES])])

    def _curve(self, node: int, ask: Ask, order: str, pods: Mapping[int, Sequence[Pod]], group_limit: int) -> Curve:
        self.looked_at += 1
        going = pods.get(node, ())
        if pods is not self.able:  # of spared pods, which are asked about once
            return self._curve_of(node, ask, order, going)[: group_limit + 1]
        if (order, ask, node) not in self.curves:
            curve = self._curve_of(node, ask, order, going)
            if not all(self.allowance.allows(gone) for step in curve if step for _, _, gone in step.shares):
                curve = self._counted(node, ask, order, going, self.allowance.allows)
            self.curves[order, ask, node] = curve
        return self.curves[order, ask, node][: group_limit + 1]

    def _curve_of(self, node: int, ask: Ask, order: str, going: Sequence[Pod]) -> Curve:
        """The curve of a node on which these pods may go, limits aside, as another try knows it or found now."""
        key = (order, ask, node, self.occupancy.free[node], tuple(pod.key for pod in going))
        if key not in self.tariff.curves:
            self.tariff.curves[key] = self._counted(node, ask, order, going)
        return self.tariff.curves[key]

    def _counted(
        self,
        node: int,
        ask: Ask,
        order: str,
        going: Sequence[Pod],
        may_all_go: Callable[[Sequence[Pod]], bool] | None = None,
    ) -> Curve:
        fleet, prices, holds = self.occupancy.fleet, self.tariff.prices[order], self.tariff.holds
        for pod in going:
            if pod.key not in holds:
                holds[pod.key] = fleet.held_by(node, [pod])
        candidates = [Candidate(pod, holds[pod.key], prices[pod.key]) for pod in going]
        zero, free = (0,) * len(next(iter(prices.values()), ())), self.occupancy.free[node]
        return node_curve(node, fleet.shapes[node], free, candidates, ask, zero=zero, may_all_go=may_all_go)

    def _carry_out(self, proposal: Proposal) -> Eviction:
        """Place an island for good."""
        site = self._laid(proposal)
        self.forget(proposal.pods, {node for node, _, _ in proposal.shares})
        return Eviction(site, tuple(self.ordered(site, proposal.pods)))

    def forget(self, pods: Sequence[Pod], touched: Collection[int]) -> None:
        """Pods are gone, within the limits, and something lies on the nodes that were `touched`."""
        self.allowance.take(pods)
        gone = {pod.key for pod in pods}
        for node in {self.occupancy.fleet.number[pod.node] for pod in pods}:
            self.pods[node] = [pod for pod in self.pods[node] if pod.key not in gone]
        if pods:
            self.able = None
            if self.allowance.binds:
                self.curves.clear()  # they keep to the limits as they were
        self.curves = {key: curve for key, curve in self.curves.items() if key[2] not in touched}

    def ordered(self, site: Site, pods: Sequence[Pod]) -> list[Pod]:
        """Pods that go for a site, in the order in which they go."""
        return pods_in_order(site, pods, self.tariff.prices[BY_RULE], self.occupancy.fleet.number)

    def _laid(self, way: Proposal) -> Site:
        """Evict and hold. Whole replicas of a place first, nodes with the most groups first; then what is left."""
        occupancy, size = self.occupancy, way.demand.groups
        # Nodes with most groups first, so that replicas come to lie inside one node.
        by_place: dict[int, list[int]] = defaultdict(list)
        for node, groups, pods in sorted(way.shares, key=lambda share: (-share[1], share[0])):
            if pods:
                occupancy.evict(node, pods)
            by_place[occupancy.fleet.places.of[node]] += [node] * groups
        places = sorted(by_place.items(), key=lambda item: (-len(item[1]), item[0]))
        whole_nodes = [node for _, nodes in places for node in nodes[: len(nodes) // size * size]]
        other_nodes = [node for _, nodes in places for node in nodes[len(nodes) // size * size :]]
        placed = [hold_group(occupancy, way.ask, node) for node in (*whole_nodes, *other_nodes)]
        return Site.of(way.demand, way.ask, placed)

    def _lifted(self, way: Proposal, site: Site) -> None:
        """Undo `_laid`."""
        site.leave(self.occupancy)
        for node, _, pods in way.shares:
            if pods:
                self.occupancy.admit(node, pods)
