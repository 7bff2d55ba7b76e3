"""The PWR paper's experiments: its policies, what it says of figures 3 to 10 as numbers, and its figures as tables.

Source: Lettich et al., Power- and Fragmentation-aware Online Scheduling for GPU Datacenters, sections VI-C and VI-D.
Savings begin with a rapid gain, so what is to be saved at the least is read from where that ends (15 %, section VI-B)
where the paper's ranges begin at 0.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import stdev

from planner.report.kit.markdown import escaped, pictures, table
from planner.report.kit.quantities import NONE
from planner.report.kit.tables import csv_table
from planner.studies.policies.means import mean_metrics, savings
from planner.studies.policies.plots import PAPER_FIGURES
from planner.studies.policies.records import OnlineRun

FGD = "fgd"
WEIGHTS = ("0.05", "0.1", "0.2")
COMBINATIONS = tuple(f"pwr:{alpha}+fgd:{1 - float(alpha):g}" for alpha in WEIGHTS)
COMPETITORS = ("bestfit", "dotprod", "gpupacking", "gpuclustering")
POLICIES = (FGD, *COMBINATIONS, *COMPETITORS)
TRACES = ("default", "gpushare40", "gpushare100", "multigpu20", "multigpu50", "gpuspec10", "gpuspec33")
GAINED, FULL = 15, 100

Traces = Mapping[str, Mapping[str, Sequence[OnlineRun]]]
"""Runs by trace and policy, one a seed."""


class Measure(StrEnum):
    """Over a range: the least power saved against FGD, the largest (both percent), FGD's largest lead in GRAR, the
    policy's largest lead in GRAR over FGD."""

    LEAST_SAVED = "least saved, %"
    MOST_SAVED = "most saved, %"
    GRAR_BEHIND = "GRAR behind FGD, most"
    GRAR_AHEAD = "GRAR ahead of FGD, most"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What the paper says of a policy on a trace, between two percentages of arrived GPU capacity.

    `said`: the paper's words before `published`, which say whether it is a bound.
    """

    figure: int
    trace: str
    policy: str
    measure: Measure
    start: int
    end: int
    published: float
    said: str

    def short(self, ours: float) -> float:
        """By how much our figure is on the wrong side of the bound, or, without one, how far off it is."""
        if self.said.startswith("above"):
            return self.published - ours
        return ours - self.published if self.said in ("at most", "below") else abs(ours - self.published)

    def shown(self, value: float) -> str:
        """A figure in the measure's digits."""
        return f"{value:.2f}" if self.measure in (Measure.LEAST_SAVED, Measure.MOST_SAVED) else f"{value:.4f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduced:
    """A statement with our figure; None where there are no runs for it."""

    statement: Statement
    ours: float | None


def _of(
    figure: int,
    trace: str,
    measure: Measure,
    span: tuple[int, int],
    published: float,
    policies: Sequence[str] = COMBINATIONS,
    said: str = "about",
) -> Iterator[Statement]:
    for policy in policies:
        yield Statement(
            figure=figure,
            trace=trace,
            policy=policy,
            measure=measure,
            start=span[0],
            end=span[1],
            published=published,
            said="above" if measure is Measure.LEAST_SAVED and said == "about" else said,
        )


STATEMENTS: tuple[Statement, ...] = (
    *_of(3, "default", Measure.LEAST_SAVED, (GAINED, 80), 13),
    *_of(3, "default", Measure.LEAST_SAVED, (80, 90), 5, said="above about"),
    *_of(3, "default", Measure.MOST_SAVED, (0, FULL), 5, COMPETITORS, "at most"),
    *_of(4, "gpushare100", Measure.LEAST_SAVED, (GAINED, 70), 13),
    *_of(4, "gpushare100", Measure.LEAST_SAVED, (70, 80), 5),
    *_of(4, "gpushare100", Measure.MOST_SAVED, (0, FULL), 5, COMPETITORS[:1]),
    *_of(5, "multigpu20", Measure.LEAST_SAVED, (GAINED, 82), 7, COMBINATIONS[:1]),
    *_of(5, "multigpu20", Measure.LEAST_SAVED, (GAINED, 82), 12, COMBINATIONS[1:]),
    *_of(5, "multigpu50", Measure.LEAST_SAVED, (GAINED, 90), 4, COMBINATIONS[:2]),
    *_of(5, "multigpu50", Measure.LEAST_SAVED, (GAINED, 90), 7, COMBINATIONS[2:]),
    *_of(6, "gpuspec10", Measure.LEAST_SAVED, (GAINED, 90), 10),
    *_of(7, "default", Measure.GRAR_BEHIND, (FULL, FULL), 0.02, (*COMBINATIONS, "bestfit")),
    *_of(7, "default", Measure.GRAR_BEHIND, (FULL, FULL), 0.03, COMPETITORS[1:], "about 0.02 + 0.01 ="),
    *_of(8, "gpushare40", Measure.GRAR_BEHIND, (FULL, FULL), 0.02, (*COMBINATIONS, "bestfit")),
    *_of(8, "gpushare40", Measure.GRAR_BEHIND, (FULL, FULL), 0.04, COMPETITORS[1:], "about 0.02 + 0.02 ="),
    *_of(8, "gpushare100", Measure.GRAR_BEHIND, (FULL, FULL), 0.02, ("bestfit",)),
    *_of(8, "gpushare100", Measure.GRAR_BEHIND, (FULL, FULL), 0.03, said="about 0.02 + 0.01 ="),
    *_of(9, "multigpu20", Measure.GRAR_BEHIND, (FULL, FULL), 0.01, said="below"),
    *_of(10, "gpuspec10", Measure.GRAR_BEHIND, (21, 73), 0.025),
    *_of(10, "gpuspec33", Measure.GRAR_AHEAD, (0, FULL), 0.04, COMBINATIONS[:1]),
    *_of(10, "gpuspec33", Measure.GRAR_BEHIND, (0, FULL), 0.05, COMBINATIONS[1:2]),
    *_of(10, "gpuspec33", Measure.GRAR_BEHIND, (0, FULL), 0.08, COMBINATIONS[2:]),
)
"""A sum: the paper gives the gap to the group before, whose own gap is the first term."""


def reproduced(traces: Traces, figures: Sequence[int]) -> tuple[Reproduced, ...]:
    """Every statement on these figures with our figure."""
    return tuple(
        Reproduced(statement=statement, ours=_measured(statement, traces))
        for statement in STATEMENTS
        if statement.figure in figures
    )


def _measured(statement: Statement, traces: Traces) -> float | None:
    runs = traces.get(statement.trace, {})
    if FGD not in runs or statement.policy not in runs:
        return None
    base, means = mean_metrics(runs[FGD]), mean_metrics(runs[statement.policy])
    grar = {row.arrived_percent: row.grar for row in base}
    behind = {row.arrived_percent: grar[row.arrived_percent] - row.grar for row in means if row.arrived_percent in grar}
    return measured(statement, savings(base, means), behind)


def measured(statement: Statement, saved: Mapping[int, float], behind: Mapping[int, float]) -> float | None:
    """Our figure of a statement, from what is saved of FGD's power (%) and how far GRAR is behind FGD's, by percent of
    arrived capacity; None where nothing is known in its range."""
    chosen, curve, sign = {
        Measure.LEAST_SAVED: (min, saved, 1),
        Measure.MOST_SAVED: (max, saved, 1),
        Measure.GRAR_BEHIND: (max, behind, 1),
        Measure.GRAR_AHEAD: (max, behind, -1),
    }[statement.measure]
    return chosen(
        (sign * value for percent, value in curve.items() if statement.start <= percent <= statement.end), default=None
    )


HEADER = ("figure", "trace", "policy", "arrived, %", "what", "paper", "here")
COLUMNS = ("trace", "policy", "arrived_percent", "power_w", "gpu_power_w", "power_saved_percent", "saved_std", "grar")


def file_names() -> list[str]:
    """The tables of all figures."""
    return [f"{name}.csv" for name in PAPER_FIGURES]


def numbers_of(names: Sequence[str]) -> list[int]:
    """`figure-04` is 4."""
    return [int(re.sub(r"\D", "", name)) for name in names]


def paper_tables(traces: Traces, names: Sequence[str]) -> dict[str, bytes]:
    """A CSV a figure: power, what is saved of FGD's, with its standard deviation over the seeds, and GRAR of every
    policy at every percent of arrived capacity."""
    return {f"{name}.csv": csv_table(COLUMNS, _rows(traces, PAPER_FIGURES[name].traces)) for name in names}


def _rows(traces: Traces, names: Sequence[str]) -> list[list[object]]:
    rows: list[list[object]] = []
    for name in names:
        base = mean_metrics(traces[name][FGD])
        for policy, runs in traces[name].items():
            means = mean_metrics(runs)
            saved, spread = savings(base, means), _spread(traces[name][FGD], runs)
            for row in means:
                at = row.arrived_percent
                drawn = [f"{row.power_w:.1f}", f"{row.gpu_power_w:.1f}"]
                changes = [f"{saved.get(at, 0.0):.3f}", f"{spread.get(at, 0.0):.3f}"]
                rows.append([name, policy, at, *drawn, *changes, f"{row.grar:.4f}"])
    return rows


def _spread(base: Sequence[OnlineRun], runs: Sequence[OnlineRun]) -> dict[int, float]:
    """Standard deviation over the seeds of what each saves; none for a single seed."""
    each = [savings(mean_metrics([one]), mean_metrics([other])) for one, other in zip(base, runs, strict=True)]
    shared = set.intersection(*(set(saved) for saved in each)) if len(each) > 1 else set()
    return {at: stdev(saved[at] for saved in each) for at in shared}


def statement_row(row: Reproduced) -> list[str]:
    """Cells under HEADER."""
    statement = row.statement
    span = f"{statement.start}" if statement.start == statement.end else f"{statement.start}–{statement.end}"
    return [
        str(statement.figure),
        statement.trace,
        statement.policy,
        span,
        statement.measure.value,
        f"{statement.said} {statement.published:g}",
        NONE if row.ours is None else statement.shown(row.ours),
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
