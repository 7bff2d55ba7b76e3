"""Quick answers to schemas: whatever is in a document, they are a validator's."""

import copy
import json
import random
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.export.checking import structure
from planner.files import plan_schema
from planner.files.disk.schema_answers import UndecidedError, acceptance, keeps_to

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, -0.0, 2.5]),
    st.sampled_from(["", "a", "ab"]),
)
VALUES = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("abc"), below, max_size=3)
)
KINDS = ["object", "array", "string", "boolean", "null", "number", "integer"]


def _schemas(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(below, min_size=1, max_size=3)
    names = st.lists(st.sampled_from("abc"), unique=True, max_size=2)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(KINDS) | st.lists(st.sampled_from(KINDS), min_size=1, max_size=2, unique=True),
        "properties": st.dictionaries(st.sampled_from("abc"), below, max_size=2),
        "required": names,
        "additionalProperties": below,
        "dependentRequired": st.dictionaries(st.sampled_from("abc"), names, max_size=2),
        "items": below,
        "prefixItems": some,
        "uniqueItems": st.booleans(),
        "enum": st.lists(SCALARS, min_size=1, max_size=3),
        "const": SCALARS,
        "pattern": st.sampled_from(["a", "^b", "^$"]),
        **{name: st.integers(-1, 2) for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")},
        **{f"{end}{what}": st.integers(0, 2) for end in ("min", "max") for what in ("Items", "Length", "Properties")},
        **dict.fromkeys(("allOf", "anyOf", "oneOf"), some),
        **dict.fromkeys(("not", "if", "then", "else"), below),
        "$ref": st.just("#/$defs/shared"),
        "description": st.just("words"),
    }
    return st.lists(st.sampled_from(sorted(keywords)), unique=True, max_size=4).flatmap(
        lambda chosen: st.fixed_dictionaries({name: keywords[name] for name in chosen})
    )


SCHEMAS = st.recursive(st.booleans(), _schemas, max_leaves=6)


@settings(max_examples=250, deadline=None)
@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), VALUES)
def test_the_answer_is_a_validators(schema: dict[str, Any], value: Any) -> None:
    whole = {"$defs": {"shared": {"type": ["string", "array"], "minLength": 1, "items": {"$ref": "#/$defs/shared"}}}}
    whole |= schema
    quick = acceptance(whole)
    assert quick is not None
    try:
        sound = quick(value)
    except UndecidedError:
        return
    assert sound == jsonschema.Draft202012Validator(whole).is_valid(value)


@pytest.mark.parametrize("keyword", ["patternProperties", "contains", "unevaluatedProperties", "invented"])
def test_a_keyword_that_is_not_decided_leaves_it_to_the_validator(keyword: str) -> None:
    quick = acceptance({"properties": {"a": {keyword: {}}}})
    assert quick is None
    assert not keeps_to(quick, {})


def test_our_own_schemas_are_decided() -> None:
    assert acceptance(plan_schema()) is not None
    for name in ("service.json", "configmap.json", "leaderworkerset.json", "routing.json", "deployment.json"):
        assert structure._accepted(name) is not None, name


def _positions(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, below in items for place in _positions(below, (*path, key)))]


def test_an_object_with_any_field_put_wrong_is_judged_as_by_the_validator() -> None:
    schema = structure._with_definitions("service.json")
    quick, validator = acceptance(schema), jsonschema.Draft202012Validator(schema)
    port = {"name": "http", "port": 8000, "targetPort": "http"}
    spec = {"type": "ClusterIP", "selector": {"app": "a"}, "ports": [port]}
    labels = {"app.kubernetes.io/part-of": "a", "app.kubernetes.io/managed-by": "planner"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "labels": labels}, "spec": spec}
    draw, broken = random.Random(1), 0
    for place in _positions(service)[1:]:
        for other in (None, 5, "x", [], {}, True, -1, ["x"], {"x": "y"}):
            edited = copy.deepcopy(service)
            holder: Any = edited
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = other
            if draw.random() < 0.2 and isinstance(holder, dict):
                holder["strange"] = 1
            sound = validator.is_valid(edited)
            broken += not sound
            assert keeps_to(quick, edited) == sound, json.dumps(edited)
    assert broken > 50
