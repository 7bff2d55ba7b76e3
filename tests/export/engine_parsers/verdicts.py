"""Command lines put to an engine's own parser, in a process of its own. To import an engine takes ten seconds, so the
process stays for the next question."""

import atexit
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine_parsers.installing import folder

_HERE = Path(__file__).resolve().parent
MODEL = "{model}"
"""Stands for the weights, which the judge makes a folder with the model's config.json."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The GPUs of a pod. `architecture`: of AMD's, as gfx942, in place of a compute capability."""

    name: str
    compute_capability: str
    memory_bytes: int
    count: int
    architecture: str = ""


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
    """One verdict a case, by the parser of `version` (as vllm-0.33.0, dynamo.vllm-1.6.1), which is installed."""
    if version not in _JUDGES:
        _JUDGES[version] = _Judge(version)
    answers: dict[int, Verdict] = {}
    for architecture in {case.gpu.architecture: None for case in cases}:
        asked = {number: case for number, case in enumerate(cases) if case.gpu.architecture == architecture}
        answers |= zip(asked, _JUDGES[version].ask(architecture, list(asked.values())), strict=True)
    return tuple(answers[number] for number in range(len(cases)))


class _Judge:
    """A judge's process, and what it says beside its verdicts."""

    def __init__(self, version: str) -> None:
        judge = _HERE / f"judge_{version.partition('-')[0].replace('.', '_')}.py"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self.version, self.errors = version, tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, str(judge), str(folder(version))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=environment,
        )

    def ask(self, architecture: str, cases: Sequence[Case]) -> tuple[Verdict, ...]:
        """One verdict a case, on GPUs of an architecture of AMD's, or on NVIDIA's (empty)."""
        question = {"architecture": architecture, "cases": [asdict(case) for case in cases]}
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.errors.seek(0)
            told = self.errors.read()[-4000:]
            _end(self.version)
            raise AssertionError(f"The judge of {self.version} {architecture} ended:\n{told}")
        return tuple(Verdict(**row) for row in json.loads(answer))


_JUDGES: dict[str, _Judge] = {}


@atexit.register
def _end_all() -> None:
    for version in list(_JUDGES):
        _end(version)


def _end(version: str) -> None:
    """Lets the process go, which ends with its input."""
    judge = _JUDGES.pop(version)
    assert judge.process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        judge.process.stdin.close()
    judge.process.wait()
    judge.errors.close()
