"""What a scheduler is: it says what to load, and what an idle machine serves next."""

from dataclasses import dataclass
from typing import Protocol

from planner.studies.serving.simulation.machines import Machine, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load `model` on an idle machine; the models of `replaces` are unloaded for it."""

    machine: Machine
    model: int
    replaces: tuple[Place, ...] = ()


class Scheduler(Protocol):
    """A policy of one run. `wake_s`: when it wants to be asked for loads though nothing happens by then."""

    @property
    def wake_s(self) -> float:
        """Seconds; infinite: never."""

    def load(self, now: float) -> Load | None:
        """The next load to begin now; asked until there is none."""

    def pick(self, machine: Machine, now: float) -> tuple[Place, int] | None:
        """Which of an idle machine's models serves next, and at most how many requests at once."""

    def loaded(self, machine: Machine, place: Place, now: float) -> None:
        """A load has ended."""

    def inferred(self, machine: Machine, place: Place, now: float) -> None:
        """An inference has ended."""

    def unloaded(self, machine: Machine, place: Place, now: float) -> None:
        """A model goes from a machine."""
