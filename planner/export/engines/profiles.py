"""The rules that an island's engine has: those that the plan was priced with, where they are this engine's."""

from planner.domain import EngineProfile
from planner.domain.engine import ExchangeSite
from planner.export.islands import ServingIsland
from planner.files import catalog


def profile_of(island: ServingIsland, engine: str) -> EngineProfile:
    """The profile of the plan's own engine; of the standard version where the plan names another engine or none."""
    return island.engine if island.engine.name == engine else catalog.engine(engine)


def exchange_site(island: ServingIsland) -> ExchangeSite:
    """Where the island's experts exchange tokens."""
    return ExchangeSite(
        gpu=island.gpu,
        model=island.model,
        phase=island.phase,
        parallel=island.parallel,
        gpus_per_pod=island.grouping.gpus_per_pod,
        decode_tokens=island.decode_tokens,
        batch_size=island.batch_size,
    )
