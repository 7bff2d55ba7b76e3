"""pandas' frame, whose `query` says which columns there are. Imported with the first table, as pandas loads slowly."""

from typing import Any

import pandas as pd

from planner.errors import InputError


class Table(pd.DataFrame):
    """A data frame; a query of a column that is not there raises InputError, which names those that are."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return Table

    def query(self, expr: str, **options: Any) -> Any:
        """As pandas has it. Raises InputError where a name is no column."""
        try:
            return super().query(expr, **options)
        except pd.errors.UndefinedVariableError as error:
            raise InputError(
                f"query {expr!r:.200}: {error}.", hint=f"The columns are {', '.join(map(str, self.columns))}."
            ) from error
