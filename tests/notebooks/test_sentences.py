"""Sentences in notebooks compare no results: code does, as what is printed follows from what was computed."""

import re

import nbformat
import pytest
from test_notebooks import NOTEBOOKS

COMPARES = re.compile(
    r"\b(worse|better|faster|slower|ahead|leads|wins?|cheaper|dearer|twice|gains|as good|beats|outperforms|"
    r"(?:more|less|fewer) than|the more|the less)\b"
)
WHAT_WORDS_MEAN = (  # of results they say nothing
    "No plan of its form can be better by more than the gap",
    "learns from their rates, and proposes better ones",
    "They go to the faster type first",
    "Next quarter twice as many will come",
    "A whole doubling needs more nodes than one",
    "how much faster the other one is",
    "how likely the new one is really better",
    "Is another one better, or only different?",
    "Which is better?",
    "servers are slower or faster than that by as much as its bands say",
    "Traffic inside a node is fast, under one switch slower",
)


def sentences(source: str) -> list[str]:
    return re.split(r"(?<=[.!?:]) (?=[A-Z`*])", " ".join(source.split()))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_sentences_compare_no_results(path: object) -> None:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    texts = [text for cell in notebook.cells if cell.cell_type == "markdown" for text in sentences(cell.source)]
    comparing = [text for text in texts if COMPARES.search(text)]
    assert [text for text in comparing if not any(words in text for words in WHAT_WORDS_MEAN)] == []


def test_words_that_are_let_pass_stand_somewhere() -> None:
    text = " ".join(" ".join(path.read_text(encoding="utf-8").replace("\\n", " ").split()) for path in NOTEBOOKS)
    assert [words for words in WHAT_WORDS_MEAN if words not in text] == []
