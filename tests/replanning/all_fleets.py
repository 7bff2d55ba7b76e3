"""Schedules by a dynamic programme over all fleets: every number of GPUs of every type, each by its own best plan.

What a fleet promises is the planner's best rate for exactly those GPUs. Changes are free, so that the programme
undercuts every schedule; nothing of `planner.replanning` is used here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from planner import pipeline
from planner.domain import Inventory, ObjectiveSettings, Scenario
from planner.domain.schedules import Tariff, TariffKind
from planner.errors import InfeasibleError
from planner.files import scenario_from_document
from planner.workload import summarize

Fleet = tuple[int, ...]
Offer = tuple[tuple[str, int, float], ...]
"""GPU type, how many there are, USD/hour."""


@cache
def scenario_of(offer: Offer, model: str) -> Scenario:
    document = {
        "name": "small-offer",
        "model": model,
        "workload": "azure-conv-2023",
        "inventory": {gpu: count for gpu, count, _ in offer},
        "prices_usd_per_gpu_hour": {gpu: usd for gpu, _, usd in offer},
        "ranges": {"width": 4096},
        "routing": {"most": 1},
        "slo": {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99},
        "simplicity": 0,
        "search": {"timings": False},
    }
    return scenario_from_document(document, origin="small offer", base=Path(), summarize=summarize)


@cache
def promises(offer: Offer, model: str) -> Mapping[Fleet, float]:
    """Requests/s that every fleet promises; a larger one no less than those within it."""
    scenario, rates = scenario_of(offer, model), dict[Fleet, float]()
    for fleet in by_number(offer):
        within = [rates[less] for less in one_less(fleet)]
        rates[fleet] = max([_promise(scenario, fleet), *within])
    return rates


def one_less(fleet: Fleet) -> list[Fleet]:
    """The fleets with one GPU fewer."""
    return [(*fleet[:i], n - 1, *fleet[i + 1 :]) for i, n in enumerate(fleet) if n]


def by_number(offer: Offer) -> tuple[Fleet, ...]:
    """Every fleet of an offer, smaller ones before those that hold them."""
    return tuple(product(*(range(count + 1) for _, count, _ in offer)))


def _promise(scenario: Scenario, fleet: Fleet) -> float:
    if not any(fleet):
        return 0.0
    counts = zip(scenario.inventory.items, fleet, strict=True)
    items = tuple(replace(item, count=count) for item, count in counts if count)
    try:
        plan = pipeline.plan(replace(scenario, inventory=Inventory(items=items), objective=ObjectiveSettings()))
    except InfeasibleError:
        return 0.0
    return plan.buckets.promise_rps


def least_usd(
    promised: Mapping[Fleet, float],
    prices: Sequence[float],
    tariff: Tariff,
    hourly_rps: Sequence[float],
    most_changes: int,
) -> float:
    """Of all sequences of fleets that carry the rates with so few changes a day, and all reservations; changes are
    free."""
    fleets, usd = np.array(list(promised)), np.array(prices)
    reservations: Sequence[Fleet] = list(promised) if tariff.kind is TariffKind.RESERVED else [(0,) * len(prices)]
    carries = np.array(list(promised.values()))[None, :] >= np.array(hourly_rps)[:, None]
    least = []
    for reserved in map(np.array, reservations):
        always = float(len(hourly_rps) * (1 - tariff.reserved_discount) * usd @ reserved)
        per_hour = np.maximum(0, fleets - reserved) @ usd
        least.append(always + _least_path(np.where(carries, per_hour[None, :], np.inf), most_changes))
    return min(least)


def _least_path(hour_usd: np.ndarray, most_changes: int) -> float:
    """By the changes of the day so far and the fleet that stands."""
    values = np.full((most_changes + 1, hour_usd.shape[1]), np.inf)
    values[0] = hour_usd[0]
    for hour, usd in enumerate(hour_usd[1:], start=1):
        if hour % 24 == 0:  # changes of the day before are forgotten, one at midnight is of the new day
            values = np.vstack([values.min(axis=0), np.full((most_changes, len(usd)), np.inf)])
        changed = values[:-1].min(axis=1, keepdims=True)
        values = np.vstack([values[:1], np.minimum(values[1:], changed)]) + usd
    return float(values.min())
