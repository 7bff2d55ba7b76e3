"""Published files of 89 models, 2024 to October 2026, as they are: `config.json`, and 28 times `hf_quant_config.json`.

`published_models.jsonl.xz`: a line a model, as the package `aiconfigurator-core` 0.12.0 (Apache-2.0) carries them from
their repositories. Facts of configurations, no weights.
"""

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from planner.domain import ModelSpec
from planner.files.models.model_documents import ModelSection
from planner.files.models.models import model_from_config
from planner.files.sections import Section

FOLDER = Path(__file__).parent
_START = '{"id":"'


@cache
def _lines() -> dict[str, str]:
    with lzma.open(FOLDER / "published_models.jsonl.xz", "rt", encoding="utf-8") as lines:
        return {line.removeprefix(_START).partition('"')[0].casefold(): line for line in lines}


PUBLISHED = tuple(_lines())
"""Their ids, in lower case."""


def config_of(name: str) -> dict[str, Any]:
    """The config.json."""
    return dict(json.loads(_lines()[name])["config"])


def beside(name: str) -> dict[str, Any] | None:
    """The hf_quant_config.json, where there is one and config.json says nothing of quantisation."""
    row = json.loads(_lines()[name])
    return None if "quantization_config" in row["config"] else row.get("hf_quant_config")


@cache
def model_of(name: str) -> ModelSpec:
    """The model as published."""
    return read(name)


def read(name: str, **changes: object) -> ModelSpec:
    """A change to `...` takes the key away; keys of a nested text model are changed there, but for a tower's."""
    config, quantised = config_of(name), beside(name)
    text = config.get("text_config", config)
    for key, value in changes.items():
        place = config if key == "vision_config" else text
        place[key] = value
        if value is ...:
            del place[key]
    section = ModelSection(config, file=f"{name}.json")
    if quantised is not None and "quantization_config" not in changes:
        section = section.with_quantization(Section(quantised, file="hf_quant_config.json"))
    return model_from_config(section, name="m")
