"""Plans of drawn mixed fleets for each router: the promise holds in a replay of its layers, in every bucket, and behind
the real programs."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from test_routers_rehearsed import programs

from planner import pipeline
from planner.domain import Plan
from planner.domain.serving.levels import Standing
from planner.errors import InfeasibleError
from planner.files import scenario_from_document
from planner.runs.rehearsal.rehearsing import rehearse
from planner.runs.rehearsal.settings import RehearsalSettings
from planner.runs.replays.replay_settings import replay_settings
from planner.workload import summarize

FLEETS = 3
SEEDS, REQUESTS, REHEARSED = 2, 15_000, 5_000
ROUTERS: Mapping[str, Mapping[str, str]] = {
    "haproxy": {},
    "haproxy by requests": {"router_counts": "requests"},
    "llm-d": {"target": "llm-d"},
    "vllm": {"router": "vllm"},
    "dynamo": {"target": "dynamo"},
}
REAL = ("haproxy", "haproxy by requests", "vllm")
_MODELS = {"qwen3-235b-a22b": (24, 96), "gpt-oss-120b": (8, 48), "deepseek-v3": (64, 160), "llama-3.1-70b": (16, 64)}
_TYPES = ("H200", "H800", "H20", "H100", "A100")
_WORKLOADS = ("azure-code-2023", "azure-conv-2023")


def drawn(seed: int) -> dict[str, Any]:
    """A scenario: two or three types of one family in whole nodes, a model, a trace."""
    random = Random(seed)
    model = random.choice(sorted(_MODELS))
    fewest, most = _MODELS[model]
    types = random.sample(_TYPES, random.choice((2, 3)))
    return {
        "name": f"drawn-{seed}",
        "model": model,
        "workload": _WORKLOADS[seed % 2],
        "inventory": {gpu: 8 * random.randint(max(1, fewest // 16), most // 16) for gpu in types},
        "engine": {"name": "vllm", "version": "0.33.0"},
        "slo": {"ttft_ms": random.choice((2000, 4000)), "tpot_ms": 60, "percentile": random.choice((95, 99))},
        "serving": "split",
    }


@cache
def planned(seed: int, router: str) -> Plan:
    document = {**drawn(seed), "deploy": dict(ROUTERS[router])}
    return pipeline.plan(scenario_from_document(document, origin="a test", base=Path(), summarize=summarize))


def fleets() -> list[int]:
    """The first seeds whose fleets serve at all."""
    seeds: list[int] = []
    for seed in range(40):
        try:
            planned(seed, "haproxy")
        except InfeasibleError:
            continue
        seeds.append(seed)
        if len(seeds) == FLEETS:
            break
    return seeds


@pytest.mark.study
@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("number", range(FLEETS))
def test_the_promise_holds_in_the_replay_of_its_router(number: int, router: str) -> None:
    plan = planned(fleets()[number], router)
    settings = replay_settings(plan, requests=REQUESTS, seeds=SEEDS)
    result = pipeline.replay(plan, plan.scenario.workload, settings, plan.outlook.promise_rps)
    assert all(level.standing is not Standing.BREAKS for level in result.levels), result.levels
    assert result.standing is not Standing.BREAKS


@pytest.mark.study
@pytest.mark.parametrize("router", REAL)
@pytest.mark.parametrize("number", range(FLEETS))
def test_the_promise_holds_behind_the_real_programs(number: int, router: str) -> None:
    plan = planned(fleets()[number], router)
    settings = RehearsalSettings(
        rate_rps=plan.outlook.promise_rps, requests=REHEARSED, programs=programs(), minutes=30.0
    )
    result = rehearse(plan, plan.scenario.workload, settings)
    assert result.rehearsed.standing is not Standing.BREAKS, result.rehearsed.levels
