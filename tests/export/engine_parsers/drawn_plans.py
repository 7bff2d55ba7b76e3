"""Plans of scenarios drawn at random, always the same ones: models, GPU types, whole nodes and parts of them, settings
that become flags, engines and targets, pools behind buckets and tables of any islands."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine_parsers.lines import model_config
from planner import pipeline
from planner.domain import Plan
from planner.errors import ExportError, InfeasibleError
from planner.export import render
from planner.files import load_engine, load_model, scenario_from_document
from planner.workload import summarize

_GPUS = ("H20", "H20-3E", "H200", "H800", "H100", "A100", "L40S", "DGX-B200", "RTX-PRO-6000", "MI300X", "MI355X")
_MODELS = (
    *("deepseek-r1", "deepseek-v2", "deepseek-v3", "glm-4.5", "gpt-oss-120b", "gpt-oss-20b", "kimi-k2"),
    *("llama-3.1-405b", "llama-3.1-70b", "llama-3.1-8b", "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b"),
)
_WHOLE_NODES, _PARTS_OF_NODES = (8, 16, 24, 32, 64), (2, 4, 6, 12, 20, 30)
_TARGETS = ("lws", "lws", "kubernetes", "disaggregatedset", "llm-d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A plan and its manifests, of the scenario that `seed` draws."""

    seed: int
    plan: Plan
    engine: str
    target: str
    files: dict[str, str]


def exported(count: int, *, seed: int = 0, engines: tuple[str, ...] = ("vllm", "sglang")) -> Iterator[Exported]:
    """`count` exported plans. Scenarios that no layout serves, and plans that the target or the engine cannot run and
    the export refuses, are drawn anew."""
    while count:
        drawn = _exported(seed, engines)
        if drawn is not None:
            count -= 1
            yield drawn
        seed += 1


def _exported(seed: int, engines: tuple[str, ...]) -> Exported | None:
    draw = random.Random(seed)  # no secret
    document = scenario_document(draw)
    engine = draw.choice(engines)
    target = draw.choice(_TARGETS) if engine == "vllm" else draw.choice(_TARGETS[:-1])
    document["engine"] = engine
    if not load_engine(engine).loads(load_model(document["model"]).architecture):
        return None
    scenario = scenario_from_document(document, origin=f"seed {seed}", base=Path(), summarize=summarize)
    try:
        plan = pipeline.plan(scenario)
        return Exported(
            seed=seed, plan=plan, engine=engine, target=target, files=render(plan, target=target, engine=engine)
        )
    except (InfeasibleError, ExportError):
        return None


def scenario_document(draw: random.Random) -> dict[str, Any]:
    """A scenario as its file would say it; the layout is solved for, which needs no search."""
    gpus = draw.sample(_GPUS, draw.choice([1, 1, 2, 3]))
    inventory = {gpu: draw.choice(draw.choice([_WHOLE_NODES, _PARTS_OF_NODES])) for gpu in gpus}
    model = draw.choice(_MODELS)
    config = model_config(model)
    experts, drafts = "num_experts_per_tok" in config, bool(config.get("num_nextn_predict_layers"))
    form, sizes = draw.choice(
        [("buckets", "whole_nodes"), ("buckets", "whole_nodes"), ("table", "powers_of_two"), ("table", "all")]
    )
    return {
        "name": "drawn",
        "model": model,
        "workload": "normal-500-2000",
        "inventory": inventory,
        "prices_usd_per_gpu_hour": dict.fromkeys(inventory, 2.5),
        "ranges": {"width": 2048},
        "routing": {"form": form},
        "slo": draw.choice([{}, {"ttft_ms": 5000, "tpot_ms": 60, "percentile": 99}] if form == "buckets" else [{}]),
        "cost": {
            "max_pipeline_stages": draw.choice([1, 1, 2, 4]),
            "redundant_experts": draw.choice([0, 0, 32 * experts]),
            "mtp_tokens": draw.choice([0, 0, 1 * drafts]),
            "two_micro_batches": draw.choice([experts, False]),
        },
        "search": {
            "method": "exact",
            "min_island_size": 1,
            "sizes": sizes,
            "gap": 0.05,
            "work_limit": 10,
            "timings": False,
        },
    }
