"""Answers of Prometheus' HTTP API (`/api/v1/query`, `/api/v1/query_range`), as JSON files, to the queries that the
export writes.

A series of a plan is known by its name (`__name__`, of `Quantity`), the plan's label, the island's and, of a class of a
histogram, its upper edge `le`; one of traffic by its name (of `Traffic`), engine, plan, model and edge.
Source: prometheus/docs/querying/api.md; values are texts, times seconds since 1970.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from planner.domain.serving.observed import (
    EDGE,
    ENGINE,
    ISLAND,
    MODEL,
    PART_OF,
    PLAN,
    ObservedSeries,
    Quantity,
    Traffic,
    TrafficSeries,
)
from planner.errors import InputError
from planner.files.disk.documents import parse_json
from planner.files.disk.opening import MOST_OF_A_LIST, read_text
from planner.files.sections import Section

_FORMS = {"vector": "value", "matrix": "values"}
_Kind = TypeVar("_Kind", bound=StrEnum)
_LARGEST = 1e15
_ROUNDING = 1e-9
_MOST_APART_S = 3600.0
_QUERIES_HINT = "Ask with the queries of `planner observe RUN --queries`."


def load_answers(paths: Sequence[Path], *, sparse: bool = False) -> tuple[ObservedSeries, ...]:
    """The series of all files. Raises InputError as `read_answers`, and for a file that cannot be read."""
    texts = {str(path): read_text(path, most_bytes=MOST_OF_A_LIST) for path in paths}
    return read_answers(texts, sparse=sparse)


def read_answers(texts: Mapping[str, str], *, sparse: bool = False) -> tuple[ObservedSeries, ...]:
    """The series of all answers, by what each is called, each the mean over its samples. `sparse`: answers may be
    empty, and all of them.

    Raises:
        InputError: a text that is no JSON or no answer, an error, an empty or a truncated answer, a series of another
            name or without its labels, a value that is no finite number or negative, a series given twice, or answers
            of other times.
    """
    series = [_read(row, form, name) for name, text in texts.items() for row, form in _rows(name, text, empty=sparse)]
    if not series and not sparse:
        raise InputError("Answers: at least one file must be given, got none.", hint=_QUERIES_HINT)
    by_key: dict[tuple[object, ...], ObservedSeries] = {}
    for item in series:
        key = (item.quantity, item.plan, item.island, item.edge_s)
        if key in by_key:
            raise InputError(
                f"{item.file}: {item.quantity} of {item.island!r} must be given once, is in {by_key[key].file}, too.",
                hint="Give each answer once, and one query's alone where there are several forms of it.",
            )
        by_key[key] = item
    if series:
        _refuse_apart(series)
    return tuple(series)


def load_traffic(paths: Sequence[Path]) -> tuple[TrafficSeries, ...]:
    """The series of all files. Raises InputError as `read_traffic`, and for a file that cannot be read."""
    return read_traffic({str(path): read_text(path, most_bytes=MOST_OF_A_LIST) for path in paths})


def read_traffic(texts: Mapping[str, str]) -> tuple[TrafficSeries, ...]:
    """The series of traffic in all answers; an answer may have none, as engines that do not run give none.

    Raises:
        InputError: as `read_answers`, but for empty answers.
    """
    by_key: dict[tuple[object, ...], TrafficSeries] = {}
    for name, text in texts.items():
        for row, form in _rows(name, text, empty=True):
            item = _read_traffic(row, form, name)
            written = row.section("metric").text(EDGE, default="")  # 1 and 1.0 are series of their own
            key = (item.quantity, item.engine, item.plan, item.model, written)
            if key in by_key:
                raise InputError(
                    f"{name}: {item.quantity} of {item.model!r} must be given once, is in {by_key[key].file}, too.",
                    hint="Give each answer once.",
                )
            by_key[key] = item
    return tuple(by_key.values())


def read_values(file: str, text: str) -> tuple[float, ...]:
    """The newest value of every series of an answer, whatever it is of; those that are no number are left out, as a
    quantile is where nothing came. InputError as `read_answers`, but for empty answers."""
    values = []
    for row, form in _rows(file, text, empty=True):
        pair = row.entries(_FORMS[form])[-1] if form == "matrix" else row.entries(_FORMS[form])
        try:
            _, written = pair if isinstance(pair, list | tuple) else ((), "")
            values.append(float(str(written)))
        except ValueError:
            raise row.fault(_FORMS[form], "a time and a value", hint=_QUERIES_HINT) from None
    return tuple(value for value in values if not math.isnan(value))


def _rows(file: str, text: str, *, empty: bool = False) -> Iterator[tuple[Section, str]]:
    """The series of an answer, and its form."""
    document = parse_json(text, file=file)
    if document.one_of("status", ("success", "error")) == "error":
        reason = document.text("error", default="no reason")
        raise InputError(
            f"{file}: status must be success, got error: {reason:.200}.", hint="Mend the query, ask again."
        )
    data = document.section("data")
    form = data.one_of("resultType", tuple(_FORMS))
    rows = data.sections("result")
    if not rows and not empty:
        raise data.fault("result", "a list with at least one series", hint=f"Nothing was recorded. {_QUERIES_HINT}")
    for row in rows:
        yield row, form


def _read(row: Section, form: str, file: str) -> ObservedSeries:
    labels = row.section("metric")
    quantity = _quantity(labels, Quantity)
    samples = _samples(row, form, quantity, 1.0 if quantity.is_share else _LARGEST)
    return ObservedSeries(
        quantity=quantity,
        plan=labels.printable(PLAN),
        island=labels.printable(ISLAND),
        edge_s=_edge(labels) if quantity.is_histogram else None,
        value=math.fsum(value for _, value in samples) / len(samples),
        samples=len(samples),
        start_s=samples[0][0],
        end_s=samples[-1][0],
        file=file,
    )


def _read_traffic(row: Section, form: str, file: str) -> TrafficSeries:
    labels = row.section("metric")
    quantity = _quantity(labels, Traffic)
    samples = _samples(row, form, quantity, _LARGEST)
    return TrafficSeries(
        quantity=quantity,
        engine=labels.printable(ENGINE),
        plan=labels.printable(PART_OF, empty=True) if PART_OF in labels else "",
        model=labels.printable(MODEL, empty=True) if MODEL in labels else "",
        edge_tokens=_edge(labels) if quantity.is_histogram else None,
        value=math.fsum(value for _, value in samples) / len(samples),
        end_s=samples[-1][0],
        file=file,
    )


def _quantity(labels: Section, kind: type[_Kind]) -> _Kind:
    name = labels.text("__name__", default="")
    if name not in {quantity.value for quantity in kind}:
        raise labels.fault("__name__", f"one of {', '.join(kind)}", hint=_QUERIES_HINT)
    return kind(name)


def _edge(labels: Section) -> float:
    text = labels.text(EDGE, default="")
    try:
        edge = float(text)
    except ValueError:
        edge = math.nan
    if math.isnan(edge) or edge < 0:
        raise labels.fault(EDGE, "the upper edge of a histogram's class, or +Inf", hint=_QUERIES_HINT)
    return edge


def _samples(row: Section, form: str, quantity: str, limit: float) -> list[tuple[float, float]]:
    key = _FORMS[form]
    pairs = [row.entries(key)] if form == "vector" else list(row.entries(key))
    if not pairs:
        raise row.fault(key, "a list with at least one sample")
    samples = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:  # a moment and a value
            raise row.fault(key, "made of a time and a value each")
        samples.append((_time(row, key, pair[0]), _value(row, key, pair[1], quantity, limit)))
    if any(later[0] <= earlier[0] for earlier, later in pairwise(samples)):
        raise row.fault(key, "in the order of time")
    return samples


def _time(row: Section, key: str, moment: object) -> float:
    if isinstance(moment, bool) or not isinstance(moment, int | float) or not 0 <= moment <= _LARGEST:
        raise row.fault(key, f"at times in seconds since 1970, not {moment!r:.40}")
    return float(moment)


def _value(row: Section, key: str, text: object, quantity: str, limit: float) -> float:
    try:
        value = float(text) if isinstance(text, str) else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value <= limit * (1 + _ROUNDING):  # NaN, too
        raise row.fault(
            key,
            f"finite numbers as texts, 0 to {limit:g} for {quantity}, not {text!r:.40}",
            hint="A share of no requests is NaN: take a time with load.",
        )
    return min(value, limit)


def _refuse_apart(series: Sequence[ObservedSeries]) -> None:
    """Answers must be of one time; queries one after another are some seconds apart."""
    last, first = max(series, key=lambda item: item.start_s), min(series, key=lambda item: item.end_s)
    if last.start_s - first.end_s > _MOST_APART_S:
        raise InputError(
            f"{last.file}: must be of the same time as {first.file}, begins {last.start_s - first.end_s:.0f} s after "
            "its end.",
            hint="Ask all queries for the same time.",
        )
