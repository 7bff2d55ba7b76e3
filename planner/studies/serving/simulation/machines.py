"""A machine of the pool and the places for models on it: everything that changes."""

from planner.studies.serving.records import Action, MachineStatus
from planner.studies.serving.simulation.streams import Stream


class Place:
    """A model on a machine. `loaded_s`: when its load ended; `expires_s`: end of its quantum, where policies have one.

    `passes` since then, `busy_s` in them. Not `ready` while it loads.
    """

    __slots__ = ("busy_s", "expires_s", "loaded_s", "model", "passes", "ready", "used_s")

    def __init__(self, model: int, now: float) -> None:
        self.model = model
        self.ready = False
        self.loaded_s = self.used_s = now
        self.expires_s = float("inf")
        self.passes = 0
        self.busy_s = 0.0


class Machine:
    """One machine. At most one action at a time: `action` on `place` with `requests` since `since_s`.

    `serial` numbers its actions, so that an event of one that was broken off is known. `inferred` since its last load.
    `reserve`: it sleeps when it is not needed.
    """

    __slots__ = (
        *("action", "idle_s", "inferred", "kind", "number", "place", "places", "requests", "reserve", "serial"),
        *("since_s", "status", "stream"),
    )

    def __init__(self, number: int, kind: int, status: MachineStatus) -> None:
        self.number, self.kind, self.status = number, kind, status
        self.reserve = status is MachineStatus.SLEEPING
        self.places: list[Place] = []
        self.action: Action | None = None
        self.place: Place | None = None
        self.requests: list[int] = []
        self.stream: Stream | None = None
        self.since_s = self.idle_s = 0.0
        self.inferred = False
        self.serial = 0

    @property
    def idle(self) -> bool:
        """Ready, and nothing to do."""
        return self.action is None and self.status is MachineStatus.READY

    def holds(self, model: int) -> bool:
        """Whether the model is here, or is being loaded."""
        return any(place.model == model for place in self.places)
