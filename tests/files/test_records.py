"""The codec: records there and back, and what their annotations say in words and as a schema."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

import jsonschema
import pytest

from planner.domain import IslandClass, Layout, SloSettings
from planner.domain.keys import INTERNAL, RANGES, Bounds, Items, Key, Mapped, OneOf
from planner.errors import InputError
from planner.files.records import load_record, read_record, record_document, record_schema
from planner.files.sections import Section


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    weight_gb: Annotated[float, Bounds(above=0)] = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    start: Annotated[int, Bounds(low=0, high=9), Key("where it begins", name="from")]
    parts: Annotated[tuple[Part, ...], Items(least=1)]
    layout: Layout
    cores: Annotated[tuple[int, ...], RANGES] = ()
    flag: Annotated[bool, Key("on or off", sparse=True)] = False
    limit: Annotated[float | None, Bounds(low=0), Key(sparse=True)] = None
    wait_ms: Annotated[float | None, Bounds(low=0)] = None
    colour: Colour = Colour.RED
    solver: Annotated[str, OneOf(("a", "b"))] = "a"
    speeds: Annotated[tuple[tuple[str, float], ...], Mapped(ascending=True), Bounds(low=0)] = ()
    inner: Annotated[int, INTERNAL] = 3


THING = Thing(
    start=2,
    parts=(Part(name="x"), Part(name="y", weight_gb=0.5)),
    layout=Layout(counts=((IslandClass(gpu="H20", size=8), 2),)),
    cores=(0, 1, 2, 7),
    wait_ms=5.0,
    colour=Colour.BLUE,
    speeds=(("a", 1.0), ("b", 2.0)),
)
DOCUMENT = {
    "from": 2,
    "parts": [{"name": "x", "weight_gb": 1.5}, {"name": "y", "weight_gb": 0.5}],
    "layout": [["H20", 8, 2]],
    "cores": "0-2,7",
    "wait_ms": 5.0,
    "colour": "blue",
    "solver": "a",
    "speeds": {"a": 1.0, "b": 2.0},
}


def test_a_record_is_written_and_loaded_back() -> None:
    assert record_document(THING) == DOCUMENT
    assert list(record_document(replace(THING, flag=True))) == [*list(DOCUMENT)[:4], "flag", *list(DOCUMENT)[4:]]
    assert load_record(Thing, DOCUMENT) == THING


def test_a_record_is_read_strictly() -> None:
    read = {"layout": lambda _: THING.layout, "cores": lambda _: THING.cores}
    assert read_record(Thing, Section(DOCUMENT, file="f"), **read) == THING
    minimal = {"from": 0, "parts": [], "layout": []}
    thing = read_record(Thing, Section(minimal, file="f"), layout=lambda _: THING.layout)
    assert thing == Thing(start=0, parts=(), layout=THING.layout)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("from", 10, "f: from must be a whole number of at least 0 and at most 9, got 10 (int)."),
        ("parts", [{"name": 1}], "f: parts[0].name must be a text, got 1 (int)."),
        ("limit", None, "f: limit must be a number of at least 0, got None (NoneType)."),
        ("wait_ms", -1, "f: wait_ms must be a number of at least 0, got -1 (int)."),
        ("colour", "green", "f: colour must be one of red, blue, got 'green' (str)."),
        ("speeds", {"a": "x"}, "f: speeds.a must be a number of at least 0, got 'x' (str)."),
        ("inner", 3, "f: inner is not a known key."),
    ],
)
def test_what_a_field_cannot_be_is_refused_by_file_key_and_rule(key: str, value: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_record(Thing, Section({**DOCUMENT, key: value}, file="f"), layout=lambda _: 0, cores=lambda _: 0)
    assert caught.value.message == message


def test_null_stands_for_nothing_where_it_is_written() -> None:
    assert read_record(SloSettings, Section({"ttft_ms": None}, file="f")) == SloSettings()


def test_a_schema_takes_what_is_written_and_nothing_else() -> None:
    schema = record_schema(Thing)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(DOCUMENT)
    assert validator.is_valid({**DOCUMENT, "flag": True, "limit": 0, "wait_ms": None})
    for edited in ({"from": 10}, {"parts": []}, {"layout": [["H20", 0, 1]]}, {"colour": "green"}, {"inner": 3}):
        assert not validator.is_valid({**DOCUMENT, **edited}), edited
    assert not validator.is_valid({key: value for key, value in DOCUMENT.items() if key != "cores"})
    assert schema["properties"]["from"] == {
        "type": "integer",
        "minimum": 0,
        "maximum": 9,
        "description": "where it begins",
    }
