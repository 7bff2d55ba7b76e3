"""Tables of a workload file: prompt lengths with their counts, how prompts begin alike, how arrivals bunch.

    prefix:
      block_tokens: 512
      shares: |
        from,prompt_tokens,16384,32768,unbounded
        1024,52000,0.1,0.2,0.25
        2048,910000,0.3,0.4,0.4

A row holds for prompts from `from` tokens up to those of the next row; a column is of a cache of so many tokens. The
record is `PrefixReuse`; `planner workload summarize` writes it for a trace with hashes of its prompts' blocks.

    counts: |
      window_s,dispersion
      0.1,1.06
      1,1.39

The record is `CountDispersion`; `planner workload summarize` writes it for a trace.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from planner.domain import CountDispersion, LengthProfile, PrefixReuse
from planner.errors import InputError
from planner.files.disk.csv_rows import number_of, text_cells
from planner.files.sections import MOST_TOKENS, MOST_WHOLE, Section
from planner.files.tables.affinity_tables import affinity_document, read_affinity

MOST_KEPT = 8
"""Of blocks of lengths, thousands of rows each, that were read before: every record of a plan reads its workload."""

_SUM_TOLERANCE = 1e-6
_WHOLE_NUMBERS = ("input_tokens", "requests")
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
        return cls._read(document.text("lengths"), document.file, document.key_path("lengths"))

    @classmethod
    @lru_cache(maxsize=MOST_KEPT)
    def _read(cls, text: str, file: str, key: str) -> "LengthTable":
        """The block `text`, which stands in `file` under `key`."""
        place, rows = f"{file}: {key}", text_cells(text, f"{file}: lengths")
        header = tuple(cell.strip() for cell in next(rows, ()))
        if header not in _HEADERS:
            rule = "begin with input_tokens,requests[,output_tokens] or input_tokens,probability[,output_tokens]"
            raise _lengths_error(place, rule, ",".join(header) or "nothing")
        cells: list[tuple[float, ...]] = []
        for number, row in enumerate(rows, start=1):
            cells.append(_numbers(place, number, row, header))
            if number > 1 and cells[-1][0] <= cells[-2][0]:
                shown = f"{cells[-1][0]:.0f} after {cells[-2][0]:.0f}"
                raise _lengths_error(place, "ascend in input_tokens, each once", shown)
        if not cells:
            raise _lengths_error(place, "hold at least one row", "only a header")
        return cls._of(place, cells, counted="requests" in header)

    @classmethod
    def _of(cls, place: str, cells: list[tuple[float, ...]], *, counted: bool) -> "LengthTable":
        lengths = [int(row[0]) for row in cells]
        total = math.fsum(row[1] for row in cells)
        if not counted and abs(total - 1.0) > _SUM_TOLERANCE:
            raise _lengths_error(place, "have probabilities that sum to 1", f"{total:.9g}")
        if total <= 0:
            raise _lengths_error(place, "count at least one request", "none")
        return cls(
            input_tokens=tuple(lengths),
            probabilities=tuple(row[1] / total if counted else row[1] for row in cells),
            output_tokens=tuple(row[2] for row in cells if len(row) > 2),
            requests=int(total) if counted else None,
        )


def _numbers(place: str, number: int, row: list[str], header: tuple[str, ...]) -> tuple[float, ...]:
    if len(row) != len(header):
        raise _lengths_error(place, f"have {len(header)} cells in row {number}", str(len(row)))
    return tuple([_cell(place, number, cell, column) for cell, column in zip(row, header, strict=True)])


def _cell(place: str, number: int, cell: str, column: str) -> float:
    integral = column in _WHOLE_NUMBERS
    high = 1.0 if column == "probability" else _HIGH
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= high or (integral and not value.is_integer()):
        kind = "a whole number" if integral else "a number"
        rule = f"have {kind} from 0 to {high:g} in row {number}, {column}"
        raise _lengths_error(place, rule, repr(cell))
    return value


def _lengths_error(place: str, rule: str, shown: str) -> InputError:
    return InputError(
        f"{place} must {rule}, got {shown}.",
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


_LENGTHS = ("from", "prompt_tokens")
_UNBOUNDED = "unbounded"


def read_prefix(section: Section) -> PrefixReuse:
    """The section `prefix` of a workload. InputError names row and column."""
    section.allow_only("block_tokens", "shares", "unevenness", "affinity")
    rows = [[cell.strip() for cell in row] for row in text_cells(section.text("shares"), f"{section.file}: shares")]
    header = rows[0] if rows else []
    if tuple(header[:2]) != _LENGTHS or len(header) < 4 or header[-1] != _UNBOUNDED:
        rule = "begin with from,prompt_tokens, sizes of caches in tokens, and unbounded"
        raise _fault(section, rule, ",".join(header) or "nothing")
    sizes = tuple(_whole_tokens(section, "the header", size, MOST_WHOLE) for size in header[2:-1])
    _require_ascending(section, "sizes", sizes)
    if len(rows) < 2:
        raise _fault(section, "hold at least one row", "only a header")
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            raise _fault(section, f"have {len(header)} cells in row {number}", str(len(row)))
    places = [f"row {number}" for number in range(1, len(rows))]
    starts = tuple(
        _whole_tokens(section, place, row[0], MOST_TOKENS) for place, row in zip(places, rows[1:], strict=True)
    )
    _require_ascending(section, "from", starts)
    return PrefixReuse(
        block_tokens=section.integer("block_tokens", low=1, high=MOST_TOKENS),
        cache_tokens=sizes,
        starts=starts,
        prompt_tokens=tuple(
            _whole_tokens(section, place, row[1], MOST_WHOLE) for place, row in zip(places, rows[1:], strict=True)
        ),
        shares=tuple(_shares(section, place, row[2:]) for place, row in zip(places, rows[1:], strict=True)),
        unevenness=_read_unevenness(section, len(starts), len(sizes) + 1) if "unevenness" in section else (),
        affinity=read_affinity(section.section("affinity")) if "affinity" in section else None,
    )


def _read_unevenness(section: Section, rows: int, columns: int) -> tuple[tuple[float, ...], ...]:
    """A row for each of `shares`, whose columns it has."""
    place = f"{section.file}: {section.key_path('unevenness')}"
    table = tuple(tuple(map(number_of, row)) for row in text_cells(section.text("unevenness"), place))
    if len(table) != rows or any(len(row) != columns or not all(cell >= 1 for cell in row) for row in table):
        raise InputError(
            f"{place} must have a row of {columns} numbers of at least 1 for each of the {rows} rows of shares, got "
            f"{len(table)} rows.",
            hint="Summarise the trace anew, or leave it out.",
        )
    return table


def _shares(section: Section, place: str, cells: Sequence[str]) -> tuple[float, ...]:
    shares = tuple(map(number_of, cells))
    for cell, share in zip(cells, shares, strict=True):
        if not 0 <= share < 1:
            raise _fault(section, f"have shares from 0 to below 1 in {place}", repr(cell))
    for before, after in pairwise(shares):
        if after < before:
            raise _fault(section, f"have shares that grow with the cache in {place}", f"{after:g} after {before:g}")
    return shares


def _whole_tokens(section: Section, place: str, cell: str, limit: int) -> int:
    number = number_of(cell)
    if not number.is_integer() or not 1 <= number <= limit:
        raise _fault(section, f"have whole numbers of tokens from 1 to {limit} in {place}", repr(cell))
    return int(number)


def _require_ascending(section: Section, subject: str, numbers: Sequence[int]) -> None:
    for before, after in pairwise(numbers):
        if after <= before:
            raise _fault(section, f"ascend in {subject}", f"{after} after {before}")


def _fault(section: Section, rule: str, shown: str) -> InputError:
    return InputError(
        f"{section.file}: {section.key_path('shares')} must {rule}, got {shown:.200}.",
        hint="Summarise the trace anew, or leave out prefix.",
    )


def prefix_document(reuse: PrefixReuse) -> dict[str, object]:
    """The section that `read_prefix` reads back as the same reuse."""
    rows = [[*_LENGTHS, *map(str, reuse.cache_tokens), _UNBOUNDED]]
    columns = zip(reuse.starts, reuse.prompt_tokens, reuse.shares, strict=True)
    rows += [[str(start), str(tokens), *map(repr, shares)] for start, tokens, shares in columns]
    document: dict[str, object] = {
        "block_tokens": reuse.block_tokens,
        "shares": "".join(f"{','.join(row)}\n" for row in rows),
    }
    if reuse.unevenness:
        document["unevenness"] = "".join(f"{','.join(map(repr, row))}\n" for row in reuse.unevenness)
    return document if reuse.affinity is None else document | {"affinity": affinity_document(reuse.affinity)}


_HEADER = ["window_s", "dispersion"]
_LONGEST_S = 1e9
_LARGEST_DISPERSION = 1e12


def read_counts(document: Section) -> CountDispersion:
    """The key `counts` of a workload. InputError names the row."""
    rows = [[cell.strip() for cell in row] for row in text_cells(document.text("counts"), f"{document.file}: counts")]
    if not rows or rows[0] != _HEADER or len(rows) == 1:
        raise document.fault("counts", f"a table with the header {','.join(_HEADER)} and a row at least")
    for number, row in enumerate(rows[1:], start=1):
        numbers = [number_of(cell) for cell in row]
        if len(numbers) != len(_HEADER) or not (
            0 < numbers[0] <= _LONGEST_S and 0 <= numbers[1] <= _LARGEST_DISPERSION
        ):
            raise document.fault("counts", f"seconds above 0 and a dispersion of at least 0 in row {number}")
    windows, dispersion = zip(*((number_of(first), number_of(last)) for first, last in rows[1:]), strict=True)
    if any(after <= before for before, after in pairwise(windows)):
        raise document.fault("counts", "windows that ascend")
    return CountDispersion(windows_s=tuple(windows), dispersion=tuple(dispersion))


def counts_table(counts: CountDispersion) -> str:
    """The text that `read_counts` reads back as the same record."""
    rows = zip(counts.windows_s, counts.dispersion, strict=True)
    return "".join(f"{','.join(row)}\n" for row in [_HEADER, *([repr(w), repr(i)] for w, i in rows)])
