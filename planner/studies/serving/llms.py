"""LLMs on pools of machines with GPUs, for the study of serving."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.errors import InputError

if TYPE_CHECKING:
    from planner.studies.serving.arrivals import ArrivalLaw
    from planner.studies.serving.records import ServingPool

PROMPT_TOKENS, OUTPUT_TOKENS = 800, 150
"""Means of drawn requests."""


def llm_pool(machines: object, models: Sequence[Mapping[str, Any]]) -> "tuple[ServingPool, ArrivalLaw]":
    """The pool, and how requests come to its models.

    Raises InputError where one of both is missing, or has keys that it must not have.
    """
    from planner.studies.serving.arrivals import ArrivalLaw
    from planner.studies.serving.priced_models import LlmLengths, machine_memory_mb, priced_llm
    from planner.studies.serving.records import MachineType, ServingPool

    if not models or not isinstance(machines, Sequence):
        raise InputError(
            "study serving: machines and models must both be lists for LLMs, got one of them.",
            hint="help(planner.study) and notebook 09 show them.",
        )
    types = tuple(MachineType(**kind) for kind in machines)
    lengths = LlmLengths(prompt_tokens=PROMPT_TOKENS, output_tokens=OUTPUT_TOKENS)
    served = tuple(
        priced_llm(row["name"], row["model"], types, lengths=lengths, sla_s=row.get("sla_s")) for row in models
    )
    types = tuple(replace(kind, memory_mb=machine_memory_mb(kind)) for kind in types)
    totals = {row["name"]: row["requests"] for row in models}
    law = ArrivalLaw(totals=totals, prompt_tokens=PROMPT_TOKENS, output_tokens=OUTPUT_TOKENS)
    return ServingPool(types=types, models=served), law


def llm_rows(pool: "ServingPool") -> list[dict[str, Any]]:
    """One row a model and machine: weights, memory with the cache (GB), the largest batch, steps (ms)."""
    return [
        {
            "model": model.name,
            "machine": machine,
            "weights_gb": model.size_mb / 1000,
            "with_cache_gb": None if times.memory_mb is None else times.memory_mb / 1000,
            "largest_batch": times.most_batch,
            "step_alone_ms": 1000 * times.step.at(1),
            "step_at_that_batch_ms": 1000 * times.step.at(times.most_batch),
        }
        for model in pool.models
        for machine, times in model.times.items()
    ]
