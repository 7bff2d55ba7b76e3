"""Tables of a workload file: how often blocks of its prompts were used before, and by whom.

    prefix:
      affinity:
        uses: |
          by,times,16384,32768,unbounded
          any,1,0.1,0.2,0.3
          any,2,0,0.1,0.1
          own,1,0.1,0.1,0.2
          other,1,0,0,0.1
          other,2,0,0,0
          loose,1,0,0.1,0.1
          loose,2,0,0,0
        spread: |
          of,equal,skew
          prompts,800,0.05
          sessions,200,0.1
          fresh,300,0.1
        families: |
          share
          0.7

A column is of a window of so many tokens of all prompts; a row of tokens whose block was used at least so many times in
it. The record is `PrefixAffinity`; `planner workload summarize` writes it for a trace with hashes of prompts.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from planner.domain import PrefixAffinity, WeightSpread
from planner.errors import InputError
from planner.files.disk.csv_rows import number_of, text_cells
from planner.files.sections import MOST_WHOLE, Section

_BY = ("any", "own", "other", "loose")
_SPREADS = ("prompts", "sessions", "fresh")
_UNBOUNDED = "unbounded"


def read_affinity(section: Section) -> PrefixAffinity:
    """The section `affinity` of `prefix`. InputError names table and row."""
    section.allow_only("uses", "spread", "families")
    rows = _rows(section, "uses")
    header = rows[0]
    windows = tuple(map(number_of, header[2:-1]))
    if header[:2] != ["by", "times"] or not windows or header[-1] != _UNBOUNDED or not _ascend(windows):
        raise _fault(section, "uses", "begin with by,times, ascending windows in tokens, and unbounded", header)
    uses, own, others, loose = (_uses(section, rows, by) for by in _BY)
    alike = len(own) == 1 and len(uses) == len(others) == len(loose) > 0
    if not alike or len(rows) != 1 + 3 * len(uses) + 1:
        raise _fault(section, "uses", f"hold rows of {', '.join(_BY)} for 1, 2, 4, ... times, one of own", rows[-1])
    prompts, sessions, fresh = _spreads(section)
    families = tuple(number_of(",".join(row)) for row in _rows(section, "families")[1:])
    if not all(0 <= family <= 1 for family in families) or sum(families) > 1 + 1e-6:
        raise _fault(section, "families", "have shares from 0 to 1 of a sum of at most 1", [f"{sum(families):g}"])
    return PrefixAffinity(
        windows=tuple(map(int, windows)),
        uses=uses,
        own=own[0],
        others=others,
        loose=loose,
        prompts=prompts,
        sessions=sessions,
        fresh=fresh,
        families=families,
    )


def _rows(section: Section, key: str) -> list[list[str]]:
    rows = [[cell.strip() for cell in row] for row in text_cells(section.text(key), f"{section.file}: {key}")]
    if len(rows) < 2:
        raise _fault(section, key, "hold a header and at least one row", rows[0] if rows else [])
    return rows


def _uses(section: Section, rows: Sequence[Sequence[str]], by: str) -> tuple[tuple[float, ...], ...]:
    found: list[tuple[float, ...]] = []
    for row in rows[1:]:
        if row[0] != by:
            continue
        shares = tuple(map(number_of, row[2:]))
        if len(row) != len(rows[0]) or row[1] != str(2 ** len(found)) or not all(0 <= share <= 1 for share in shares):
            raise _fault(section, "uses", "have times 1, 2, 4, ... and a share from 0 to 1 for each window", row)
        found.append(shares)
    return tuple(found)


def _spreads(section: Section) -> Iterable[WeightSpread]:
    rows = _rows(section, "spread")
    if rows[0] != ["of", "equal", "skew"] or tuple(row[0] for row in rows[1:]) != _SPREADS:
        raise _fault(section, "spread", f"have the header of,equal,skew and rows of {', '.join(_SPREADS)}", rows[0])
    for row in rows[1:]:
        numbers = tuple(map(number_of, row[1:]))
        if len(numbers) != 2 or not 1 <= numbers[0] <= MOST_WHOLE or not 0 <= numbers[1] <= 1:
            raise _fault(section, "spread", "have numbers of at least 1 and skews from 0 to 1", row)
        yield WeightSpread(equal=numbers[0], skew=numbers[1])


def _ascend(windows: Sequence[float]) -> bool:
    whole = all(window.is_integer() and 1 <= window <= MOST_WHOLE for window in windows)
    return whole and all(before < after for before, after in pairwise(windows))


def _fault(section: Section, key: str, rule: str, row: Sequence[str]) -> InputError:
    return InputError(
        f"{section.file}: {section.key_path(key)} must {rule}, got {','.join(row) or 'nothing':.200}.",
        hint="Summarise the trace anew, or leave out prefix.affinity.",
    )


def affinity_document(affinity: PrefixAffinity) -> dict[str, object]:
    """The section that `read_affinity` reads back as the same record."""
    uses = [["by", "times", *map(str, affinity.windows), _UNBOUNDED]]
    for by, rows in zip(_BY, (affinity.uses, (affinity.own,), affinity.others, affinity.loose), strict=True):
        uses += [[by, str(2**number), *map(repr, shares)] for number, shares in enumerate(rows)]
    spreads = zip(_SPREADS, (affinity.prompts, affinity.sessions, affinity.fresh), strict=True)
    spread = [["of", "equal", "skew"], *([of, repr(each.equal), repr(each.skew)] for of, each in spreads)]
    families = [["share"], *([repr(family)] for family in affinity.families)]
    return {"uses": _text(uses), "spread": _text(spread), "families": _text(families)}


def _text(rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"{','.join(row)}\n" for row in rows)
