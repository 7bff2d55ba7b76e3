"""Routers' programs, really run: what the target `script` writes, its addresses put on the loopback and its periods cut
to a second, in front of engines without a model. Every process is ended by its own id, whatever happens."""

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools import locations

from planner.domain import Plan
from planner.export import render
from planner.export.objects.scripts import read_router_script

_HERE = Path(__file__).parent
_PROGRAMS = {"vllm_router.launch_router": "vllm-router", "sglang_router.launch_router": "sglang-router"}
_START_S = 20.0
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
    by name, several names sharing one."""

    url: str
    engines: Mapping[str, int]
    processes: Mapping[str, "subprocess.Popen[bytes]"]
    log: Path

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
    plan: Plan, folder: Path, *, router: str, engine: str, alone: Sequence[str] = (), seconds: float = 0.005
) -> Iterator[Running]:
    """The plan's router before engines that take `seconds` for an answer; `alone`: engines with a process each."""
    files = render(plan, target="script", engine=engine, router=router)
    table = json.loads(files["routing.json"])
    leaders = [address for row in table["services"] for address in row.get("ranks", row["leaders"])]
    scripts = [read_router_script(text) for name, text in files.items() if name.startswith("router")]
    programs = {name: program_words(name) for script in scripts for name in [_binary(script["command"])]}
    addresses = [f"{script['metadata']['name']}:{script['port']}" for script in scripts]
    ports = iter(_free_ports(2 * len(addresses) + len(leaders)))
    moved = {address: f"127.0.0.1:{next(ports)}" for address in (*leaders, *addresses)}
    for name, text in files.items():
        if name.endswith(".cfg"):
            (folder / name).write_text(_moved(text, moved).replace("bind :8080", f"bind {moved[addresses[0]]}"))
    engines = {_name(leader, leaders): int(moved[leader].rpartition(":")[2]) for leader in leaders}
    log, started = folder / "log", _Started()
    try:
        processes = _start_engines(engines, alone, seconds, started, folder)
        behind_front = list(zip(scripts, addresses, strict=True))
        for step in (behind_front[1:], behind_front[:1]):  # who stands in front comes last, and meets no closed door
            for script, address in step:
                words = _words(script["command"], moved, moved[address].rpartition(":")[2], str(next(ports)), folder)
                started.start([*programs[_binary(script["command"])], *words], log)
            for script, address in step:
                health = "/health" if _binary(script["command"]) == "haproxy" else "/readiness"
                _await(f"http://{moved[address]}{health}", log)
        yield Running(url=moved[addresses[0]], engines=engines, processes=processes, log=log)
    finally:
        started.end()


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
