"""The two judges of a point: the model of queues, which prices every one, and the replay, which the best ones get."""

from collections.abc import Sequence

from planner.domain import Question
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.replay.capacity import Ladder
from planner.evaluation.replay.pooled import PooledReplay
from planner.interrupts import check
from planner.layouts.replayed.space import Point, ReplaySpace


class Judges:
    """Rates of points (requests/s); what was worked out once is kept. `base_rps` gives the ladder its rungs."""

    def __init__(self, question: Question, space: ReplaySpace, replay: PooledReplay, base_rps: float) -> None:
        self._space = space
        self._replay = replay
        self._service = BucketService(question)
        self._priced: dict[Point, PricedPools] = {}
        self._ladder = Ladder(base_rps=base_rps)

    def priced(self, point: Point) -> PricedPools:
        """The pools of a point with their capacities, as a plan would have them."""
        if point not in self._priced:
            self._priced[point] = self._service.priced(self._space.pools(point))
        return self._priced[point]

    def replayed_rps(
        self, point: Point, seeds: Sequence[int], requests: int, *, guess_rps: float, to_beat_rps: float = 0.0
    ) -> float:
        """The highest rate that seems to hold the levels on these seeds, as `Ladder.highest` finds it; 0 where none
        does. An interrupt is heeded between replays."""
        fleet, policy = self._replay.fleet(self.priced(point).pools), self._space.policy(point)

        def holds(rate_rps: float) -> bool:
            check()
            return self._replay.at(fleet, policy, rate_rps, seeds, requests).seems_to_hold

        return self._ladder.highest(holds, guess_rps, to_beat_rps)
