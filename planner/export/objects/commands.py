"""The commands of a container: its words with what its environment fills in, those of a shell taken apart.

`$(NAME)` in a command is filled in by Kubernetes, `$NAME` and `${NAME}` by the shell that runs it. Only plain values
and those of ConfigMaps that are given are known; what a Secret holds is never asked for, and no value but those that
stand in a command is looked at.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.export.objects.documents import mapping_below, mappings_of

_BY_KUBERNETES = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")
_BY_SHELL = re.compile(r"\$\{([A-Za-z_]\w*)(?::?-([^}]*))?\}|\$([A-Za-z_]\w*)")
_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_PUNCTUATION = ";&|()\n"

ConfigMaps = Mapping[str, Mapping[str, str]]
"""Name -> data, of the container's namespace."""


def container_commands(container: Mapping[str, Any], maps: ConfigMaps) -> Iterator[tuple[str, ...]]:
    """Every simple command that a container runs, in order. Words that cannot be filled in stay as they are."""
    environment = _environment(container, maps)
    words = [_filled(word, environment) for key in ("command", "args") for word in _words(container.get(key))]
    script = _script(words)
    if script is None:
        yield tuple(words)
        return
    yield from shell_commands(script, environment)


def _words(value: object) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else []


def _script(words: Sequence[str]) -> str | None:
    """What a shell is given to run; None where no shell is."""
    if not words or words[0].rpartition("/")[2] not in _SHELLS:
        return None
    for k, word in enumerate(words[1:], start=1):
        if re.fullmatch(r"-[a-z]*c[a-z]*", word):
            return words[k + 1] if k + 1 < len(words) else ""
    return None


def shell_commands(script: str, environment: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """The simple commands of a script; none of one that a shell would not take."""
    values = dict(environment)
    joined = re.sub(r"^[ \t]*#.*$", "", re.sub(r"\\\r?\n", " ", script), flags=re.MULTILINE)
    lexer = shlex.shlex(joined, posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = list(lexer)
    except ValueError:
        return
    for command in _split(words):
        filled = [_BY_SHELL.sub(lambda match: _of_shell(match, values), word) for word in command]
        remaining = _after_assignments(filled, values)
        if remaining:
            yield tuple(remaining)


def _split(words: Sequence[str]) -> Iterator[list[str]]:
    command = list[str]()
    for word in words:
        if word and set(word) <= set(_PUNCTUATION):
            yield command
            command = []
        else:
            command.append(word)
    yield command


def _after_assignments(words: list[str], values: dict[str, str]) -> list[str]:
    """The command without `NAME=value` before it, which the script knows from then on."""
    while words and (match := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", words[0])):
        values[match[1]] = match[2]
        words = words[1:]
    exported = [re.fullmatch(r"([A-Za-z_]\w*)=(.*)", word) for word in words[1:]] if words[:1] == ["export"] else []
    values.update({match[1]: match[2] for match in exported if match})
    return words


def _of_shell(match: re.Match[str], values: Mapping[str, str]) -> str:
    name, default = match[1] or match[3], match[2]
    return values.get(name, match[0] if default is None else default)


def _filled(word: str, environment: Mapping[str, str]) -> str:
    return _BY_KUBERNETES.sub(lambda match: "$" if match[0] == "$$" else environment.get(match[1], match[0]), word)


def _environment(container: Mapping[str, Any], maps: ConfigMaps) -> dict[str, str]:
    """Plain values, and those of given ConfigMaps."""
    environment: dict[str, str] = {}
    for source in mappings_of(container.get("envFrom")):
        data = maps.get(str(mapping_below(source, "configMapRef").get("name")), {})
        environment |= {f"{source.get('prefix', '')}{key}": value for key, value in data.items()}
    for row in mappings_of(container.get("env")):
        name = str(row.get("name", ""))
        value = _value_of(row, maps)
        if value is not None:
            environment[name] = _filled(value, environment)
    return environment


def _value_of(row: Mapping[str, Any], maps: ConfigMaps) -> str | None:
    if "value" in row:
        return str(row["value"] or "")
    reference = mapping_below(row, "valueFrom", "configMapKeyRef")
    return maps.get(str(reference.get("name")), {}).get(str(reference.get("key")))
