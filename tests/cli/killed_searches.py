"""Real searches that are killed at random moments and resumed.

Run as a program in the folder of a scenario: `killed_searches.py SCENARIO MOMENTS SEED FIGURES` plans it into `whole`,
and so many times into `cut-K`, killed on the way. Processes are forked, so that what they load is loaded once. FIGURES:
yes, or no to save the time of drawing them.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot  # noqa: F401  (loaded once, for all)

from planner import runs  # noqa: F401
from planner.cli import main
from planner.report.plan import page


def _child(work: Callable[[], object]) -> int:
    """Process id of a fork that does the work in a process group of its own."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            work()
        except SystemExit as end:
            os._exit(int(end.code or 0))
        except BaseException:  # noqa: BLE001  (whatever it is, the fork must not go on as its parent)
            traceback.print_exc()
        os._exit(99)
    return pid


def _status(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _planner(*arguments: str) -> None:
    sys.argv = ["planner", "plan", *arguments, "--quiet"]
    main()


def _go_on(scenario: str, folder: str) -> None:
    """What a user does: resume, or begin where there is nothing to resume."""
    begun = any(Path(folder, name).exists() for name in ("plan.json", "search/journal.jsonl"))
    aside = any(Path().glob(f".{folder}.replaced-*"))
    _planner(*(("--resume", folder) if begun or aside else (scenario, "--out", folder)))


def _judged(folder: str) -> int:
    journal = Path(folder, "search/journal.jsonl")
    return journal.read_bytes().count(b'{"judged"') if journal.exists() else 0


def killed(scenario: str, moments: int, seed: int) -> list[dict[str, object]]:
    """A row for each search: how often it was killed, what its journal held then, and how its last process ended."""
    chance = random.Random(seed)
    start = time.monotonic()
    assert _status(_child(lambda: _planner(scenario, "--out", "whole"))) == 0
    lasts = time.monotonic() - start
    rows: list[dict[str, object]] = []
    for k in range(moments):
        folder, kills, judged = f"cut-{k}", 0, []
        for _ in range(1 + k % 2):  # every other search is killed twice
            pid = _child(lambda folder=folder: _go_on(scenario, folder))
            time.sleep(chance.uniform(0.0, lasts))
            os.killpg(pid, signal.SIGKILL)
            kills += _status(pid) == -signal.SIGKILL
            judged.append(_judged(folder))
        status = _status(_child(lambda folder=folder: _go_on(scenario, folder)))
        rows.append({"folder": folder, "kills": kills, "judged": judged, "status": status})
    return rows


if __name__ == "__main__":
    if sys.argv[4:] == ["no"]:
        page.figures_of = lambda _plan: ()  # type: ignore[assignment]
    sys.stdout.write(json.dumps(killed(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
