"""YAML by libyaml is the YAML that PyYAML writes, whatever stands in it."""

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.export.objects.documents import yaml_documents, yaml_text

TEXTS = st.one_of(
    st.text(),
    st.text(st.sampled_from("abN019 -_:#'\"{}[],&*!|>%@`~?\\/=.\t\n\r\x85\u2028é漢😀"), max_size=60),
    st.sampled_from(("", "null", "true", "1e3", "0x1f", "- a", "? b", "a: b", "a #b", " a\n  b\n", "\n\n", "x" * 200)),
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


class Slow(yaml.SafeDumper):
    """The writer in Python alone."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # PyYAML fixes the signature
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Slow.add_representer(str, _block)


def slowly(documents: list[dict[str, Any]]) -> str:
    text = yaml.dump_all(documents, Dumper=Slow, sort_keys=False, allow_unicode=True, width=10**6, explicit_start=True)
    return str(text)


@given(st.lists(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), min_size=1, max_size=2))
@settings(max_examples=60)
def test_any_documents_are_written_as_by_python(documents: list[dict[str, Any]]) -> None:
    assert yaml_text((), documents) == slowly(documents)


@pytest.mark.parametrize("text", ["plain", "two\nlines", "é 漢", "😀", "\x85", "\u2028", "\x07", "\ud800", "a\\b"])
def test_special_characters_are_written_as_by_python(text: str) -> None:
    assert yaml_text((), [{text: text, "same": [text, text]}]) == slowly([{text: text, "same": [text, text]}])


def test_what_occurs_twice_is_written_twice() -> None:
    shared = {"a": [1, 2]}
    text = yaml_text(("a comment",), [{"one": shared, "other": shared}])
    assert "&" not in text
    assert list(yaml_documents(text)) == [{"one": shared, "other": shared}]
