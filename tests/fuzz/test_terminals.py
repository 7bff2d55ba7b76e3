"""Every command on terminals of 60, 80 and 120 characters: nothing is wider, and no number or name is cut.

What a pipe gets, all columns as wide as they are, tells what there is to show.
"""

import os
import re
import shutil
from pathlib import Path

from fuzz_calls import call
from fuzz_lines import LINES, Line

WIDTHS = (60, 80, 120)
LEFT_OUT = ("export", "workload summarize", "simulate preemption")
"""They print names of files, refuse to write theirs again, or print times that are measured anew."""
SHORT = 24
"""Cells of more characters may be wrapped between words."""
STYLE = re.compile(r"\x1b\[[0-9;]*m")
ROW = re.compile(r"^[│┃|](.*)[│┃|]$", re.MULTILINE)
RULE = re.compile(r"[-:| ]+")
TYPED = ("# PROMETHEUS", "curl ", "vllm ", "# node", "CUDA_", "sudo ", "--", "python")


def lines() -> list[Line]:
    """Those that print something to read, without --json, each once."""
    by_words: dict[tuple[str, ...], Line] = {}
    for line in LINES:
        words = tuple(word for word in line.words if word != "--json")
        writes = {"--out", "--csv", "--html"} & {*words}
        if not (line.long or line.costly or writes or line.command in LEFT_OUT):
            by_words[words] = Line(words=words, inputs=line.inputs, costly=False, long=False)
    return list(by_words.values())


def shown(words: tuple[str, ...], folder: Path, width: int) -> str:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    try:
        answer = call(words, folder, on_terminal=True)
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    assert answer.status in (0, 1), (words, answer.err, answer.crash)
    return STYLE.sub("", answer.out)


def tables(text: str) -> list[list[list[str]]]:
    """Rows of cells of each table that a pipe got, heads first; of ours with lines, and Markdown's."""
    listed: list[list[list[str]]] = []
    last = -2
    for place, line in enumerate(text.splitlines()):
        if match := ROW.fullmatch(line.rstrip()):
            if RULE.fullmatch(match[1]):
                last = place
                continue
            cells = [cell.strip() for cell in re.split(r"(?<!\\)[│┃|]", match[1])]
            if place - last > 2:
                listed.append([])
            listed[-1].append([re.sub(r"\\(?=[_\W])(?=\S)|[`*]", "", cell) for cell in cells])
            last = place
    return listed


def faults(words: tuple[str, ...], piped: str, text: str, width: int) -> list[str]:
    """Lines that are too wide, and cells that a terminal does not show whole though nothing says so."""
    wide = [line for line in text.splitlines() if len(line.rstrip()) > width and len(line.strip().split()) > 2]
    complaints = [f"{words} at {width}: too wide: {line}" for line in wide if not line.lstrip().startswith(TYPED)]
    spaces = " ".join(text.split())
    notes = " ".join(re.findall(r"Left out, for want of room: (.*?) See them with", spaces))
    for head, *rows in tables(piped):
        for row in rows:
            for name, cell in zip(head, row, strict=False):
                is_shown = cell in spaces if len(cell) <= SHORT else all(word in spaces for word in cell.split())
                if not is_shown and not (name and name in notes):
                    complaints.append(f"{words} at {width}: {name}: {cell!r} is cut")
    return complaints


def test_every_table_fits_and_is_whole(workshop: Path, tmp_path: Path) -> None:
    complaints: list[str] = []
    tabled = 0
    for number, line in enumerate(lines()):
        case = tmp_path / str(number)
        shutil.copytree(workshop, case, copy_function=os.link)
        piped = call(line.words, case)
        if piped.status not in (0, 1):  # what an export refuses of this run
            continue
        tabled += bool(tables(piped.out))
        for width in WIDTHS:
            complaints += faults(line.words, piped.out, shown(line.words, case, width), width)
        shutil.rmtree(case)
    assert not complaints, "\n".join(complaints)
    assert tabled >= 12


def test_wide_leaves_nothing_out(tmp_path: Path) -> None:
    text = shown(("gpus", "--wide"), tmp_path, 60)
    assert "Left out" not in text
    assert tables(text) == tables(call(("gpus",), tmp_path).out)
