"""How long loads and inferences take, model by machine type.

| symbol | meaning | unit | source |
|---|---|---|---|
| M, r | size of a model, rate at which a machine loads | MB, Mbit/s | the simulator's data files |
| s(b) | seconds of a pass, or of one token's step, with b requests | s | `InferenceTimes.step` |
| p(n) | seconds of a prompt of n tokens | s | `InferenceTimes.prompt` |
| o | output tokens of a request | tokens | the request |

load = 8 M / r. Inference: single s(1); batched s(b); autoregressive p(n) + o s(1); static batch: the sum of p(n) of
all, then max(o) s(b); continuous batch: see `streams`.
"""

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
