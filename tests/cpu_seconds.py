"""What tests cost: CPU seconds of every test function, its fixtures and the processes that it starts included.

    make cpu-seconds                   # the whole suite; writes tests/slow.txt, the functions that test-fast leaves out
    pytest tests/files --cpu-seconds   # a part of it; what is listed of other files stays

A fixture that several tests share is counted with the one that comes first.
"""

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

SLOW = Path(__file__).with_name("slow.txt")
LEAST_S = 0.35
"""Of the functions that are listed; the others together take less than four minutes."""


def slow_functions() -> dict[str, float]:
    """CPU seconds by the node ids of the functions that are listed; of files that nobody measured yet a line each."""
    return _read(SLOW)


def _read(path: Path) -> dict[str, float]:
    rows = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return {name: float(seconds) for seconds, name in rows}


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Meter:
    """A pytest plugin: what each function took, in a file for each worker; who started the workers adds them up."""

    def __init__(self, folder: Path) -> None:
        self.taken: Counter[str] = Counter()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Counts from before the first fixture to after the last."""
        before = _cpu_s()
        answer = yield
        self.taken[item.nodeid.partition("[")[0]] += _cpu_s() - before
        return answer

    @pytest.hookimpl(trylast=True)  # the workers have ended by then
    def pytest_sessionfinish(self) -> None:
        """Writes what was taken."""
        if worker := os.environ.get("PYTEST_XDIST_WORKER"):
            lines = (f"{seconds} {name}\n" for name, seconds in self.taken.items())
            (self.folder / f"{worker}.txt").write_text("".join(lines), encoding="utf-8")
            return
        for path in sorted(self.folder.glob("gw*.txt")):
            self.taken.update(_read(path))
            path.unlink()
        ran = {name.partition("::")[0] for name in self.taken}
        others = {name: seconds for name, seconds in slow_functions().items() if name.partition("::")[0] not in ran}
        listed = sorted((others | {name: s for name, s in self.taken.items() if s >= LEAST_S}).items())
        SLOW.write_text("".join(f"{seconds:.1f} {name}\n" for name, seconds in listed), encoding="utf-8")
