"""A plan's routing table on a uniform grid of prompt lengths, as length-blind routers below a grid router run it."""

from dataclasses import dataclass

from planner.domain.layout import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGrid:
    """One phase: pools of islands, and the pool of each of the cells of `width` tokens that begin with length 0.

    A pool takes the prompts of its cells as they come and spreads them over its islands by load, blind to length.
    `plan_rps` and `grid_rps` (requests/s): what the phase serves at exact lengths by the plan's table and by the
    grid's, each with the batches that it deploys.
    """

    phase: Phase
    width: int
    pools: tuple[tuple[str, ...], ...]
    cells: tuple[int, ...]
    plan_rps: float
    grid_rps: float

    @property
    def end(self) -> int:
        """Tokens where the grid ends."""
        return self.width * len(self.cells)

    def pool_of(self, tokens: int) -> int:
        """The pool of a prompt; what is longer than the grid goes to its last cell."""
        return self.cells[min(tokens // self.width, len(self.cells) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterGrid:
    """Both phases. `planned_rps`: the plan's rate as the plan tells it (requests/s); midpoints, queues or a network may
    set it apart from `plan_rps`."""

    planned_rps: float
    prefill: PoolGrid
    decode: PoolGrid

    @property
    def plan_rps(self) -> float:
        """Requests/s of the plan at exact lengths."""
        return min(self.prefill.plan_rps, self.decode.plan_rps)

    @property
    def grid_rps(self) -> float:
        """Requests/s by the grid at exact lengths."""
        return min(self.prefill.grid_rps, self.decode.grid_rps)

    @property
    def cost(self) -> float:
        """Share of the plan's rate that the grid gives up; below 0 where the plan's table leaves room."""
        return 1 - self.grid_rps / self.plan_rps

    @property
    def cost_text(self) -> str:
        """The cost in words, like with like, and the plan's rate where it is another."""
        rates = f"{self.grid_rps:.4g} of the {self.plan_rps:.4g} requests/s of the plan's own table"
        way = "less" if self.cost > 0 else "more"
        same = f"{self.planned_rps:.4g}" == f"{self.plan_rps:.4g}"
        planned = "" if same else f"; the plan tells {self.planned_rps:.4g}"
        return f"{abs(self.cost):.1%} {way}, {rates} at exact lengths{planned}"

    def phase(self, phase: Phase) -> PoolGrid:
        """The grid of one phase."""
        return self.prefill if phase is Phase.PREFILL else self.decode
