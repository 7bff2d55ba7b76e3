"""Drawn fleets of two or three services: no division of whole nodes among separate plans is better than theirs."""

import random
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from planner import pipeline
from planner.errors import InfeasibleError
from planner.files.scenario.fleets import fleet_from_document
from planner.files.scenario.scenarios import scenario_from_document
from planner.workload import summarize

MODELS = ("qwen3-30b-a3b-fp8", "gpt-oss-20b", "gpt-oss-120b", "qwen3-235b-a22b-fp8")
WORKLOADS = ("azure-conv-2023", "azure-code-2023")
PRICES = {"H20": 1.0, "H100": 3.0, "H200": 4.0}
PLANS_DIFFER = 0.002
"""The gap of a search: what a plan may lack of the best."""


def drawn(seed: int) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Services and GPUs: three to five nodes of two or three types."""
    draw = random.Random(seed)
    services = [
        {
            "name": f"service-{number}",
            "model": draw.choice(MODELS),
            "workload": draw.choice(WORKLOADS),
            "slo": {
                "ttft_ms": draw.choice([1000, 2000, 4000]), "tpot_ms": draw.choice([30, 40, 60]), "percentile": 95
            },
            "demand": draw.choice([10, 20, 40, 80]),
        }
        for number in range(draw.choice([2, 2, 3]))
    ]  # fmt: skip
    types = draw.sample(sorted(PRICES), draw.choice([2, 3]))
    nodes = dict.fromkeys(types, 1)
    for _ in range(draw.choice([1, 2])):
        nodes[draw.choice(types)] += 1
    return services, {gpu: 8 * count for gpu, count in sorted(nodes.items())}


def best_of_all(services: list[dict[str, Any]], gpus: dict[str, int]) -> float:
    """The largest common multiple over every division, each service planned by itself."""

    @cache
    def promised(number: int, counts: tuple[int, ...]) -> float:
        items = {gpu: n for gpu, n in zip(gpus, counts, strict=True) if n}
        if not items:
            return 0.0
        document = {key: value for key, value in services[number].items() if key != "demand"}
        document |= {"inventory": items, "prices_usd_per_gpu_hour": {gpu: PRICES[gpu] for gpu in items}}
        scenario = scenario_from_document(document, origin="alone", base=Path(), summarize=summarize)
        try:
            return pipeline.plan(scenario).throughput_rps * scenario.routing.margin
        except InfeasibleError:
            return 0.0

    def divided_from(number: int, free: tuple[int, ...]) -> float:
        """The most that this service and those after it get together of what is free."""
        demand = services[number]["demand"]
        if number == len(services) - 1:
            return promised(number, free) / demand  # the last has all that nobody else has
        shares = product(*(range(0, count + 1, 8) for count in free))
        return max(
            min(
                promised(number, share) / demand,
                divided_from(number + 1, tuple(a - b for a, b in zip(free, share, strict=True))),
            )
            for share in shares
        )

    return divided_from(0, tuple(gpus.values()))


@pytest.mark.study
@pytest.mark.parametrize("seed", range(12))
def test_no_division_of_a_drawn_fleet_is_better(seed: int) -> None:
    services, gpus = drawn(seed)
    truth = best_of_all(services, gpus)
    document = {
        "name": "drawn",
        "inventory": gpus,
        "prices_usd_per_gpu_hour": {gpu: PRICES[gpu] for gpu in gpus},
        "services": services,
    }
    fleet = fleet_from_document(document, origin="drawn", base=Path(), summarize=summarize)
    if not truth:
        with pytest.raises(InfeasibleError):
            pipeline.plan_fleet(fleet)
        return
    plan = pipeline.plan_fleet(fleet)
    assert plan.value >= truth * (1 - PLANS_DIFFER)
    assert plan.bound >= truth * (1 - 1e-9)
