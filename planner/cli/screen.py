"""Everything that is printed: results on standard output, progress and errors on standard error."""

import codecs
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from planner.cli.terminal.markdown import rendered
from planner.cli.terminal.tables import TableText, fitted, unfitted, wrapped
from planner.errors import PlannerError, shortened

if TYPE_CHECKING:
    from rich.console import Console

    from planner.domain import ReportProgress

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


__all__ = [
    "encoding",
    "err",
    "out",
    "search_progress",
    "show_error",
    "show_every_column",
    "show_json",
    "show_markdown",
    "show_note",
    "show_prose",
    "show_table",
    "show_text",
    "show_warning",
    "tenths",
    "visible",
]

_WIDE: ContextVar[bool] = ContextVar("wide", default=False)
"""Whether `--wide` stands on the command line of this call."""


def show_every_column(wide: bool) -> None:
    """Tables as wide as they are, whatever the terminal (`--wide`), until told otherwise."""
    _WIDE.set(wide)


def encoding() -> str:
    """Of standard output; empty where it has none."""
    return getattr(sys.stdout, "encoding", None) or ""


def visible(text: str) -> str:
    """The text with terminal controls, direction marks and non-characters written as their codes."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def show_json(value: object) -> None:
    """One JSON document on standard output."""
    show_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def show_text(text: str) -> None:
    """Plain text on standard output; halves of characters, which no encoding has, as their codes."""
    print(text.encode("utf-8", "backslashreplace").decode())


def show_prose(text: str) -> None:
    """Sentences on standard output: to a terminal wrapped between words, to a pipe as they are."""
    if not sys.stdout.isatty() or _WIDE.get():
        show_text(text)
        return
    width = out().width
    for line in visible(text).split("\n"):
        show_text("\n".join(wrapped(line, width)))


def show_error(error: PlannerError) -> None:
    """One paragraph: what is wrong and what to do."""
    _tell("error", "red", str(error))


def show_warning(text: str) -> None:
    """One warning on standard error."""
    _tell("warning", "yellow", text)


def _tell(kind: str, colour: str, text: str) -> None:
    from rich.text import Text

    err().print(Text.assemble((f"{kind}:", colour), " ", visible(shortened(text))))


def show_note(text: str) -> None:
    """A line of progress on standard error."""
    err().print(visible(shortened(text)), markup=False)


def show_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, important: Sequence[str] = ()
) -> None:
    """A table; numbers to the right. A terminal that is too narrow gets the `important` columns first, then the others
    from the left, and a line that names what was left out; a pipe, or `--wide`, gets all."""
    table = TableText(
        title=title,
        columns=tuple(columns),
        rows=tuple(tuple(visible(_cell(value)) for value in row) for row in rows),
        numeric=tuple(
            bool(rows) and all(isinstance(row[index], int | float | None) for row in rows)
            for index in range(len(columns))
        ),
        important=tuple(important),
    )
    if _WIDE.get() or not sys.stdout.isatty():
        out(wide=True).print(unfitted(table))
        return
    console = out()
    for part in fitted(table, console.width):
        console.print(part)


def show_markdown(text: str) -> None:
    """Markdown of ours: as it is to a pipe, to a terminal laid out for its width."""
    if not sys.stdout.isatty():
        show_text(text)
        return
    width, console = out().width, out(wide=_WIDE.get())
    text = text.encode("utf-8", "backslashreplace").decode()
    for part in rendered(visible(text), width, wide=_WIDE.get()):
        console.print(part)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def draws_bars() -> bool:
    """Whether progress is a bar, as on a terminal; elsewhere it is lines."""
    return sys.stderr.isatty()


def tenths(command: str, ahead: str, *, quiet: bool) -> Callable[[float], None]:
    """Takes the share that is done: tells what is ahead, and then a line every tenth."""
    last = -1

    def listen(done: float) -> None:
        nonlocal last
        if quiet:
            return
        if last < 0:
            show_note(f"{command}: {ahead}")
        tenth = int(10 * done)
        if tenth > last:
            last = tenth
            show_note(f"{command}: {10 * tenth} %")

    return listen


@contextmanager
def search_progress(name: str, *, quiet: bool) -> "Iterator[ReportProgress]":
    """A bar with the best rate so far on a terminal, a line a round elsewhere, nothing where `quiet`."""
    if quiet:
        yield lambda _done, _total, _best_rps: None
    elif draws_bars():
        with _bar(name) as listener:
            yield listener
    else:
        yield _line(name)


def _line(name: str) -> "ReportProgress":
    def listen(done: int, total: int, best_rps: float, /) -> None:
        print(f"{name}: {done}/{total} layouts, best {best_rps:.1f} requests/s", file=sys.stderr, flush=True)

    return listen


@contextmanager
def _bar(name: str) -> "Iterator[ReportProgress]":
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[best]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err()) as bar:
        task = bar.add_task(escape(name), total=None, best="")

        def listen(done: int, total: int, best_rps: float, /) -> None:
            bar.update(task, completed=done, total=total, best=f"best {best_rps:.1f} requests/s" if best_rps else "")

        yield listen
