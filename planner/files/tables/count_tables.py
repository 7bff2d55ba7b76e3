"""How arrivals bunch, in a workload file: variance over mean of their number in windows of some lengths.

    counts: |
      window_s,dispersion
      0.1,1.06
      1,1.39

The record is `CountDispersion`; `planner workload summarize` writes it for a trace.
"""

from itertools import pairwise

from planner.domain import CountDispersion
from planner.files.disk.csv_rows import number_of, text_cells
from planner.files.sections import Section

_HEADER = ["window_s", "dispersion"]
_LONGEST_S = 1e9
_MOST = 1e12


def read_counts(document: Section) -> CountDispersion:
    """The key `counts` of a workload. InputError names the row."""
    rows = [[cell.strip() for cell in row] for row in text_cells(document.text("counts"), f"{document.file}: counts")]
    if not rows or rows[0] != _HEADER or len(rows) == 1:
        raise document.fault("counts", f"a table with the header {','.join(_HEADER)} and a row at least")
    for number, row in enumerate(rows[1:], start=1):
        numbers = [number_of(cell) for cell in row]
        if len(numbers) != len(_HEADER) or not (0 < numbers[0] <= _LONGEST_S and 0 <= numbers[1] <= _MOST):
            raise document.fault("counts", f"seconds above 0 and a dispersion of at least 0 in row {number}")
    windows, dispersion = zip(*((number_of(first), number_of(last)) for first, last in rows[1:]), strict=True)
    if any(after <= before for before, after in pairwise(windows)):
        raise document.fault("counts", "windows that ascend")
    return CountDispersion(windows_s=tuple(windows), dispersion=tuple(dispersion))


def counts_table(counts: CountDispersion) -> str:
    """The text that `read_counts` reads back as the same record."""
    rows = zip(counts.windows_s, counts.dispersion, strict=True)
    return "".join(f"{','.join(row)}\n" for row in [_HEADER, *([repr(w), repr(i)] for w, i in rows)])
