"""How prompts begin alike, in a workload file: hit shares of a prefix cache by prompt length and by its size.

    prefix:
      block_tokens: 512
      shares: |
        from,prompt_tokens,16384,32768,unbounded
        1024,52000,0.1,0.2,0.25
        2048,910000,0.3,0.4,0.4

A row holds for prompts from `from` tokens up to those of the next row; a column is of a cache of so many tokens. The
record is `PrefixReuse`; `planner workload summarize` writes it for a trace with hashes of its prompts' blocks.
"""

from collections.abc import Sequence
from itertools import pairwise

from planner.domain import PrefixReuse
from planner.errors import InputError
from planner.files.disk.csv_rows import number_of, text_cells
from planner.files.sections import MOST_TOKENS, MOST_WHOLE, Section

_LENGTHS = ("from", "prompt_tokens")
_UNBOUNDED = "unbounded"


def read_prefix(section: Section) -> PrefixReuse:
    """The section `prefix` of a workload. InputError names row and column."""
    section.allow_only("block_tokens", "shares")
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
    )


def _shares(section: Section, place: str, cells: Sequence[str]) -> tuple[float, ...]:
    shares = tuple(map(number_of, cells))
    for cell, share in zip(cells, shares, strict=True):
        if not 0 <= share < 1:
            raise _fault(section, f"have shares from 0 to below 1 in {place}", repr(cell))
    for before, after in pairwise(shares):
        if after < before:
            raise _fault(section, f"have shares that grow with the cache in {place}", f"{after:g} after {before:g}")
    return shares


def _whole_tokens(section: Section, place: str, cell: str, most: int) -> int:
    number = number_of(cell)
    if not number.is_integer() or not 1 <= number <= most:
        raise _fault(section, f"have whole numbers of tokens from 1 to {most} in {place}", repr(cell))
    return int(number)


def _require_ascending(section: Section, what: str, numbers: Sequence[int]) -> None:
    for before, after in pairwise(numbers):
        if after <= before:
            raise _fault(section, f"ascend in {what}", f"{after} after {before}")


def _fault(section: Section, rule: str, came: str) -> InputError:
    return InputError(
        f"{section.file}: {section.key_path('shares')} must {rule}, got {came:.200}.",
        hint="Summarise the trace anew, or leave out prefix.",
    )


def prefix_document(reuse: PrefixReuse) -> dict[str, object]:
    """The section that `read_prefix` reads back as the same reuse."""
    rows = [[*_LENGTHS, *map(str, reuse.cache_tokens), _UNBOUNDED]]
    columns = zip(reuse.starts, reuse.prompt_tokens, reuse.shares, strict=True)
    rows += [[str(start), str(tokens), *map(repr, shares)] for start, tokens, shares in columns]
    return {"block_tokens": reuse.block_tokens, "shares": "".join(f"{','.join(row)}\n" for row in rows)}
