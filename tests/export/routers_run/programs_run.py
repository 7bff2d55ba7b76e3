"""Routers' programs, really run: what the target `script` writes, its addresses put on the loopback and its periods cut
to a second, in front of engines without a model. Every process is ended by its own id, whatever happens."""

import contextlib
import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools import locations

from planner.domain import Plan
from planner.export import ExportOptions, render
from planner.export.objects.scripts import read_router_script

_HERE = Path(__file__).parent
_PROGRAMS = {"vllm_router.launch_router": "vllm-router", "sglang_router.launch_router": "sglang-router"}
_START_S = 20.0
_BIND = re.compile(r"bind :(\d+)")
_QUICKER = {
    "--worker-startup-check-interval": "1",
    "--prometheus-host": "127.0.0.1",
    "--host": "127.0.0.1",
}


def program_words(program: str) -> list[str]:
    """The words that start a router's program, which `environment` must go with; a test that needs it is skipped where
    it is not installed, or fails in CI."""
    locations.require("haproxy" if program == "haproxy" else "routers")
    return locations.router_programs()[program]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Programs and engines that run. `url`: where requests go; `engines`: name -> loopback port; `processes` of engines
    by name, several names sharing one. `ready`: where HAProxy says so, and what it counts of prompts outstanding."""

    url: str
    engines: Mapping[str, int]
    processes: Mapping[str, "subprocess.Popen[bytes]"]
    log: Path
    ready: str = ""

    def outstanding(self) -> dict[str, int]:
        """Server -> bytes that HAProxy counts there."""
        return dict(json.loads(_get(f"http://{self.ready}/outstanding")))

    def records(self, *, without: Sequence[str] = ()) -> dict[str, list[dict[str, object]]]:
        """Engine -> what came to it."""
        return {
            name: json.loads(_get(f"http://127.0.0.1:{port}/record"))
            for name, port in self.engines.items()
            if name not in without
        }


@dataclass(slots=True)
class _Started:
    """Processes in the order of their start."""

    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(self, words: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
        with log.open("ab") as output:
            process = subprocess.Popen(
                words, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=locations.router_environment()
            )
        self.processes.append(process)
        return process

    def end(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=3)


@contextlib.contextmanager
def running(
    plan: Plan,
    folder: Path,
    *,
    router: str,
    engine: str,
    alone: Sequence[str] = (),
    seconds: float = 0.005,
    options: ExportOptions | None = None,
) -> Iterator[Running]:
    """The plan's router before engines that take `seconds` for an answer; `alone`: engines with a process each."""
    files = render(plan, target="script", engine=engine, router=router, options=options)
    table = json.loads(files["routing.json"])
    leaders = [address for row in table["services"] for address in row.get("ranks", row["leaders"])]
    scripts = [read_router_script(text) for name, text in files.items() if name.startswith("router")]
    programs = {name: program_words(name) for script in scripts for name in [_binary(script["command"])]}
    addresses = [f"{script['metadata']['name']}:{script['port']}" for script in scripts]
    binds = [int(port) for name, text in files.items() if name.endswith(".cfg") for port in _BIND.findall(text)]
    addresses += [f"{scripts[0]['metadata']['name']}:{port}" for port in binds[1:]]  # the front's further doors
    ports = iter(_free_ports(2 * len(addresses) + len(leaders) + 1))
    moved = {address: f"127.0.0.1:{next(ports)}" for address in (*leaders, *addresses)}
    up = f"127.0.0.1:{next(ports)}"
    for name, text in files.items():
        if name.endswith(".cfg"):
            counted = [file for file in files if file.endswith(".lua")]
            door = _ready_door(text, up, show=bool(counted))
            (folder / name).write_text(_on_loopback(_moved(text, moved), scripts[0], moved) + door)
            for file in counted:
                (folder / file).write_text(files[file])
    engines = {_name(leader, leaders): int(moved[leader].rpartition(":")[2]) for leader in leaders}
    log, started = folder / "log", _Started()
    try:
        processes = _start_engines(engines, alone, seconds, started, folder)
        for script, address in zip(scripts, addresses, strict=False):
            words = _words(script["command"], moved, moved[address].rpartition(":")[2], str(next(ports)), folder)
            started.start([*programs[_binary(script["command"])], *words], log)
        for script, address in reversed([*zip(scripts, addresses, strict=False)]):
            in_front = _binary(script["command"]) == "haproxy"  # who sees the others answer within its checks' period
            _await(f"http://{up if in_front else moved[address]}{'/health' if in_front else '/readiness'}", log)
        yield Running(url=moved[addresses[0]], engines=engines, processes=processes, log=log, ready=up)
    finally:
        started.end()


def _on_loopback(text: str, front: Mapping[str, Any], moved: Mapping[str, str]) -> str:
    """HAProxy's configuration with its own doors on the loopback, and with quicker checks of who is not there."""
    name = front["metadata"]["name"]
    text = _BIND.sub(lambda match: f"bind {moved[f'{name}:{match[1]}']}", text)
    return text.replace("downinter 2s", "downinter 100ms")


def _ready_door(text: str, address: str, *, show: bool) -> str:
    """A frontend beside the plan's that answers 200 once every interval has a server, and shows what is counted."""
    lacking = " || ".join(
        f"{{ nbsrv({name}) lt 1 }}" for name in re.findall(r"^backend (interval-\d+)", text, re.MULTILINE)
    )
    page = f"global\n    lua-load {_HERE / 'show_outstanding.lua'}\n" if show else ""
    shown = "    http-request use-service lua.outstanding\n" if show else ""
    return (
        f"\n{page}frontend ready\n    bind {address}\n    monitor-uri /health\n    monitor fail if {lacking}\n{shown}"
    )


def _name(address: str, addresses: Sequence[str]) -> str:
    """The host; of further ranks of a host, their port behind it."""
    host, _, port = address.partition(":")
    first = next(other for other in addresses if other.startswith(f"{host}:"))
    return host if address == first else f"{host}.{port}"


def _binary(command: Sequence[str]) -> str:
    return next((name for module, name in _PROGRAMS.items() if module in command), command[0])


def _words(command: Sequence[str], moved: Mapping[str, str], port: str, metrics: str, folder: Path) -> list[str]:
    """The command's words behind the program, on the loopback."""
    behind = list(command[3 if command[1:2] == ["-m"] else 1 :])
    changed = _QUICKER | {"--port": port, "--prometheus-port": metrics}
    words = [_moved(word, moved).replace("{config}", str(folder)) for word in behind]
    for at, word in enumerate(behind[:-1]):
        if word in changed:
            words[at + 1] = changed[word]
    return words


def _moved(text: str, moved: Mapping[str, str]) -> str:
    for address in sorted(moved, key=len, reverse=True):
        text = text.replace(f" {address} ", f" {moved[address]} ").replace(
            f"http://{address}", f"http://{moved[address]}"
        )
    return text


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _start_engines(
    engines: Mapping[str, int], alone: Sequence[str], seconds: float, started: _Started, folder: Path
) -> dict[str, "subprocess.Popen[bytes]"]:
    groups = [[name] for name in alone] + [[name for name in engines if name not in alone]]
    processes: dict[str, subprocess.Popen[bytes]] = {}
    for group in groups:
        words = [f"{name}={engines[name]}" for name in group]
        process = started.start(
            [sys.executable, str(_HERE / "stub_engine.py"), str(seconds), *words], folder / "engines.log"
        )
        processes |= dict.fromkeys(group, process)
    for port in engines.values():
        _await(f"http://127.0.0.1:{port}/health", folder / "engines.log")
    return processes


def _await(url: str, log: Path) -> None:
    """Until `url` answers 200."""
    end = time.monotonic() + _START_S
    while True:
        try:
            _get(url)
        except OSError:
            if time.monotonic() > end:
                raise AssertionError(f"{url} does not answer:\n{log.read_text()[-2000:]}") from None
            time.sleep(0.05)
        else:
            return


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:  # a loopback address of ours
        return str(answer.read().decode())
