"""CLUSTER.yaml as text: one line a node and a pod, so that clusters of any size can be read and compared."""

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

# what every YAML reads as the text that it is, but for the words below
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_RANGES = re.compile(r"[0-9]+-[0-9]+(,[0-9]+(-[0-9]+)?)*")


def cluster_yaml(document: Mapping[str, Any]) -> str:
    """The text of a cluster document; equal documents give equal texts."""
    lines: list[str] = []
    for key, value in document.items():
        if key == "shapes":
            lines += ["shapes:", *(line for name, shape in value.items() for line in _shape(name, shape))]
        elif isinstance(value, list):
            lines += [f"{key}:", *(f"- {_flow(row)}" for row in value)] if value else [f"{key}: []"]
        else:
            lines.append(f"{key}: {_flow(value)}")
    return "\n".join(lines) + "\n"


def _shape(name: str, shape: Mapping[str, Any]) -> list[str]:
    lines = [f"  {_flow(name)}:"]
    for key, value in shape.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines += [f"    {key}:", *(f"    - {_flow(row)}" for row in value)]
        else:
            lines.append(f"    {key}: {_flow(value)}")
    return lines


def _flow(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return json.dumps(value, allow_nan=False)


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if _RANGES.fullmatch(text) and "," not in text and text.count("-") == 1 and len(text) < 10:
        return text  # 0-47: no number and no date
    if text.isascii() and text.isprintable():
        return json.dumps(text)
    quoted: str = yaml.dump(text, default_style='"', width=float("inf"), allow_unicode=False)
    return quoted.rstrip("\n")
