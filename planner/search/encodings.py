"""Which encoding a search has."""

from planner.domain import Encoding, Inventory, SearchSettings
from planner.errors import InputError
from planner.search.communication import Ground, all_cuts
from planner.search.graph_space import GraphSpace
from planner.search.space import DirectSpace, DividerSpace, Space


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
