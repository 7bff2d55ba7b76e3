"""Pools of islands as Dynamo's GlobalRouter can address them: every cell of a uniform grid of prompt lengths goes to
one pool, and a pool spreads its requests by load, blind to length.

They come from the grid that the plan was put on, or, without one, from a routing table that is a grid already.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose

from planner.domain import Phase, PoolGrid, Route
from planner.errors import ExportError, InconsistentPlanError
from planner.export.islands import ServingIsland
from planner.export.seams import Deployment

_SHARE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Islands of one phase behind one local router; `index` is the number by which the GlobalRouter knows it."""

    phase: Phase
    index: int
    islands: tuple[ServingIsland, ...]

    @property
    def title(self) -> str:
        """The pool for a reader of messages."""
        return f"{self.phase} pool {self.index} ({', '.join(island.id for island in self.islands)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePools:
    """The pools of a phase, and the pool of each cell of `width` tokens from length 0 on."""

    phase: Phase
    width: int
    cells: tuple[int, ...]
    pools: tuple[Pool, ...]


def phase_pools(deployment: Deployment, phase: Phase) -> PhasePools:
    """The pools of one phase.

    Raises:
        ExportError: no grid is given, and the routing table is none.
        InconsistentPlanError: the grid is not that of the routing table.
    """
    if deployment.grid is not None:
        return _of_grid(deployment, deployment.grid.phase(phase))
    return _of_table(deployment, phase)


def _of_grid(deployment: Deployment, grid: PoolGrid) -> PhasePools:
    _check_grid(deployment.plan.routing, grid)
    islands = {island.id: island for island in deployment.islands}
    pools = tuple(
        Pool(phase=grid.phase, index=index, islands=tuple(islands[name] for name in names))
        for index, names in enumerate(grid.pools)
    )
    return PhasePools(phase=grid.phase, width=grid.width, cells=grid.cells, pools=pools)


def _check_grid(routing: Sequence[Route], grid: PoolGrid) -> None:
    """Raises InconsistentPlanError where the grid is not the table's: another pool takes a length than its islands."""
    by_span: dict[tuple[int, int], set[str]] = {}
    for route in routing:
        if route.phase is grid.phase and route.share > 0:
            by_span.setdefault((route.range_start, route.range_end), set()).add(route.island)
    for (start, end), islands in sorted(by_span.items()):
        for length in (start, end - 1):
            pool = grid.pools[grid.cells[min(length // grid.width, len(grid.cells) - 1)]]
            if islands != set(pool):
                names = ", ".join(sorted(islands))
                raise InconsistentPlanError(
                    f"Target dynamo, grid: must send {grid.phase} of {length} tokens to {names} as the routing table, "
                    f"got {', '.join(pool)}."
                )


def _of_table(deployment: Deployment, phase: Phase) -> PhasePools:
    routes = [route for route in deployment.plan.routing if route.phase is phase]
    if not routes:
        raise ExportError(
            f"Target dynamo, {phase}: needs ranges and islands for both phases, got none.",
            hint="Plan prefill and decode, or export for another target.",
        )
    width = _width(routes, phase)
    groups = _groups(routes, phase)
    names = list(dict.fromkeys(tuple(shares) for shares in groups.values()))
    islands = {island.id: island for island in deployment.islands}
    return PhasePools(
        phase=phase,
        width=width,
        cells=_cells({start // width: names.index(tuple(shares)) for start, shares in groups.items()}),
        pools=tuple(
            Pool(phase=phase, index=index, islands=tuple(islands[name] for name in ids))
            for index, ids in enumerate(names)
        ),
    )


def _width(routes: Sequence[Route], phase: Phase) -> int:
    width = min(route.range_end - route.range_start for route in routes)
    if any(route.range_start % width or route.range_end - route.range_start != width for route in routes):
        raise _not_a_grid(phase, "ranges of one width, each beginning at a multiple of it")
    return width


def _groups(routes: Sequence[Route], phase: Phase) -> dict[int, dict[str, float]]:
    """Start of a range -> its islands and their shares, sorted by id: the same for all ranges of a pool."""
    groups: dict[int, dict[str, float]] = {}
    for route in sorted(routes, key=lambda route: (route.range_start, route.island)):
        if route.share > 0:
            groups.setdefault(route.range_start, {})[route.island] = route.share
    first: dict[str, dict[str, float]] = {}
    for shares in groups.values():
        for island in shares:
            if not _same(first.setdefault(island, shares), shares):
                raise _not_a_grid(phase, f"every range of an island shared out alike, which {island}'s are not")
    return groups


def _same(first: Mapping[str, float], second: Mapping[str, float]) -> bool:
    return first.keys() == second.keys() and all(isclose(first[i], second[i], abs_tol=_SHARE_TOLERANCE) for i in first)


def _cells(pool_of: Mapping[int, int]) -> tuple[int, ...]:
    """The pool of every cell; one without requests takes that of the next above, as the routing table does."""
    pool, cells = pool_of[max(pool_of)], []
    for cell in range(max(pool_of), -1, -1):
        pool = pool_of.get(cell, pool)
        cells.append(pool)
    return tuple(cells[::-1])


def _not_a_grid(phase: Phase, needed: str) -> ExportError:
    return ExportError(
        f"Target dynamo, {phase}: Dynamo's routers know a uniform grid of lengths and no shares, so the routing table "
        f"must have {needed}.",
        hint="Bring the plan onto a grid: `planner export` does (--grid-cells), as does runs.deployments.render_plan.",
    )
