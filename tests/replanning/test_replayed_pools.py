"""A week (a day of deepseek-r1) of each production pool, its schedule replayed window by window.

The rates are the shipped curves of the pools; the models and fleets are ours, as rates tell neither. The small form of
it is in `test_replayed_schedules.py`.
"""

from pathlib import Path

import pytest

from planner import pipeline
from planner.domain import Scenario
from planner.domain.replanning.changes import ChangeSettings
from planner.domain.replanning.schedules import Tariff
from planner.files import load_rates, scenario_from_document
from planner.replanning.days.replaying import WindowReplay, replay_schedule
from planner.replanning.days.transitions import with_transitions
from planner.replanning.schedules.scheduling import best_schedule
from planner.workload import summarize

WEEK = 7 * 144
POOLS = {
    "deepseek-r1": ("deepseek-r1", 256),
    "m-large": ("qwen3-235b-a22b", 1024),
    "m-mid": ("gpt-oss-120b", 2048),
    "m-small": ("qwen3-30b-a3b", 2048),
}
"""Pool -> model, and GPUs of each of two types."""


def fleet(pool: str) -> Scenario:
    model, gpus = POOLS[pool]
    document = {
        "name": f"{pool}-fleet",
        "model": model,
        "workload": "azure-conv-2023",
        "inventory": {"H200": gpus, "H20": gpus},
        "prices_usd_per_gpu_hour": {"H200": 4, "H20": 1},
        "engine": {"name": "vllm", "version": "0.18.0"},
        "slo": {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99},
    }
    return scenario_from_document(document, origin=pool, base=Path(), summarize=summarize)


@pytest.mark.study
@pytest.mark.parametrize("pool", POOLS)
def test_schedules_of_production_hold_the_levels_in_99_of_100_windows(pool) -> None:
    """Most rungs of the largest pool are tens of thousands of requests: minutes to a quarter of an hour a pool."""
    series = load_rates(f"servegen-{pool}")
    series = series.part(0, min(WEEK, len(series.windows)))
    scenario, change = fleet(pool), ChangeSettings()
    schedule = best_schedule(scenario, series, Tariff(), change, 4, planner=pipeline.plan)
    replayed = replay_schedule(with_transitions(schedule, scenario, change), scenario.workload, WindowReplay())
    assert replayed.carried_share >= 0.99
    assert replayed.holding_share is not None
    assert replayed.holding_share >= 0.99
