"""Room for islands where pods have to go.

For every closeness of an island (replicas inside nodes, under switches, anywhere; all of it under one switch or not)
the cheapest evictions are looked for; of those within the limits the score decides, topology against evicted GPUs.
Under limits the island comes next that gains most for what it takes of them, of the phase that has got least so far;
where the cheapest evictions by the scenario's rule break a limit, fewer pods or less lost work are tried. All of it is
done once more with the pods first that free most GPUs: several islands may fit where one pod was. What serves more
is kept.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.domain import EvictionRule, PlacementDemand, PlacementSettings, Pod
from planner.placement.islands.eviction_curves import Curve, Held, Step, joined, least, node_curve, whole_units
from planner.placement.islands.eviction_limits import Allowance, Excess
from planner.placement.islands.eviction_order import Eviction, gains, pods_in_order
from planner.placement.islands.eviction_prices import Price, may_go, prices_of
from planner.placement.islands.filling import asks_of, hold_group, largest_first
from planner.placement.islands.fleet import Ask, Left, Occupancy
from planner.placement.islands.scoring import island_topology
from planner.placement.islands.sites import Site

MOST_NODES = 400
"""Full nodes that evictions are looked for on: those whose pods are the cheapest."""

MOST_TRIALS = 400
"""Islands still to be placed, times kinds of islands: above, the placer's own order has to do."""

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Proposal:
    """A way to place one island: nodes, groups on each, and who goes there, for a price."""

    demand: PlacementDemand
    ask: Ask
    taken: tuple[tuple[int, int, tuple[Pod, ...]], ...]
    price: Price

    @property
    def pods(self) -> list[Pod]:
        """Everybody who goes."""
        return [pod for _, _, pods in self.taken for pod in pods]


@dataclass(slots=True)
class Evictions:
    """Islands that came late, in the order of placing, and the limits that keep others out.

    `got`: the least that a phase has got of its islands, and what both have.
    """

    done: list[Eviction] = field(default_factory=list)
    kept_out: dict[str, list[Excess]] = field(default_factory=dict)
    got: tuple[float, float] = (0.0, 0.0)

    @property
    def pods(self) -> list[tuple[Pod, str]]:
        """Who goes, and for which island."""
        return [(pod, one.island) for one in self.done for pod in one.pods]


def evicted_for(
    late: Sequence[PlacementDemand],
    demands: Sequence[PlacementDemand],
    occupancy: Occupancy,
    settings: PlacementSettings,
) -> Evictions:
    """Place as many of the `late` islands as evictions within the limits allow, in `occupancy`; the other `demands`
    have room already."""

    def found_in(trial: Occupancy, *, freeing: bool) -> Evictions:
        types = {demand.gpu for demand in late}
        return Preemption.of(trial, types, settings, freeing=freeing).place(late, demands)

    if not Allowance.of(occupancy.fleet.cluster, settings).binds:
        return found_in(occupancy, freeing=False)
    plain, other = (found_in(occupancy.copy(), freeing=freeing) for freeing in (False, True))
    return found_in(occupancy, freeing=other.got > plain.got)


@dataclass(slots=True)
class Preemption:
    """A cluster whose pods may go, and what is left of the limits.

    `pods`: those of each node that may go by their priority; `own`: their prices by the scenario's rule; `orders`:
    prices that are tried one after the other; `holds`: what each holds; `curves`: of nodes where nothing has changed.
    """

    occupancy: Occupancy
    settings: PlacementSettings
    allowance: Allowance
    pods: dict[int, tuple[Pod, ...]]
    own: Mapping[str, Price]
    orders: tuple[Mapping[str, Price], ...]
    holds: dict[str, Left] = field(default_factory=dict)
    curves: dict[tuple[int, Ask, int], Curve] = field(default_factory=dict)

    @classmethod
    def of(
        cls, occupancy: Occupancy, gpus: Iterable[str], settings: PlacementSettings, *, freeing: bool = False
    ) -> "Preemption":
        """Before any eviction, on nodes of these GPU types. `freeing`: few pods that free many GPUs go first."""
        fleet, types = occupancy.fleet, set(gpus)
        pods = {
            node: tuple(pod for pod in pods if may_go(pod, settings.priority))
            for node, pods in fleet.pods_of.items()
            if fleet.open[node] and fleet.nodes[node].gpu in types
        }
        listed = [pod for those in pods.values() for pod in those]
        own = prices_of(listed, settings, settings.victim_rule)
        orders = [own]
        if freeing:
            orders.insert(0, {pod.key: (1, -pod.gpu_count, *own[pod.key]) for pod in listed})
        if settings.most_victims is not None:
            orders.append({key: (1, *price) for key, price in own.items()})
        if settings.most_lost_gpu_hours is not None and settings.victim_rule is not EvictionRule.LOST_WORK:
            orders.append(prices_of(listed, settings, EvictionRule.LOST_WORK))
        return cls(occupancy, settings, Allowance.of(fleet.cluster, settings), pods, own, tuple(orders))

    def place(self, late: Sequence[PlacementDemand], all_demands: Sequence[PlacementDemand]) -> Evictions:
        """Place as many of the islands as the limits allow; `all_demands`: with those that have room already."""
        evictions, gain = Evictions(), gains(all_demands)
        waiting = sorted(late, key=largest_first)
        got: dict[str, float] = defaultdict(float)
        for demand in all_demands:
            got[demand.phase] += 0.0 if demand in waiting else gain.get(demand.island, 0.0)
        while (proposal := self._next(waiting, gain, got)) is not None:
            waiting.remove(proposal.demand)
            got[proposal.demand.phase] += gain.get(proposal.demand.island, 0.0)
            evictions.done.append(self._carry_out(proposal))
        for demand in waiting:
            ways = list(self._ways(demand, 0, lambda _: True))
            evictions.kept_out[demand.island] = list(self.allowance.broken_by(self._best(ways).pods)) if ways else []
        evictions.got = (round(min(got.values()), 9), round(sum(got.values()), 9))
        return evictions

    def _next(
        self, waiting: Sequence[PlacementDemand], gain: Mapping[str, float], got: Mapping[str, float]
    ) -> Proposal | None:
        """The island that is placed next, and how; None where none can be."""
        kinds: dict[PlacementDemand, PlacementDemand] = {}
        for demand in waiting:
            kinds.setdefault(replace(demand, island="", feeds=()), demand)
        ranked = self.allowance.binds and len(waiting) * len(kinds) <= MOST_TRIALS
        found = []
        for place, demand in enumerate(kinds.values()):
            proposal = self._within(demand)
            if proposal is not None and not ranked:
                return proposal
            if proposal is not None:
                worth = gain.get(demand.island, 0.0) / (self.allowance.share_of(proposal.pods) + ROUNDING)
                found.append(((bool(proposal.pods), round(got[demand.phase], 9), -worth, place), proposal))
        return min(found, key=lambda one: one[0])[1] if found else None

    def _within(self, demand: PlacementDemand) -> Proposal | None:
        """The best way to place an island within the limits, by the first order of prices that has one."""
        for order in range(len(self.orders)):
            for allowed in (self.allowance.may_go, self._spared(order)):
                ways = list(self._ways(demand, order, allowed))
                able = [way for way in ways if not any(self.allowance.broken_by(way.pods))]
                if able:
                    return self._best(able)
                if not self.allowance.budgets:
                    break
        return None

    def _spared(self, order: int) -> Callable[[Pod], bool]:
        """Of the pods of each disruption budget only the cheapest may go, as many as it allows."""
        of_budget: dict[str, list[str]] = defaultdict(list)
        for pod in (pod for those in self.pods.values() for pod in those):
            if pod.disruption_budget and self.allowance.may_go(pod):
                of_budget[pod.disruption_budget].append(pod.key)
        chosen = {
            key
            for budget, keys in of_budget.items()
            for key in sorted(keys, key=lambda k: (self.orders[order][k], k))[: self.allowance.budgets[budget]]
        }
        return lambda pod: self.allowance.may_go(pod) and (not pod.disruption_budget or pod.key in chosen)

    def _best(self, ways: Sequence[Proposal]) -> Proposal:
        """The way of the best score; of equal ones the cheapest, then the closest."""
        if len(ways) == 1:
            return ways[0]
        scores = [self._score(way) for way in ways]
        return min(zip(scores, ways, strict=True), key=lambda one: (-one[0], one[1].price))[1]

    def _score(self, way: Proposal) -> float:
        site = self._laid(way)
        topology = island_topology(site, self.occupancy.fleet)
        self._lifted(way, site)
        evicted = sum(pod.gpu_count for pod in way.pods) / way.demand.size
        weights = self.settings.weights
        return round(weights.topology * topology - weights.preemption * evicted, 9)

    def _ways(self, demand: PlacementDemand, order: int, allowed: Callable[[Pod], bool]) -> Iterator[Proposal]:
        """The cheapest ways, for every closeness, each once; `allowed`: pods that may go."""
        seen = set()
        for ask in asks_of(demand):
            for step in self._cheapest(demand, ask, order, allowed):
                key = (ask, tuple(sorted((node, groups) for node, groups, _ in step.taken)))
                if key not in seen:
                    seen.add(key)
                    yield Proposal(demand, ask, step.taken, step.price)

    def _cheapest(
        self, demand: PlacementDemand, ask: Ask, order: int, allowed: Callable[[Pod], bool]
    ) -> Iterator[Step]:
        """Inside nodes, under switches, anywhere: all of it under one switch, then spread."""
        replicas, unit = demand.replicas, demand.groups
        by_switch: dict[int, list[Curve]] = defaultdict(list)
        for node in self._nodes(ask, order, allowed):
            curve = self._curve(node, ask, order, allowed, replicas * unit)
            by_switch[self.occupancy.fleet.switch_of[node]].append(curve)
        inside = {s: joined((whole_units(c, unit) for c in curves), replicas) for s, curves in by_switch.items()}
        found = [least(inside, replicas), least({0: joined(inside.values(), replicas)}, replicas)]
        if unit > 1:
            groups = {s: joined(curves, replicas * unit) for s, curves in by_switch.items()}
            under = joined((whole_units(curve, unit) for curve in groups.values()), replicas)
            anywhere = joined(groups.values(), replicas * unit)
            found += [
                least(groups, replicas * unit),
                least({0: under}, replicas),
                least({0: anywhere}, replicas * unit),
            ]
        yield from (step for step in found if step is not None)

    def _nodes(self, ask: Ask, order: int, allowed: Callable[[Pod], bool]) -> list[int]:
        """Nodes with room, and those whose pods are the cheapest to make room."""
        prices, suited, full = self.orders[order], [], []
        for node, groups in self.occupancy.groups(ask).items():
            if groups:
                suited.append(node)
            else:
                there = sorted(prices[pod.key] for pod in self.pods.get(node, ()) if allowed(pod))
                if there:
                    full.append((there[: ask.kind.tp], node))
        return sorted([*suited, *(node for _, node in sorted(full)[:MOST_NODES])])

    def _curve(self, node: int, ask: Ask, order: int, allowed: Callable[[Pod], bool], most: int) -> Curve:
        if allowed == self.allowance.may_go and (order, ask, node) in self.curves:
            return self.curves[order, ask, node][: most + 1]
        fleet, prices = self.occupancy.fleet, self.orders[order]
        for pod in self.pods.get(node, ()):
            if pod.key not in self.holds:
                self.holds[pod.key] = fleet.held_by(node, [pod])
        held = [Held(pod, self.holds[pod.key], prices[pod.key]) for pod in self.pods.get(node, ()) if allowed(pod)]
        zero = (0,) * len(next(iter(prices.values()), ()))
        shape = fleet.shapes[node]
        curve = node_curve(node, shape, self.occupancy.left(node), held, ask, zero=zero)
        if allowed == self.allowance.may_go:
            self.curves[order, ask, node] = curve
        return curve[: most + 1]

    def _carry_out(self, proposal: Proposal) -> Eviction:
        """Place an island for good."""
        site = self._laid(proposal)
        self.allowance.take(proposal.pods)
        gone = {pod.key for pod in proposal.pods}
        for node, _, pods in proposal.taken:
            if pods:
                self.pods[node] = tuple(pod for pod in self.pods[node] if pod.key not in gone)
        touched = {node for node, _, _ in proposal.taken}
        anywhere = any(pod.disruption_budget for pod in proposal.pods)
        self.curves = {key: curve for key, curve in self.curves.items() if not anywhere and key[2] not in touched}
        numbers = self.occupancy.fleet.number
        return Eviction(site, tuple(pods_in_order(site, proposal.pods, self.own, numbers)))

    def _laid(self, way: Proposal) -> Site:
        """Evict and hold. Whole replicas of a switch first, nodes with the most groups first; then what is left."""
        occupancy, size = self.occupancy, way.demand.groups
        by_switch: dict[int, list[int]] = defaultdict(list)
        for node, groups, pods in sorted(way.taken, key=lambda one: (-one[1], one[0])):
            if pods:
                occupancy.evict(node, pods)
            by_switch[occupancy.fleet.switch_of[node]] += [node] * groups
        switches = sorted(by_switch.items(), key=lambda one: (-len(one[1]), one[0]))
        whole = [node for _, nodes in switches for node in nodes[: len(nodes) // size * size]]
        rest = [node for _, nodes in switches for node in nodes[len(nodes) // size * size :]]
        held = [hold_group(occupancy, way.ask, node) for node in (*whole, *rest)]
        return Site(way.demand, way.ask, tuple(tuple(held[k : k + size]) for k in range(0, len(held), size)))

    def _lifted(self, way: Proposal, site: Site) -> None:
        """Undo `_laid`."""
        site.leave(self.occupancy)
        for node, _, pods in way.taken:
            if pods:
                self.occupancy.admit(node, pods)
