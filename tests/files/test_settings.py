"""Keys of a scenario set from outside: how they are typed, and what becomes of the document."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.files.scenario.settings import Setting, read_setting, read_swept_key, with_settings

ORIGIN = "s.yaml"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("inventory.H20=64..256:64", (64, 128, 192, 256)),
        ("a=80..40:-20", (80, 60, 40)),
        ("a=1..2:0.25", (1.0, 1.25, 1.5, 1.75, 2.0)),
        ("a=1..6:2", (1, 3, 5)),  # the last is not met by the steps
        ("slo.tpot_ms=40,60,80", (40, 60, 80)),
        ("workload=code,conv", ("code", "conv")),
        ("a=true,null,1.5,'1'", (True, None, 1.5, "1")),
        ("search.sizes=[2, 4],all", ([2, 4], "all")),
        ("objective={kind: target, target_rps: 50}", ({"kind": "target", "target_rps": 50},)),
        ("a=5..5:1,8", (5, 8)),
    ],
)
def test_values_are_yaml_and_ranges_are_stretched(text: str, values: tuple[object, ...]) -> None:
    assert read_swept_key(text).values == values


@given(st.integers(-50, 50), st.integers(1, 40), st.integers(0, 60), st.sampled_from([1, 10, 100]))
def test_a_range_is_every_step_up_to_its_end(first: int, step: int, steps: int, scale: int) -> None:
    exact = [(Decimal(first) + n * Decimal(step)) / scale for n in range(steps + 1)]
    text = f"k={exact[0]}..{exact[-1]}:{Decimal(step) / scale}"
    assert read_swept_key(text).values == tuple(float(value) for value in exact)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a", "must be KEY=VALUE"),
        ("=3", "must be KEY=VALUE"),
        ("a=", "must be KEY=VALUE"),
        ("a b=3", "must be KEY=VALUE"),
        ("a=64..128", "must have a step"),
        ("a=1..9:0", "must lead from its first value to its last"),
        ("a=1..9:-1", "must lead from its first value to its last"),
        ("a=0..1e9:1", "1 to 1000 steps"),
        ("a=1,1.0,1", "each value once, got 1 twice"),
        ("a=[1", "is not readable YAML"),
        ("a=40,,60", "is not readable YAML"),
        ("a=!!python/object:x 1", "is not readable YAML"),
    ],
)
def test_what_is_no_setting_is_refused(text: str, part: str) -> None:
    with pytest.raises(InputError, match="--set") as refusal:
        read_swept_key(text)
    assert part in str(refusal.value)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**9), 10**9)
        | st.floats(allow_nan=False, allow_infinity=False, width=32)
        | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1), inner, max_size=3
            )
        ),
        max_leaves=6,
    )
)
def test_a_setting_is_typed_back_as_it_was(value: object) -> None:
    assert read_setting(Setting("some.key", value).text).value == value


def test_keys_are_set_below_those_above_them() -> None:
    document = {"name": "n", "inventory": {"H20": 8, "H200": 16}, "slo": {"tpot_ms": 60}}
    settings = [
        read_setting(text) for text in ("inventory.H20=64", "slo.ttft_ms=4e3", "inventory.H200=null", "a.b.c=1")
    ]
    assert with_settings(document, settings, ORIGIN) == {
        "name": "n",
        "inventory": {"H20": 64},
        "slo": {"tpot_ms": 60, "ttft_ms": 4000.0},
        "a": {"b": {"c": 1}},
    }
    assert document == {"name": "n", "inventory": {"H20": 8, "H200": 16}, "slo": {"tpot_ms": 60}}


@pytest.mark.parametrize(
    ("texts", "part"),
    [
        (["name.x=1"], "name is 'n', no mapping"),
        (["inventory.H20=1", "inventory.H20=2"], "inventory.H20 is set twice"),
        (["inventory.H20=1", "inventory={H20: 2}"], "inventory is set twice"),
        (["a..b=1"], "parted by single dots"),
    ],
)
def test_settings_that_contradict_the_document_are_refused(texts: list[str], part: str) -> None:
    with pytest.raises(InputError) as refusal:
        with_settings({"name": "n", "inventory": {"H20": 8}}, map(read_setting, texts), ORIGIN)
    assert part in str(refusal.value)
