"""`planner study readings`: why table 5.1 has other rates than ours, point by point."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.errors import InputError
from planner.studies.commands import Force, Json, Quiet

if TYPE_CHECKING:
    from planner.studies.chapter5.readings.records import GivenLayout, ReadCell, Reading

READ_FILE, GIVEN_FILE = "readings.csv", "given.csv"
CELLS = 6
LAYOUTS_HEADER = ("fleet", "no.", "prefill", "decode", "deviation", "ratio")


def command(
    reading: Annotated[
        list[str] | None,
        typer.Option(help="Only this: ours, all, a point, all but POINT; may be repeated. [default: each]"),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(help="data/outer of the thesis's repository: evaluate its best layouts.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help=f"Folder for {READ_FILE} or {GIVEN_FILE}.", show_default=False)
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Table 5.1, each point that the thesis leaves open read as in reference mode and as in its own code."""
    from planner import files
    from planner.report.kit.tables import frame_csv, frame_of
    from planner.studies.chapter5.readings.study import given_layouts, read_cells

    chosen = _chosen(reading or ())
    kinds = (READ_FILE, GIVEN_FILE)
    if out is not None:
        files.claim_folder(out, kinds, force=force)
    given = list(given_layouts(runs)) if runs is not None else []
    cells: list[ReadCell] = []
    for asked_reading in chosen if reading or runs is None else ():
        cells += read_cells(asked_reading)
        if not (quiet or json):
            rates = ", ".join(f"{cell.rate_rps:.1f}" for cell in cells[-CELLS:])
            screen.show_note(f"{reading_name(asked_reading)}: {rates} requests/s")
    tables = {READ_FILE: [_cell_row(cell) for cell in cells], GIVEN_FILE: [_layout_row(layout) for layout in given]}
    if out is not None:
        written = {name: frame_csv(frame_of(rows)) for name, rows in tables.items() if rows}
        files.write_folder(out, written, force=force, kinds=kinds)
    if json:
        screen.show_json({"readings": tables[READ_FILE], "given": tables[GIVEN_FILE]})
        return
    for trace, of_trace in groupby(sorted(cells, key=lambda cell: cell.trace), lambda cell: cell.trace):
        screen.show_table(f"Best layouts, requests/s: {trace}", *_reading_table(list(of_trace)))
    for trace, layouts in groupby(given, lambda layout: layout.trace):
        rows = [_layout_cells(layout) for layout in layouts]
        screen.show_table(f"The thesis's layouts, requests/s, and over its own figure: {trace}", LAYOUTS_HEADER, rows)
    if out is not None:
        screen.show_text(f"Written to {out}")


def _chosen(names: "Sequence[str]") -> "tuple[Reading, ...]":
    """The readings of these names, or every one. InputError for a name that none has."""
    from planner.studies.chapter5.readings.study import readings

    by_name = {reading_name(reading): reading for reading in readings()}
    for name in names:
        if name not in by_name:
            raise InputError(
                f"--reading: must be one of {', '.join(by_name)}, got {name!r}.", hint="Choose one of these."
            )
    return tuple(by_name[name] for name in dict.fromkeys(names)) if names else readings()


def reading_name(reading: "Reading") -> str:
    """In a phrase: none, one point, all but one, all."""
    from planner.studies.chapter5.readings.records import THESIS

    if not reading:
        return "ours"
    if len(reading) == 1:
        return next(iter(reading)).value
    missing = THESIS - reading
    return f"all but {next(iter(missing)).value}" if missing else "all"


def _reading_table(cells: "Sequence[ReadCell]") -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    names = list(dict.fromkeys(reading_name(cell.reading) for cell in cells))
    columns = list(dict.fromkeys(cell.fleet for cell in cells))
    rows = []
    for name in names:
        rates = [f"{cell.rate_rps:.0f}" for cell in cells if reading_name(cell.reading) == name]
        rows.append((name, *rates))
    return ("reading", *columns), rows


def _cell_row(cell: "ReadCell") -> dict[str, object]:
    return {
        "reading": reading_name(cell.reading),
        "fleet": cell.fleet,
        "trace": cell.trace,
        "rate_rps": float(f"{cell.rate_rps:.6g}"),
        "bound_rps": float(f"{cell.bound_rps:.6g}"),
    }


def _layout_row(layout: "GivenLayout") -> dict[str, object]:
    return {
        "fleet": layout.fleet,
        "trace": layout.trace,
        "trial": layout.trial,
        "prefill_rps": float(f"{layout.prefill_rps:.6g}"),
        "decode_rps": float(f"{layout.decode_rps:.6g}"),
        "deviation_rps": round(layout.deviation_rps, 3),
        "over_its_own": float(f"{layout.rate_rps / layout.searched_rps:.4g}"),
    }


def _layout_cells(layout: "GivenLayout") -> tuple[str, ...]:
    return (
        layout.fleet,
        str(layout.trial),
        f"{layout.prefill_rps:.1f}",
        f"{layout.decode_rps:.1f}",
        f"{layout.deviation_rps:.1f}",
        f"{layout.rate_rps / layout.searched_rps:.2f}",
    )
