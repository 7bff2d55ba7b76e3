"""Cluster files read line by line are what the full reader makes of them, whatever somebody writes into them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.files import cluster_document
from planner.files.cluster import quick_rows
from planner.files.cluster.cluster_documents import cluster_yaml
from planner.files.cluster.quick_rows import parse_cluster_yaml
from planner.files.disk.documents import parse_large_yaml
from planner.placement import synthesize

TEXT = cluster_yaml(cluster_document(synthesize(6, 1, 0.7)))
HEAD = "name: a\nnodes:\n- {name: n, shape: s}\n"


def outcome(parse: object, text: str) -> object:
    try:
        return parse(text, file="f").plain()  # type: ignore[operator]
    except InputError as error:
        return str(error)


def same(text: str) -> None:
    assert outcome(parse_cluster_yaml, text) == outcome(parse_large_yaml, text)


def test_our_own_files_are_read_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    full = parse_large_yaml(TEXT, file="f").plain()
    seen: list[str] = []

    def watched(text: str, *, file: str, most_bytes: int) -> object:
        seen.append(text)
        return parse_large_yaml(text, file=file, most_bytes=most_bytes)

    monkeypatch.setattr(quick_rows, "parse_large_yaml", watched)
    assert parse_cluster_yaml(TEXT, file="f").plain() == full
    assert seen
    assert all("- {name: node" not in text for text in seen)


@pytest.mark.parametrize(
    "row",
    [
        "{a: yes}", "{a: No, b: Null}", "{a: true, b: false, c: null}", "{a: 0-7, b: 12-3}", "{a: 12-3-4}", "{a: 1e-4}",
        "{a: 1.5e3}", "{a: 010}", "{a: 1_000}", "{a: +5, b: -5, c: -0}", "{a: .5}", "{a: 5.}", "{a: NaN, b: .nan}",
        "{a: -Infinity}", "{a: 2020-01-01}", "{a:b}", '{"a":b}', '{"a": "b"}', '{"a" : 1}', "{a: b c}", "{a: b # c}",
        "{a: b} # c", "{a: b}, {c: d}", "{a: [b, c,]}", "{a: [b,c]}", "{a: }", "{a}", "{a: b, a: c}",
        "{a: {b: 1, b: 2}}",
        "{a: {b: 1}, c: [{d: 2}]}", "{a: &x b, c: *x}", "{a: *x}", "{a: !!str 5}", "{a: '5'}", "{a: 'it''s'}",
        r'{a: "\u00e9"}', '{a: "é"}', "{a: é}", '{a: "x, b: y"}', '{a: "{b: c}"}', '{a: ":"}', "{a: b:c}",
        "{a: http://x}",
        "{1: a}", "{true: a}", "{yes: a}", "{? a : b}", "{a: [}", "{a: b", "{a: ~}", "{<<: {a: 1}}", "{a: =}",
        "{a:\tb}", "{a: b,\tc: d}", "{a: 99999999999999999999999999999999999999999}", "{a: [1", "{}", "{a: a\u2028b}",
    ],
)  # fmt: skip
def test_every_row_is_what_the_full_reader_makes_of_it(row: str) -> None:
    same(f"name: a\nnodes:\n- {{name: n}}\n- {row}\n- {{name: m}}\npods: []\n")


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "# nothing\n", HEAD, HEAD.rstrip("\n"), HEAD + "pods: []\n", HEAD + "nodes: []\n", HEAD + HEAD,
        HEAD + "---\nb: 1\n", "---\n" + HEAD, "...\n" + HEAD, "%YAML 1.1\n---\n" + HEAD,
        "  name: a\nnodes:\n- {b: c}\n",
        "# c\n  name: a\nnodes:\n- {b: c}\n", "{name: a}\nnodes:\n- {b: c}\n", 'name: "a\nnodes:\n- {b: c}\n',
        "name: |\n  nodes:\n  - {b: c}\nnodes:\n- {d: e}\n", "name: &x a\nnodes:\n- {b: c}\nlevels: *x\n",
        "nodes:\n- {b: c}\n\n- {d: e}\n", "nodes:\n- {b: c}\n  \npods:\n- {d: e}\n", "nodes:\n- {b: [1\n- {d: e}]}\n",
        "nodes:\r\n- {b: c}\r\n", "nodes:\n- {b: c}\r\n", "nodes:\n- b: c\n", "pods:\n- {b: c}\nnodes:\n- {d: e}\n",
        "a: 1\nnodes:\n- {b: c}\nname: b\na: 2\n", "nodes:\n- {a: [{}\n- {b: 2}]}\n- {c: 1}, {d: 2}\n",
    ],
)  # fmt: skip
def test_every_layout_is_what_the_full_reader_makes_of_it(text: str) -> None:
    same(text)


@given(st.data())
def test_edits_anywhere_are_read_as_ever(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(TEXT)))
    cut = data.draw(st.integers(0, 3))
    put = data.draw(st.text("{}[],: \n\"'\\-#&*!|>%@`~ab1.0_\té", max_size=4))
    same(TEXT[:at] + put + TEXT[at + cut :])


def test_errors_name_the_line() -> None:
    broken = re.sub(r"name: node-00003", "name: [node-00003", TEXT)
    assert "line" in str(outcome(parse_cluster_yaml, broken))
    same(broken)
