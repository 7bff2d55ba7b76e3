"""What the house counts of itself is right for a module that one can count by hand."""

from pathlib import Path

from house_counts import RUN, code_lines, comments, duplicates, records
from source_tree import Source

TEXT = '''"""Says what it is."""

from dataclasses import dataclass

SIZE = (
    1,  # why
    2,
)
"""Of something."""


@dataclass(frozen=True)
class Card:
    """One."""

    suit: str  # noqa: ANN001
'''


def source(path: Path, text: str) -> Source:
    path.write_text(text)
    return Source(path=path)


def test_lines_comments_and_records(tmp_path: Path) -> None:
    counted = source(tmp_path / "card.py", TEXT)
    assert code_lines(counted) == (5, 6, 7, 8, 12, 13, 16)
    assert (comments(counted), records(counted)) == (1, 1)


def test_a_run_of_lines_that_comes_again_is_one_duplicate(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("source_tree.ROOT", tmp_path)
    lines = [f"a{k} = {k}\n" for k in range(RUN + 2)]
    texts = {"whole": lines, "again": ["b = 1\n", "\n", *lines], "short": lines[: RUN - 1]}
    listed = [source(tmp_path / f"{name}.py", "".join(text)) for name, text in texts.items()]
    assert duplicates(listed) == 1
    assert duplicates([listed[0], listed[2]]) == 0
