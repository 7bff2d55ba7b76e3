"""Lines of standard input for a loop of events: waiting for the next one keeps nobody from ending.

A thread that waits in a read cannot be called off, and the process would wait for it; this one ends with the process.
"""

import os
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel

_PIECE = 65_536


class IncomingLines:
    """Each line of a file descriptor, its end kept; made within a loop of events."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._send, self._receive = anyio.create_memory_object_stream[str](0)
        self._token: Any = anyio.lowlevel.current_token()
        threading.Thread(target=self._read, daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        """Until input ends."""
        async with self._receive:
            async for line in self._receive:
                yield line

    def _read(self) -> None:
        begun = b""
        while piece := os.read(self._descriptor, _PIECE):
            *lines, begun = (begun + piece).split(b"\n")
            for line in lines:
                self._tell(self._send.send, f"{line.decode('utf-8', 'replace')}\n")
        self._tell(self._send.aclose)

    def _tell(self, function: Any, *arguments: str) -> None:
        """In the loop; once that has ended there is nobody to tell."""
        try:
            anyio.from_thread.run(function, *arguments, token=self._token)
        except (anyio.RunFinishedError, anyio.BrokenResourceError):
            return
