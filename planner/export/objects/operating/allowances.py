"""How many copies evictions may take at once, so that the plan keeps its promise even where all budgets are used up.

symbol   meaning                                              unit         source
n[i]     copies of island i                                   -            ParallelConfig.replicas
c[i]     what one of them serves of its prompts               requests/s   BucketPool.capacity_rps, or rate over busy
m[i]     copies that the plan was priced to lose of i         -            NodeLoss.servers
cell     a phase and a stretch of lengths, and the islands    -            Plan.routing
         that serve it
load     what a cell's islands serve at the plan's rate; 0    requests/s   sum of Route.rate_rps
         where they serve other cells, too: not known
share    of the rate that must survive; 0: nothing is asked   -            SurvivalSettings.share
x        copies that a budget lets go at once                 -

For every cell, with every budget at its worst (the fastest copies are gone):
  at least one copy is left
  where a share must survive: what is left serves share x load, and sum x / m <= 1, as no more copies are lost than the
  plan was priced for (queues of fewer copies are longer than their number says)
Where nothing must survive, x <= 1: one copy of many.

An island whose budget would be 0 beside the others' shares one with the islands of its cells, where that lets any go.
Evictions alone are counted: a node that fails meanwhile takes more.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from planner.domain import Phase, Plan, PlannedIsland

_CLOSE = 1e-9  # sums of rates in another order


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """An island's copies: how many, what each serves (requests/s), and how many the plan was priced to lose (0: none
    in particular)."""

    island: str
    copies: int
    each_rps: float
    priced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Who serves a bucket of a phase, at what load (requests/s)."""

    phase: Phase
    islands: frozenset[str]
    load_rps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """`copies` of these islands may be evicted at once."""

    islands: tuple[str, ...]
    copies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Crews:
    """All that serves, and the share of the rate that must survive."""

    crews: Mapping[str, Crew]
    cells: tuple[Cell, ...]
    share: float

    def keep(self, budgets: Iterable[Budget]) -> bool:
        """Whether every cell keeps what it must where all budgets are used up."""
        used = tuple(budgets)
        return all(self._keeps(cell, used) for cell in self.cells)

    def remaining(self, budgets: Iterable[Budget]) -> float | None:
        """Share of the plan's rate that is served where all budgets are used up; 1 at most. None where islands share
        some of their lengths with others, and not all, so that it is not known."""
        if not all(cell.load_rps for cell in self.cells):
            return None
        used = tuple(budgets)
        rests = [self._rest_rps(cell, used) / cell.load_rps for cell in self.cells if cell.load_rps > 0]
        return max(0.0, min([1.0, *rests]))

    def largest_budget(self, island: str) -> int:
        """The largest budget that an island can have at all."""
        crew = self.crews[island]
        return min(crew.copies, max(1, crew.priced) if self.share else 1)

    def _keeps(self, cell: Cell, budgets: Sequence[Budget]) -> bool:
        copies = sum(self.crews[island].copies for island in cell.islands)
        if copies <= sum(len(self._worst(cell, budget)) for budget in budgets):
            return False
        if not self.share:
            return True
        priced = sum(self._priced_share(cell, budget) for budget in budgets)
        return priced <= 1 + _CLOSE and self._rest_rps(cell, budgets) >= self.share * cell.load_rps * (1 - _CLOSE)

    def _worst(self, cell: Cell, budget: Budget) -> list[float]:
        """What the copies serve that a budget takes of a cell at worst."""
        of_budget = [self.crews[island] for island in budget.islands if island in cell.islands]
        return sorted((crew.each_rps for crew in of_budget for _ in range(crew.copies)), reverse=True)[: budget.copies]

    def _priced_share(self, cell: Cell, budget: Budget) -> float:
        priced_copies = [self.crews[island].priced for island in budget.islands if island in cell.islands]
        return budget.copies / max(1, min(priced_copies)) if priced_copies else 0.0

    def _rest_rps(self, cell: Cell, budgets: Sequence[Budget]) -> float:
        crews = [self.crews[island] for island in cell.islands]
        every_copy_rps = sum(crew.copies * crew.each_rps for crew in crews)
        return every_copy_rps - sum(sum(self._worst(cell, budget)) for budget in budgets)


def crews_of(plan: Plan) -> Crews:
    """The copies of `plan`, and what they must go on serving."""
    serving = {island.id: island for island in plan.islands if island.phase is not None}
    capacities = {pool.island: pool.capacity_rps for pool in plan.outlook.pools}
    priced = {loss.island: loss.servers for loss in plan.outlook.losses}
    return Crews(
        crews={
            name: Crew(
                island=name,
                copies=island.parallel.replicas if island.parallel else 1,
                each_rps=capacities.get(name, 0.0) or _each_rps(island),
                priced=priced.get(name, 0),
            )
            for name, island in serving.items()
        },
        cells=tuple(_cells(plan, serving)),
        share=plan.scenario.survive.share,
    )


def _each_rps(island: PlannedIsland) -> float:
    """Of one copy, busy all the time with what comes to the island."""
    copies = island.parallel.replicas if island.parallel else 1
    return island.rate_rps / island.utilisation / copies if island.utilisation else 0.0


def _cells(plan: Plan, serving: Mapping[str, PlannedIsland]) -> Iterator[Cell]:
    """The stretches of lengths of each phase; those with the same islands once."""
    groups: dict[tuple[Phase, int, int], set[str]] = {}
    for route in plan.routing:
        if route.share > 0 and route.island in serving:
            groups.setdefault((route.phase, route.range_start, route.range_end), set()).add(route.island)
    cells = dict.fromkeys((phase, frozenset(names)) for (phase, _, _), names in groups.items())
    stretches = Counter((phase, name) for phase, names in cells for name in names)
    for phase, names in cells:
        # what a copy does for one of several stretches is not known, so neither is what is left of them
        apart = all(stretches[phase, name] == 1 for name in names)
        rows = (route for route in plan.routing if route.phase is phase and route.island in names)
        yield Cell(phase=phase, islands=names, load_rps=sum(route.rate_rps for route in rows) if apart else 0.0)


def budgets_of(crews: Crews, *, joinable: bool) -> tuple[Budget, ...]:
    """A budget for every island; one for several together where `joinable` and they could not each have their own."""
    copies = _priced_copies(crews) if crews.share else _spare_copies(crews)
    if not joinable:
        return _alone(copies)
    budgets: list[Budget] = []
    for group in _groups(crews):
        alone = _alone({island: copies[island] for island in group})
        joint = _joint(crews, group) if len(group) > 1 and not all(budget.copies for budget in alone) else None
        budgets += [joint] if joint else alone
    return tuple(budgets)


def _priced_copies(crews: Crews) -> dict[str, int]:
    """Copies that each island can spare, where what is left must serve a share of the rate."""
    copies = dict.fromkeys(crews.crews, 0)
    grew = True
    while grew:  # in turns, so that no island takes what others could have
        grew = False
        for island in copies:
            more = copies | {island: copies[island] + 1}
            if copies[island] < crews.largest_budget(island) and crews.keep(_alone(more)):
                copies, grew = more, True
    return copies


def _spare_copies(crews: Crews) -> dict[str, int]:
    """The same where every cell must keep one copy, whatever it serves."""
    spare = [sum(crews.crews[island].copies for island in cell.islands) - 1 for cell in crews.cells]
    cells_of: dict[str, list[int]] = {island: [] for island in crews.crews}
    for number, cell in enumerate(crews.cells):
        for island in cell.islands:
            cells_of[island].append(number)
    copies = dict.fromkeys(crews.crews, 0)
    grew = True
    while grew:  # in turns, as above
        grew = False
        for island, cells in cells_of.items():
            if copies[island] < crews.largest_budget(island) and all(spare[number] > 0 for number in cells):
                copies[island] += 1
                for number in cells:
                    spare[number] -= 1
                grew = True
    return copies


def _alone(copies: Mapping[str, int]) -> tuple[Budget, ...]:
    return tuple(Budget(islands=(island,), copies=count) for island, count in copies.items())


def _joint(crews: Crews, group: Sequence[str]) -> Budget | None:
    """The largest common budget of islands that stand in for each other; None where no copy can be spared."""
    sizes = range(max(1, min(crews.largest_budget(island) for island in group)), 0, -1)
    budgets = (Budget(islands=tuple(group), copies=count) for count in sizes)
    return next((budget for budget in budgets if crews.keep([budget])), None)


def _groups(crews: Crews) -> Iterator[tuple[str, ...]]:
    """Islands that hang together by the cells that they serve, in the plan's order."""
    ungrouped = list(crews.crews)
    while ungrouped:
        group = {ungrouped[0]}
        while more := {i for cell in crews.cells if cell.islands & group for i in cell.islands} - group:
            group |= more
        yield tuple(island for island in ungrouped if island in group)
        ungrouped = [island for island in ungrouped if island not in group]
