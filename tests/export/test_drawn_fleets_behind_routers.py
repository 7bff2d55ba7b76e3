"""Plans of drawn mixed fleets for each router: the promise holds in a replay of its layers, in every bucket, and behind
the real programs."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
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

ROOT = Path(__file__).resolve().parents[2]
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
def test_the_guides_tell_what_each_router_promises() -> None:
    """Of the mixed fleet, each planned for its router; beside what least work would promise."""
    document = yaml.safe_load((ROOT / "workloads/scenarios/mixed-fleet.yaml").read_text(encoding="utf-8"))

    def promise(**changes: object) -> float:
        asked = scenario_from_document({**document, **changes}, origin="a test", base=Path(), summarize=summarize)
        return pipeline.plan(asked).outlook.promise_rps

    promises = {router: promise(deploy=dict(deploy)) for router, deploy in ROUTERS.items()}
    promises["least work"] = promise(routing={"policy": "least_work"})
    guides = ROOT / "planner/cli/docs/guides"
    replay = " ".join((guides / "replay.md").read_text(encoding="utf-8").split())
    sentence = re.search(
        r"promises (\d+) requests/s behind HAProxy, as much as behind `least_work`, (\d+) where HAProxy "
        r"counts requests, and (\d+) behind vllm-router; llm-d and Dynamo hold (\d+)\.",
        replay,
    )
    assert sentence is not None
    haproxy, by_requests, vllm, by_tokens = map(float, sentence.groups())
    for router, figure in (
        ("haproxy", haproxy),
        ("least work", haproxy),
        ("haproxy by requests", by_requests),
        ("vllm", vllm),
        ("llm-d", by_tokens),
        ("dynamo", by_tokens),
    ):
        assert promises[router] == pytest.approx(figure, rel=0.005), router
    less = re.search(r"then promises (\d+) % less", (guides / "manifests.md").read_text(encoding="utf-8"))
    assert less is not None
    assert float(less[1]) == pytest.approx(100 * (1 - promises["haproxy by requests"] / promises["haproxy"]), abs=1)


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
