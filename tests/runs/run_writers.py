"""Real processes that write a run and are killed, each at one step of the work or at a moment of the caller's choice.

Run as a program: `run_writers.py MODE FOLDER` with each-step, at-once, side-by-side or for-ever as MODE.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from planner.errors import PlannerError
from planner.files import claim_run_folder, write_run

STEPS = frozenset({"open", "os.mkdir", "os.rename", "os.rmdir", "os.remove", "shutil.rmtree", "os.listdir"})
PARTS = ("plan.json", "islands.csv", "routing.csv", "figures/a.png", "manifests/a.yaml")


def run_of(generation: int, *, weight: int = 1) -> dict[str, bytes]:
    """A run whose every file tells its generation."""
    return dict.fromkeys(PARTS, b"%d\n" % generation * weight)


def state(folder: Path) -> object:
    """The generation of a complete run, None where there is no folder, and otherwise what is wrong."""
    if not folder.exists():
        return None
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    generations = {content.split(b"\n")[0].decode() for content in found.values()}
    lengths = {len(content) for content in found.values()}
    whole = set(found) == set(PARTS) and len(generations) == 1 and len(lengths) == 1
    return int(generations.pop()) if whole else f"half written: {sorted(found)}"


def left_overs(folder: Path) -> list[str]:
    """Hidden entries beside a run."""
    return [path.name for path in folder.parent.glob(".*")]


def _in_a_child(work: Callable[[], object]) -> int:
    """Exit status of a forked process, or less the signal that ended it; 7 where the planner refused."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except PlannerError:
            os._exit(7)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _die_at(step: int) -> None:
    seen = 0

    def hook(event: str, _arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event in STEPS:
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _killed_write(folder: Path, step: int, *, force: bool) -> int:
    def work() -> None:
        _die_at(step)
        write_run(folder, run_of(2), force=force)

    return _in_a_child(work)


def each_step(base: Path, *, force: bool) -> list[dict[str, object]]:
    """Kill a writer at its first step, another at its second ... until one lives; what each left, and the next made."""
    rows: list[dict[str, object]] = []
    for step in range(1, 200):
        folder = base / f"{'over' if force else 'new'}-{step}" / "run"
        if force:
            write_run(folder, run_of(1))
        status = _killed_write(folder, step, force=force)
        row: dict[str, object] = {"status": status, "found": state(folder), "left": len(left_overs(folder))}
        claim_run_folder(folder, force=True)
        row |= {"after_claim": state(folder), "left_after_claim": left_overs(folder)}
        write_run(folder, run_of(3), force=True)
        row |= {"after_write": state(folder), "left_after_write": left_overs(folder)}
        rows.append(row)
        if status == 0:
            break
    return rows


def at_once(base: Path, *, force: bool) -> dict[str, object]:
    """Eight writers of the same folder, started together."""
    folder = base / f"contested-{force}"
    read, write = os.pipe()
    pids = []
    for generation in range(8):
        pid = os.fork()
        if pid == 0:
            os.close(write)
            os.read(read, 1)  # ends for all at once, when the parent closes its end
            try:
                write_run(folder, run_of(generation, weight=20_000), force=force)
            except PlannerError:
                os._exit(7)
            os._exit(0)
        pids.append(pid)
    os.close(write)
    statuses = sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)
    return {"statuses": statuses, "found": state(folder), "left": left_overs(folder)}


def for_ever(base: Path) -> None:
    """Write large runs, one new and one replaced in turn, until killed."""
    generation = 0
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        generation += 1
        write_run(base / f"new-{os.getpid()}-{generation}", run_of(generation, weight=200_000))
        write_run(base / "same", run_of(generation, weight=200_000), force=True)


def _fail(folder: Path) -> None:
    try:
        write_run(folder, {"x" * 300: b""})
    except PlannerError as error:
        if "name too long" not in str(error):
            raise


def side_by_side(base: Path) -> dict[str, object]:
    """Three processes that fail many times, then write, below a folder that comes and goes with them."""
    pids = []
    for number in range(3):
        pid = os.fork()
        if pid == 0:
            try:
                for _ in range(250):
                    _fail(base / "deep" / "runs" / f"run-{number}")
                write_run(base / "deep" / "runs" / f"run-{number}", run_of(number))
            except PlannerError as error:
                sys.stderr.write(f"{error}\n")
                os._exit(7)
            os._exit(0)
        pids.append(pid)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    runs = base / "deep" / "runs"
    return {"statuses": statuses, "found": [state(runs / f"run-{n}") for n in range(3)], "left": left_overs(runs / "x")}


if __name__ == "__main__":
    mode, place = sys.argv[1], Path(sys.argv[2])
    if mode == "for-ever":
        for_ever(place)
    if mode == "side-by-side":
        sys.stdout.write(json.dumps(side_by_side(place)))
    else:
        program = each_step if mode == "each-step" else at_once
        sys.stdout.write(json.dumps([program(place, force=False), program(place, force=True)]))
