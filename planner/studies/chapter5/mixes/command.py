"""`planner study mixes`: what mixing GPU types is worth against the best fleet of one type for the same rent."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.errors import InputError
from planner.studies.commands import Force, Json, Quiet

if TYPE_CHECKING:
    from planner.studies.chapter5.mixes.records import FleetRate, Worth

TABLE_FILE = "mixes.csv"
ABOUT = (
    "rate: requests/s. times: what the best fleet of one type serves, with P10 and P90 of the draws. more: share of "
    "the draws in which it serves more. sure: requests/s that are 80 % sure."
)
HEADER = ("fleet", "rate", "times", "P10-P90", "more", "sure")


def command(
    trace: Annotated[
        list[str] | None,
        typer.Option(help="A shipped workload; may be repeated. [default: Azure's code and conversation]"),
    ] = None,
    parts: Annotated[int, typer.Option(min=1, max=16, help="Into which the rent is cut, a GPU type each.")] = 4,
    draws: Annotated[int, typer.Option(min=16, max=4096, help="Of how fast servers are.")] = 128,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the draws.")] = 0,
    out: Annotated[Path | None, typer.Option(help=f"Folder for {TABLE_FILE}.", show_default=False)] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """What is mixing worth? H200, H800 and H20 for 512 USD/hour, mixed and of one type, with bands of the ratio."""
    from planner import files
    from planner.report.kit.tables import frame_csv, frame_of
    from planner.studies.chapter5.mixes.study import SEMANTICS, TRACES, fleet_rates, worths

    if out is not None:
        files.claim_folder(out, (TABLE_FILE,), force=force)

    def tell(rate: "FleetRate") -> None:
        if not (quiet or json):
            screen.show_note(f"{rate.trace}, {rate.semantics.name}: {rate.fleet.label}: {rate.rate_rps:.1f} requests/s")

    rows: list[Worth] = []
    for name in _each_once(trace or TRACES):
        for semantics in SEMANTICS:
            rows += worths(fleet_rates(name, semantics, parts=parts, draws=draws, seed=seed, listen=tell))
    table = [_row(worth) for worth in rows]
    if out is not None:
        files.write_folder(out, {TABLE_FILE: frame_csv(frame_of(table))}, force=force, kinds=(TABLE_FILE,))
    if json:
        screen.show_json({"mixes": table})
        return
    screen.show_text(ABOUT)
    for title, worths_of in groupby(rows, _title):
        screen.show_table(title, HEADER, [_cells(worth) for worth in worths_of])
    if out is not None:
        screen.show_text(f"Written to {out}")


def _title(worth: "Worth") -> str:
    return f"{worth.rate.trace}, {worth.rate.semantics.name}, over {worth.rival.fleet.label}"


def _each_once(traces: Sequence[str]) -> tuple[str, ...]:
    twice = next((trace for trace in traces if traces.count(trace) > 1), None)
    if twice is not None:
        raise InputError(f"--trace: must name each workload once, got {twice} twice.", hint="Drop one of the two.")
    return tuple(traces)


def _row(worth: "Worth") -> dict[str, object]:
    from planner.studies.chapter5.experiments import PRICES

    rate, counts = worth.rate, dict(worth.rate.fleet.gpus)
    return {
        "trace": rate.trace,
        "semantics": rate.semantics.name,
        "fleet": rate.fleet.label,
        "chosen": rate.fleet.chosen,
        **{gpu: counts.get(gpu, 0) for gpu in PRICES},
        "rate_rps": _digits(rate.rate_rps),
        "bound_rps": _digits(rate.bound_rps),
        "rival": worth.rival.fleet.label,
        "ratio": _digits(worth.ratio),
        "low": _digits(worth.low),
        "high": _digits(worth.high),
        "odds": _digits(worth.odds),
        "sure_rps": _digits(worth.sure_rps),
    }


def _digits(value: float | None) -> float | None:
    """Six of them: what differs beyond is rounding of the solver's."""
    return None if value is None else float(f"{value:.6g}")


def _cells(worth: "Worth") -> tuple[str, ...]:
    rate = worth.rate
    band = "" if worth.low is None or worth.high is None else f"{worth.low:.2f}-{worth.high:.2f}"
    return (
        f"best choice: {rate.fleet.label}" if rate.fleet.chosen else rate.fleet.label,
        f"{rate.rate_rps:.1f}",
        f"{worth.ratio:.2f}",
        band,
        "" if worth.odds is None else f"{100 * worth.odds:.0f} %",
        "" if worth.sure_rps is None else f"{worth.sure_rps:.0f}",
    )
