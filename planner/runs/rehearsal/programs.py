"""Routers' programs on the loopback: started as the export would start them, with other hosts and ports, and ended by
their own ids whatever happens."""

import os
import re
import resource
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket

from planner.errors import PlannerError
from planner.export.seams import CONFIG_FOLDER, RouterProcess
from planner.runs.rehearsal.naming import program_words
from planner.runs.rehearsal.wire import LOOPBACK

_ANY_HOST = "0.0.0.0"  # noqa: S104  (what is replaced)
_STRICT, _FILES = "\nglobal\n", 65_536
_BIND = re.compile(r"(?m)^(\s*bind\s+)\S*:(\d+)")
_PORT_WORDS = ("--port", "--prometheus-port")
_PATIENCE_S, _LOG_BYTES = 5.0, 2000


@dataclass(slots=True, kw_only=True)
class Programs:
    """Programs that run. `front`: the URL where requests go."""

    folder: Path
    front: str = ""
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(self, processes: Sequence[RouterProcess], commands: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        """Start all; the URLs that answer 200 once they take requests, that of the first one, in front, last."""
        doors = [(process, number) for process in processes for number in _doors(process)]
        ports = _free_ports(len(doors) + len(processes))
        moved = dict(zip(((p.name, n) for p, n in doors), ports, strict=False))
        for process, spare in reversed([*zip(processes, ports[len(doors) :], strict=True)]):
            self._start(process, _Moved(name=process.name, doors=moved, metrics=spare), commands)
        urls = [f"http://{LOOPBACK}:{moved[process.name, process.port]}" for process in processes]
        self.front = urls[0]
        return tuple(f"{url}{process.health_path}" for url, process in reversed([*zip(urls, processes, strict=True)]))

    def _start(self, process: RouterProcess, moved: "_Moved", commands: Mapping[str, Sequence[str]]) -> None:
        folder = self.folder / process.name
        folder.mkdir()
        for name, text in process.config:
            (folder / name).write_text(moved.config(text), encoding="utf-8")
        words = program_words(process.command, commands)
        moved_words = moved.words(program_words(process.command, commands))
        words = tuple(word.replace(CONFIG_FOLDER, str(folder)) for word in moved_words)
        with (folder / "log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=os.environ)  # noqa: S603
            )

    def check(self) -> None:
        """PlannerError where a program has ended."""
        for process in self.processes:
            if process.poll() is not None:
                raise PlannerError(
                    f"Router's program {process.args!r} ended with {process.returncode}: {self.log()}",
                    hint="Try it by itself; its version may have other options.",
                )

    def log(self) -> str:
        """The ends of what the programs wrote."""
        texts = [path.read_bytes()[-_LOG_BYTES:].decode("utf-8", "replace") for path in self.folder.glob("*/log")]
        return " ".join(" ".join(texts).split())[-_LOG_BYTES:]

    def end(self) -> None:
        """End all, by their ids."""
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        limit_s = time.monotonic() + _PATIENCE_S
        for process in self.processes:
            try:
                process.wait(timeout=max(0.1, limit_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def programs_in(folder: Path) -> Iterator[Programs]:
    """Programs that keep their files in `folder` and end with the block."""
    programs = Programs(folder=folder)
    try:
        yield programs
    finally:
        programs.end()


def _doors(process: RouterProcess) -> tuple[int, ...]:
    """Ports at which others reach it."""
    return (process.port, *(port for _, port in process.more_ports))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moved:
    """Hosts and ports brought to the loopback, of the program `name`. `doors`: (program, port) -> the port in its
    place; `metrics`: one for its metrics."""

    name: str
    doors: Mapping[tuple[str, int], int]
    metrics: int

    def config(self, text: str) -> str:
        """A configuration's text."""
        text = _BIND.sub(lambda match: f"{match[1]}{LOOPBACK}:{self._own_port(match[2])}", text)
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < _FILES:  # then HAProxy would not start for a large fleet
            text = text.replace(_STRICT, f"{_STRICT}    no strict-limits\n", 1)
        return self._addressed(text)

    def words(self, command: Sequence[str]) -> Iterator[str]:
        """A command's words."""
        for before, word in zip(("", *command), command, strict=False):
            if before in _PORT_WORDS:
                yield str(self._own_port(word))
            else:
                yield LOOPBACK if word == _ANY_HOST else self._addressed(word)

    def _own_port(self, number: str) -> int:
        """In the place of a port of its own."""
        return self.doors.get((self.name, int(number)), self.metrics)

    def _addressed(self, text: str) -> str:
        for (name, number), port in self.doors.items():
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}:{number}(?!\d)", f"{LOOPBACK}:{port}", text)
        return text


def _free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody has just now."""
    sockets = [socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()
