"""The PWR paper's figures as tables, and what it says of them beside ours, as Markdown."""

import re
from collections.abc import Sequence

from planner.report.kit.markdown import escaped, pictures, table
from planner.report.kit.quantities import NONE
from planner.report.kit.tables import csv_table
from planner.studies.policies.means import mean_metrics, savings
from planner.studies.policies.paper import FGD, Measure, Reproduced, Traces, reproduced
from planner.studies.policies.report.figures import PAPER_FIGURES

HEADER = ("figure", "trace", "policy", "arrived, %", "what", "paper", "here")
COLUMNS = ("trace", "policy", "arrived_percent", "power_w", "power_saved_percent", "grar")
_BOUND = {Measure.LEAST_SAVED: "above "}


def file_names() -> list[str]:
    """The tables of all figures."""
    return [f"{name}.csv" for name in PAPER_FIGURES]


def numbers_of(names: Sequence[str]) -> list[int]:
    """`figure-04` is 4."""
    return [int(re.sub(r"\D", "", name)) for name in names]


def paper_tables(traces: Traces, names: Sequence[str]) -> dict[str, bytes]:
    """A CSV a figure: power, what is saved of FGD's and GRAR of every policy at every percent of arrived capacity."""
    return {f"{name}.csv": csv_table(COLUMNS, _rows(traces, PAPER_FIGURES[name].traces)) for name in names}


def _rows(traces: Traces, names: Sequence[str]) -> list[list[object]]:
    rows: list[list[object]] = []
    for name in names:
        base = mean_metrics(traces[name][FGD])
        for policy, runs in traces[name].items():
            means = mean_metrics(runs)
            saved = savings(base, means)
            for row in means:
                at = row.arrived_percent
                rows.append([name, policy, at, f"{row.power_w:.1f}", f"{saved.get(at, 0.0):.3f}", f"{row.grar:.5f}"])
    return rows


def statement_row(row: Reproduced) -> list[str]:
    """Cells under HEADER."""
    statement = row.statement
    span = f"{statement.start}" if statement.start == statement.end else f"{statement.start}–{statement.end}"
    digits = 3 if statement.measure in (Measure.GRAR_BEHIND, Measure.GRAR_AHEAD) else 1
    return [
        str(statement.figure),
        statement.trace,
        statement.policy,
        span,
        statement.measure.value,
        f"{_BOUND.get(statement.measure, 'about ')}{statement.published:g}",
        NONE if row.ours is None else f"{row.ours:.{digits}f}",
    ]


def paper_page(traces: Traces, seeds: Sequence[int], names: Sequence[str]) -> str:
    """What the paper says of the figures drawn, and what came out here; ends in a newline."""
    rows = [[escaped(cell) for cell in statement_row(row)] for row in reproduced(traces, numbers_of(names))]
    parts = [
        "# Power and fragmentation: the paper's figures",
        f"Means over {len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'}; savings are against FGD, over arrived GPU "
        "capacity. The paper's figures are read from its text, sections VI-C and VI-D.",
        *([table(list(HEADER), rows, "rlllrrr")] if rows else []),
        *pictures({name.capitalize().replace("-", " "): f"figures/{name}.png" for name in names}),
    ]
    return "\n\n".join(parts) + "\n"
