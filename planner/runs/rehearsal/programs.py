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

    def start(self, processes: Sequence[RouterProcess], commands: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
        """Start all in two steps, those behind the first one before it: who stands in front is to meet no closed door.
        Of each step the URLs that answer 200 once its programs are ready."""
        ports = _free_ports(2 * len(processes))
        addresses = {f"{p.name}:{p.port}": f"{LOOPBACK}:{ports[at]}" for at, p in enumerate(processes)}
        self.front = f"http://{LOOPBACK}:{ports[0]}"
        for step in (range(1, len(processes)), range(1)):
            for at in step:
                spare = ports[len(processes) + at]
                moved = _Moved(addresses=addresses, ports=(processes[at].port, ports[at], spare))
                self._start(processes[at], moved, commands)
            yield [f"http://{LOOPBACK}:{ports[at]}{processes[at].health_path}" for at in step]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moved:
    """Hosts and ports brought to the loopback: of other programs by `addresses`; `ports`: the program's own, the one in
    its place, and one for its metrics."""

    addresses: Mapping[str, str]
    ports: tuple[int, int, int]

    def config(self, text: str) -> str:
        """A configuration's text."""
        before, port, spare = self.ports
        text = _BIND.sub(lambda match: f"{match[1]}{LOOPBACK}:{port if int(match[2]) == before else spare}", text)
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < _FILES:  # then HAProxy would not start for a large fleet
            text = text.replace(_STRICT, f"{_STRICT}    no strict-limits\n", 1)
        return self._addressed(text)

    def words(self, command: Sequence[str]) -> Iterator[str]:
        """A command's words."""
        _, port, spare = self.ports
        for before, word in zip(("", *command), command, strict=False):
            if before in _PORT_WORDS:
                yield str(port if before == _PORT_WORDS[0] else spare)
            else:
                yield LOOPBACK if word == _ANY_HOST else self._addressed(word)

    def _addressed(self, text: str) -> str:
        for address, moved in self.addresses.items():
            text = re.sub(rf"(?<![\w.-]){re.escape(address)}(?!\d)", moved, text)
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
