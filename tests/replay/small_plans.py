"""Real plans that take a second to make, and traces like their workload."""

import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from planner.domain import Plan, RequestTrace
from planner.pipeline import plan
from planner.proposing.feasibility import posed

sys.path.insert(0, str(Path(__file__).parents[1] / "pipeline"))

from pipeline_scenarios import bucketed

LEVELS = {"ttft_ms": 2000, "tpot_ms": 40, "percentile": 90}
SCENARIOS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "one node type, no levels": ({"H200": 32}, {}),
    "dense, with levels": ({"H100": 8}, {"model": "llama-3.1-70b", "slo": LEVELS}),
    "aggregated": ({"H100": 8}, {"model": "llama-3.1-70b", "slo": LEVELS, "serving": "aggregated"}),
}


@cache
def small_plan(name: str) -> Plan:
    inventory, sections = SCENARIOS[name]
    return plan(bucketed(inventory, **sections))


@cache
def small_trace(name: str, requests: int = 6000) -> RequestTrace:
    """Prompts of the mean lengths of the workload's ranges, with mean answers."""
    workload = posed(small_plan(name).scenario).workload
    rng = np.random.default_rng(0)
    ranges = workload.ranges
    rows = rng.choice(len(ranges), requests, p=[span.probability for span in ranges])
    lengths = [round(ranges[row].mean_input_tokens) for row in rows]
    answers = [round(ranges[row].mean_output_tokens or workload.mean_output_tokens) for row in rows]
    return RequestTrace(
        name="like the workload",
        arrival_s=np.cumsum(rng.exponential(1.0, requests)).tolist(),
        input_tokens=lengths,
        output_tokens=answers,
    )
