"""Digests of a document: blind to its spelling, and to nothing that it says but measured times."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.files.plan.digests import KEY, MEASURED, require_unedited, sealed

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
VALUES = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3), max_leaves=8
)
NAMES = st.text("abcdefgh_", min_size=1, max_size=4)
DOCUMENTS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=4)


@given(document=DOCUMENTS)
def test_another_spelling_is_no_edit(document: dict[str, Any]) -> None:
    written = json.loads(json.dumps(sealed(document)))
    require_unedited(written, "here")
    require_unedited(json.loads(json.dumps(written, indent=3, sort_keys=True)), "here")
    assert sealed(written) == sealed(document)


@given(document=DOCUMENTS, data=st.data())
@settings(max_examples=200)
def test_another_value_is_an_edit_that_is_named(document: dict[str, Any], data: st.DataObject) -> None:
    written = json.loads(json.dumps(sealed(document)))
    top = data.draw(st.sampled_from(sorted(document)))
    other = data.draw(VALUES)
    edited = deepcopy(written) | {top: other}
    if _said(edited[top]) == _said(written[top]):
        require_unedited(edited, "here")
        return
    with pytest.raises(InputError, match=r"^here: ") as caught:
        require_unedited(edited, "here")
    assert caught.value.message.startswith(f"here: {top}")


def _said(value: object) -> str:
    """What a value says: 1.0 is 1, true is not."""
    return json.dumps(json.loads(json.dumps(value), parse_float=lambda text: _whole(float(text))), sort_keys=True)


def _whole(value: float) -> float:
    return int(value) if value == int(value) and abs(value) < 2**53 else value


def test_rows_are_named_and_so_is_what_is_lost_or_added() -> None:
    document = sealed({"rows": [{"a": 1}, {"a": 2}], "part": {"key": 1}, "word": "x"})
    cases: list[tuple[dict[str, Any], str]] = [
        ({"rows": [{"a": 1}, {"a": 3}]}, 'here: rows.1: must be as it was written, got {"a": 3}'),
        ({"rows": [{"a": 1}]}, "here: rows: must be as it was written, got 1 rows where 2 were written"),
        ({"part": {"key": 2}}, "here: part.key: must be as it was written, got 2"),
        ({"part": {"key": 1, "more": 1}}, "here: part.more: must be one that was written, was added"),
        ({"part": {}}, "here: part: must be one that was written, was added"),
        ({"more": 1}, "here: more: must be one that was written, was added"),
        ({KEY: document[KEY] | {"plan": "0" * 64}}, "here: digests.plan: must be as it was written"),
        ({KEY: document[KEY] | {"word": "0" * 8}}, 'here: word: must be as it was written, got "x"'),
    ]
    for edit, message in cases:
        with pytest.raises(InputError) as caught:
            require_unedited(document | edit, "here")
        assert caught.value.message.startswith(message)
        assert "edited" in caught.value.message
    lost = {key: value for key, value in document.items() if key != "word"}
    with pytest.raises(InputError, match="word: must be there as it was written, is missing"):
        require_unedited(lost, "here")


def test_measured_times_alone_are_free() -> None:
    row = {"iteration": 0, "best_rps": 1.5}
    document = sealed({"search": {"rounds": [row | dict.fromkeys(MEASURED, 0.25)]}})
    for times in ({}, dict.fromkeys(MEASURED, 7.0)):
        require_unedited(document | {"search": {"rounds": [row | times]}}, "here")
    with pytest.raises(InputError, match=r"search\.rounds\.0"):
        require_unedited(document | {"search": {"rounds": [row | {"cpu_s": 1.0}]}}, "here")
