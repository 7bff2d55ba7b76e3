"""Tables and Markdown on terminals of any width, and letters for encodings that lack ours."""

import io
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from planner.cli.screen import never_fail_to_write
from planner.cli.terminal.markdown import rendered
from planner.cli.terminal.tables import TableText, continued, fitted, is_prose

words = st.text("abcdefghij0123456789.,%", min_size=1, max_size=14)
cells = st.one_of(words, st.lists(words, min_size=1, max_size=8).map(" ".join), st.just(""))
heads = st.lists(st.lists(words, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=10, unique=True)


@st.composite
def tables(draw: Any) -> TableText:
    columns = draw(heads)
    rows = draw(st.lists(st.tuples(*(cells for _ in columns)), max_size=5))
    numeric = draw(st.tuples(*(st.booleans() for _ in columns)))
    important = draw(st.lists(st.sampled_from(columns), unique=True))
    return TableText(
        title="T", columns=tuple(columns), rows=tuple(rows), numeric=tuple(numeric), important=tuple(important)
    )


def printed(parts: Iterable[Any], width: int) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, highlight=False, emoji=False)
    for part in parts:
        console.print(part)
    return stream.getvalue()


def lines_fit(text: str, width: int) -> bool:
    """Nothing is wider, but for a single word that has no room anywhere."""
    return all(cell_len(line.rstrip()) <= width or len(line.split()) <= 2 for line in text.splitlines())


def is_whole(cell: str, text: str) -> bool:
    return all(word in text for word in cell.split(" ")) if is_prose(cell) else cell in text


@given(tables(), st.integers(30, 140))
def test_no_cell_is_cut_and_what_is_left_out_is_named(table: TableText, width: int) -> None:
    text = printed(fitted(table, width), width)
    spaces = " ".join(text.split())
    assert lines_fit(text, width)
    note = spaces.partition("Left out, for want of room: ")[2]
    for row in table.rows:
        for name, cell in zip(table.columns, row, strict=True):
            assert is_whole(cell, spaces) or is_whole(cell, text) or name in note or len(cell) > width // 2


@given(tables(), st.integers(30, 140))
def test_tables_of_pages_leave_nothing_out(table: TableText, width: int) -> None:
    text = printed(continued(table, width), width)
    assert lines_fit(text, width)
    for row in table.rows:
        assert all(is_whole(cell, " ".join(text.split())) or len(cell) > width // 2 for cell in row)


def test_important_columns_come_first_and_the_first_stays() -> None:
    columns = ("name", *(f"column-{n}" for n in range(8)))
    table = TableText(
        title="",
        columns=columns,
        rows=(tuple(f"{n}{n}" for n in range(9)),),
        numeric=(False,) * 9,
        important=("column-7", "column-6"),
    )
    text = printed(fitted(table, 40), 40)
    head = text.splitlines()[0].split()
    assert head == ["name", "column-0", "column-6", "column-7"]
    assert "column-1, column-2" in " ".join(text.split())
    cards = printed(fitted(table, 22), 22)
    assert all(f"column-{n}  {n + 1}{n + 1}" in cards for n in range(8))


def test_wide_letters_count_as_two() -> None:
    table = TableText(title="", columns=("名前", "b"), rows=(("計画計画計画", "1"),), numeric=(False, True))
    assert lines_fit(printed(fitted(table, 20), 20), 20)


PAGE = """\
# Plan: *x*

Some **bold words** and `code`, a [guide](guide.md#a) and ![Mix](figures/mix.png), \\*literal\\* and
the end of a long line.

```text
  0–7,679 (100 %) ┬─▶  8 servers of 8 H200   TP1 DP8   16,384 tokens a step     takes 41 %
                  └─▶  4 servers of 16 H800  TP1 DP16  16,384 tokens a step     takes 59 %
```

| Pool | Rate |
| :--- | ---: |
| a\\|b | 12 |

- an item that goes on and on, beyond the width of any terminal that is
  narrow
1. one
"""


def test_markdown_is_laid_out() -> None:
    text = printed(rendered(PAGE, 60), 60)
    assert lines_fit(text, 60)
    assert "**" not in text
    assert "`" not in text
    for words_of_page in ("Plan: x", "guide (guide.md#a)", "Mix (figures/mix.png)", "*literal*", "a|b", "1. one"):
        assert words_of_page in " ".join(text.split()) or words_of_page in text
    drawing = [line.rstrip() for line in text.splitlines() if "servers" in line or "takes" in line]
    assert drawing[0].startswith("  0–7,679 (100 %) ┬─▶  8 servers of 8 H200")
    assert drawing[1].startswith("                  │    ")
    assert drawing[-1].startswith(" " * 23)


@given(st.text(alphabet="ab |`*_[]()#-\\\n<!~>1. ", max_size=120), st.integers(20, 90))
def test_any_markdown_is_shown_somehow(text: str, width: int) -> None:
    shown = printed(rendered(text, width), width)
    letters = re.sub(r"<!--.*", "", text)
    assert "a" not in letters or "a" in shown or "```" in text or "](" in text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_letters_that_an_encoding_lacks_are_written_otherwise(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    never_fail_to_write()
    sys.stdout.write("0–7 → 5 × 3 ≤ 漢")
    stream.flush()
    text = stream.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    assert "->" in text
    assert "<=" in text
    assert "\\u6f22" in text


@pytest.fixture(scope="module")
def in_pty() -> Callable[..., str]:
    """Runs the program in a real pseudo-terminal; what it printed there."""
    script = (
        "import fcntl, os, pty, struct, sys, termios\n"
        "pid, fd = pty.fork()\n"
        "if not pid:\n"
        "    import time; time.sleep(0.1)\n"
        "    os.execv(sys.executable, [sys.executable, '-m', 'planner', *sys.argv[2:]])\n"
        "fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 40, int(sys.argv[1]), 0, 0))\n"
        "out = b''\n"
        "while True:\n"
        "    try: part = os.read(fd, 65536)\n"
        "    except OSError: break\n"
        "    if not part: break\n"
        "    out += part\n"
        "sys.stdout.buffer.write(out)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )

    def run(width: int, *arguments: str, **environment: str) -> str:
        import os

        settings_of = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
        terminal = subprocess.run(
            [sys.executable, "-c", script, str(width), *arguments],
            env={**settings_of, "TERM": "xterm-256color", **environment},
            capture_output=True,
            timeout=60,
            check=True,
        )
        return terminal.stdout.decode().replace("\r\n", "\n")

    return run


def test_a_real_terminal_gets_what_fits_it(in_pty: Callable[..., str]) -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", in_pty(80, "gpus"))
    assert max(map(len, text.splitlines())) <= 80
    assert "RubinU-NVL576" in text
    assert "Left out" in text


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_are_left_out_where_they_are_not_wanted(
    environment: dict[str, str], in_pty: Callable[..., str]
) -> None:
    colours = re.compile(r"\x1b\[[0-9;]*3[0-7]")
    text = in_pty(80, "workloads", **environment)
    assert not colours.search(text)


def test_an_ascii_locale_is_no_crash(in_pty: Callable[..., str]) -> None:
    text = in_pty(80, "gpus", "H20", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert text.isascii()
    assert "97871.0" in text
