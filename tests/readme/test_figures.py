"""Every sentence with a figure, in README, guides and notebooks, is held by something: see `figures`."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import nbformat
import pytest
from documentation import ROOT, TEXTS
from figures import DERIVED, HELD, ONCE, STATED, WRITTEN

from planner.cli.docs.manual import EXIT_STATUSES

pytestmark = pytest.mark.usefixtures("all_draws")

FIGURE = re.compile(r"(?<![\w.\-–/^])\d[\d.,]*(?![\w-])")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(?:^\|.*\n?)+", re.MULTILINE)
STATUSES = {status for status, _ in EXIT_STATUSES}


def notebooks() -> dict[str, str]:
    """The words of each notebook."""
    return {
        path.stem: "\n\n".join(
            cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"
        )
        for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
    }


ALL = TEXTS | notebooks()


def sentences(text: str) -> Iterator[str]:
    """Sentences and whole tables that have a figure outside of code, on one line each."""
    text = CODE.sub("\n\n", re.sub(r"^    .*$|^<!--.*-->$", "", text, flags=re.MULTILINE))
    text = re.sub(r"`[^`]*`", lambda code: re.sub(r"\s", "\N{NO-BREAK SPACE}", code[0]), text)
    parts = [*TABLE.findall(text), *re.split(r"(?<=[.:;!?])[ \n]+|\n\n|\n- ", TABLE.sub("\n\n", text))]
    for part in parts:
        if FIGURE.search(re.sub(r"`[^`]*`|\]\([^)]*\)", "", part)):
            yield " ".join(part.split())


def tells_statuses_alone(sentence: str) -> bool:
    """Whether its figures are exit statuses, which the manual has."""
    told = set(FIGURE.findall(re.sub(r"`[^`]*`", "", sentence).replace(",", " ")))
    return re.search(r"[Ee]xit(s|ed)? |status", sentence) is not None and {f.rstrip(".") for f in told} <= STATUSES


def derived(name: str) -> list[str]:
    """What follows from the code, in the words of the text."""
    return [words.format(value()) for words, value in DERIVED.get(name, ())]


@pytest.mark.parametrize("name", [name for name in ALL if name not in WRITTEN])
def test_every_sentence_with_a_figure_is_held(name: str) -> None:
    kinds = (HELD, STATED, ONCE)
    known = [*derived(name), *(words for kind in kinds for words in kind.get(name, {}))]
    found = [sentence for sentence in sentences(ALL[name]) if not tells_statuses_alone(sentence)]
    assert [sentence for sentence in found if not any(words in sentence for words in known)] == []
    assert [words for words in known if not any(words in sentence for sentence in found)] == []


@cache
def names_in(path: str) -> set[str]:
    """Names of the tests of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_tests_that_hold_figures_exist() -> None:
    """Those of guests are gone with them."""
    tests = {test.partition("::")[::2] for kind in HELD.values() for test in kind.values()}
    tests |= {test.partition("::")[::2] for test in WRITTEN.values()}
    there = {(path, name) for path, name in tests if (ROOT / path).parent.is_dir() or "studies" not in path}
    assert {(path, name) for path, name in there if name not in names_in(path)} == set()


def test_what_was_measured_once_becomes_less() -> None:
    """Each is a debt: no test would notice if it were wrong. Take one away, or hold it, and lower the number."""
    assert sum(map(len, ONCE.values())) <= 19


def test_sentences_and_figures_are_told_apart() -> None:
    text = "H200 and P99 of 2 nodes. TP1 has\nnone: but `3 %` is code.\n\n| a | 4 |\n| --- | --- |\n\n```text\n5\n```\n"
    assert [*sentences(text)] == ["| a | 4 | | --- | --- |", "H200 and P99 of 2 nodes."]
    assert tells_statuses_alone("The exit status is 0, 3 where none serves.")
    assert not tells_statuses_alone("Exit status 3 after 20 s.")
