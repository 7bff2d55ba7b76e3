"""The frame of a judge: as a line of JSON on standard input whose GPUs a question is about and its cases, their
verdicts as a line of JSON on standard output, in the same order; and so on until the input ends.

An engine looks once at whose GPUs it runs on. So each of AMD's architectures, and NVIDIA as the empty one, has a
process of its own: this one is forked once what all of them import is there.

A question has `architecture` and `cases`. A case has `arguments` (the words behind the program, MODEL in place of the
weights), `environment`, `config` (a config.json) and `gpu` (name, compute_capability, memory_bytes, count in the pod,
AMD's architecture). A verdict has `accepted` and `error`.
"""

import argparse
import contextlib
import functools
import json
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

MODEL = "{model}"
_LONGEST_ERROR = 600
_Remembering = type(functools.cache(len))

Case = Mapping[str, Any]
Judge = Callable[[list[str], Case], None]


def answer(prepare: Callable[[], None], make_judge: Callable[[str], Judge]) -> None:
    """Answers every question on standard input. `prepare` imports what is the same of all architectures, `make_judge`
    the rest. Whatever the engine prints goes to standard error."""
    judges: dict[str, Connection] = {}
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        prepare()
        for line in sys.stdin:
            question = json.loads(line)
            architecture = question["architecture"]
            if architecture not in judges:
                judges[architecture] = _forked(make_judge, architecture)
            judges[architecture].send(question["cases"])
            answers.write(json.dumps(judges[architecture].recv()) + "\n")
            answers.flush()
    for judge in reversed(judges.values()):  # a later one holds the ends of those before it
        judge.close()
    for process in multiprocessing.active_children():
        process.join()


def _forked(make_judge: Callable[[str], Judge], architecture: str) -> Connection:
    """The way to a new process, which judges all cases that come by it."""
    here, there = multiprocessing.Pipe()

    def judge_all() -> None:
        here.close()  # so that the end of the other process is one of the way, too
        judge = make_judge(architecture)
        with contextlib.suppress(EOFError):
            while True:
                there.send([verdict(judge, case) for case in there.recv()])

    multiprocessing.get_context("fork").Process(target=judge_all).start()
    there.close()
    return here


def verdict(judge: Judge, case: Case) -> dict[str, object]:
    """What the engine says: whatever it raises is a refusal."""
    with tempfile.TemporaryDirectory() as folder, _variables(case["environment"]):
        Path(folder, "config.json").write_text(json.dumps(case["config"]), encoding="utf-8")
        words = [word.replace(MODEL, folder) for word in case["arguments"]]
        try:
            judge(words, case)
        except SystemExit as stop:
            return {"accepted": False, "error": f"exit status {stop.code}"}
        except Exception as error:  # noqa: BLE001  # the engine is the judge, however it says no
            return {"accepted": False, "error": reason(error)}
    return {"accepted": True, "error": ""}


def reason(error: Exception) -> str:
    """The error in one line, and where it was raised: many of the engines' assertions have no words."""
    traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {str(error)[:_LONGEST_ERROR]}"
    return f"{text} [{'/'.join(Path(last.filename).parts[-2:])}:{last.lineno}: {last.line}]"


def import_first(names: Iterable[str]) -> None:
    """Imports libraries that take long and ask for no GPU. One of them, transformers, writes every configuration that
    it reads into its log, and one of a quantised model has 90,000 lines: here it writes that there is one."""
    for name in names:
        import_module(name)
    import_module("transformers").PretrainedConfig.__repr__ = object.__repr__


def refuse(message: str) -> None:
    """In place of a parser's `error`, which would end the program."""
    raise argparse.ArgumentError(None, message)


def forget(package: str) -> None:
    """Empties what the functions of `package` remember, as the next case may have another GPU."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package and isinstance(module, ModuleType) and not isinstance(module, MagicMock):
            for value in list(vars(module).values()):
                if isinstance(value, _Remembering):
                    value.cache_clear()


@contextlib.contextmanager
def _variables(environment: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
