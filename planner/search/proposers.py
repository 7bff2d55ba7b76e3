"""Who chooses layouts: the seam between the outer loop and its methods."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import numpy as np

from planner.domain import Goal, SearchMethod, SearchSettings, Trial
from planner.search.baselines import GeneticProposer, GridProposer, RandomProposer, SobolProposer, SpreadProposer
from planner.search.space import Space


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
    from planner.search.experiment import AxProposer  # noqa: PLC0415  (torch and Ax only for a search that needs them)

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
