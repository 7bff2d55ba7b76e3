"""What replays said of a plan that was chosen by them."""

from dataclasses import dataclass
from typing import Annotated

from planner.domain.keys import Bounds, Key

_Rate = Annotated[float, Bounds(low=0)]
_Count = Annotated[int, Bounds(low=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRates:
    """The highest rates (requests/s) that hold the levels. `search_rps`: on the seeds of the search. `fresh_rps`: on
    seeds that the search had not seen, with longer streams (None: an interrupt came before)."""

    analytic_rps: Annotated[_Rate, Key("capacity by the model of queues")]
    search_rps: Annotated[_Rate, Key("on the seeds of the search")]
    fresh_rps: Annotated[float | None, Bounds(low=0), Key("on seeds that the search had not seen (null: not replayed)")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedChoice:
    """How a plan was chosen by replays. `solved`: the programme's answer, which the search began with; `candidate`: the
    best other one that was replayed (None: none was better on the seeds of the search); `chosen`: whether it is the
    plan."""

    arrivals: Annotated[str, Key("how requests come")]
    requests: Annotated[_Count, Key("of a replay of the search")]
    fresh_requests: Annotated[_Count, Key("of a replay on fresh seeds")]
    search_seeds: Annotated[tuple[int, ...], Bounds(low=0)]
    fresh_seeds: Annotated[tuple[int, ...], Bounds(low=0)]
    replayed: Annotated[_Count, Key("candidates that were replayed, the programme's answer included")]
    solved: ReplayedRates
    candidate: Annotated[ReplayedRates | None, Key("the best other one, where it was better in the search")]
    chosen: Annotated[bool, Key("whether the candidate is the plan")]

    @property
    def plan(self) -> ReplayedRates:
        """Of the plan."""
        return self.candidate if self.chosen and self.candidate is not None else self.solved
