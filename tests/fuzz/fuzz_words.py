"""Damage to a command line: values, options, arguments that are other files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import typer
from fuzz_lines import Line
from hypothesis import strategies as st

from planner.cli.app import build

VALUES = (
    *(
        "",
        " ",
        "-1",
        "0",
        "1",
        "0.5",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "9" * 30,
        "9" * 5000,
        "0..9" + "9" * 15,
        "0-9" + "9" * 15,
        "9" * 15 + "h",
        "x y " * 1500,
        "abc",
        "a,b",
        "1-",
        "5-1",
        "=",
        "a=b",
        ":",
    ),
    *(
        "\u202e",
        "a\nb",
        "x" * 5000,
        "é",
        "[red]x[/red]",
        "\udc80",
        "../up",
        "a/b/c",
        ".",
        "..",
        "~",
        "*",
        "%s",
        "-",
        "1;2",
    ),
)
NOT_NUMBERS = frozenset({"", " ", "abc", "a,b", "=", "a=b", ":", "é", "..", "1;2", "nan", "1e999"})
FILES = (
    *("tiny.yaml", "trace.csv", "run", "run/plan.json", "cluster.yaml", "list.json", "nodes.csv", "lws", "script"),
    *("model/config.json", "mine.calibration.yaml", "host", "run/figures/mix.png", "gone", "host/lscpu.txt", "topos"),
)
LEFT_OUT = frozenset(
    {"--help", "--exit-code", "--force", "--processes", "--show-completion", "--install-completion", "--sweep"}
)
"""`--sweep` of `routers` replays for minutes, as its help says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A damaged command line. `sure`: it must be refused."""

    kind: str
    what: str
    words: tuple[str, ...]
    sure: bool = False


@cache
def commands() -> Mapping[str, Any]:
    """Every command by name, as the parser knows it."""
    return dict(_leaves(typer.main.get_command(build()), ()))


def _leaves(command: Any, above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield " ".join(above), command
        return
    for name, below in command.commands.items():
        yield from _leaves(below, (*above, name))


def _options(line: Line) -> list[Any]:
    return [
        option
        for option in commands()[line.command].params
        if option.param_type_name == "option" and not LEFT_OUT & set(option.opts)
    ]


def word_damage(line: Line) -> st.SearchStrategy[Typed]:
    """What may be typed wrongly."""
    words = line.words
    begin = len(line.command.split())
    values = [k for k in range(begin, len(words)) if words[k - 1].startswith("--") and not words[k].startswith("--")]
    paths = [k for k in range(begin, len(words)) if k not in values and not words[k].startswith("--")]
    kinds = [
        st.just(Typed(kind="option unknown", what="--zz", words=(*words, "--zz", "1"), sure=True)),
        st.just(Typed(kind="option without value", what="--zz=", words=(*words, "--out"), sure=True)),
        st.builds(lambda k: _without(words, k), st.integers(begin, len(words) - 1))
        if len(words) > begin
        else st.nothing(),
        st.builds(_added, st.just(words), st.sampled_from(_options(line)), st.sampled_from(VALUES)),
        st.builds(_added, st.just(words), st.sampled_from(_options(line)), st.sampled_from(VALUES)),
        st.builds(_added, st.just(words), st.sampled_from(_options(line)), st.sampled_from(FILES)),
    ]
    if values:
        kinds += [st.builds(lambda k, v: _put(line, k, v), st.sampled_from(values), st.sampled_from(VALUES))] * 3
    if paths:
        kinds += [
            st.builds(lambda k, v: _put(line, k, v), st.sampled_from(paths), st.sampled_from((*FILES, *VALUES)))
        ] * 2
    return st.one_of(kinds)


def _without(words: Sequence[str], at: int) -> Typed:
    return Typed(kind="word gone", what=f"without {words[at]}", words=(*words[:at], *words[at + 1 :]))


def _added(words: Sequence[str], option: Any, value: str) -> Typed:
    name = option.opts[0]
    rest = () if option.is_flag else (value,) * option.nargs
    return Typed(kind="option added", what=f"{name} {rest!r:.60}", words=(*words, name, *rest))


def _put(line: Line, at: int, value: str) -> Typed:
    words, name = line.words, line.words[at - 1]
    number = words[at].replace(".", "", 1).isdigit() and name.startswith("--")
    return Typed(
        kind="option value" if name.startswith("--") else "argument",
        what=f"{name} {value!r:.60}",
        words=(*words[:at], value, *words[at + 1 :]),
        sure=number and value in NOT_NUMBERS,
    )
