"""A command's answer, a scenario that takes a moment, and a trace."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TINY = """\
name: tiny
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 32, H20: 32}
ranges: {width: 2048}
search: {method: random, iterations: 2, batch_size: 2, min_island_size: 12}
serving: split
"""
TABLE = TINY + "routing: {form: table}\n"  # islands of any size, every range with shares of its own
EVEN = TABLE.replace("min_island_size: 12", "min_island_size: 16")  # islands of 16 or 32 GPUs
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


MEASURED = re.compile(r', "(?:generation|evaluation)_cpu_s": [-+.e0-9]+')


def untimed(run: Path) -> dict[str, bytes]:
    """Every file of a run (path below it -> content), plan.json without the CPU-seconds that were measured."""
    found = {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*") if path.is_file()}
    return found | {"plan.json": MEASURED.sub("", found["plan.json"].decode()).encode()}
