"""Tables as CSV, the same bytes for the same figures."""

import csv
import io
from collections.abc import Iterable, Sequence


def csv_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A header and its rows, lines ending in a newline; floats to ten digits, None as an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    return f"{value:.10g}" if isinstance(value, float) else value
