"""Tables as CSV, the same bytes for the same figures, and nothing in them that a spreadsheet would run.

A text that begins with `=`, `+`, `-` or `@` is a formula to Excel and LibreOffice: it gets an apostrophe before it,
which they take for "this is text". Names of nodes come from clusters, and anybody may call one `=HYPERLINK(...)`.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

_FORMULA = re.compile(r"[=+@\t\r-].")
_SUSPICIOUS = re.compile(r'(?:^|,)"?[=+@\t\r-]', re.MULTILINE)


def csv_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A header and its rows, lines ending in a newline; floats to ten digits, None as an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, header))
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue().encode()


def frame_csv(frame: Any, *, float_format: str | None = None) -> bytes:
    """A data frame as CSV, without its index."""
    text: str = frame.to_csv(index=False, lineterminator="\n", float_format=float_format)
    if not _SUSPICIOUS.search(text):
        return text.encode()
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    return csv_table(header, rows)


def _cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.10g}"
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) and not _is_number(value) else value


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text.removesuffix("%")))
    except ValueError:
        return False
