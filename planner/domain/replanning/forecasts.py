"""What is expected of rates that are not there yet."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds, Key


class ForecastKind(StrEnum):
    """Where the rates come from that a schedule is planned on.

    `known`: the rates themselves, as nobody has them. `last_day`, `last_week`: those of the same time then. `ewma`: the
    mean of the same time of all days before, late days weighing more.
    """

    KNOWN = "known"
    LAST_DAY = "last-day"
    LAST_WEEK = "last-week"
    EWMA = "ewma"

    @property
    def history_days(self) -> int:
        """Days of rates that come before the first that can be forecast."""
        return {ForecastKind.KNOWN: 0, ForecastKind.LAST_WEEK: 7}.get(self, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSettings:
    """A schedule is planned for the day ahead every `every_hours`, on the forecast times one plus a headroom.

    `headroom`: its share; None: the `quantile` of what past rates were above their forecasts, over `memory_days`, and
    `first_headroom` before there are any. `weight`: of the latest day in `ewma`.
    """

    kind: ForecastKind = ForecastKind.KNOWN
    every_hours: Annotated[float, Bounds(above=0, high=24), Key("after which the day ahead is planned", unit="h")] = 24
    headroom: Annotated[float | None, Bounds(low=0, high=10), Key("share above the forecast")] = None
    quantile: Annotated[float, Bounds(low=0.5, high=1), Key("of past errors, where no headroom is stated")] = 0.95
    first_headroom: Annotated[float, Bounds(low=0, high=10), Key("before there are past errors")] = 0.25
    memory_days: Annotated[float, Bounds(above=0, high=366), Key("of errors that count")] = 7
    weight: Annotated[float, Bounds(above=0, high=1), Key("of the latest day in ewma")] = 0.4
