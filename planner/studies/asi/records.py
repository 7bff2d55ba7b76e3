"""Rows of ASI's published tables, figures as tables of points, and samples kept as counts of rounded values.

Column names are those of cluster-trace-gpu-v2026 (docs/schema.md): a row of `pod_hourly` is a pod in an hour, of
`server_hourly` a server, of `network_hourly` its traffic, of `job_execution_summary` a run from start to end.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import floor, isfinite, log10
from typing import ClassVar, Protocol

JOB_TYPES = ("training", "online_inference", "offline_inference", "dev")
MODEL_TYPES = ("genai", "rec", "cv", "embedding", "dev")
UNKNOWN = ("", "unknown")


MARK = "synthetic"
"""First column of every table of a made-up trace."""


class Table(StrEnum):
    """Tables of a trace. `jobs` and `nodes`: the two lists of the spot trace (job_info, node_info)."""

    PODS = "pod_hourly"
    SERVERS = "server_hourly"
    NETWORK = "network_hourly"
    RUNS = "job_execution_summary"
    JOBS = "job_info"
    NODES = "node_info"


Needs = Mapping[Table, tuple[str, ...]]
"""Columns that a figure needs, by table."""


class Drawn(StrEnum):
    """How a figure is drawn."""

    STACKED = "stacked"
    BARS = "bars"
    LINES = "lines"
    CDF = "cdf"
    BOXES = "boxes"


class TraceRow(Protocol):
    """A row by column: texts, and numbers (NaN where a cell is none)."""

    def text(self, column: str) -> str:
        """The cell; empty where the table has no such column."""

    def number(self, column: str) -> float:
        """A number; NaN where the cell is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """An hour of the trace."""

    day: int
    hour: int

    @property
    def even(self) -> bool:
        """Whether the released scripts look at it."""
        return self.hour % 2 == 0


Point = tuple[str, str, str | float, float]
"""Panel, series, x, y."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFigure:
    """A figure as its points. `number`: in the paper, as `5`; `name`: of its files; labels with units."""

    number: str
    name: str
    title: str
    drawn: Drawn
    x: str
    y: str
    points: tuple[Point, ...]

    @property
    def file_stem(self) -> str:
        """As `figure_05_demand`."""
        return f"figure_{int(self.number):02d}_{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingFigure:
    """A figure that the trace does not allow, and what it lacks."""

    number: str
    title: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AsiStudy:
    """What a trace shows. `rows`: read of each table; `days`: first and last; `made_up`: what its first column says."""

    trace: str
    made_up: bool
    rows: Mapping[Table, int]
    days: tuple[int, int] | None
    figures: tuple[TraceFigure, ...]
    missing: tuple[MissingFigure, ...]


class Tally(Protocol):
    """One figure in the making. `needs`: columns by table; without one of them it is missing."""

    number: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[Needs]

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:
        """A row of one of the tables that it needs."""

    def end_hour(self, at: Hour) -> None:
        """All rows of an hour have come: nothing to most figures."""

    def figure(self) -> TraceFigure:
        """The figure; no points where no row counted."""

    def drawn(self, *, name: str, kind: Drawn, y: str, points: tuple[Point, ...], x: str = "") -> TraceFigure:
        """A figure of this number and title."""
        return TraceFigure(number=self.number, name=name, title=self.title, drawn=kind, x=x, y=y, points=points)


DIGITS = 3
MOST_POINTS = 200


class Samples:
    """Values to three significant digits with how often they came."""

    def __init__(self) -> None:
        self.counts: Counter[float] = Counter()
        self.total = 0.0

    def add(self, value: float) -> None:
        """One value; those that are no finite numbers are passed over."""
        if isfinite(value):
            self.counts[_rounded(value)] += 1
            self.total += value

    @property
    def size(self) -> int:
        """How many values came."""
        return sum(self.counts.values())

    @property
    def mean(self) -> float:
        """Their exact mean."""
        return self.total / self.size

    def quantile(self, share: float) -> float:
        """The smallest value that at least this share is no larger than."""
        counted, values = 0, sorted(self.counts)
        for value in values:
            counted += self.counts[value]
            if counted >= share * self.size - 1e-9:
                return value
        return values[-1]

    def curve(self) -> Sequence[tuple[float, float]]:
        """(value, share no larger), at most `MOST_POINTS` of them."""
        size, counted = self.size, 0
        points = []
        for value in sorted(self.counts):
            counted += self.counts[value]
            points.append((value, counted / size))
        step = max(1, -(-len(points) // MOST_POINTS))
        return [*points[:-1:step], points[-1]] if points else []


def _rounded(value: float) -> float:
    if not value:
        return 0.0
    return round(value, DIGITS - 1 - floor(log10(abs(value))))
