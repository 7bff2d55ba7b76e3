"""Scripts that launch islands and routers' programs: fixed lines of bash (`templates/*.sh`) around words that are data.
Written here, and read back here.

A script is its comments, its settings (`name=value`), its lists (`name=(` ... `)`, a word a line), fixed lines, and one
`case` whose branches hold an island's commands. Every word is quoted; the only expansions are the addresses, the rank
and the folder that the fixed lines have checked or found. Reading never runs anything: a line that is none of these is
refused. Comments for another program (`Form.directives`) are data, too.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from planner.export.found import Kind
from planner.export.objects.documents import whole_number
from planner.export.objects.router_objects import CONFIG_KIND, LUA_KIND, PAIRS_KIND, SCRIPT_KIND
from planner.export.seams import CONFIG_FOLDER, Deployment, RouterProcess
from planner.export.templating import script_of

LEADER_ADDRESS, OWN_ADDRESS, RANK, FOLDER = "\0leader_address\0", "\0own_address\0", "\0rank\0", "\0folder\0"
"""In a word: where a script puts what it was called with, or where it lies."""
FRONT_SCRIPT = "router.sh"
_NUMBERS = ("copies", "ranks", "gpus", "port")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A template of scripts, and what varies in it: `settings` and `lists` by name, in their order; the lists stand
    behind `before` fixed lines. `expanded`: variables that words may hold. `directives`: how comments begin that
    another program reads, before the first command; empty: none do.
    """

    template: str
    settings: tuple[str, ...]
    lists: tuple[str, ...]
    before: int = 1
    expanded: tuple[str, ...] = ()
    directives: str = ""


LAUNCH = Form(
    template="launch",
    settings=("name", "image", "copies", "ranks", "gpus", "devices", "whole_hosts"),
    lists=("labels", "annotations", "hosts", "pins"),
    expanded=("leader_address", "own_address", "rank"),
)
ROUTER = Form(
    template="router",
    settings=("name", "router", "image", "port"),
    lists=("command",),
    before=2,
    expanded=("folder",),
)
_SHELL = "#!/usr/bin/env bash"
_BRANCH = re.compile(r"  ([0-9]+|\*):(leader|worker)\)")
_BRANCH_END = "    ;;"
_TAIL = 2  # fixed lines behind the branches
_SETTING = re.compile(r"([a-z_]+)=(?!\()(\S.*)")
_LIST = re.compile(r"([a-z_]+)=\(")


@cache
def _fixed(form: Form) -> tuple[str, ...]:
    """The lines that a script of the form always has."""
    blank = script_of(form.template, comments=(), settings={}, lists={}, commands={}, directives=())
    return tuple(line for line in blank.splitlines() if line and not line.startswith("#"))


@cache
def _expansions(form: Form) -> str:
    """The pattern of a quoted variable; it matches nothing where words hold none."""
    return rf'"\$({"|".join(form.expanded) or "(?!)"})"'


@cache
def _words_of(form: Form) -> re.Pattern[str]:
    """What shlex.quote writes, and our expansions; nothing else is a word. Character by character: a repeat within the
    repeat would try every way to cut a long word."""
    word = rf"""(?:[A-Za-z0-9@%+=:,./_-]|'[^'\x00-\x1f]*'|"'"|{_expansions(form)})+"""
    return re.compile(rf"\s*{word}(?:\s+{word})*\s*")


def read_launch_script(text: str) -> dict[str, Any]:
    """An island's script as a document: settings, lists, commands by branch, and metadata (name, labels, annotations).

    Raises:
        ValueError: a line that a script of ours does not have, lacks or repeats; it is named by its number.
    """
    document = read_script(LAUNCH, text)
    metadata = {"name": document.pop("name")} | {key: _pairs(document.pop(key)) for key in ("labels", "annotations")}
    return document | {"hosts": _pairs(document["hosts"]), "metadata": metadata}


def read_router_script(text: str) -> dict[str, Any]:
    """A program's script as a document: router, image, port, the words that it runs, and metadata (name).

    Raises:
        ValueError: as of an island's script.
    """
    document = read_script(ROUTER, text)
    del document["commands"]
    words = [word.replace('"$folder"', CONFIG_FOLDER) for word in document["command"]]
    return document | {"command": words, "metadata": {"name": document.pop("name")}}


def _pairs(words: Sequence[str]) -> dict[str, str]:
    rows = [word.partition("=") for word in words]
    pairs = {key: value for key, _, value in rows}
    if len(pairs) != len(rows):
        raise ValueError("a list names a key twice")
    return pairs


def read_script(form: Form, text: str) -> dict[str, Any]:
    """A script of the form as a document: its settings and lists by name, `commands` by branch, and `directives` where
    it has such comments. Raises ValueError as `read_launch_script` does.
    """
    reader = _Reader(form, text.splitlines())
    while not reader.done:
        reader.step()
    reader.finish()
    return {name: whole_number(text) if name in _NUMBERS else text for name, text in reader.settings.items()} | {
        **reader.lists,
        "commands": reader.commands,
        **({"directives": reader.directives} if form.directives else {}),
    }


class _Reader:
    """One pass over the lines of a script; fixed lines have to come in their order, each once."""

    def __init__(self, form: Form, lines: Sequence[str]) -> None:
        self.form, self.lines, self.at, self.fixed = form, lines, 0, 0
        self.settings: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}
        self.commands: dict[str, list[str]] = {}
        self.directives: list[str] = []
        if lines[:1] != [_SHELL]:
            raise ValueError(f"line 1 must be {_SHELL!r}")

    @property
    def done(self) -> bool:
        """Whether every line is read."""
        return self.at >= len(self.lines)

    def step(self) -> None:
        """Read one line, or one list, or one branch."""
        line, fixed, form = self._next(), _fixed(self.form), self.form
        if not line.strip() or line.startswith("#"):
            if form.directives and line.startswith(form.directives) and not self.fixed:  # later ones nobody reads
                self.directives.append(line.removeprefix(form.directives).strip())
            return
        setting, listed, branch = _SETTING.fullmatch(line), _LIST.fullmatch(line), _BRANCH.fullmatch(line)
        if self.fixed < len(fixed) and line == fixed[self.fixed]:
            self.fixed += 1
        elif branch and self.fixed == len(fixed) - _TAIL:
            self._keep(self.commands, f"{branch[1]}:{branch[2]}", self._branch())
        elif listed and listed[1] in form.lists and self.fixed == form.before:
            self._keep(self.lists, listed[1], self._words(")"))
        elif setting and setting[1] in form.settings and self.fixed == 1:
            words = self._decoded(setting[2])
            self._keep(self.settings, setting[1], words[0])
        else:
            rule = f"must be {fixed[self.fixed]!r}" if self.fixed < len(fixed) else "must not be there"
            raise ValueError(f"line {self.at} {rule}, as the planner writes it, is {line!r}")

    def finish(self) -> None:
        """ValueError where something is missing."""
        missing = [*(set(self.form.settings) - set(self.settings)), *(set(self.form.lists) - set(self.lists))]
        if missing:
            raise ValueError(f"must set {', '.join(sorted(missing))}")
        if self.fixed < len(_fixed(self.form)):
            raise ValueError(f"must go on with {_fixed(self.form)[self.fixed]!r}")

    def _next(self) -> str:
        if self.done:
            raise ValueError("ends within a list")
        self.at += 1
        return self.lines[self.at - 1].rstrip()

    def _branch(self) -> list[str]:
        self._expect("    command=(")
        words = self._words("    )")
        self._expect(_BRANCH_END)
        return words

    def _expect(self, expected: str) -> None:
        if (line := self._next()) != expected:
            raise ValueError(f"line {self.at} must be {expected!r}, is {line!r}")

    def _words(self, end: str) -> list[str]:
        words: list[str] = []
        while (line := self._next()) != end:
            if line and not line.lstrip().startswith("#"):
                words += self._decoded(line)
        return words

    def _decoded(self, line: str) -> list[str]:
        """The words of a line; an expansion keeps its quotes, as `$rank` in single ones is none."""
        if not _words_of(self.form).fullmatch(line):
            raise ValueError(f"line {self.at} must hold quoted words and nothing to expand, is {line!r}")
        return shlex.split(re.sub(_expansions(self.form), r"""'"$\1"'""", line))

    def _keep(self, entries: dict[str, Any], key: str, value: object) -> None:
        if key in entries:
            raise ValueError(f"line {self.at}: {key} is given twice")
        entries[key] = value


def write_script(
    form: Form,
    comments: Sequence[str],
    settings: Mapping[str, str | int],
    lists: Mapping[str, Sequence[str] | Mapping[str, str]],
    *,
    commands: Mapping[str, Sequence[str]] | None = None,
    directives: Sequence[str] = (),
) -> str:
    """The text of a script: `settings` and `lists` by name, in the order of the form; `commands`: branch (`0:leader`,
    `*:worker`) -> words.

    Raises:
        InputError: a word that is not one line of printable characters.
    """
    words = {
        name: [f"{key}={text}" for key, text in rows.items()] if isinstance(rows, Mapping) else rows
        for name, rows in lists.items()
    }
    return script_of(
        form.template,
        comments=comments,
        settings=settings,
        lists=words,
        commands=commands or {},
        directives=directives,
    )


def router_script_files(processes: Sequence[RouterProcess], deployment: Deployment, /) -> dict[str, str]:
    """A script a program, `router.sh` and `router-NAME.sh`, and the files that they read."""
    prefix = f"{deployment.name}-"
    files = {f"{process.name.removeprefix(prefix)}.sh": _router_script(process, deployment) for process in processes}
    return files | {name: text for process in processes for name, text in process.config}


def _router_script(process: RouterProcess, deployment: Deployment) -> str:
    assert deployment.router is not None
    behaviour = deployment.behaviour
    comments = [
        f"Router {deployment.router.name} of plan {deployment.plan.scenario.name}.",
        *process.notes,
        *behaviour.notes,
        f"Others reach it at {process.name}:{process.port}; once it takes requests it answers {process.health_path}.",
        *(f"The router's other programs reach {name} at {process.name}:{port}." for name, port in process.more_ports),
        f"Its flags are those of {process.image}.",
    ]
    values = (process.name, deployment.router.name, process.image, process.port)
    words = [word.replace(CONFIG_FOLDER, FOLDER) for word in process.command]
    return write_script(ROUTER, comments, dict(zip(ROUTER.settings, values, strict=True)), {"command": words})


def _parse_program(text: str) -> Iterator[dict[str, Any]]:
    yield read_router_script(text)


def _parse_configuration(text: str) -> Iterator[dict[str, Any]]:
    """A file that a program reads, as it is."""
    yield {"metadata": {"name": "haproxy.cfg"}, "text": text}


def _parse_lua(text: str) -> Iterator[dict[str, Any]]:
    """A script that a program runs, as it is."""
    yield {"metadata": {"name": "fewest-bytes.lua"}, "text": text}


def _parse_pairs(text: str) -> Iterator[dict[str, Any]]:
    """A file of a program that pairs, each of which has one of its own: the first line names it."""
    yield {"metadata": {"name": text.partition("\n")[0].removeprefix("# ")}, "text": text}


ROUTER_SCRIPT_KINDS = (
    Kind(kind=SCRIPT_KIND, schema="router_script.json", files="router*.sh", parse=_parse_program),
    Kind(kind=CONFIG_KIND, schema="router_configuration.json", files="*.cfg", parse=_parse_configuration),
    Kind(kind=PAIRS_KIND, schema="router_configuration.json", files="*.pairs", parse=_parse_pairs),
    Kind(kind=LUA_KIND, schema="router_configuration.json", files="*.lua", parse=_parse_lua),
)
