"""Tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pandas as pd

Frame: TypeAlias = "pd.DataFrame"
"""A table; a name for annotations that costs no import of pandas."""


def frame_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> Frame:
    """The rows as a data frame; `columns` name them where there are none."""
    import pandas as pd  # noqa: PLC0415  (half a second to load)

    listed = list(rows)
    return pd.DataFrame(listed, columns=None if listed else list(columns))
