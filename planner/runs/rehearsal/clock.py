"""Time of the plan by the wall's clock: slowed down, so that one process keeps up with a fleet."""

import time

from planner.units import MS_PER_S


class PlanClock:
    """Plan time runs `slower` times as slowly as the wall's, from 0 when the clock is made or started anew."""

    __slots__ = ("_start_s", "slower")

    def __init__(self, slower: float) -> None:
        self.slower = slower
        self.start()

    def start(self) -> None:
        """Now is 0."""
        self._start_s = time.monotonic()

    def set_pace(self, slower: float) -> None:
        """From now on plan time runs so many times as slowly as the wall's."""
        now_ms, self.slower = self.now_ms, slower
        self._start_s = time.monotonic() - now_ms * slower / MS_PER_S

    @property
    def now_ms(self) -> float:
        """Plan time (ms)."""
        return (time.monotonic() - self._start_s) * MS_PER_S / self.slower

    def wall_s(self, moment_ms: float) -> float:
        """When a moment of the plan is, by the monotonic clock (s)."""
        return self._start_s + moment_ms * self.slower / MS_PER_S
