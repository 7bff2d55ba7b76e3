"""A command's answer, a scenario that takes a moment, and a trace."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

TINY = """\
name: tiny
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 32, H20: 32}
ranges: {width: 2048}
search: {method: random, iterations: 2, batch_size: 4, min_island_size: 12}
"""
TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"{i * 0.5},{200 + 13 * i},{5 + i % 9}\n" for i in range(60)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON document, strictly: no NaN and nothing around it."""
        return json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))


Command = Callable[..., Answer]
