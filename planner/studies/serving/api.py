"""Many models on one pool of machines: who loads which model, and when; LLMs on machines with GPUs among them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from planner.errors import InputError
from planner.studies.front import StudyAtHand
from planner.studies.serving.records import Reading

if TYPE_CHECKING:
    from planner.studies.serving.arrivals import ArrivalLaw
    from planner.studies.serving.records import ServingPool


def serving_study(
    *,
    machines: int | Sequence[Mapping[str, Any]] = 20,
    models: Sequence[Mapping[str, Any]] = (),
    policies: Sequence[str] = (),
    seeds: Sequence[int] = (2,),
    minutes: int = 7,
    scale: float = 0.23,
    constants: Mapping[str, float] | None = None,
    reading: str = "literal",
) -> StudyAtHand:
    """The thesis' nine models on `machines` alike, two models on each at most; or LLMs on GPUs, by our cost model.

    `machines`: how many; for LLMs the types, as {"name": "H100 x2", "machines": 3, "gpu": "H100", "gpus": 2,
    "load_mbit_s": 50000}. `models`: LLMs, as {"name": "chat", "model": "qwen3-30b-a3b", "sla_s": 15, "requests": 1200}.

    `policies`: all where none are named; `minutes` of arrivals, with spikes in the last third; `scale`: so many times
    the thesis' requests; `constants`: of the policies, as {"quantum_s": 5.0}; `reading`: what the thesis leaves open,
    "literal" or "published" (of its nine models; then `minutes=30, scale=1` is its main setting).
    """
    from planner.studies.serving.page import ROWS, comparisons, means_of, serving_page
    from planner.studies.serving.plots import numbers_of, serving_figure
    from planner.studies.serving.policies.named import POLICIES
    from planner.studies.serving.reconciled.readings import settings_as_read
    from planner.studies.serving.records import ServingPool
    from planner.studies.serving.study import ServingStudy, run_serving_study
    from planner.studies.serving.warsaw import dnn_models
    from planner.studies.serving.warsaw import machines as machines_alike

    settings: dict[str, Any] = dict(constants or {})
    read = _reading(reading)
    if isinstance(machines, int) and not models:
        pool = ServingPool(types=machines_alike(machines), models=dnn_models())
        law = _law(read, minutes, scale)
    else:
        pool, law = llm_pool(machines, models)
        law = replace(law, minutes=minutes, scale=scale, spike_minutes=_late_spikes(minutes))
    question = ServingStudy(
        pool=pool,
        policies=tuple(policies) or tuple(POLICIES),
        seeds=tuple(seeds),
        law=law,
        settings=replace(settings_as_read(read), **settings),
    )
    runs = list(run_serving_study(question))
    means = means_of(runs)
    rows = [{"figure": words, **{policy: figures[name] for policy, figures in means.items()}} for name, words in ROWS]
    findings = [
        {
            "finding": row.finding.words,
            "published": row.finding.published,
            "here": f"{row.less:.3g} against {row.more:.3g}",
            "holds": row.holds,
        }
        for row in comparisons(means)
    ]
    return StudyAtHand(
        "serving",
        rows,
        records={"runs": runs, "pool": question.pool},
        draw={row.number: partial(serving_figure, row.number, runs, question.pool) for row in numbers_of(runs)},
        summary=partial(serving_page, runs, question.pool, question.settings),
        tables={"findings": findings, "models": llm_rows(pool) if models else _thesis_models()},
    )


def _reading(word: str) -> Reading:
    if word not in set(Reading):
        raise InputError(
            f"study serving: reading must be one of {', '.join(Reading)}, got {word!r:.40}.", hint="Choose one of them."
        )
    return Reading(word)


def _law(reading: Reading, minutes: int, scale: float) -> "ArrivalLaw":
    """The reading's arrivals; its own spikes where all of them come."""
    from planner.studies.serving.reconciled.readings import law_as_read

    law = law_as_read(reading)
    fits = reading is Reading.PUBLISHED and minutes > max(law.spike_minutes)
    return replace(
        law, minutes=minutes, scale=scale, spike_minutes=law.spike_minutes if fits else _late_spikes(minutes)
    )


def _late_spikes(minutes: int) -> tuple[int, int]:
    return minutes // 2, minutes // 2 + 1


def _thesis_models() -> list[dict[str, Any]]:
    from planner.studies.serving.warsaw import DNNS

    columns = ("model", "size_mb", "inference_s", "requests_in_30_min")
    return [dict(zip(columns, row, strict=True)) for row in DNNS]


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
