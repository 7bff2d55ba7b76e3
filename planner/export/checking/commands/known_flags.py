"""Flags that the engine's own parser does not know, or that have values which it does not take.

The words of a pod are held against the table of the version that the planner writes flags for. An image that is named
after the engine and whose tag gives another version may have other flags, for which there is no table: its words are
not checked.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from planner.export.checking.commands.command_words import DYNAMO_MODULES
from planner.export.engines.flag_tables import Breach, FlagTable, flag_table, word_faults
from planner.export.engines.seam import Engine
from planner.export.found import FoundPod

_VERSION = re.compile(r"v?([0-9]+\.[0-9]+\.[0-9]+)")
_SERVE = "serve"  # the command behind which both engines take the weights without a flag
_ENTRY = "vllm.entrypoints.openai.api_server"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    table: FlagTable
    words: tuple[str, ...]
    positional: int


def unknown_flag_faults(pod: FoundPod, engine: Engine) -> Iterator[Breach]:
    """What must hold and what came, for each word of the pod that the engine would not take."""
    line = _line(pod, engine)
    if line is not None and _version(pod, engine.name) in ("", line.table.version):
        yield from word_faults(line.words, line.table, positional=line.positional)


def _line(pod: FoundPod, engine: Engine) -> _Line | None:
    """None where the words are those of no program with a table."""
    container = pod.spec["containers"][0]
    module = next((word for word in container.get("command", ()) if str(word).startswith(DYNAMO_MODULES)), "")
    if module:
        words = tuple(map(str, container.get("args", ())))
        return _Line(table=flag_table(module), words=words, positional=0) if module == f"dynamo.{engine.name}" else None
    words, positional = pod.arguments or (), 0
    if pod.command_path:
        behind = engine.read_program(words)
        if behind is None:
            return None
        head = words[: len(words) - len(behind)]
        words, positional = behind, int(_SERVE in head[-1:] or _ENTRY in head[-1:])
    return _Line(table=flag_table(engine.name), words=words, positional=positional)


def _version(pod: FoundPod, engine: str) -> str:
    """The engine's version from the image's tag; empty where there is none, or it is that of something else."""
    image = str(pod.spec["containers"][0].get("image", "")).partition("@")[0]
    name, _, tag = image.rpartition("/")[2].partition(":")
    match = _VERSION.match(tag) if engine in name else None
    return match.group(1) if match else ""
