"""Times on axes and in tables as a clock shows them: dates where they are known, else the day and the hour."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

_STEPS_S = (60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY_S = 86400


class Clock(StrEnum):
    """What seconds are counted from: 1970 in UTC, or midnight of the first day."""

    DATED = "time (UTC)"
    DAYS = "time of the day"


def moment(at_s: float) -> str:
    """As plotly takes it: `1970-01-01T06:10:00`."""
    return (datetime.fromtimestamp(0, UTC) + timedelta(seconds=at_s)).strftime("%Y-%m-%dT%H:%M:%S")


def clock_words(clock: Clock, at_s: float) -> tuple[str, str]:
    """The day and the hour: `2026-11-25` or `day 1`, and `06:10`."""
    when = datetime.fromtimestamp(0, UTC) + timedelta(seconds=at_s)
    return f"{when:%Y-%m-%d}" if clock is Clock.DATED else f"day {int(at_s // _DAY_S) + 1}", f"{when:%H:%M}"


def clock_ticks(first_s: float, last_s: float, most: int = 9) -> list[float]:
    """Whole minutes, hours or days between two times, at most so many."""
    span = max(last_s - first_s, 1.0)
    step = next((step for step in _STEPS_S if span / step <= most - 1), None)
    step = step or _DAY_S * -(-int(span / _DAY_S) // (most - 1))
    start = -(-first_s // step) * step
    return [start + number * step for number in range(int((last_s - start) // step) + 1)]
