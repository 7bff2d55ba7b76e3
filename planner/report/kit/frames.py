"""The type of tables."""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import pandas as pd

Frame: TypeAlias = "pd.DataFrame"
"""A table; a name for annotations that costs no import of pandas."""
