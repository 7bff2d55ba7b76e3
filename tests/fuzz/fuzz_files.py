"""Damage to a file: to its bytes, to a value in a document, to a cell of a table."""

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

NOT_NUMBERS = (math.nan, math.inf, -math.inf, "many", [1], {"a": 1}, "1e999", True)
NUMBERS = (0, -1, 1, 2, 0.5, -0.5, 7, 2**31, 2**63, 10**18, 10**40, 1e308, -1e308, 5e-324, 1e-9, 10**400)
TEXTS = (
    *(
        "",
        " ",
        "x" * 5000,
        "x y " * 1500,
        "\u202eabc",
        "../../up",
        "a/b",
        "a\nb",
        "a\tb",
        "[red]x[/red]",
        "{{7*7}}",
        "$(reboot)",
    ),
    *("\x00", "\x1b[2J", "\ud800", "\ufeff", "é", "null", "NaN", "-", "~", "0x10", "1_000", "12e3", "'", '"', "%s%n"),
)
OTHERS = (None, True, False, [], {}, [[]], {"a": {}}, [None], [1] * 300, {"": 1})
CELLS = (
    *("", " ", "-1", "0", "1", "2", "0.5", "nan", "inf", "-inf", "1e999", "1e308", "9" * 400, "9" * 5000, "abc", "-0"),
    *(
        "0x10",
        "1_000",
        "1,5",
        "\u0661\u0662",
        "\x00",
        "\u202e",
        "2026-01-01",
        "=1+1",
        "x" * 5000,
        '"',
        "a\nb",
        "18446744073709551616",
    ),
)
WORDS_FOR_NUMBERS = frozenset(
    {"nan", "inf", "-inf", "1e999", "abc", "0x10", "9" * 400, "9" * 5000, "\x00", "2026-01-01"}
)
NUMERIC = frozenset(
    [
        "ContextTokens",
        "GeneratedTokens",
        "cpu_milli",
        "memory_mib",
        "num_gpu",
        "gpu_milli",
        "gpu_capacity_num",
        "cpu_num",
        "tp",
        "dp",
        "ep",
        "length",
        "batch",
        "ms",
        "pods",
        "gpus",
        "cpus",
        "duration_s",
        "submit_s",
    ]
)
FREE = frozenset({"labels", "node_selector", "annotations", "measurements", "source", "citation", "node_selectors"})
CLOSED = ("tiny", "rich", "tabulated", "budget", "goals", "placed", "lengths", "cluster", "small", "mine.calibration")


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """`kind` and `what` say what is done, `do` does it below a folder. `sure`: no command may take it for sound."""

    kind: str
    what: str
    do: Callable[[Path], None]
    sure: bool = False


def file_damage(workshop: Path, name: str) -> st.SearchStrategy[Damage]:
    """What may happen to one file of the workshop."""
    data = (workshop / name).read_bytes()
    if name.endswith(".xz"):
        return st.one_of(_bytes_damage(name, data), _packed_damage(name, lzma.decompress(data).decode()))
    kinds = [_bytes_damage(name, data), _text_damage(name, data), _budget_damage(name, data)]
    if name.endswith(".csv") and not name.startswith("host/"):
        kinds += [_table_damage(name, data.decode())] * 3
    elif name.endswith((".yaml", ".json")):
        kinds += [_document_damage(name, data.decode())] * 5
    return st.one_of(kinds)


def _replacing(name: str, content: bytes) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        (folder / name).unlink()  # the workshop's file lies behind it
        (folder / name).write_bytes(content)

    return do


def _damage(kind: str, name: str, what: str, content: bytes, sure: bool = False) -> Damage:
    return Damage(kind=kind, what=f"{name}: {what}", do=_replacing(name, content), sure=sure)


# bytes


def _elsewhere(kind: str, name: str) -> Damage:
    def do(folder: Path) -> None:
        path = folder / name
        path.unlink()
        match kind:
            case "folder":
                path.mkdir()
            case "link to nothing":
                path.symlink_to("nowhere")
            case "link to itself":
                path.symlink_to(path.name)

    optional = name.startswith("host/") and kind != "folder"
    return Damage(kind=kind, what=f"{name}: {kind}", do=do, sure=not optional and not _is_listed(name))


def _is_listed(name: str) -> bool:
    """Manifests are found by listing their folder: one that is missing is a difference, not bad input. A run without
    its plan.json is a folder with manifests."""
    listed = ("lws", "script", "dynamo", "llm-d", "kueue", "schemas", "run", "hired", "placed-run")
    return name.split("/", maxsplit=1)[0] in listed


def _bytes_damage(name: str, data: bytes) -> st.SearchStrategy[Damage]:
    strict = not _is_listed(name) and not name.startswith("host/")
    whole = [
        _damage("empty", name, "empty", b"", sure=strict and name not in ("numa.yaml", "devices.yaml")),
        _damage("binary", name, "binary", bytes(range(256)) * 4, sure=strict),
        *(
            [_damage("utf-16", name, "utf-16", data.decode().encode("utf-16"), sure=strict and "plan.json" not in name)]
            if not name.endswith(".xz")
            else []
        ),
        _damage("gzip", name, "packed", gzip.compress(data, mtime=0)),
        _damage("mark", name, "byte-order mark", b"\xef\xbb\xbf" + data),
        _damage("line ends", name, "CRLF", data.replace(b"\n", b"\r\n")),
        _damage("line ends", name, "CR", data.replace(b"\n", b"\r")),
        _damage("twice", name, "twice", data + data),
    ]
    cut = st.integers(0, len(data)).map(lambda at: _damage("truncated", name, f"cut at {at}", data[:at]))
    flip = st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)).map(
        lambda at: _damage("byte", name, f"byte {at[0]} = {at[1]}", data[: at[0]] + bytes([at[1]]) + data[at[0] + 1 :])
    )
    places = [_elsewhere(kind, name) for kind in ("missing", "folder", "link to nothing", "link to itself")]
    return st.one_of(st.sampled_from([*whole, *places]), cut, flip)


# what would be hours of work


@cache
def _newlines() -> bytes:
    return gzip.compress(b"\n" * 2**26, mtime=0)


@cache
def _blanks() -> bytes:
    return b" " * 2**22


def _budget_damage(name: str, data: bytes) -> st.SearchStrategy[Damage]:
    """Few bytes that stand for many, and many that stand for nothing."""
    head = data.split(b"\n", 1)[0]
    makers: dict[str, Callable[[], bytes]] = {
        "64 MiB of line ends, packed": _newlines,
        "64 MiB of line ends behind it, packed": lambda: gzip.compress(data, mtime=0) + _newlines(),
        "a million empty lines": lambda: data + b"\n" * 10**6,
        "a million lines of separators": lambda: data + b",,\n" * 10**6,
        "4 MiB of blanks before it": lambda: _blanks() + data,
        "a long line": lambda: head + b"9" * 2**21 + b"\n" + data,
        "a million values": lambda: b"a: [" + b"1," * 10**6 + b"1]\n",
        "a million brackets": lambda: b'{"a": ' + b"[" * 10**6,
        "a million digits": lambda: b'{"a": ' + b"9" * 10**6 + b"}",
        "bombed by bzip2": lambda: bz2.compress(data + data.split(b"\n")[-2] * 10**6),
    }
    return st.sampled_from(sorted(makers)).map(lambda what: _damage("budget", name, what, makers[what]()))


def _packed_damage(name: str, text: str) -> st.SearchStrategy[Damage]:
    """Damage to the text of a packed table."""

    def pack(damage: Damage, folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).write_text("")
        damage.do(folder)
        (folder / name).write_bytes(lzma.compress((folder / name).read_bytes(), preset=0))

    def packed(damage: Damage) -> Damage:
        return replace(damage, do=partial(pack, damage))

    return st.one_of(_table_damage(name, text), _budget_damage(name, text.encode())).map(packed)


# text


def _text_damage(name: str, data: bytes) -> st.SearchStrategy[Damage]:
    """Lines that go, come twice or change places; and, in YAML and JSON, what parsers stumble over."""
    lines = data.decode().splitlines(keepends=True)
    at = st.integers(0, len(lines) - 1)
    gone = at.map(lambda n: _damage("line", name, f"line {n + 1} gone", "".join(lines[:n] + lines[n + 1 :]).encode()))
    twice = at.map(lambda n: _damage("line", name, f"line {n + 1} twice", "".join(lines[: n + 1] + lines[n:]).encode()))
    text = data.decode()
    traps = [
        _damage("trap", name, what, content.encode(), sure=not _is_listed(name) and not name.startswith("host/"))
        for what, content in _traps(name, text)
    ]
    return st.one_of(gone, twice, *([st.sampled_from(traps)] if traps else []))


def _traps(name: str, text: str) -> Iterator[tuple[str, str]]:
    deep = 100_000
    if name.endswith(".json"):
        head = text.lstrip()[1:]
        first = head.split(":")[0].strip()
        yield "nested deeply", '{"a":' * deep
        yield "nested deeply, closed", "[" * deep + "]" * deep
        if not name.endswith("plan.json"):
            yield "key twice", f"{{{first}: 1,{head}"
        digits = "9" * 5000
        longer = re.sub(r"(?<=: )\d+(?=[,}\s])", digits, text, count=1)  # a number, not one in a text
        yield "a number of 5,000 digits", digits if longer == text else longer
        yield "a list", f"[{text}]"
        yield "null", "null"
        yield "trailing comma", text.rstrip().removesuffix("}") + ",}"
    if name.endswith(".yaml"):
        first = next((line for line in text.splitlines() if line[:1].isalpha()), "a: 1")
        yield "nested deeply", "a: " + "[" * 5000
        yield "key twice", f"{first.split(':')[0]}: 1\n{text}"
        yield "a call", f"{text}\nzz: !!python/object/apply:os.getcwd []\n"
        yield "a tag", f"{text}\nzz: !thing {{a: 1}}\n"
        yield "laughs", _laughs() + text
        yield "a loop", f"zz: &a [*a]\n{text}"
        yield "a list", "- 1\n- 2\n"
        yield "a tab", f"{text}\nzz:\n\t- 1\n"
        yield "a stray bracket", f"{text}\n]\n"
        yield "an anchor of nobody", f"{text}\nzz: *nobody\n"
        yield "a date that is none", f"{text}\nzz: 2025-13-45\n"


def _laughs() -> str:
    rows = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"l{k}: &l{k} [{', '.join([f'*l{k - 1}'] * 9)}]" for k in range(1, 10)]
    return "\n".join(rows) + "\n"


# documents


def _document_damage(name: str, text: str) -> st.SearchStrategy[Damage]:
    """A value replaced, a key that goes, one that nobody knows."""
    many = name.endswith(".yaml") and "\n---" in text
    documents = list(yaml.safe_load_all(text)) if name.endswith(".yaml") else [json.loads(text)]
    places = [(n, path) for n, document in enumerate(documents) for path in _paths(document)]

    def changed(place: tuple[int, tuple[Any, ...]], change: Callable[[Any, Any], None]) -> bytes:
        copy = json.loads(json.dumps(documents, default=str))
        at = copy[place[0]]
        for key in place[1][:-1]:
            at = at[key]
        change(at, place[1][-1])
        return _written(name, copy, many)

    def replaced(place: tuple[int, tuple[Any, ...]], value: Any) -> Damage:
        old = _value(documents[place[0]], place[1])
        number = isinstance(old, int | float) and not isinstance(old, bool)
        sure = _is_closed(name) and number and not FREE & set(place[1]) and _is_no_number(value)

        def put(at: Any, key: Any) -> None:
            at[key] = value

        return _damage("value", name, f"{_shown(place)} = {value!r:.60}", changed(place, put), sure)

    def dropped(place: tuple[int, tuple[Any, ...]]) -> Damage:
        def drop(at: Any, key: Any) -> None:
            del at[key]

        return _damage("key gone", name, f"{_shown(place)} gone", changed(place, drop))

    def added(place: tuple[int, tuple[Any, ...]], value: Any) -> Damage:
        holds = isinstance(_value(documents[place[0]], place[1][:-1]), dict)
        sure = holds and _is_closed(name) and len(place[1]) == 1

        def add(at: Any, _key: Any) -> None:
            if isinstance(at, dict):
                at["zz_unknown"] = value
            else:
                at.append(value)

        return _damage("key unknown", name, f"beside {_shown(place)} {value!r:.60}", changed(place, add), sure)

    place = st.sampled_from(places)
    value = st.one_of(*map(st.sampled_from, (NOT_NUMBERS, NUMBERS, TEXTS, OTHERS)))
    return st.one_of(
        st.builds(replaced, place, value),
        st.builds(replaced, place, value),
        st.builds(dropped, place),
        st.builds(added, place, value),
    )


def _is_closed(name: str) -> bool:
    return name.removesuffix(".yaml") in CLOSED


def _is_no_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, str | dict | bool) and value not in ("12e3",)


def _paths(document: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in entries:
        yield (*above, key)
        yield from _paths(value, (*above, key))


def _value(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def _shown(place: tuple[int, tuple[Any, ...]]) -> str:
    return ".".join(map(str, place[1]))


def _written(name: str, documents: list[Any], many: bool) -> bytes:
    if name.endswith(".json"):
        return json.dumps(documents[0], indent=1).encode()
    text = yaml.safe_dump_all(documents, sort_keys=False) if many else yaml.safe_dump(documents[0], sort_keys=False)
    return str(text).encode("utf-8", "surrogatepass")


# tables


def _table_damage(name: str, text: str) -> st.SearchStrategy[Damage]:
    """A cell replaced, a column that goes or comes twice, a row too long, other separators."""
    header, *rows = list(csv.reader(io.StringIO(text)))

    def cell(row: int, column: int, value: str) -> Damage:
        table = [list(cells) for cells in rows]
        table[row][column] = value
        sure = header[column] in NUMERIC and value in WORDS_FOR_NUMBERS
        return _damage("cell", name, f"row {row + 1}, {header[column]} = {value!r:.40}", _csv([header, *table]), sure)

    def column(number: int, kind: str) -> Damage:
        table = [header, *rows]
        match kind:
            case "gone":
                table = [cells[:number] + cells[number + 1 :] for cells in table]
            case "twice":
                table = [[*cells, cells[number]] for cells in table]
            case "renamed":
                table = [[*header[:number], "colour", *header[number + 1 :]], *rows]
        # the study of a trace leaves out the figures whose columns it has not, and says so
        sure = header[number] in NUMERIC and kind != "twice" and not name.startswith("asi-trace/")
        return _damage("column", name, f"{header[number]} {kind}", _csv(table), sure)

    whole = [
        _damage("table", name, "header alone", _csv([header]), sure=name != "jobs.csv"),
        _damage("table", name, "no header", _csv(rows), sure=True),
        _damage("table", name, "semicolons", _csv([header, *rows]).replace(b",", b";")),
        _damage("table", name, "a row too long", _csv([header, *rows, [*rows[0], "1", "2"]])),
        _damage("table", name, "a row too short", _csv([header, *rows, rows[0][:2]])),
        _damage("table", name, "a row twice", _csv([header, *rows, rows[0]])),
        _damage("table", name, "an open quote", _csv([header, *rows]) + b'"'),
        _damage("table", name, "empty rows", _csv([header, [], *rows, []])),
        _damage("table", name, "a thousand columns", _csv([[*header, *map(str, range(1000))], *rows])),
    ]
    columns = st.integers(0, len(header) - 1)
    return st.one_of(
        st.builds(cell, st.integers(0, len(rows) - 1), columns, st.sampled_from(CELLS)),
        st.builds(cell, st.integers(0, len(rows) - 1), columns, st.sampled_from(CELLS)),
        st.builds(column, columns, st.sampled_from(("gone", "twice", "renamed"))),
        st.sampled_from(whole),
    )


def _csv(table: list[list[str]]) -> bytes:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(table)
    return stream.getvalue().encode("utf-8", "surrogatepass")
