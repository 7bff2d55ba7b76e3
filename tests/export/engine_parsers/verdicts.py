"""Command lines put to an engine's own parser, in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine_parsers.installing import folder

_HERE = Path(__file__).resolve().parent
_TIMEOUT_S = 600
MODEL = "{model}"
"""Stands for the weights, which the judge makes a folder with the model's config.json."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The GPUs of a pod."""

    name: str
    compute_capability: str
    memory_bytes: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One command line: the words behind the program, with MODEL in place of the weights, and what it is run with."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    config: Mapping[str, Any]
    gpu: Gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the engine says; `error` is empty where it accepts."""

    accepted: bool
    error: str


def verdicts(version: str, cases: Sequence[Case]) -> tuple[Verdict, ...]:
    """One verdict a case, by the parser of `version` (as vllm-0.18.0, dynamo.vllm-1.3.1), which is installed."""
    judge = _HERE / f"judge_{version.partition('-')[0].replace('.', '_')}.py"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, str(judge), str(folder(version))],
        input=json.dumps([asdict(case) for case in cases]),
        capture_output=True,
        text=True,
        env=environment,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"The judge of {version} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    return tuple(Verdict(**row) for row in json.loads(done.stdout))
