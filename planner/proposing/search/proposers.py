"""Who chooses layouts: the seam between the outer loop and its methods."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import numpy as np

from planner.domain import Encoding, Goal, Inventory, SearchMethod, SearchSettings, Trial
from planner.errors import InputError
from planner.proposing.search.baselines import (
    GeneticProposer,
    GridProposer,
    RandomProposer,
    SobolProposer,
    SpreadProposer,
)
from planner.proposing.search.communication import Ground, all_cuts
from planner.proposing.search.graph_space import GraphSpace
from planner.proposing.search.space import DirectSpace, DividerSpace, Space


class Proposer(Protocol):
    """A way to choose the next points.

    A proposal is a function of the trials told, the round and `rng` alone, so that a search can go on in another
    process.
    """

    name: str

    @property
    def ready(self) -> bool:
        """Whether enough was told; until then points are spread over the space."""

    def propose(self, count: int, iteration: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """The next points, at most `count`; a point need not be canonical, nor new."""

    def tell(self, trials: Sequence[Trial]) -> None:
        """What became of a round. Trials without parameters are layouts that the encoding cannot express."""

    def saved(self) -> bytes | None:
        """The experiment as its library saves it; None where there is none."""


def _bayesian(
    space: Space, settings: SearchSettings, goals: tuple[Goal, ...], reference: tuple[float, ...]
) -> Proposer:
    from planner.proposing.search.experiment import AxProposer  # noqa: PLC0415  (torch and Ax only for a search that needs them)

    return AxProposer(space, settings, goals, reference)


_WITHOUT_A_MODEL: Mapping[SearchMethod, Callable[[Space, SearchSettings, tuple[Goal, ...]], Proposer]] = (
    MappingProxyType(
        {
            SearchMethod.RANDOM: lambda space, _settings, _goals: RandomProposer(space),
            SearchMethod.SOBOL: lambda space, settings, _goals: SobolProposer(
                space, settings.seed, settings.batch_size
            ),
            SearchMethod.GRID: lambda space, settings, _goals: GridProposer(
                space, settings.seed, settings.iterations, settings.batch_size
            ),
            SearchMethod.GENETIC: lambda space, _settings, goals: GeneticProposer(space, goals),
        }
    )
)


def proposer_of(
    space: Space, settings: SearchSettings, goals: tuple[Goal, ...] = (), reference: tuple[float, ...] = ()
) -> Proposer:
    """The method's proposer; `goals` (several, each with the value that is no use any more) in place of the rate."""
    without = _WITHOUT_A_MODEL.get(settings.method)
    return _bayesian(space, settings, goals, reference) if without is None else without(space, settings, goals)


def first_look(space: Space, proposer: Proposer) -> Proposer:
    """Who chooses the first round: methods that learn begin with points spread over the space."""
    return SpreadProposer(space) if not proposer.ready else proposer


def space_of(
    inventory: Inventory, settings: SearchSettings, rents: bool = False, ground: Ground | None = None
) -> Space:
    """The encoding that `settings` ask for; `rents`: it also chooses how many GPUs a layout spends; `ground`: where
    islands are going to lie, for the encoding that looks at it.

    Raises InputError where no type has enough GPUs for one island, the slots are too few for two, or the graph of a
    cluster is to be cut and there is none.
    """
    min_size = settings.min_island_size
    stocks = tuple(stock for stock in settings.stocks(inventory) if stock.most_islands)
    if not stocks:
        raise InputError(
            f"search.min_island_size: some GPU type must have an island of at least {min_size} GPUs.",
            hint="Lower search.min_island_size or enlarge the inventory.",
        )
    if settings.encoded is Encoding.GRAPH:
        return _graph_space(inventory, settings, ground)
    if settings.encoded is Encoding.DIRECT:
        if settings.slots_too_few(inventory):
            raise InputError(
                "search.slots: must be at least 2, an island for prefill and one for decode, where only "
                f"{stocks[0].gpu} has search.min_island_size ({min_size}) GPUs, got {settings.slots}.",
                hint="Set search.slots to at least 2.",
            )
        return DirectSpace(stocks=stocks, min_island_size=min_size, slots=settings.slots)
    return DividerSpace(stocks=stocks, min_island_size=min_size, skews=settings.skews, rents=rents)


def _graph_space(inventory: Inventory, settings: SearchSettings, ground: Ground | None) -> GraphSpace:
    if ground is None:
        raise InputError(
            f"search.{'method' if settings.method.row.encoding else 'encoding'}: graph cuts the graph of a cluster's "
            "GPUs, got no cluster.",
            hint="Add cluster: FILE to the scenario, or choose divider or direct.",
        )
    cuts = all_cuts(ground, inventory, settings)
    if not cuts:
        raise InputError(
            f"search.min_island_size: some part of cluster {ground.cluster.name} must have "
            f"{settings.min_island_size} idle GPUs of a type of the inventory that islands may use, got none.",
            hint="Lower search.min_island_size, or offer a cluster with more room.",
        )
    return GraphSpace(cuts=cuts, min_island_size=settings.min_island_size, skews=settings.skews)
