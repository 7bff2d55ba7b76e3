"""Twelve plans whose promises are replayed: P90 to P99, one to three buckets, split and aggregated, 1 to 256 GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from planner import pipeline
from planner.domain import Plan
from planner.domain.arrivals import ReplaySettings
from planner.domain.replay import ReplayResult
from planner.files import scenario_from_document
from planner.workload import summarize

SEEDS = (21, 22, 23)
LEAST = 2000
"""Requests of the smallest bucket, those of the seeds together."""
_WARM_UP = 0.1
_SPARE = 1.15  # a bucket gets fewer by chance, too


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedPlan:
    """What is asked: levels as `(percentile, ttft_ms, tpot_ms)`; `sooner`: tighter bounds on TTFT
    (ms) of prompts below so many tokens, the tightest last, which buckets have to part. `cheap`: replayed in every run
    of the suite."""

    model: str
    workload: str
    inventory: Mapping[str, int]
    levels: tuple[float, float, float | None]
    serving: str
    most: int = 1
    sooner: tuple[tuple[int, float], ...] = ()
    cheap: bool = False

    def planned(self) -> Plan:
        """The plan."""
        percentile, ttft_ms, tpot_ms = self.levels
        slo: dict[str, Any] = {"ttft_ms": ttft_ms, "percentile": percentile}
        slo["ranges"] = [{"to": tokens, "ttft_ms": bound_ms} for tokens, bound_ms in self.sooner]
        document = {
            "name": "promised",
            "model": self.model,
            "workload": self.workload,
            "inventory": dict(self.inventory),
            "slo": slo if tpot_ms is None else slo | {"tpot_ms": tpot_ms},
            "serving": self.serving,
            "routing": {"most": self.most},
            **({"search": {"min_island_size": 1}} if sum(self.inventory.values()) == 1 else {}),
        }
        return pipeline.plan(scenario_from_document(document, origin="a test", base=Path(), summarize=summarize))


CODE, CONVERSATION, SHORT = "azure-code-2023", "azure-conv-2023", "normal-500-2000"
MIXED = {"H200": 64, "H800": 64, "H20": 128}
PLANS: Mapping[str, PromisedPlan] = {
    "1 H100, P95": PromisedPlan(
        model="gpt-oss-120b",
        workload=CODE,
        inventory={"H100": 1},
        levels=(95, 4000, 60),
        serving="aggregated",
        cheap=True,
    ),
    "2 H20, P90": PromisedPlan(
        model="qwen3-30b-a3b",
        workload=CODE,
        inventory={"H20": 2},
        levels=(90, 2000, 40),
        serving="aggregated",
        cheap=True,
    ),
    "8 H100, P99": PromisedPlan(
        model="llama-3.1-70b",
        workload=SHORT,
        inventory={"H100": 8},
        levels=(99, 3000, 50),
        serving="aggregated",
        cheap=True,
    ),
    "16 H100, P95": PromisedPlan(
        model="llama-3.1-70b", workload=CONVERSATION, inventory={"H100": 16}, levels=(95, 3000, 60), serving="split"
    ),
    "16 H20, P99, split": PromisedPlan(
        model="qwen3-30b-a3b", workload=CODE, inventory={"H20": 16}, levels=(99, 4000, 60), serving="split"
    ),
    "32 H200, P90": PromisedPlan(
        model="deepseek-v3",
        workload=CONVERSATION,
        inventory={"H200": 32},
        levels=(90, 3000, 60),
        serving="split",
        most=2,
        sooner=((2048, 1000.0),),
    ),
    "80 GPUs, P95, two buckets": PromisedPlan(
        model="qwen3-235b-a22b",
        workload=CONVERSATION,
        inventory={"H100": 32, "A100": 32, "H20": 16},
        levels=(95, 4000, 80),
        serving="auto",
        most=2,
        sooner=((2048, 1000.0),),
    ),
    "64 H200, P99, aggregated": PromisedPlan(
        model="deepseek-v3", workload=CODE, inventory={"H200": 64}, levels=(99, 4000, 100), serving="aggregated"
    ),
    "96 GPUs, P97, two buckets": PromisedPlan(
        model="llama-3.1-70b",
        workload=CONVERSATION,
        inventory={"H100": 32, "A100": 64},
        levels=(97, 4000, 60),
        serving="split",
        most=2,
        sooner=((2048, 1000.0),),
    ),
    "64 H800, P95, three buckets": PromisedPlan(
        model="llama-3.1-70b",
        workload=CONVERSATION,
        inventory={"H800": 64},
        levels=(95, 8000, 60),
        serving="split",
        most=3,
        sooner=((4096, 600.0), (1024, 250.0)),
    ),
    "256 GPUs, P99, code": PromisedPlan(
        model="deepseek-v3", workload=CODE, inventory=MIXED, levels=(99, 4000, 60), serving="split", most=2
    ),
    "256 GPUs, P95, two buckets": PromisedPlan(
        model="deepseek-v3",
        workload=CONVERSATION,
        inventory=MIXED,
        levels=(95, 3000, 60),
        serving="auto",
        most=3,
        sooner=((5120, 1500.0), (1024, 600.0)),
    ),
}


def replayed_promise(plan: Plan) -> ReplayResult:
    """The plan at its promise, with so many requests that the smallest bucket gets `LEAST`, and as many as tell."""
    smallest = min(row.part for row in plan.buckets.latencies)
    requests = round(_SPARE * LEAST / (smallest * len(SEEDS) * (1 - _WARM_UP)))
    settings = ReplaySettings(router=plan.scenario.router, seeds=SEEDS, requests=requests, warm_up=_WARM_UP)
    result = pipeline.replay(plan, plan.scenario.workload, settings, plan.buckets.promise_rps)
    if not result.requests_to_tell:
        return result
    longer = replace(settings, requests=2 * result.requests_to_tell)
    return pipeline.replay(plan, plan.scenario.workload, longer, plan.buckets.promise_rps)
