"""Requests with what policies know of them: deadline, when they count as starved, seconds of work."""

from collections.abc import Sequence

import numpy as np

from planner.studies.serving.records import ServingPool, ServingRequest
from planner.studies.serving.simulation.times import Times

SLA_DRAW_S = (0.5, 1.0)
"""SLA = a draw from here, one a model, + 2 * inference time (the simulator's source)."""

SLA_INFERENCES = 2.0


class RequestBook:
    """Requests in order of arrival, as columns. `deadlines`: before their own, what a policy sorts by is not here."""

    def __init__(self, pool: ServingPool, requests: Sequence[ServingRequest], *, seed: int, starved_share: float):
        times = Times(pool)
        draws = draw_sla(len(pool.models), seed)
        self.requests = requests
        self.models = [request.model for request in requests]
        self.arrival_s = [request.arrival_s for request in requests]
        alone = _alone(pool, times, requests)
        self.work_s = alone
        given = [model.sla_s for model in pool.models]
        self.sla_s = [
            sla if (sla := given[model]) is not None else draws[model] + SLA_INFERENCES * seconds
            for model, seconds in zip(self.models, alone, strict=True)
        ]
        self.deadline_s = [came + sla for came, sla in zip(self.arrival_s, self.sla_s, strict=True)]
        self.starved_s = [came + starved_share * sla for came, sla in zip(self.arrival_s, self.sla_s, strict=True)]


def draw_sla(models: int, seed: int) -> list[float]:
    """The drawn part of each model's SLA (s)."""
    return [float(value) for value in np.random.default_rng([seed, 1]).uniform(*SLA_DRAW_S, size=models)]


def _alone(pool: ServingPool, times: Times, requests: Sequence[ServingRequest]) -> list[float]:
    """Seconds of each request by itself; the same for all of a model that does not answer token by token."""
    fixed = [
        None if model.kind.by_token else times.alone_s(ServingRequest(arrival_s=0, model=place))
        for place, model in enumerate(pool.models)
    ]
    return [
        seconds if (seconds := fixed[request.model]) is not None else times.alone_s(request) for request in requests
    ]
