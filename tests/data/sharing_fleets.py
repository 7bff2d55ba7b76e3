"""Fleets that are planned in seconds: services, one of which shares another's pools, and work that waits."""

from functools import cache
from pathlib import Path
from typing import Any

from planner import pipeline
from planner.domain.fleets import FleetPlan
from planner.files.scenario.fleets import fleet_from_document
from planner.workload import summarize

SERVICES: tuple[dict[str, Any], ...] = (
    {
        "name": "chat",
        "model": "qwen3-30b-a3b-fp8",
        "workload": "azure-conv-2023",
        "slo": {"ttft_ms": 2000, "tpot_ms": 50, "percentile": 95},
        "demand": 30,
    },
    {
        "name": "agents",
        "model": "qwen3-30b-a3b-fp8",
        "workload": "azure-code-2023",
        "slo": {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 95},
        "demand": 3,
        "shares": "chat",
        "priority": 2,
    },
    {
        "name": "code",
        "model": "gpt-oss-20b",
        "workload": "azure-code-2023",
        "slo": {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 95},
        "demand": 20,
        "priority": 3,
    },
    {"name": "nightly", "model": "gpt-oss-20b", "workload": "azure-conv-2023", "batch": {}},
)


@cache
def sharing_fleet() -> FleetPlan:
    """Demands are met for least rent, so that GPUs are left for what waits."""
    document = {
        "name": "Small.Fleet",
        "inventory": {"H200": 16, "H20": 16},
        "prices_usd_per_gpu_hour": {"H200": 4, "H20": 1},
        "engine": {"name": "vllm", "version": "0.33.0"},
        "objective": {"kind": "target"},
        "services": list(SERVICES),
    }
    fleet = fleet_from_document(document, origin="small", base=Path(), summarize=summarize)
    return pipeline.plan_fleet(fleet)
