"""Continuous batching on one machine: requests join and leave a batch that decodes step by step.

| symbol | meaning | unit |
|---|---|---|
| V | tokens that a request which was there from the beginning has by now | tokens |
| s(b) | seconds of a step with b requests | s |

Every request in the batch gains a token in s(b) seconds: V grows at rate 1 / s(b). One that joins at V with o output
tokens is done at V + o. Prompts stop the steps, one after the other, as engines without chunks do.
"""

import heapq

from planner.studies.serving.records import InferenceTimes


class Stream:
    """The batch of a machine: `size` requests, the next of which leaves at `next_s`."""

    __slots__ = ("_clock_s", "_ends", "_times", "_tokens")

    def __init__(self, times: InferenceTimes, now: float) -> None:
        self._times = times
        self._clock_s = now
        self._tokens = 0.0
        self._ends: list[tuple[float, int]] = []

    @property
    def size(self) -> int:
        """Requests in the batch."""
        return len(self._ends)

    @property
    def has_room(self) -> bool:
        """Whether another may join."""
        return len(self._ends) < self._times.most_batch

    @property
    def step_s(self) -> float:
        """Seconds of a step if one more request joined."""
        return self._times.step.at(len(self._ends) + 1)

    @property
    def next_s(self) -> float:
        """When the first of them is done, if nobody joins."""
        return self._clock_s + max(0.0, self._ends[0][0] - self._tokens) * self._times.step.at(len(self._ends))

    def _advance(self, now: float) -> None:
        """Steps until `now`; while prompts are taken in the clock is ahead of it."""
        if now > self._clock_s:
            if self._ends:
                self._tokens += (now - self._clock_s) / self._times.step.at(len(self._ends))
            self._clock_s = now

    def join(self, request: int, prompt_s: float, output_tokens: int, now: float) -> None:
        """A request comes in; its prompt is next."""
        self._advance(now)
        self._clock_s += prompt_s
        heapq.heappush(self._ends, (self._tokens + output_tokens, request))

    def leave(self, now: float) -> int:
        """The request that is done at `now`, which is `next_s`."""
        self._advance(now)
        end, request = heapq.heappop(self._ends)
        self._tokens = end
        return request

    def requests(self) -> list[int]:
        """Those in the batch, by number."""
        return sorted(request for _, request in self._ends)
