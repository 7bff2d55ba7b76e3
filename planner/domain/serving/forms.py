"""What each form of serving reaches under several bounds on TPOT, and where the better one changes."""

import math
from dataclasses import dataclass

from planner.domain.serving.routing import ServingForm, worth_of
from planner.domain.serving.server import BucketPool, KvTransfer

PURE_FORMS = (ServingForm.SPLIT, ServingForm.AGGREGATED)
"""Forms that a free choice is between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPoint:
    """The best pools of one form under one bound on TPOT, and what none of its deployable pools exceed (requests/s).

    `rate_rps` 0: the form serves nothing, `why` says the reason; `late`: that is not proven, the time ran out.
    """

    tpot_ms: float
    form: ServingForm
    rate_rps: float
    bound_rps: float
    pools: tuple[BucketPool, ...] = ()
    why: str = ""
    late: bool = False

    @property
    def gap(self) -> float:
        """1 - rate / bound; 0 where nothing is served."""
        return 1 - self.rate_rps / self.bound_rps if self.rate_rps else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FormChange:
    """Between these two bounds (ms) the better form changes; None: neither serves."""

    below_ms: float
    above_ms: float
    before: ServingForm | None
    after: ServingForm | None

    @property
    def at_ms(self) -> float:
        """Middle of both, by ratio."""
        return math.sqrt(self.below_ms * self.above_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormComparison:
    """Points of every bound (ms, ascending) and form. `own_ms`: the scenario's own bound.

    `bounds_ms`: those that were asked for and solved; changes are looked for between them. `transfer`: what handing
    over KV caches costs split pools under the scenario's own bound (None: they serve nothing, or it was not come to).
    `unasked`: bounds that an interrupt came before; `interrupted`: it came, if only to the changes.
    """

    bounds_ms: tuple[float, ...]
    points: tuple[FormPoint, ...]
    changes: tuple[FormChange, ...]
    own_ms: float | None
    transfer: KvTransfer | None = None
    unasked: tuple[float, ...] = ()
    interrupted: bool = False

    def of(self, form: ServingForm) -> tuple[FormPoint, ...]:
        """The points of one form, by rising bound."""
        return tuple(point for point in self.points if point.form is form)

    def at(self, tpot_ms: float, form: ServingForm) -> FormPoint:
        """What a form reaches under a bound that was solved for."""
        return next(point for point in self.of(form) if point.tpot_ms == tpot_ms)

    def best(self, tpot_ms: float) -> ServingForm | None:
        """The better of split and aggregated pools under a bound that was solved for; None: neither serves."""
        return better_form([self.at(tpot_ms, form) for form in PURE_FORMS])


def better_form(points: list[FormPoint]) -> ServingForm | None:
    """The form of the highest rate, split ones less their bias; of equal ones the first. None: none serves."""
    best = max(points, key=lambda point: worth_of(point.rate_rps, point.form))
    return best.form if best.rate_rps > 0 else None
