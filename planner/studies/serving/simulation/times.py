"""How long loads and inferences take, model by machine type, and batches that requests join and leave.

| symbol | meaning | unit | source |
|---|---|---|---|
| M, r | size of a model, rate at which a machine loads | MB, Mbit/s | the simulator's data files |
| s(b) | seconds of a pass, or of one token's step, with b requests | s | `InferenceTimes.step` |
| p(n) | seconds of a prompt of n tokens | s | `InferenceTimes.prompt` |
| o | output tokens of a request | tokens | the request |

load = 8 M / r. Inference: single s(1); batched s(b); autoregressive p(n) + o s(1); static batch: the sum of p(n) of
all, then max(o) s(b); continuous batch: see `streams`.

| symbol | meaning | unit |
|---|---|---|
| V | tokens that a request which was there from the beginning has by now | tokens |
| s(b) | seconds of a step with b requests | s |

Every request in the batch gains a token in s(b) seconds: V grows at rate 1 / s(b). One that joins at V with o output
tokens is done at V + o. Prompts stop the steps, one after the other, as engines without chunks do.
"""

import heapq
from collections.abc import Sequence
from math import inf

from planner.errors import InconsistentPlanError
from planner.studies.serving.records import InferenceKind, InferenceTimes, ServedModel, ServingPool, ServingRequest

MBIT_PER_MB = 8.0


class Times:
    """Seconds by the places of model and machine type in the pool's lists; None where the model has no times there."""

    def __init__(self, pool: ServingPool) -> None:
        self.models, self.types = pool.models, pool.types
        self.of = [[model.times.get(kind.name) for kind in pool.types] for model in pool.models]
        self.load_s = [[model.size_mb * MBIT_PER_MB / kind.load_mbit_s for kind in pool.types] for model in pool.models]
        self._single_s = [
            [times.step.at(1) if times and model.kind is InferenceKind.SINGLE else None for times in row]
            for model, row in zip(pool.models, self.of, strict=True)
        ]

    def pace_s(self, model: int, kind: int) -> float:
        """Seconds of a step alone, by which machine types are ranked; infinite where the model has no times."""
        times = self.of[model][kind]
        return inf if times is None else times.step.at(1)

    def memory_mb(self, model: int, kind: int) -> float:
        """What a model takes of a machine."""
        times = self.of[model][kind]
        return self.models[model].size_mb if times is None or times.memory_mb is None else times.memory_mb

    def runs(self, model: int, kind: int) -> bool:
        """Whether such a machine can hold and run the model at all."""
        memory_mb = self.types[kind].memory_mb
        return self.of[model][kind] is not None and (memory_mb is None or self.memory_mb(model, kind) <= memory_mb)

    def batch_s(self, model: int, kind: int, requests: Sequence[ServingRequest]) -> float:
        """Seconds of requests that are begun together."""
        single = self._single_s[model][kind]
        if single is not None:
            return single
        return inference_s(self.models[model], self.where_run(model, kind), requests)

    def where_run(self, model: int, kind: int) -> InferenceTimes:
        """The model's times on a machine type that runs it."""
        times = self.of[model][kind]
        if times is None:
            raise InconsistentPlanError(
                f"serving: {self.models[model].name} is on {self.types[kind].name}, which cannot run it.",
                hint="Report it.",
            )
        return times

    def alone_s(self, request: ServingRequest) -> float:
        """Seconds of a request by itself on the fastest machine that can run it; 0 where none can."""
        kinds = [kind for kind in range(len(self.types)) if self.runs(request.model, kind)]
        return min((self.batch_s(request.model, kind, (request,)) for kind in kinds), default=0.0)


def prompt_s(times: InferenceTimes, request: ServingRequest) -> float:
    """Seconds of a request's prompt."""
    return times.prompt.at(request.prompt_tokens) if times.prompt else 0.0


def inference_s(model: ServedModel, times: InferenceTimes, requests: Sequence[ServingRequest]) -> float:
    """Seconds until all `requests` that are begun together are answered."""
    step_s = times.step.at(len(requests))
    if not model.kind.by_token:
        return step_s
    prompts_s = sum(prompt_s(times, request) for request in requests)
    return prompts_s + max(request.output_tokens for request in requests) * step_s


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
