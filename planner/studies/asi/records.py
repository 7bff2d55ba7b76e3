"""Rows of ASI's published tables, and figures as tables of points.

Column names are those of cluster-trace-gpu-v2026 (docs/schema.md): a row of `pod_hourly` is a pod in an hour, of
`server_hourly` a server, of `network_hourly` its traffic, of `job_execution_summary` a run from start to end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

JOB_TYPES = ("training", "online_inference", "offline_inference", "dev")
MODEL_TYPES = ("genai", "rec", "cv", "embedding", "dev")
UNKNOWN = ("", "unknown")


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
    """What a trace shows. `rows`: read of each table; `days`: first and last."""

    trace: str
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
