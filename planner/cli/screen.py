"""Everything that is printed: results on standard output, progress and errors on standard error."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from planner.domain import ReportProgress, no_progress
from planner.errors import PlannerError

WIDE = 400


def out() -> Console:
    """Standard output; a pipe gets lines that are not folded."""
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else WIDE, highlight=False, emoji=False, soft_wrap=not terminal)


def err() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def visible(text: str) -> str:
    """The text with terminal controls, direction marks and non-characters written as their codes."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def show_json(value: object) -> None:
    """One JSON document on standard output."""
    show_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def show_text(text: str) -> None:
    """Plain text on standard output; halves of characters, which no encoding has, as their codes."""
    print(text.encode("utf-8", "backslashreplace").decode())


def show_error(error: PlannerError) -> None:
    """One paragraph: what is wrong and what to do."""
    err().print(f"[red]error:[/red] {escape(visible(str(error)))}")


def show_warning(text: str) -> None:
    """One warning on standard error."""
    err().print(f"[yellow]warning:[/yellow] {escape(visible(text))}")


def show_note(text: str) -> None:
    """A line of progress on standard error."""
    err().print(visible(text), markup=False)


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table; numbers to the right."""
    table = Table(title=escape(title), title_justify="left", show_lines=False)
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        table.add_column(escape(column), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(visible(_cell(value))) for value in row))
    out().print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


@contextmanager
def search_progress(name: str, *, quiet: bool) -> Iterator[ReportProgress]:
    """A bar with the best rate so far on a terminal, a line a round elsewhere, nothing where `quiet`."""
    if quiet:
        yield no_progress
    elif sys.stderr.isatty():
        with _bar(name) as listener:
            yield listener
    else:
        yield _line(name)


def _line(name: str) -> ReportProgress:
    def listen(done: int, total: int, best_rps: float, /) -> None:
        print(f"{name}: {done}/{total} layouts, best {best_rps:.1f} requests/s", file=sys.stderr, flush=True)

    return listen


@contextmanager
def _bar(name: str) -> Iterator[ReportProgress]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("best {task.fields[best]:.1f} requests/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err()) as bar:
        task = bar.add_task(escape(name), total=None, best=0.0)

        def listen(done: int, total: int, best_rps: float, /) -> None:
            bar.update(task, completed=done, total=total, best=best_rps)

        yield listen
