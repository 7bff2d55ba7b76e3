"""The literal block of a workload file: prompt lengths with their counts or probabilities."""

import math
from dataclasses import dataclass

from planner.domain import LengthProfile
from planner.errors import InputError
from planner.files.disk.csv_rows import text_cells
from planner.files.sections import MOST_TOKENS, Section

_SUM_TOLERANCE = 1e-6
_WHOLE = ("input_tokens", "requests")
_HIGH = float(MOST_TOKENS)
_HEADERS = (
    ("input_tokens", "requests"),
    ("input_tokens", "requests", "output_tokens"),
    ("input_tokens", "probability"),
    ("input_tokens", "probability", "output_tokens"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthTable:
    """The rows of `lengths`, a column a tuple; `requests` is their sum where the block counts requests."""

    input_tokens: tuple[int, ...]
    probabilities: tuple[float, ...]
    output_tokens: tuple[float, ...]
    requests: int | None

    @classmethod
    def read(cls, document: Section) -> "LengthTable":
        """The block `lengths` of a workload document; InputError names row and column."""
        rows = text_cells(document.text("lengths"), f"{document.file}: lengths")
        header = tuple(cell.strip() for cell in next(rows, ()))
        if header not in _HEADERS:
            rule = "begin with input_tokens,requests[,output_tokens] or input_tokens,probability[,output_tokens]"
            raise _lengths_error(document, rule, ",".join(header) or "nothing")
        cells: list[tuple[float, ...]] = []
        for number, row in enumerate(rows, start=1):
            cells.append(_numbers(document, number, row, header))
            if number > 1 and cells[-1][0] <= cells[-2][0]:
                came = f"{cells[-1][0]:.0f} after {cells[-2][0]:.0f}"
                raise _lengths_error(document, "ascend in input_tokens, each once", came)
        if not cells:
            raise _lengths_error(document, "hold at least one row", "only a header")
        return cls._of(document, cells, counted="requests" in header)

    @classmethod
    def _of(cls, document: Section, cells: list[tuple[float, ...]], *, counted: bool) -> "LengthTable":
        lengths = [int(row[0]) for row in cells]
        total = math.fsum(row[1] for row in cells)
        if not counted and abs(total - 1.0) > _SUM_TOLERANCE:
            raise _lengths_error(document, "have probabilities that sum to 1", f"{total:.9g}")
        if total <= 0:
            raise _lengths_error(document, "count at least one request", "none")
        return cls(
            input_tokens=tuple(lengths),
            probabilities=tuple(row[1] / total if counted else row[1] for row in cells),
            output_tokens=tuple(row[2] for row in cells if len(row) > 2),
            requests=int(total) if counted else None,
        )


def _numbers(document: Section, number: int, row: list[str], header: tuple[str, ...]) -> tuple[float, ...]:
    if len(row) != len(header):
        raise _lengths_error(document, f"have {len(header)} cells in row {number}", str(len(row)))
    return tuple([_cell(document, number, cell, column) for cell, column in zip(row, header, strict=True)])


def _cell(document: Section, number: int, cell: str, column: str) -> float:
    integral = column in _WHOLE
    high = 1.0 if column == "probability" else _HIGH
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= high or (integral and not value.is_integer()):
        kind = "a whole number" if integral else "a number"
        rule = f"have {kind} from 0 to {high:g} in row {number}, {column}"
        raise _lengths_error(document, rule, repr(cell))
    return value


def _lengths_error(document: Section, rule: str, came: str) -> InputError:
    return InputError(
        f"{document.file}: {document.key_path('lengths')} must {rule}, got {came}.",
        hint="One row a distinct prompt length, comma-separated.",
    )


def length_rows(profile: LengthProfile) -> str:
    """The block `lengths` of a profile: counts where they give back its probabilities, else probabilities."""
    counts = _counts(profile)
    weights = [repr(p) for p in profile.probabilities] if counts is None else [str(c) for c in counts]
    header = ["input_tokens", "probability" if counts is None else "requests"]
    columns = [[str(s) for s in profile.input_tokens], weights]
    if profile.output_tokens:
        header.append("output_tokens")
        columns.append([str(int(o)) if o == int(o) else repr(o) for o in profile.output_tokens])
    return "".join(f"{','.join(row)}\n" for row in (header, *zip(*columns, strict=True)))


def _counts(profile: LengthProfile) -> list[int] | None:
    if profile.requests is None:
        return None
    counts = [round(p * profile.requests) for p in profile.probabilities]
    same = all(c / profile.requests == p for c, p in zip(counts, profile.probabilities, strict=True))
    return counts if same and sum(counts) == profile.requests else None
