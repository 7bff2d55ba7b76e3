"""Parameters by part of the classes that transformers builds of published files, on torch's meta device.

`python tests/data/count_parameters.py` writes `published_parameters.csv` anew, with transformers 5.23 (Apache-2.0).
Norms, biases, routers and scales are left out, but for those of towers and hyper-connections.
"""

import csv
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

from published import FOLDER, PUBLISHED, config_of

CSV = FOLDER / "published_parameters.csv"
PARTS = ("attention", "dense", "experts", "shared", "embeddings", "tower", "connections")
_OF_PART = (
    ("tower", r"visual|vision|mm_projector|multi_modal"),
    ("embeddings", r"embed_tokens|lm_head|embeddings\.weight"),
    ("router", r"shared_expert_gate|latent_proj"),
    ("shared", r"shared_expert|shared_mlp"),
    ("experts", r"experts|block_sparse_moe\.(?!gate)"),
    ("attention", r"mixer\.(in_proj|out_proj|conv1d)"),
    ("position", r"position_bias"),
    ("connections", r"attn_hc|ffn_hc|hc_head"),
    ("attention", r"attn|attention|mixer\.(q|k|v|o)_proj"),
    ("norm", r"norm"),
    ("router", r"router|\.gate\."),
    ("dense", r""),
)
"""The first whose expression is in a parameter's name."""
_WHOLE = ("tower", "connections")
_KIN = {"kimi_k2": "deepseek_v3", "deepseek_ref": "deepseek_v4"}
"""Types of models that are others under a new name."""


def count(shapes: Iterable[tuple[str, tuple[int, ...]]]) -> dict[str, int]:
    """Parameters by part (count)."""
    counts = Counter[str]()
    for name, shape in shapes:
        part = next(part for part, expression in _OF_PART if re.search(expression, name))
        if len(shape) > 1 or part in _WHOLE:
            counts[part] += prod(shape)
    return {part: counts[part] for part in PARTS}


def build(config: dict[str, Any]) -> tuple[str, dict[str, int]]:
    """The class of a config.json, and its parameters by part. ValueError where transformers does not know it."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    plain = {key: value for key, value in config.items() if key not in ("auto_map", "quantization_config")}
    plain["model_type"] = _KIN.get(str(plain["model_type"]), plain["model_type"])
    if "text_config" in plain:
        plain["text_config"] = {k: v for k, v in plain["text_config"].items() if k != "quantization_config"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(plain), encoding="utf-8")
        read = AutoConfig.from_pretrained(folder)
    seeing = type(read) in AutoModelForImageTextToText._model_mapping
    with torch.device("meta"):
        model = (AutoModelForImageTextToText if seeing else AutoModelForCausalLM).from_config(
            read, dtype=torch.bfloat16
        )
    return type(model).__name__, count((name, tuple(each.shape)) for name, each in model.named_parameters())


def main() -> None:
    """Write the table."""
    with CSV.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("id", "class", *PARTS))
        for name in PUBLISHED:
            try:
                kind, counts = build(config_of(name))
            except ValueError as error:
                sys.stderr.write(f"{name}: {str(error)[:100]}\n")
                continue
            rows.writerow((name, kind, *counts.values()))


if __name__ == "__main__":
    main()
