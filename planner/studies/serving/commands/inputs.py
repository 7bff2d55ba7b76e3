"""What `planner simulate serving` is given: pools, models, arrivals, constants; faults name the file or the option."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from planner.errors import InputError
from planner.studies.serving.records import ScalingSettings, ServingSettings, VictimOrder

if TYPE_CHECKING:
    from planner.studies.serving.arrivals import ArrivalLaw, MinuteCounts
    from planner.studies.serving.inputs import ModelTable
    from planner.studies.serving.policies.named import PolicyRow
    from planner.studies.serving.records import InferenceKind, MachineType, ServingPool, ServingRequest

DNN_MINUTES, LLM_MINUTES = 30, 1440
"""Minutes of the thesis' main run; those of its LLM run are not given, nor how its requests fall on models."""

LLM_TOTAL = 46_251
"""Requests of the LLM run."""

TASK_TOKENS = {"code": (2048.0, 28.0, 8_819), "conv": (1155.0, 211.0, 19_366)}
"""Mean tokens of prompts and answers, and requests, of the Azure LLM traces of 2023, after which models are named."""


class Mix(StrEnum):
    """Models of the thesis: `dnn`, its main study, or `llm`, its branch with language models."""

    DNN = "dnn"
    LLM = "llm"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFiles:
    """Files of the command; None: not given."""

    pool: Path | None = None
    models: Path | None = None
    requests: Path | None = None
    profile: Path | None = None
    azure_functions: Path | None = None
    outages: Path | None = None


Settings = TypeVar("Settings", ServingSettings, ScalingSettings)


def serving_policy(word: str) -> "PolicyRow":
    """The policy of that name, in any case."""
    from planner.studies.serving.policies.named import parse_serving_policy

    return parse_serving_policy(word)


def constants_of(words: Sequence[str]) -> tuple[ServingSettings, ScalingSettings]:
    """`quantum_s=5`: constants of the policies and of scaling (`scaling.start_s=10`), each at most once."""
    serving: dict[str, object] = {}
    scaling: dict[str, object] = {}
    for word in words:
        key, equals, text = word.partition("=")
        name = key.strip().removeprefix("scaling.")
        record, values = (ScalingSettings, scaling) if key.strip() != name else (ServingSettings, serving)
        if not equals or name not in {field.name for field in fields(record)} or name in values:
            raise InputError(
                f"--set: must be KEY=VALUE, each key once, got {word!r:.80}.",
                hint=f"Keys: {', '.join(constant_words())}.",
            )
        values[name] = _victims(text) if name == "victims" else _number(word, text)
    return replace(ServingSettings(), **serving), replace(ScalingSettings(), **scaling)  # type: ignore[arg-type]


def constant_words() -> list[str]:
    """Every constant with its default."""
    serving = [f"{field.name}={getattr(ServingSettings(), field.name)}" for field in fields(ServingSettings)]
    return serving + [f"scaling.{field.name}={field.default}" for field in fields(ScalingSettings)]


def _victims(text: str) -> VictimOrder:
    if text not in set(VictimOrder):
        raise InputError(
            f"--set victims: must be one of {', '.join(VictimOrder)}, got {text!r:.40}.", hint="Choose one of them."
        )
    return VictimOrder(text)


def _number(word: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--set: must be KEY=NUMBER, got {word!r:.80}.", hint="Write quantum_s=5.") from None


def spikes_of(text: str) -> tuple[int, ...]:
    """`9,10,20`: minutes; `none`."""
    words = [word.strip() for word in text.split(",")] if text.strip() != "none" else []
    if not all(word.isascii() and word.isdigit() and len(word) <= 6 for word in words):
        raise InputError(
            f"--spikes: must be minutes from 0, as 9,10,20, or none, got {text!r:.80}.", hint="Write 9,10,20."
        )
    return tuple(dict.fromkeys(int(word) for word in words))


def pool_of(
    given: GivenFiles, mix: Mix, kind: "InferenceKind", machines: int | None, law: "ArrivalLaw"
) -> "tuple[ServingPool, ArrivalLaw]":
    """The pool with its models, and the law with their totals and tokens."""
    from planner.studies.serving import inputs, warsaw
    from planner.studies.serving.priced_models import LlmLengths
    from planner.studies.serving.records import ServingPool

    usual = warsaw.LLM_MACHINES if mix is Mix.LLM else warsaw.MACHINES
    types: tuple[MachineType, ...] = (
        warsaw.machines(usual if machines is None else machines)
        if given.pool is None
        else inputs.read_machines(given.pool)
    )
    outages = inputs.read_outages(given.outages) if given.outages else ()
    if given.models is not None:
        lengths = LlmLengths(prompt_tokens=law.prompt_tokens, output_tokens=law.output_tokens)
        table: ModelTable = inputs.read_models(given.models, types, lengths)
        return ServingPool(types=types, models=table.models, outages=outages), replace(law, totals=table.totals)
    if mix is Mix.DNN:
        return ServingPool(types=types, models=warsaw.dnn_models(), outages=outages), law
    models = warsaw.llm_models(kind)
    tasks = {model.name: TASK_TOKENS[model.name.rpartition("-")[2]] for model in models}
    share = LLM_TOTAL / sum(requests for _, _, requests in tasks.values())
    llm_law = replace(
        law,
        totals={name: share * requests for name, (_, _, requests) in tasks.items()},
        tokens={name: (prompt, output) for name, (prompt, output, _) in tasks.items()},
    )
    return ServingPool(types=types, models=models, outages=outages), llm_law


def arrivals_of(
    given: GivenFiles, pool: "ServingPool", minutes: int, seed: int
) -> "tuple[tuple[ServingRequest, ...] | None, MinuteCounts | None]":
    """Requests, or counts by minute, of files; neither where they are drawn."""
    from planner.studies.serving import inputs
    from planner.studies.serving.azure_functions import read_azure_functions

    if given.requests is not None:
        return inputs.read_requests(given.requests, pool.models), None
    if given.profile is not None:
        return None, inputs.read_minutes(given.profile, pool.models)
    if given.azure_functions is not None:
        return None, read_azure_functions(given.azure_functions, pool.models, minutes=minutes, seed=seed)
    return None, None
