"""What a load of running engines showed: the levels as they kept them, beside the same requests replayed."""

from dataclasses import dataclass, field

from planner.domain import CalibrationFit
from planner.domain.replay import ReplayResult
from planner.domain.serving.levels import Standing
from planner.domain.serving.observed import ComparedFigure
from planner.evaluation.replay.paces import FittedTime

KEPT_UP = 0.95
"""Of the schedule's rate, what must have been sent for the levels to hold at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedRequest:
    """A request as it was sent and answered; times in ms from the first request on (None: it never came). Tokens as the
    server counted them, else as asked. `failure`: why there is no whole answer."""

    number: int
    arrival_ms: float
    prompt_tokens: int
    answer_tokens: int
    first_ms: float | None = None
    ended_ms: float | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """`measured` and `predicted`: the same requests through the address, and replayed at the plan's step times.
    `figures`: times of every bucket in both, with where the bands of the plan's speeds let them lie. `time_factors`:
    of step times, by phase, where they can be told. `scheduled_rps`: as it was to be sent; `sent_rps`: as it was.
    `late_p99_ms`: how late requests were sent. `fit`: what the factors make of the plan's calibration."""

    url: str
    model: str
    generator: str
    seconds: float
    scheduled_rps: float
    sent_rps: float
    late_p99_ms: float
    measured: ReplayResult
    predicted: ReplayResult
    figures: tuple[ComparedFigure, ...]
    time_factors: tuple[FittedTime, ...]
    requests: tuple[ProvedRequest, ...]
    failures: tuple[tuple[str, int], ...] = ()
    fit: CalibrationFit | None = None
    advice: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def kept_up(self) -> bool:
        """Whether the generator sent as fast as it was to."""
        return self.sent_rps >= KEPT_UP * self.scheduled_rps

    @property
    def standing(self) -> Standing:
        """Of the measured levels; what holds under less load than was asked for is untold."""
        standing = self.measured.standing
        return Standing.UNTOLD if standing is Standing.HOLDS and not self.kept_up else standing

    @property
    def holds(self) -> bool | None:
        """Whether the levels hold; None where that cannot be told."""
        return None if self.standing is Standing.UNTOLD else self.standing is Standing.HOLDS
