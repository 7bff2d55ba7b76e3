"""What a fleet is divided among, and how it was divided."""

from collections.abc import Mapping
from dataclasses import dataclass

from planner.assignment.buckets.offer import BucketOffer, Partition

Gpus = tuple[int, ...]
"""GPUs of each stock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """What a deployment serves on these GPUs was worked out: no fewer of any stock serve more."""

    deployment: int
    gpus: Gpus
    rate_rps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentOffer:
    """A deployment that there may be. `alternatives`: offers of servers, each with the partition that they would serve,
    of which one is chosen. `serves[i]`: requests/s promised to service i for each request/s of the deployment's rate.
    `most_rps`: more of its rate is of no use."""

    alternatives: tuple[tuple[BucketOffer, Partition], ...]
    serves: Mapping[int, float]
    most_rps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTerms:
    """What a service asks for: requests/s to be promised, what one of them is worth (`weighted`), its place in the
    order (`priority`: 1 goes first), and the share of its demand below which it must not fall."""

    demand_rps: float
    weight: float = 1.0
    priority: int = 1
    floor: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOffer:
    """Stocks of GPUs with `hosts[t]` of them in a node (1: services may share nodes) and their `charges` (USD/hour of a
    GPU), the services and the deployments that may serve them, and what is known of what these serve."""

    counts: Gpus
    hosts: Gpus
    charges: tuple[float, ...]
    services: tuple[ServiceTerms, ...]
    deployments: tuple[DeploymentOffer, ...]
    limits: tuple[RateLimit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Who gets which GPUs. `value` and `bound`: of the objective, in its unit. `shares`: of its demand that a service
    is promised; `rates_rps`, `gpus`: of the deployments. `proven`: within the gap that was asked for."""

    value: float
    bound: float
    shares: tuple[float, ...]
    rates_rps: tuple[float, ...]
    gpus: tuple[Gpus, ...]
    proven: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrices:
    """Prices of the relaxation, with its `value`: what one more GPU of each stock would add to the objective (of
    `target`: take off the rent), and what one more request/s promised to each service would take
    from it (`target`: add to it)."""

    value: float
    gpus: tuple[float, ...]
    demands: tuple[float, ...]
    rates_rps: tuple[float, ...]
