"""A node more or less of each type: what a plan of buckets says of it, held against planning that fleet anew."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner.domain import GpuWorth, Plan, Scenario
from planner.errors import InfeasibleError
from planner.files import scenario_from_document
from planner.pipeline import plan
from planner.report import summary
from planner.report.kit.quantities import CLOSE, signed_range
from planner.workload import summarize

PRICES = {"H100": 2.5, "A100": 1.2, "H200": 4.0, "L40S": 0.8}
FLEETS = {
    "few of each": ("qwen3-30b-a3b", {"H100": 8, "L40S": 8}),
    "one type idles": ("llama-3.1-70b", {"H200": 24, "L40S": 24}),
    "two that share": ("llama-3.1-70b", {"H100": 16, "A100": 24}),
}
"""By dual prices H100 of the first would add 110 requests/s (planned: 120), A100 of the last 2.68 (2.95)."""


SMALL = {
    "one GPU": ("gpt-oss-120b", {"H100": 1}),
    "two nodes": ("gpt-oss-120b", {"H100": 16}),
    "a node and a half": ("qwen3-30b-a3b", {"H100": 8, "L40S": 4}),
    "half a node": ("qwen3-30b-a3b", {"H100": 4}),
    "a node": ("llama-3.1-70b", {"H200": 8}),
    "part of a node": ("llama-3.1-70b", {"A100": 6}),
    "a node of each": ("gpt-oss-120b", {"H100": 8, "A100": 8}),
    "cheap ones": ("qwen3-30b-a3b", {"L40S": 12}),
}
"""The form of serving is free. Behind the buckets of one H100 a node more added 12.8 requests/s; planned anew, 62.7."""


def scenario_of(model: str, inventory: dict[str, int], serving: str) -> Scenario:
    document: dict[str, Any] = {
        "name": "small",
        "model": model,
        "workload": "azure-code-2023",
        "inventory": inventory,
        "prices_usd_per_gpu_hour": {gpu: PRICES[gpu] for gpu in inventory},
        "slo": {"ttft_ms": 2000, "tpot_ms": 50, "percentile": 95},
        "ranges": {"width": 4096},
        "routing": {"most": 1},
        "serving": serving,
        "search": {"timings": False},
    }
    return scenario_from_document(document, origin="test", base=Path(), summarize=summarize)


def _plan(fleet: str, counts: dict[str, int]) -> Plan:
    model, _ = (FLEETS | SMALL)[fleet]
    there = {name: count for name, count in counts.items() if count}
    return plan(scenario_of(model, there, "auto" if fleet in SMALL else "split"))


@cache
def planned(fleet: str) -> Plan:
    return _plan(fleet, (FLEETS | SMALL)[fleet][1])


@cache
def changed_rps(fleet: str, gpu: str, by: int) -> float:
    """By what planning anew with so many more GPUs changes the rate."""
    inventory = (FLEETS | SMALL)[fleet][1]
    counts = {name: count + by * (name == gpu) for name, count in inventory.items()}
    try:
        rate = _plan(fleet, counts).throughput_rps if any(counts.values()) else 0.0
    except InfeasibleError:
        rate = 0.0
    return rate - planned(fleet).throughput_rps


def worths(fleet: str) -> tuple[GpuWorth, ...]:
    sensitivity = planned(fleet).sensitivity
    return sensitivity.gpus


QUICK = ("few of each", "one type idles", "one GPU")


def each_of(fleets: Iterable[str]) -> pytest.MarkDecorator:
    """Fleets, those that take longer in `make study` alone."""
    return pytest.mark.parametrize(
        "fleet", [pytest.param(fleet, marks=[] if fleet in QUICK else [pytest.mark.study]) for fleet in fleets]
    )


@each_of((*FLEETS, *SMALL))
def test_a_node_more_or_less_is_what_planning_anew_says(fleet: str) -> None:
    """Within 5 % of the change, or told as a range that contains it."""
    for worth in worths(fleet):
        assert worth.less_node_rps is not None
        assert worth.less_node_most_rps is not None
        for by, low, high in (
            (worth.gpus_per_node, worth.more_node_rps, worth.more_node_most_rps),
            (-worth.gpus_lost, worth.less_node_rps, worth.less_node_most_rps),
        ):
            change = changed_rps(fleet, worth.gpu, by)
            assert low <= high
            assert low == pytest.approx(change, rel=CLOSE, abs=1e-6) or low <= change <= high


@each_of(FLEETS)
def test_the_first_to_drop_is_the_one_that_costs_least_when_planned(fleet: str) -> None:
    losses = {w.gpu: -changed_rps(fleet, w.gpu, -w.gpus_lost) / (w.gpus_lost * PRICES[w.gpu]) for w in worths(fleet)}
    sensitivity = planned(fleet).sensitivity
    assert sensitivity.drop_first == min(losses, key=lambda gpu: losses[gpu])


def test_ranges_are_told_where_they_are_wide() -> None:
    assert signed_range(4.756, 5.424) == "+4.76 to +5.42"
    assert signed_range(-5.68, -5.34) == "−5.68 to −5.34"
    assert signed_range(17.84, 17.9) == "+17.8"
    assert signed_range(0.0, 0.0) == "0"
    assert signed_range(0.0, 0.174) == "0 to +0.174"
    text = summary(planned("one type idles")).split("## What would change it\n")[1].split("\n## ")[0]
    for worth in worths("one type idles"):
        assert f"{signed_range(worth.more_node_rps, worth.more_node_most_rps)} ({worth.gpus_per_node} GPUs)" in text
