"""Templates: what stands in them is quoted or refused, whatever it is, and each of them is of use."""

import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import UndefinedError

import planner.export
from planner.errors import InputError
from planner.export.templating import configuration_of, object_of, script_of, shell_word

FOLDER = Path(planner.export.__file__).parent
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
PAYLOADS = st.sampled_from(
    ["a: b", "- x", "{{ 7 * 7 }}", "'", '"', "\u2028", "\x85", "\x07", "on", "1e3", "#", "\n---\n"]
)
VALUES = st.recursive(
    st.one_of(TEXTS, PAYLOADS, st.integers(-(2**60), 2**60), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(name=st.one_of(TEXTS, PAYLOADS), value=VALUES)
def test_a_value_of_an_object_is_what_was_given(name: str, value: object) -> None:
    made = object_of("config-map", name=name, part_of=name, data={"key": value})
    assert made["metadata"] == {
        "name": name,
        "labels": {"app.kubernetes.io/part-of": name, "app.kubernetes.io/managed-by": "planner"},
    }
    assert made["data"] == {"key": value}


@settings(max_examples=100, deadline=None)
@given(st.one_of(TEXTS, PAYLOADS, st.sampled_from(["$(reboot)", "`x`", "a'b", "$HOME", "\\"])))
def test_a_value_of_a_script_is_one_word_or_refused(text: str) -> None:
    if not text.isprintable():
        with pytest.raises(InputError, match="one line of printable characters"):
            shell_word(text)
    else:
        assert shlex.split(shell_word(text)) == [text]


def test_a_comment_stays_one_line() -> None:
    text = script_of("evictions", comments=["a\n rm -rf /\u2028b"], lines=[])
    assert "\n# a rm -rf / b\n" in text


@pytest.mark.parametrize("word", ["a b", "a\nb", "#x", "a;b", "`x`", "$(x)", "é"])
def test_a_word_of_a_configuration_is_plain_or_refused(word: str) -> None:
    with pytest.raises(InputError, match="Configuration word"):
        configuration_of("haproxy", plan="p", bytes_per_token=4.0, envelope=word)


def test_a_value_that_nobody_gives_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="part_of"):
        object_of("config-map", name="a", data={})


def test_every_template_is_of_use_and_every_use_has_one() -> None:
    texts = {path.name for path in (FOLDER / "templates").iterdir()}
    code = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.py"))
    templates = "\n".join(path.read_text(encoding="utf-8") for path in (FOLDER / "templates").iterdir())
    stems = {name.partition(".")[0] for name in texts}
    used = {name.partition(".")[0] for name in texts if f'include "{name}"' in templates or json.dumps(name) in code}
    assert {stem for stem in stems - used if json.dumps(stem) not in code} == set()
    calls = set(re.findall(r'(?:objects?_of|script_of|configuration_of)\(\s*"([a-z-]+)"', code))
    assert calls <= stems
    assert len(calls) > 15
