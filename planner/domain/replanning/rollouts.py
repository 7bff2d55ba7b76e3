"""A change as steps that can be carried out one after the other, and what serves after each."""

from dataclasses import dataclass

from planner.domain.replanning.changes import ServerChange


@dataclass(frozen=True, slots=True, kw_only=True)
class RollOutStep:
    """What happens at once: servers that stop first, then those that start, then the router's new table.

    `during_rps`: capacity while the step lasts (servers that drain or load do nothing), `after_rps` once it is done, of
    the workload that the new plan serves. `gpus`: in use while it lasts, by type. `seconds`: drain and load.
    `replayed`: whether the levels held in a replay at the stated share meanwhile; None: not replayed.
    """

    number: int
    stops: tuple[ServerChange, ...]
    starts: tuple[ServerChange, ...]
    during_rps: float
    after_rps: float
    gpus: tuple[tuple[str, int], ...]
    seconds: float
    replayed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollOut:
    """Steps in order. `least_share`: of `current_rps` that is never undercut, as it was asked for; `reached_share`: of
    it that the worst step leaves."""

    steps: tuple[RollOutStep, ...]
    current_rps: float
    least_share: float
    reached_share: float
    seconds: float
