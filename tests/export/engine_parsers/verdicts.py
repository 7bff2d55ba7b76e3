"""Command lines put to an engine's own parser, in a process of its own. To import an engine takes ten seconds, so the
process stays for the next question; of many engines the last four do."""

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
    """One verdict a case, by the parser of `version` (as vllm-0.33.0, dynamo.vllm-1.6.1), which is installed. An engine
    looks once at whose GPUs it runs on, so each of AMD's architectures has a judge of its own."""
    answers: dict[int, Verdict] = {}
    for architecture in {case.gpu.architecture: None for case in cases}:
        asked = {number: case for number, case in enumerate(cases) if case.gpu.architecture == architecture}
        answers |= zip(asked, _judge(version, architecture).ask(list(asked.values())), strict=True)
    return tuple(answers[number] for number in range(len(cases)))


def _judge(version: str, architecture: str) -> "_Judge":
    name = (version, architecture)
    if name not in _JUDGES:
        while len(_JUDGES) >= _MOST_JUDGES:
            _end(next(iter(_JUDGES)))
        _JUDGES[name] = _Judge(version, architecture)
    return _JUDGES[name]


class _Judge:
    """A judge's process, and what it says beside its verdicts."""

    def __init__(self, version: str, architecture: str) -> None:
        judge = _HERE / f"judge_{version.partition('-')[0].replace('.', '_')}.py"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self.name, self.errors = (version, architecture), tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, str(judge), str(folder(version)), *([architecture] if architecture else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=environment,
        )

    def ask(self, cases: Sequence[Case]) -> tuple[Verdict, ...]:
        """One verdict a case."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps([asdict(case) for case in cases]) + "\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.errors.seek(0)
            told = self.errors.read()[-4000:]
            _end(self.name)
            raise AssertionError(f"The judge of {' '.join(self.name)} ended:\n{told}")
        return tuple(Verdict(**row) for row in json.loads(answer))


_MOST_JUDGES = 4  # each holds an engine, half a gigabyte
_JUDGES: dict[tuple[str, str], _Judge] = {}


@atexit.register
def _end_all() -> None:
    for name in list(_JUDGES):
        _end(name)


def _end(name: tuple[str, str]) -> None:
    """Lets the process go, which ends with its input."""
    judge = _JUDGES.pop(name)
    assert judge.process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        judge.process.stdin.close()
    judge.process.kill()
    judge.process.wait()
    judge.errors.close()
