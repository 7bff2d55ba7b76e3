"""Tables that are wider than the terminal, in several that are not."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from planner.cli import screen

if TYPE_CHECKING:
    from planner.report.comparison.side_by_side import Cells

_FRAME = 3
"""Columns of the screen that a table's column takes beside its text."""


def show_figures(title: str, names: Sequence[str], rows: "Sequence[Cells]") -> None:
    """Print `rows` (what each is of, and a cell for each of `names`) so that no cell is split."""
    width = screen.out().width
    if _width([[label for label, _ in rows], *_columns(names, rows)]) <= width:
        screen.show_table(title, ("", *names), [(label, *cells) for label, cells in rows])
        return
    for number, part in enumerate(_parts(names, rows, width)):
        columns = ("run", *(label for label, _ in part))
        lines = [(name, *(cells[k] for _, cells in part)) for k, name in enumerate(names)]
        screen.show_table(title if number == 0 else f"{title}, continued", columns, lines)


def _columns(names: Sequence[str], rows: "Sequence[Cells]") -> list[list[str]]:
    return [[name, *(cells[k] for _, cells in rows)] for k, name in enumerate(names)]


def _width(columns: Sequence[Sequence[str]]) -> int:
    return 1 + sum(_FRAME + max(map(len, column), default=0) for column in columns)


def _parts(names: Sequence[str], rows: "Sequence[Cells]", width: int) -> "Iterator[list[Cells]]":
    """Figures in groups that fit beside the names; one at least in each."""
    part: list[Cells] = []
    for row in rows:
        columns = [[label, *cells] for label, cells in [*part, row]]
        if part and _width([["run", *names], *columns]) > width:
            yield part
            part = []
        part.append(row)
    if part:
        yield part


def show_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, first: int) -> None:
    """Print rows, named by their `first` cells, so that no cell is split, in several tables where they are wide."""
    names = [list(row[:first]) for row in rows]
    figures = [(column, tuple(row[k] for row in rows)) for k, column in enumerate(columns) if k >= first]
    heads = [[column, *(name[k] for name in names)] for k, column in enumerate(columns[:first])]
    width = screen.out().width - (_width(heads) - 1)
    for number, part in enumerate(_parts([], figures, width)):
        lines = [(*name, *(cells[k] for _, cells in part)) for k, name in enumerate(names)]
        heading = title if number == 0 else f"{title}, continued"
        screen.show_table(heading, (*columns[:first], *(label for label, _ in part)), lines)
