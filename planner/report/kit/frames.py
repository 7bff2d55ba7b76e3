"""Tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pandas as pd

Frame: TypeAlias = "pd.DataFrame"
"""A table; a name for annotations that costs no import of pandas."""


def frame_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> Frame:
    """The rows as a data frame; `columns` name them where there are none."""
    listed = list(rows)
    return tabled(listed, None if listed else list(columns))


def tabled(data: Any, columns: list[str] | None = None) -> Frame:
    """As `pandas.DataFrame` takes them; whoever queries a column that is not there is told which are."""
    from planner.report.kit.queried import Table  # noqa: PLC0415  # pandas takes half a second to load

    return Table(data, columns=columns)
