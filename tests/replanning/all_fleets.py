"""Schedules by a dynamic programme over all fleets: every number of GPUs of every type, each by its own best plan.

What a fleet promises is the planner's best rate for exactly those GPUs. Changes cost no less than the loading of the
GPUs that join, so the programme undercuts every schedule; nothing of `planner.replanning` is used here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from planner import pipeline
from planner.domain import Inventory, ObjectiveSettings, Scenario
from planner.domain.replanning.rates import RateSeries, RateWindow
from planner.domain.replanning.schedules import Tariff, TariffKind
from planner.errors import InfeasibleError
from planner.files import scenario_from_document
from planner.workload import summarize

Fleet = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """GPUs and prices by type, how they are paid, requests/s by the hour, and changes a day."""

    offer: tuple[tuple[str, int, float], ...]
    model: str
    tariff: Tariff
    rates: tuple[float, ...]
    most_changes: int

    @property
    def scenario(self) -> Scenario:
        return scenario_of(self.offer, self.model)

    @property
    def series(self) -> RateSeries:
        windows = tuple(RateWindow(start_s=3600.0 * t, rate_rps=rate) for t, rate in enumerate(self.rates))
        return RateSeries(name="by-hand", window_s=3600.0, windows=windows)


@cache
def scenario_of(offer: tuple[tuple[str, int, float], ...], model: str) -> Scenario:
    document = {
        "name": "small-offer",
        "model": model,
        "workload": "azure-conv-2023",
        "inventory": {gpu: count for gpu, count, _ in offer},
        "prices_usd_per_gpu_hour": {gpu: usd for gpu, _, usd in offer},
        "ranges": {"width": 4096},
        "slo": {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99},
        "simplicity": 0,
        "search": {"timings": False},
    }
    return scenario_from_document(document, origin="small offer", base=Path(), summarize=summarize)


@cache
def promises(offer: tuple[tuple[str, int, float], ...], model: str) -> Mapping[Fleet, float]:
    """Requests/s that every fleet promises; a larger one no less than those within it."""
    scenario, rates = scenario_of(offer, model), dict[Fleet, float]()
    for fleet in product(*(range(count + 1) for _, count, _ in offer)):
        within = [rates[less] for less in _one_less(fleet)]
        rates[fleet] = max([_promise(scenario, fleet), *within])
    return rates


def _one_less(fleet: Fleet) -> list[Fleet]:
    return [(*fleet[:i], n - 1, *fleet[i + 1 :]) for i, n in enumerate(fleet) if n]


def _promise(scenario: Scenario, fleet: Fleet) -> float:
    if not any(fleet):
        return 0.0
    counts = zip(scenario.inventory.items, fleet, strict=True)
    items = tuple(replace(item, count=count) for item, count in counts if count)
    try:
        plan = pipeline.plan(replace(scenario, inventory=Inventory(items=items), objective=ObjectiveSettings()))
    except InfeasibleError:
        return 0.0
    assert plan.buckets is not None
    return plan.buckets.promise_rps


def least_usd(case: Case, load_s: float = 0.0) -> float:
    """Of all sequences of fleets that carry the rates with so few changes a day, and all reservations."""
    promised = promises(case.offer, case.model)
    fleets, prices = np.array(list(promised)), np.array([usd for *_, usd in case.offer])
    reservations: Sequence[Fleet] = list(promised) if case.tariff.kind is TariffKind.RESERVED else [(0,) * len(prices)]
    more = np.maximum(0, fleets[None, :, :] - fleets[:, None, :]) @ prices * load_s / 3600
    carries = np.array(list(promised.values()))[None, :] >= np.array(case.rates)[:, None]
    usd = []
    for reserved in map(np.array, reservations):
        always = float(len(case.rates) * (1 - case.tariff.reserved_discount) * prices @ reserved)
        per_hour = np.maximum(0, fleets - reserved) @ prices
        usd.append(always + _least_path(np.where(carries, per_hour[None, :], np.inf), more, case.most_changes))
    return min(usd)


def _least_path(hour_usd: np.ndarray, change_usd: np.ndarray, most_changes: int) -> float:
    values = np.full((most_changes + 1, hour_usd.shape[1]), np.inf)
    values[0] = hour_usd[0]
    for hour, usd in enumerate(hour_usd[1:], start=1):
        if hour % 24 == 0:
            values = np.vstack([values.min(axis=0), np.full((most_changes, len(usd)), np.inf)])
        changed = (values[:-1, :, None] + change_usd[None, :, :]).min(axis=1)
        values = np.vstack([values[:1], np.minimum(values[1:], changed)]) + usd
    return float(values.min())
