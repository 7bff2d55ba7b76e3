"""A small plan of buckets, and workloads that shift."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from planned import plan

from planner.domain import Plan, Scenario
from planner.files import scenario_from_document
from planner.workload import summarize

LEVELS = {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}


def small_scenario(**changes: Any) -> Scenario:
    """DeepSeek-V3 on 40 H200 under the synthetic workload, in split pools."""
    document: dict[str, Any] = {
        "name": "small",
        "model": "deepseek-v3",
        "workload": "normal-500-2000",
        "inventory": {"H200": 40},
        "prices_usd_per_gpu_hour": {"H200": 4.0},
        "ranges": {"width": 1024},
        "routing": {"most": 1},
        "search": {"timings": False},
        "serving": "split",
    }
    return scenario_from_document({**document, **changes}, origin="test", base=Path(), summarize=summarize)


def small_plan(**changes: Any) -> Plan:
    """The plan of the small scenario."""
    return plan(small_scenario(**changes))


def longer(scenario: Scenario, factor: float, *, clipped: bool = True) -> Scenario:
    """Prompts and answers so much longer; `clipped`: none longer than the longest was."""
    workload = scenario.workload
    most, mass = workload.input_tokens[-1], defaultdict[int, list[float]](lambda: [0.0, 0.0])
    answers = workload.output_tokens or (0.0,) * len(workload.input_tokens)
    for tokens, probability, answer in zip(workload.input_tokens, workload.probabilities, answers, strict=True):
        length = max(1, round(tokens * factor))
        cell = mass[min(length, most) if clipped else length]
        cell[0] += probability
        cell[1] += probability * answer * factor
    lengths = sorted(mass)
    shifted = replace(
        workload,
        input_tokens=tuple(lengths),
        probabilities=tuple(mass[n][0] for n in lengths),
        output_tokens=tuple(mass[n][1] / mass[n][0] for n in lengths) if workload.output_tokens else (),
        mean_output_tokens=workload.mean_output_tokens * factor,
        max_output_tokens=workload.max_output_tokens if clipped else round(workload.max_output_tokens * factor),
    )
    return replace(scenario, workload=shifted)
