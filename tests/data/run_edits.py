"""Edits of a run folder: one leaf of one file each, digests written anew, as somebody would who knows them."""

import csv
import io
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.files.plan.digests import KEY, MEASURED, sealed

TEXTS = (".md", ".yaml", ".html", ".txt", ".sh")


@dataclass(frozen=True)
class Leaf:
    """`path`: keys of a document; row and column of a table; the number of a line; empty for other files."""

    file: str
    path: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.file}: {'.'.join(map(str, self.path))}"


def leaves(folder: Path) -> list[Leaf]:
    """Every leaf of every file, but digests, which are written anew, and CPU-seconds, which are measured."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [Leaf(path.relative_to(folder).as_posix(), below) for path in paths for below in _within(path)]


def _within(path: Path) -> Iterator[tuple[Any, ...]]:
    if path.suffix == ".json":
        document = json.loads(path.read_text())
        yield from _below((), {key: value for key, value in document.items() if key != KEY})
    elif path.suffix == ".csv":
        rows = list(csv.reader(io.StringIO(path.read_text())))
        yield from ((row, column) for row, cells in enumerate(rows) for column in range(len(cells)))
    elif path.suffix in TEXTS:
        yield from ((line,) for line, text in enumerate(path.read_text().splitlines()) if text.strip())
    else:
        yield ()


def _below(path: tuple[Any, ...], value: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in MEASURED:
                yield from _below((*path, key), item)
    elif isinstance(value, list):
        for row, item in enumerate(value):
            yield from _below((*path, row), item)
    else:
        yield path


def edit(folder: Path, leaf: Leaf, rng: random.Random) -> None:
    """Another value in the place of the leaf's."""
    path = folder / leaf.file
    if path.suffix == ".json":
        document = json.loads(path.read_text())
        spot: Any = document
        for key in leaf.path[:-1]:
            spot = spot[key]
        spot[leaf.path[-1]] = other(spot[leaf.path[-1]], rng)
        path.write_text(json.dumps(sealed(document) if KEY in document else document, ensure_ascii=False))
    elif path.suffix == ".csv":
        rows = list(csv.reader(io.StringIO(path.read_text())))
        row, column = leaf.path
        rows[row][column] = str(other(_figure(rows[row][column]), rng))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        path.write_text(text.getvalue())
    elif path.suffix in TEXTS:
        lines = path.read_text().split("\n")
        lines[leaf.path[0]] = other(lines[leaf.path[0]], rng)
        path.write_text("\n".join(lines))
    else:
        data = bytearray(path.read_bytes())
        data[rng.randrange(len(data) // 2, len(data))] ^= 1
        path.write_bytes(bytes(data))


def _figure(cell: str) -> Any:
    """A cell as what it says: a figure, or a text."""
    try:
        return float(cell)
    except ValueError:
        return cell


def other(value: Any, rng: random.Random) -> Any:
    """A value of the same kind: a figure that is a little larger, a text with another digit or letter."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice((-1, 1)) if value > 0 else value + 1
    if isinstance(value, float):
        return value * rng.choice((0.9, 1.01, 1.5)) if value else 0.5
    if value is None:
        return rng.choice((1.0, 5, "x", False))
    places = [place for place, letter in enumerate(value) if letter.isalnum()]
    if not places:
        return f"{value}x"
    place = rng.choice(places)
    letter = "7" if value[place].isdigit() and value[place] != "7" else "3" if value[place] == "7" else "q"
    letter = "w" if letter == value[place] else letter
    return value[:place] + letter + value[place + 1 :]
