"""One call of a tool: its command in a process of its own, what it printed, and its end in time.

A process, because a solver cannot be told to stop from within, several calls may be at work, and whatever a call does
stays in the folder that it is confined to.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, Process

from planner.cli import screen
from planner.errors import EXIT_BAD_INPUT, EXIT_INFEASIBLE, InfeasibleError, InputError, PlannerError

GRACE_S = 10.0
"""Between the request to end and the end: what is being written is written, or taken back."""
_CHILD = "planner.cli.assistants.confined"
_WARNING = "warning:"
_BOX = " │╭╮╰╯─┌┐└┘|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What a command printed: the one JSON document, and warnings."""

    answer: Any
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """Where calls work: `root`, whose runs they read and write, `scratch` for what libraries put aside, and the seconds
    that a call may take."""

    root: Path
    scratch: Path
    seconds: float

    async def printed(self, words: Sequence[str]) -> Printed:
        """Run `planner WORDS`. Raises PlannerError as the command does, and where it takes too long; a call that is
        cancelled ends its process first."""
        out, err = bytearray(), bytearray()
        process = await anyio.open_process(
            [sys.executable, "-P", "-m", _CHILD, str(self.root), str(self.scratch), *words],
            stdin=subprocess.PIPE,
            cwd=self.root,
            env=self._environment(),
        )
        try:
            with anyio.move_on_after(self.seconds) as bound:
                async with anyio.create_task_group() as readers:
                    readers.start_soon(_read, process.stdout, out)
                    readers.start_soon(_read, process.stderr, err)
                await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
        if bound.cancelled_caught:
            raise PlannerError(
                f"{words[0]}: must end within {self.seconds:g} s, and was ended.",
                hint="Ask less, or start `planner mcp` with more --seconds; an unfinished search goes on by "
                "`planner plan --resume RUN`.",
            )
        return _answer(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def _environment(self) -> Mapping[str, str]:
        """This process's, the planner found wherever the call works, and libraries' own files in `scratch`."""
        paths = [str(Path(screen.__file__).parents[2]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        absolute = os.pathsep.join(os.path.abspath(path) for path in paths if path)  # noqa: PTH100
        scratch = str(self.scratch)
        aside = {"TMPDIR": scratch, "MPLCONFIGDIR": scratch, "XDG_CACHE_HOME": scratch}
        return {**os.environ, **aside, "PYTHONPATH": absolute, "NO_COLOR": "1"}


async def _read(stream: ByteReceiveStream | None, into: bytearray) -> None:
    assert stream is not None
    async for piece in stream:
        into += piece


async def _end(process: Process) -> None:
    """Ask a process that is still at work to end; end it where it does not."""
    if process.returncode is None:
        process.terminate()
        with anyio.move_on_after(GRACE_S):
            await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()


def _answer(status: int, out: str, err: str) -> Printed:
    """The document of a command that ended well. Raises the error of any other."""
    try:
        document = json.loads(out)
    except ValueError:
        document = {}
    if status == 0:
        lines = [line for line in err.splitlines() if line.startswith(_WARNING)]
        return Printed(answer=document, warnings=tuple(line.removeprefix(_WARNING).strip() for line in lines))
    kind = {EXIT_BAD_INPUT: InputError, EXIT_INFEASIBLE: InfeasibleError}.get(status, PlannerError)
    error = document.get("error", document) if isinstance(document, dict) else {}
    message = error.get("message") or _last_words(err) or f"the command ended with status {status}."
    raise kind(message, hint=error.get("hint") or _REMEDY[status in (EXIT_BAD_INPUT, EXIT_INFEASIBLE)])


_REMEDY = {True: "See the tool's arguments.", False: "Standard error of `planner mcp` has the rest."}


def _last_words(err: str) -> str:
    """What the library that reads command lines says of them, the box around it taken away."""
    lines = [line.strip(_BOX) for line in err.splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(("Usage:", "Try ", "Error")))[:1000]
