"""The two streams as rich writes to them, and letters for encodings that lack ours."""

import codecs
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 400
"""Characters of a line where there is no terminal: tables are not narrowed for a pipe."""
_PLAIN = {
    **{"–": "-", "—": "-", "−": "-", "×": "x", "·": ".", "…": "...", "→": "->", "←": "<-", "≤": "<=", "≥": ">="},
    **{"±": "+-", "≈": "~", "’": "'", "‘": "'", "“": '"', "”": '"', "µ": "u", "█": "#", "▌": "#", "░": ".", "°": "deg"},
    **{"│": "|", "─": "-", "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+", "┤": "+", "┬": "+", "┴": "+", "┼": "+"},
}
"""What stands for a letter where the encoding has none such."""


def out(*, wide: bool = False) -> "Console":
    """Standard output; a pipe gets lines that are not folded, and so does a terminal where it is to be `wide`."""
    from rich.console import Console

    terminal = sys.stdout.isatty() and not wide
    return Console(width=None if terminal else PIPE_WIDTH, highlight=False, emoji=False, soft_wrap=not terminal)


def err() -> "Console":
    """Standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def never_fail_to_write() -> None:
    """Streams whose encoding lacks a letter write something near it, or its code, instead of failing."""
    codecs.register_error("planner", _instead)
    for stream in (sys.stdout, sys.stderr):
        encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and encoding and not encoding.startswith("utf"):
            reconfigure(errors="planner")


def _instead(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c, c.encode("unicode_escape").decode()) for c in letters), error.end
