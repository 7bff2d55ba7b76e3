"""The form of a launch script: fixed lines of bash around words that are data. Written here, and read back here.

A script is its comments, its settings (`name=value`), its lists (`name=(` ... `)`, a word a line), fixed lines that
check what it is called with, and one `case` whose branches hold the commands. Every word is quoted; the only
expansions are the three addresses and ranks that the fixed lines have checked. Reading never runs anything: a line
that is none of these is refused.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.errors import InputError
from planner.export.objects.documents import whole_number
from planner.export.objects.names import one_line

LEADER_ADDRESS, OWN_ADDRESS, RANK = "\0leader_address\0", "\0own_address\0", "\0rank\0"
"""In a word: where the script puts what it was called with."""

SETTINGS = ("name", "image", "copies", "ranks", "gpus", "devices", "whole_hosts")
LISTS = ("labels", "annotations", "hosts", "pins")
_NUMBERS = ("copies", "ranks", "gpus")
# what ShellCheck would mind, for the whole file: settings that are read and never run (SC2034), and the script that
# counts a pod's start rank, which a shell of its own expands (SC2016)
_HEAD = ("#!/usr/bin/env bash", "# shellcheck disable=SC2016,SC2034")
_STRICT = "set -euo pipefail"
# What shlex.quote writes, and our expansions. Nothing else is a word of a list. Character by character: a repeat within
# the repeat would try every way to cut a long word.
_WORD = r"""(?:[A-Za-z0-9@%+=:,./_-]|'[^'\x00-\x1f]*'|"'"|"\$(?:leader_address|own_address|rank)")+"""
_WORDS = re.compile(rf"\s*{_WORD}(?:\s+{_WORD})*\s*")
_EXPANSION = re.compile(r'"\$(leader_address|own_address|rank)"')
_SETTING = re.compile(rf"({'|'.join(SETTINGS)})=({_WORD})")
_LIST = re.compile(rf"({'|'.join(LISTS)})=\(")
_BRANCH = re.compile(r"  ([0-9]+|\*):(leader|worker)\)")

_CHECKS = """\
fail() {
  printf '%s: %s\\n' "${0##*/}" "$1" >&2
  exit 2
}
if (($# != 4)); then
  fail "must be called with COPY RANK LEADER_ADDRESS OWN_ADDRESS, got $# arguments."
fi
copy=$1 rank=$2 leader_address=$3 own_address=$4
if ! [[ $copy =~ ^(0|[1-9][0-9]{0,5})$ ]] || ((copy >= copies)); then
  fail "COPY: must be a number from 0 to $((copies - 1)), got '$copy'."
fi
if ! [[ $rank =~ ^(0|[1-9][0-9]{0,5})$ ]] || ((rank >= ranks)); then
  fail "RANK: must be a number from 0 to $((ranks - 1)), got '$rank'."
fi
for address in "$leader_address" "$own_address"; do
  if ! [[ $address =~ ^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$ ]]; then
    fail "address: must be a host name or an IPv4 address, got '$address'."
  fi
done
if ((rank == 0)) && [[ $leader_address != "$own_address" ]]; then
  fail "OWN_ADDRESS: must be LEADER_ADDRESS for rank 0, got '$own_address'."
fi
visible=${!devices:-}
if [[ -n $visible ]]; then
  commas=${visible//[!,]/}
  if ((${#commas} + 1 != gpus)); then
    fail "$devices: must list $gpus GPUs, got '$visible'."
  fi
elif [[ $whole_hosts == no ]]; then
  fail "$devices: must list the $gpus GPUs of this copy, as a host has more; it is not set."
fi
for pin in ${pins[@]+"${pins[@]}"}; do
  if [[ $pin == "$copy:$rank="* && $(uname -n) != "${pin#*=}" ]]; then
    fail "this host: must be ${pin#*=}, where copy $copy, rank $rank is placed, is $(uname -n)."
  fi
done
role=worker
if ((rank == 0)); then
  role=leader
fi
case "$copy:$role" in
"""
_BRANCH_END = "    ;;"
_TAIL = ("esac", 'exec "${command[@]}"')
_FIXED = (_STRICT, *_CHECKS.splitlines(), *_TAIL)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchScript:
    """What a script holds. `ranks`: processes of a copy, each with `gpus` GPUs, which the variable `devices` lists.

    `whole_hosts`: a process takes all GPUs of its host. `hosts`: labels of the hosts that it is for; `pins`:
    `COPY:RANK=HOST`. `commands`: branch (`0:leader`, `*:worker`) -> words.
    """

    name: str
    image: str
    copies: int
    ranks: int
    gpus: int
    devices: str
    whole_hosts: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    hosts: Mapping[str, str]
    pins: tuple[str, ...]
    commands: Mapping[str, tuple[str, ...]]


def script_text(comments: Iterable[str], script: LaunchScript) -> str:
    """The text of a script.

    Raises:
        InputError: a word that is not one line of printable characters.
    """
    lines = [*_HEAD, *(f"# {one_line(comment)}" for comment in comments), _STRICT, ""]
    lines += [f"{name}={_word(_setting(script, name))}" for name in SETTINGS]
    for name in LISTS:
        lines += [f"{name}=(", *(f"  {_word(word)}" for word in _items(script, name)), ")"]
    lines += ["", *_CHECKS.splitlines()]
    for branch, words in script.commands.items():
        lines += [f"  {branch})", "    command=(", *(f"      {_word(word)}" for word in words), "    )", _BRANCH_END]
    return "\n".join([*lines, *_TAIL]) + "\n"


def _setting(script: LaunchScript, name: str) -> str:
    value = getattr(script, name)
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _items(script: LaunchScript, name: str) -> Iterator[str]:
    value = getattr(script, name)
    yield from (f"{key}={text}" for key, text in value.items()) if isinstance(value, Mapping) else value


def _word(text: str) -> str:
    """`text` as one word of bash: its literal parts quoted, our expansions in double quotes."""
    parts = re.split(r"\0(leader_address|own_address|rank)\0", text)
    quoted = [f'"${part}"' if index % 2 else _quoted(part) for index, part in enumerate(parts)]
    return "".join(quoted) or "''"


def _quoted(text: str) -> str:
    if not all(c.isprintable() for c in text):
        raise InputError(
            f"Script word {text!r}: must be one line of printable characters.",
            hint="Rename the island, model, plan or label that it comes from.",
        )
    return shlex.quote(text) if text else ""


def read_script(text: str) -> dict[str, Any]:
    """A script as a document: settings, lists, commands by branch, and metadata (name, labels, annotations).

    Raises:
        ValueError: a line that a script of ours does not have, lacks or repeats; it is named by its number.
    """
    reader = _Reader(lines=text.splitlines())
    while not reader.done:
        reader.step()
    reader.finish()
    document: dict[str, Any] = {name: reader.settings[name] for name in SETTINGS}
    document |= {name: whole_number(document[name]) for name in _NUMBERS}
    document |= {"hosts": _pairs(reader.lists["hosts"]), "pins": reader.lists["pins"], "commands": reader.commands}
    metadata = {"name": document.pop("name")}
    return document | {"metadata": metadata | {key: _pairs(reader.lists[key]) for key in ("labels", "annotations")}}


def _pairs(words: Sequence[str]) -> dict[str, str]:
    rows = [word.partition("=") for word in words]
    pairs = {key: value for key, _, value in rows}
    if len(pairs) != len(rows):
        raise ValueError("a list names a key twice")
    return pairs


class _Reader:
    """One pass over the lines of a script; fixed lines have to come in their order, each once."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines, self.at, self.fixed = lines, 0, 0
        self.settings: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}
        self.commands: dict[str, list[str]] = {}
        if lines[:1] != [_HEAD[0]]:
            raise ValueError(f"line 1 must be {_HEAD[0]!r}")

    @property
    def done(self) -> bool:
        """Whether every line is read."""
        return self.at >= len(self.lines)

    def step(self) -> None:
        """Read one line, or one list, or one branch."""
        line = self._next()
        if not line.strip() or line.startswith("#"):
            return
        if self.fixed == len(_FIXED) - len(_TAIL) and (match := _BRANCH.fullmatch(line)):
            self._keep(self.commands, f"{match[1]}:{match[2]}", self._branch())
        elif self.fixed == 1 and (match := _LIST.fullmatch(line)):
            self._keep(self.lists, match[1], self._words(")"))
        elif self.fixed == 1 and (match := _SETTING.fullmatch(line)):
            self._keep(self.settings, match[1], _decoded(match[2])[0])
        elif self.fixed < len(_FIXED) and line == _FIXED[self.fixed]:
            self.fixed += 1
        else:
            rule = f"must be {_FIXED[self.fixed]!r}" if self.fixed < len(_FIXED) else "must not be there"
            raise ValueError(f"line {self.at} {rule}, as the planner writes it, is {line!r}")

    def finish(self) -> None:
        """ValueError where something is missing."""
        missing = [*(set(SETTINGS) - set(self.settings)), *(set(LISTS) - set(self.lists))]
        if missing:
            raise ValueError(f"must set {', '.join(sorted(missing))}")
        if self.fixed < len(_FIXED):
            raise ValueError(f"must go on with {_FIXED[self.fixed]!r}")

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

    def _expect(self, wanted: str) -> None:
        if (line := self._next()) != wanted:
            raise ValueError(f"line {self.at} must be {wanted!r}, is {line!r}")

    def _words(self, end: str) -> list[str]:
        words: list[str] = []
        while (line := self._next()) != end:
            if line.lstrip().startswith("#") or not line:
                continue
            if not _WORDS.fullmatch(line):
                raise ValueError(f"line {self.at} must hold quoted words and nothing to expand, is {line!r}")
            words += _decoded(line)
        return words

    def _keep(self, entries: dict[str, Any], key: str, value: object) -> None:
        if key in entries:
            raise ValueError(f"line {self.at}: {key} is given twice")
        entries[key] = value


def _decoded(line: str) -> list[str]:
    """The words of a line that `_WORDS` matches; an expansion keeps its quotes, as `$rank` in single ones is none."""
    return shlex.split(_EXPANSION.sub(r"""'"$\1"'""", line))
