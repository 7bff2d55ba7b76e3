"""The best set of islands that small clusters hold, as a mixed-integer programme; the greedy's order may miss it.

| symbol | meaning | unit |
|---|---|---|
| z[i] | 1 where island i has a place | 0/1 |
| y[i, n, v] | groups of island i on node n that take v[k] GPUs of NUMA node k (vectors that its QoS admits) | 1 |
| s[i, n] | servers of a spread island i on node n: sum_v y[i, n, v] = groups of a server x s[i, n] | 1 |
| e[p] | 1 where pod p goes (without evictions there are none) | 0/1 |
| g_f | share that phase f gets of the rate of its islands (of their GPUs where rates are not known) | 1 |

sum_nv y[i, n, v] = groups of i x z[i]. What the groups of a node take of GPUs, of the cores of each NUMA node (where
alignment binds; else of all), of CPUs and of memory is at most what is free, and what pods that go held.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pulp

from planner.domain import AssignmentSettings, PlacementDemand, Pod
from planner.domain.node_room import ROUNDING, Ask, Left
from planner.domain.shapes import Counts, admits
from planner.errors import InfeasibleError, SolverError
from planner.milp import solve
from planner.placement.islands.evictions.eviction_order import gains
from planner.placement.islands.exact import vectors
from planner.placement.islands.fleet import Fleet, HeldGroup, Occupancy, Site, ask_of

MOST_COLUMNS = 600
"""Choices of a node and its NUMA nodes, over all islands: more would take longer than a fifth of a second."""

MOST_WITH_PODS = 400
"""The same where pods may go, as three programmes are solved then."""

MOST_NODES = 1_000
MOST_ISLANDS = 100
"""Beyond, programmes would be too large in any case."""

WORK_LIMIT = 20.0
"""Of one programme; not of time, so that equal inputs give equal answers on any machine."""

TOLERANCE = 1e-6
"""Shares are sums of floats."""

Groups = list[tuple[int, Counts]]
"""(node, GPUs of each of its NUMA nodes) of each group."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Groups of each island that has a place, and who goes."""

    groups: Mapping[str, Groups]
    pods: Mapping[int, tuple[Pod, ...]]


@dataclass(slots=True)
class Programme:
    """The programme while it is written down. `pods`: who may go, by node."""

    occupancy: Occupancy
    pods: Mapping[int, Sequence[Pod]]
    model: pulp.LpProblem = field(default_factory=lambda: pulp.LpProblem("islands", pulp.LpMaximize))
    chosen: dict[str, pulp.LpVariable] = field(default_factory=dict)
    takes: dict[tuple[str, int, Counts], pulp.LpVariable] = field(default_factory=dict)
    evicted: dict[str, pulp.LpVariable] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        demands: Sequence[PlacementDemand],
        occupancy: Occupancy,
        pods: Mapping[int, Sequence[Pod]],
        limits: Sequence[tuple[Mapping[str, float], float]] = (),
    ) -> "Programme | None":
        """None where it would be too large. `limits`: rows of what each pod takes of one, and how much there is."""
        programme, column_limit = cls(occupancy, pods), MOST_WITH_PODS if pods else MOST_COLUMNS
        by_node: dict[int, list[tuple[PlacementDemand, Ask, Counts]]] = {}
        columns = 0
        for demand in demands:
            ask = ask_of(demand)
            for node in occupancy.groups(ask):
                options = [(demand, ask, v) for v in programme.vectors(node, ask)]
                by_node.setdefault(node, []).extend(options)
                columns += len(options)
                # Given up before anything is written down.
                if columns > column_limit:
                    return None
        for node, options in by_node.items():
            programme.add_node(node, options)
        for demand in demands:
            programme.add_island(demand)
            programme.spread(demand)
        for weights, limit in limits:
            used = [weight * programme.evicted[key] for key, weight in weights.items() if key in programme.evicted]
            if used:
                programme.model += pulp.lpSum(used) <= limit
        return programme

    def vectors(self, node: int, ask: Ask) -> list[Counts]:
        """What a group may take of a node, were everybody gone who may go."""
        free, shape = self.occupancy.free[node], self.occupancy.fleet.shapes[node]
        for pod in self.pods.get(node, ()):
            # The rows take away again what pods hold that stay.
            free = free.plus(self.occupancy.fleet.held_by(node, [pod]))
        if not free.room(shape, ask) or (free.unlocated and ask.kind.qos.binds):
            return []  # where GPUs lie that nobody names is no vector
        return [v for v in vectors(free.offered(shape, ask.kind), ask.kind.tp) if admits(shape, ask.kind, v)]

    def add_node(self, node: int, options: Sequence[tuple[PlacementDemand, Ask, Counts]]) -> None:
        """Rows of one node: what its groups take is at most what is free there."""
        room = _Room(self.occupancy, node)
        for demand, ask, v in options:
            groups = demand.replicas * demand.groups
            column = pulp.LpVariable(f"take_{len(self.takes)}", 0, groups, cat=pulp.LpInteger)
            self.takes[demand.island, node, v] = column
            room.take(ask, v, column)
        for pod in self.pods.get(node, ()):
            self.evicted[pod.key] = pulp.LpVariable(f"evict_{len(self.evicted)}", cat=pulp.LpBinary)
            room.give(self.occupancy.fleet.held_by(node, [pod]), self.evicted[pod.key])
        for row in room.rows():
            self.model += row

    def add_island(self, demand: PlacementDemand) -> None:
        """Its groups are all there, or none."""
        self.chosen[demand.island] = pulp.LpVariable(f"island_{len(self.chosen)}", cat=pulp.LpBinary)
        columns = [column for (island, _, _), column in self.takes.items() if island == demand.island]
        self.model += pulp.lpSum(columns) == demand.replicas * demand.groups * self.chosen[demand.island]

    def spread(self, demand: PlacementDemand) -> None:
        """Whole servers on every node, and no more of the island than it may have, where it is spread."""
        spread, by_node = ask_of(demand).spread, dict[int, list[pulp.LpVariable]]()
        for (island, node, _), column in self.takes.items():
            if spread and island == demand.island:
                by_node.setdefault(node, []).append(column)
        for node, columns in by_node.items():
            assert spread is not None
            server_limit = spread.servers(self.occupancy.fleet.nodes[node].name)
            servers = pulp.LpVariable(f"servers_{len(self.chosen)}_{node}", 0, server_limit, cat=pulp.LpInteger)
            self.model += pulp.lpSum(columns) == demand.groups * servers

    def solve(self, objective: pulp.LpAffineExpression) -> float | None:
        """The most of an objective; None where nothing was found."""
        self.model.setObjective(objective)
        try:
            solve(self.model, AssignmentSettings(gap=0.0, work_limit=WORK_LIMIT))
        except (InfeasibleError, SolverError):
            return None
        return float(pulp.value(self.model.objective) or 0.0)

    def answer(self) -> Answer:
        """What was found last."""
        groups: dict[str, Groups] = {
            island: [] for island, column in self.chosen.items() if (column.varValue or 0) > 0.5
        }
        for (island, node, v), column in self.takes.items():
            if island in groups:
                groups[island] += [(node, v)] * round(column.varValue or 0)
        goes = {key for key, column in self.evicted.items() if (column.varValue or 0) > 0.5}
        pods = {node: tuple(pod for pod in those if pod.key in goes) for node, those in self.pods.items()}
        return Answer(groups, {node: those for node, those in pods.items() if those})


class _Room:
    """What is taken of one node, and what is there."""

    def __init__(self, occupancy: Occupancy, node: int) -> None:
        free, self.shape = occupancy.free[node], occupancy.fleet.shapes[node]
        numas = range(len(free.gpus))
        self.gpus: list[list[pulp.LpAffineExpression]] = [[] for _ in numas]
        self.near: list[list[pulp.LpAffineExpression]] = [[] for _ in numas]
        self.cores: list[pulp.LpAffineExpression] = []
        self.memory: list[pulp.LpAffineExpression] = []
        self.free_gpus = [pulp.LpAffineExpression(constant=count) for count in free.gpus]
        self.unlocated = pulp.LpAffineExpression(constant=free.unlocated)
        self.free_cores = [pulp.LpAffineExpression(constant=count) for count in free.cores]
        self.free_cpus = pulp.LpAffineExpression(constant=free.cpus + ROUNDING)
        self.free_memory = pulp.LpAffineExpression(constant=free.memory_gb + ROUNDING)

    def take(self, ask: Ask, v: Counts, column: pulp.LpVariable) -> None:
        """Groups that take v each."""
        for numa, count in enumerate(v):
            if count:
                self.gpus[numa].append(count * column)
                if ask.kind.qos.binds and ask.kind.cores_per_gpu and self.shape.lists_cores:
                    self.near[numa].append(count * ask.kind.cores_per_gpu * column)
        if ask.cores:
            self.cores.append(ask.cores * column)
        if ask.memory_gb:
            self.memory.append(ask.memory_gb * column)

    def give(self, holding: Left, column: pulp.LpVariable) -> None:
        """What a pod held, where it goes."""
        for free, counts in ((self.free_gpus, holding.gpus), (self.free_cores, holding.cores)):
            for numa, count in enumerate(counts):
                if count:
                    free[numa] += count * column
        self.unlocated += holding.unlocated * column
        self.free_cpus += holding.cpus * column
        self.free_memory += holding.memory_gb * column

    def rows(self) -> Iterable[pulp.LpConstraint]:
        """Nothing is taken that is not there."""
        for uses, free in zip(self.gpus + self.near, self.free_gpus + self.free_cores, strict=True):
            if uses:
                yield pulp.lpSum(uses) <= free
        # GPUs that pods hold nobody knows where are missing from the sum, and from no NUMA node.
        if any(self.gpus) and self.unlocated:
            yield pulp.lpSum(self.gpus) <= pulp.lpSum(self.free_gpus) - self.unlocated
        if self.cores:
            yield pulp.lpSum(self.cores) <= self.free_cpus
            if self.shape.lists_cores:
                yield pulp.lpSum(self.cores) <= pulp.lpSum(self.free_cores)
        if self.memory:
            yield pulp.lpSum(self.memory) <= self.free_memory


def most_gpus(
    demands: Sequence[PlacementDemand], placed: Mapping[str, Site], occupancy: Occupancy
) -> tuple[dict[str, Site], bool]:
    """Islands that together hold more GPUs than those that are `placed`, else those; and whether none hold more.

    `occupancy` is kept in step. Only types of which some island has no place are placed anew. The phase that has least
    never gets less than it has. Programmes that would be too large are not solved.
    """
    types = {demand.gpu for demand in demands if demand.island not in placed}
    of_types = [demand for demand in demands if demand.gpu in types]
    if len(of_types) > MOST_ISLANDS or len(occupancy.fleet.nodes) > MOST_NODES:
        return dict(placed), False
    old = {demand.island: placed[demand.island] for demand in of_types if demand.island in placed}
    if not any(_could_be_more(gpu, of_types, old, occupancy.fleet) for gpu in types):
        return dict(placed), True
    for site in old.values():
        site.leave(occupancy)
    answer = _most_gpus(demands, of_types, placed, occupancy)
    if answer is None or not answer.groups:
        for site in old.values():
            site.enter(occupancy)
        return dict(placed), answer is not None
    sites = {island: site for island, site in placed.items() if island not in old}
    # Those bound to NUMA nodes first: their cores must be near, others take what is left.
    for demand in sorted((d for d in of_types if d.island in answer.groups), key=lambda d: not d.qos.binds):
        sites[demand.island] = hold_groups(occupancy, demand, answer.groups[demand.island])
    return {demand.island: sites[demand.island] for demand in demands if demand.island in sites}, True


def _could_be_more(gpu: str, of_types: Iterable[PlacementDemand], old: Mapping[str, Site], fleet: Fleet) -> bool:
    """Whether any set of islands of a type has more GPUs than those that have a place, and no more than are idle."""
    idle = sum(fleet.free[node].idle for node in fleet.of_type([gpu]))
    # Sums of subsets as bits of one number: cheap beside a programme, and mostly the end.
    sums = 1  # bit k: some set has k GPUs
    for demand in of_types:
        if demand.gpu == gpu:
            sums |= (sums << demand.size) & ((2 << idle) - 1)
    return sums.bit_length() - 1 > sum(site.demand.size for site in old.values() if site.demand.gpu == gpu)


def _most_gpus(
    demands: Sequence[PlacementDemand],
    of_types: Sequence[PlacementDemand],
    placed_sites: Mapping[str, Site],
    occupancy: Occupancy,
) -> Answer | None:
    """None where it is not known; an answer without groups: none hold more."""
    programme = Programme.of(of_types, occupancy, {})
    if programme is None:
        return None
    gain = gains(demands)
    placed = _shares(demands, gain, placed_sites)
    floor = min(placed.values(), default=0.0)
    moving = {demand.island for demand in of_types}
    for phase, share in _shares(demands, gain, placed_sites.keys() - moving).items():
        more = [gain[d.island] * programme.chosen[d.island] for d in of_types if d.phase == phase and d.island in gain]
        # The phase that has least decides what is served: more GPUs must not cost it any.
        if share < floor and more:
            programme.model += pulp.lpSum(more) >= floor - share - TOLERANCE
    sizes = {demand.island: demand.size for demand in of_types}
    most_gpus_held = programme.solve(pulp.lpSum(sizes[island] * column for island, column in programme.chosen.items()))
    before = sum(sizes[island] for island in placed_sites if island in sizes)
    if most_gpus_held is None:
        return None
    # GPUs are whole: less than half of one is the solver's tolerance.
    return programme.answer() if most_gpus_held > before + 0.5 else Answer({}, {})


def _shares(demands: Iterable[PlacementDemand], gain: Mapping[str, float], placed: Iterable[str]) -> dict[str, float]:
    """What each phase has."""
    names = set(placed)
    got: dict[str, float] = {}
    for demand in demands:
        got[demand.phase] = got.get(demand.phase, 0.0) + gain.get(demand.island, 0.0) * (demand.island in names)
    return got


def hold_groups(occupancy: Occupancy, demand: PlacementDemand, groups: Groups) -> Site:
    """Hold just these groups; replicas lie as closely as they let them."""
    ask, fleet = ask_of(demand), occupancy.fleet
    order = _compactly(groups, fleet, demand.groups)
    return Site.of(demand, ask, [HeldGroup(node, gpus, occupancy.hold(node, ask, gpus)) for node, gpus in order])


def _compactly(groups: Groups, fleet: Fleet, size: int) -> Groups:
    """Whole replicas of each node, then of each place, then what is left."""
    remaining, ordered = sorted(groups), list[tuple[int, Counts]]()
    # Nodes, then places: what is left of each level is put together at the next.
    for key_of in (range(len(fleet.nodes)), fleet.places.of):
        by_key: dict[int, Groups] = {}
        for group in remaining:
            by_key.setdefault(key_of[group[0]], []).append(group)
        remaining = []
        for _, together in sorted(by_key.items(), key=lambda item: (-len(item[1]), item[0])):
            complete = len(together) // size * size
            ordered += together[:complete]
            remaining += together[complete:]
    return ordered + remaining
