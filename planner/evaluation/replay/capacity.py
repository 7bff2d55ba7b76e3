"""The highest rate that holds, in few replays: rates on a ladder of equal ratios, bracketed and halved.

All candidates stand on the same rungs, so that equal ones have equal rates.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

STEP = 0.01
"""Between two rungs: what the rate is known to."""

_STRIDE = 4  # rungs of the first step up or down, doubled with every further one
_COARSE = 4  # rungs that are near enough for what cannot be the best any more
_LOWEST, _HIGHEST = -400, 400  # rungs: 2 % of the base, and 50 times it


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Rates `base_rps` times (1 + STEP) to the rung's number."""

    base_rps: float

    def rate_rps(self, rung: int) -> float:
        """The rate of a rung."""
        return self.base_rps * (1 + STEP) ** rung

    def rung(self, rate_rps: float) -> int:
        """The rung nearest to a rate."""
        return max(_LOWEST, round(math.log(rate_rps / self.base_rps) / math.log1p(STEP)))

    def highest(self, holds: Callable[[float], bool], guess_rps: float, to_beat_rps: float = 0.0) -> float:
        """The highest rate that holds, begun at a guess; 0 where none does. Where it is not above `to_beat_rps`, it is
        at most `_COARSE` rungs too low."""
        goal = self.rung(to_beat_rps) if to_beat_rps > 0 else _LOWEST - 1
        low, high = self._bracket(holds, self.rung(guess_rps))
        while high - low > (_COARSE if high <= goal else 1) and low >= _LOWEST:
            middle = (low + high) // 2
            low, high = (middle, high) if holds(self.rate_rps(middle)) else (low, middle)
        return self.rate_rps(low) if low >= _LOWEST else 0.0

    def _bracket(self, holds: Callable[[float], bool], first: int) -> tuple[int, int]:
        """(a rung that holds, a higher one that does not); the first is below the ladder where none holds."""
        stride, rung = _STRIDE, first
        if holds(self.rate_rps(rung)):
            while rung < _HIGHEST and holds(self.rate_rps(rung + stride)):
                rung, stride = rung + stride, 2 * stride
            return rung, rung + stride
        while rung > _LOWEST:
            lower = max(rung - stride, _LOWEST)
            if holds(self.rate_rps(lower)):
                return lower, rung
            rung, stride = lower, 2 * stride
        return _LOWEST - 1, rung
