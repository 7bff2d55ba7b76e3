"""Rate curves: how a service's rate goes up and down over days.

    name: servegen-m-large
    span_s: 1209600              # after which the curve repeats
    licence, citation, source
    rates: |
      start_s,requests_per_s
      0,242.6

A rate holds from its start to the next one's. Only how rates compare counts: a stream is asked for at a mean rate.
"""

from collections.abc import Sequence
from pathlib import Path

from planner.domain.arrivals import RateCurve
from planner.errors import InputError
from planner.files.disk.csv_rows import number_of, text_cells
from planner.files.disk.documents import read_yaml
from planner.files.disk.references import is_path, resolve
from planner.files.disk.shipped import shipped_rate_curves
from planner.files.sections import Section, nearest_hint

_HEADER = ("start_s", "requests_per_s")
_LONGEST_S = 10 * 365.25 * 86_400.0  # as no trace spans ten years


def load_rate_curve(name_or_path: str, base: Path | None = None) -> RateCurve:
    """A shipped curve by name, or one of your own by the path of its file (.yaml), relative to `base`."""
    if is_path(name_or_path, ".yaml", ".yml"):
        return rate_curve_from_document(read_yaml(resolve(name_or_path, base)))
    shipped = shipped_rate_curves()
    if name_or_path not in shipped:
        raise InputError(
            f"There is no rate curve {name_or_path!r}.",
            hint=nearest_hint(name_or_path, shipped, what="shipped rate curves")
            + " For your own give the path of its file (.yaml).",
        )
    return rate_curve_from_document(read_yaml(shipped[name_or_path]))


def rate_curve_from_document(document: Section) -> RateCurve:
    """The curve that a document describes. InputError names file, key and row."""
    document.allow_only("name", "span_s", "licence", "citation", "source", "rates")
    rows = [[cell.strip() for cell in row] for row in text_cells(document.text("rates"), f"{document.file}: rates")]
    if not rows or tuple(rows[0]) != _HEADER:
        raise _fault(document, f"begin with {','.join(_HEADER)}", ",".join(rows[0]) if rows else "nothing")
    pairs = [_pair(document, number, row) for number, row in enumerate(rows[1:], start=1)]
    starts = tuple(start for start, _ in pairs)
    span_s = document.number("span_s", above=0, high=_LONGEST_S)
    if not starts or starts[0] != 0:
        raise _fault(document, "begin at second 0", f"{starts[0]:g}" if starts else "only a header")
    for number, (before, after) in enumerate(zip(starts, (*starts[1:], span_s), strict=True), start=1):
        if after <= before:
            following = "span_s" if number == len(starts) else f"row {number + 1}"
            raise _fault(document, f"have starts that ascend to span_s: row {number} before {following}", f"{after:g}")
    if not any(rate for _, rate in pairs):
        raise _fault(document, "have a rate above 0", "only zeros")
    return RateCurve(
        name=document.name("name"),
        starts_s=starts,
        rates=tuple(rate for _, rate in pairs),
        span_s=span_s,
        licence=document.text("licence", default=""),
        citation=document.text("citation", default=""),
        source=document.text("source", default=""),
    )


def _pair(document: Section, number: int, row: Sequence[str]) -> tuple[float, float]:
    if len(row) != len(_HEADER):
        raise _fault(document, f"have {len(_HEADER)} cells in row {number}", str(len(row)))
    start, rate = map(number_of, row)
    for column, value, cell in zip(_HEADER, (start, rate), row, strict=True):
        if not 0 <= value <= 1e12:  # NaN, too
            raise _fault(document, f"have a number of at least 0 in row {number}, {column}", repr(cell))
    return start, rate


def _fault(document: Section, rule: str, came: str) -> InputError:
    return InputError(
        f"{document.file}: {document.key_path('rates')} must {rule}, got {came}.",
        hint="One row a stretch of time: second of its start, requests a second.",
    )
