"""The tools: which commands they are, which of a command's options they take, and the words that a call becomes.

An option is described where the command describes it: its type, bounds, default and help are read from there.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import typer

from planner.cli.app import build
from planner.errors import InputError
from planner.files.disk.schema_answers import acceptance, keeps_to

LONGEST_TEXT = 4096
MOST_ITEMS = 64
RUN_NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$(?!\\n)"  # to Python the end is also before a last line's end
_PRINTABLE = "^[^\\x00-\\x1f\\x7f]*$(?!\\n)"
_TYPES: Mapping[type, Mapping[str, object]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string", "maxLength": LONGEST_TEXT, "pattern": _PRINTABLE},
    Path: {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT, "pattern": _PRINTABLE},
}
Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A command as a tool: `command`, its words; `options`, those of its parameters that it takes, the `required` ones
    among them. `single`: a list of the command's of which it takes one. `writes`: a run folder, under a name. `about`:
    what it does, where that is less than the command does."""

    command: tuple[str, ...]
    options: tuple[str, ...]
    required: tuple[str, ...]
    single: str = ""
    writes: bool = False
    about: str = ""

    @property
    def name(self) -> str:
        """As assistants call it."""
        return "_".join(self.command)

    @property
    def description(self) -> str:
        """What it does: the first line of the command's help."""
        return self.about or str(_command(self.command).help).partition("\n\n")[0]

    def schema(self) -> dict[str, Any]:
        """JSON Schema (2020-12) of its arguments."""
        properties = {name: _property(parameter, name) for name, parameter in self._parameters().items()}
        if self.writes:
            about = "Name of the run folder to write, below the server's folder. [default: made up]"
            properties["run"] = {"type": "string", "pattern": RUN_NAME, "description": about}
            properties["force"] = {"type": "boolean", "default": False, "description": "Replace a run that exists."}
        required = list(self.required)
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def check(self, arguments: Arguments, root: Path) -> None:
        """Raise InputError for arguments that the schema has not, and for paths that leave `root`."""
        properties = self.schema()["properties"]
        for name in arguments:
            if name not in properties:
                raise InputError(
                    f"{self.name}: {name[:LONGEST_TEXT]!r} must be one of its arguments, is none.",
                    hint=f"They are {', '.join(properties)}.",
                )
        for name in self.required:
            if name not in arguments:
                raise InputError(f"{self.name}: {name} must be given.", hint=str(properties[name]["description"]))
        for name, value in arguments.items():
            if not keeps_to(acceptance(properties[name]), value):
                raise InputError(
                    f"{self.name}: {name}: must be {_words(properties[name])}, got {value!r:.80}.",
                    hint=str(properties[name]["description"]),
                )
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str):
                    _require_within(f"{self.name}: {name}", text, root)

    def words(self, arguments: Arguments, run: str) -> list[str]:
        """The command line, without `planner`; `run`: the folder that it writes, where it does."""
        words, last = [*self.command], []
        for name, parameter in self._parameters().items():
            value = arguments.get(name)
            values = value if isinstance(value, list) else [] if value is None else [value]
            if parameter.param_type_name == "argument":
                last += [str(item) for item in values]
            elif isinstance(value, bool):
                words += [parameter.opts[0]] * value
            else:  # a whole number may come as 3.0
                whole_number = parameter.type_descriptor.annotation is int
                words += [f"{parameter.opts[0]}={int(item) if whole_number else item}" for item in values]
        words += [f"--out={run}", *["--force"] * bool(arguments.get("force"))] if self.writes else []
        return [*words, "--json", *(["--", *last] if last else [])]

    def run_names(self, arguments: Arguments, run: str) -> list[str]:
        """The run folders that the answer rests on."""
        names = arguments.get("runs", arguments.get("run", ()))
        return [run] if self.writes else [names] if isinstance(names, str) else list(names)

    def _parameters(self) -> dict[str, Any]:
        """The command's parameters by the name that an argument has here."""
        listed = {_name(parameter): parameter for parameter in _command(self.command).params}
        return {name.removesuffix("s") if name == self.single else name: listed[name] for name in self.options}


@cache
def _command(words: tuple[str, ...]) -> Any:
    """The command as the program reads it."""
    command: Any = typer.main.get_command(build())
    for word in words:
        command = command.commands[word]
    return command


def command_line(words: Sequence[str]) -> str:
    """As it is typed in a shell, in the server's folder."""
    return shlex.join(["planner", *words])


def _name(parameter: Any) -> str:
    return str(parameter.opts[0].lstrip("-").replace("-", "_"))


def _property(parameter: Any, name: str) -> dict[str, Any]:
    kind = parameter.type_descriptor.annotation
    if items := get_args(kind):
        each = dict(_TYPES[items[0]])
        rule = (
            each
            if _name(parameter) != name
            else {"type": "array", "items": each, "minItems": 1, "maxItems": MOST_ITEMS}
        )
    elif issubclass(kind, Enum):
        rule = {"enum": [member.value for member in kind]}
    else:
        rule = dict(_TYPES[kind])
    bounds = (("minimum", parameter.min), ("maximum", parameter.max))
    rule |= {word: bound for word, bound in bounds if bound is not None}
    if parameter.default not in (None, ""):
        rule["default"] = parameter.default
    return rule | {"description": " ".join(str(parameter.help).split())}


def _words(rule: Mapping[str, Any]) -> str:
    """What a property must be, said aloud."""
    if "enum" in rule:
        return f"one of {', '.join(rule['enum'])}"
    if rule["type"] == "array":
        return f"a list of 1 to {MOST_ITEMS} texts"
    if rule.get("pattern") == RUN_NAME:
        return "a plain name: letters, digits, dots, dashes, no folder"
    kinds = {
        "boolean": "true or false",
        "integer": "a whole number",
        "number": "a number",
        "string": "a text of one line",
    }
    bounds = {"minimum": "at least", "maximum": "at most"}
    limits = [f"{bounds[word]} {rule[word]}" for word in bounds if word in rule]
    return " of ".join([kinds[rule["type"]], " and ".join(limits)]) if limits else kinds[rule["type"]]


def _require_within(where: str, text: str, root: Path) -> None:
    """Any text may be the path of a file, which is then looked for below `root`; so may the value of KEY=VALUE."""
    try:
        os.fsencode(text)
    except ValueError:
        raise InputError(f"{where}: must be a text that can be written, got {text!r:.80}.", hint="Use UTF-8.") from None
    if not all(Path(os.path.realpath(root / part)).is_relative_to(root) for part in (text, text.rpartition("=")[2])):
        raise InputError(
            f"{where}: must lie below the server's folder, got {text!r:.80}.",
            hint="Give a shipped name, or a path relative to the folder that `planner mcp --root` names.",
        )


_DEMAND = (
    *("model", "workload", "ttft", "tpot", "percentile", "survive", "share", "engine", "serving", "sure", "name"),
)


_SERVED = ("model", "workload")
_TOOLS = (
    Tool(command=("cheapest",), options=("rps", *_DEMAND, "offer", "prices"), required=("rps", *_SERVED), writes=True),
    Tool(command=("buy",), options=("usd", *_DEMAND, "offer", "prices"), required=("usd", *_SERVED), writes=True),
    Tool(command=("max",), options=("inventory", *_DEMAND, "prices"), required=("inventory", *_SERVED), writes=True),
    Tool(
        command=("plan",),
        options=("scenarios", "set", "seed", "engine"),
        required=("scenario",),
        single="scenarios",
        writes=True,
        about="Plan a scenario: a shipped one by its name, or a file; `set` changes its keys.",
    ),
    Tool(command=("explain",), options=("run", "island", "seconds"), required=("run",)),
    Tool(command=("compare",), options=("runs", "sort"), required=("runs",)),
    Tool(
        command=("replay",),
        options=(
            *("run", "trace", "rate", "router", "length_spread", "arrivals", "variation", "curve", "between"),
            *("sessions", "requests", "seeds", "warm_up", "fail", "storage_gb_s", "sweep"),
        ),
        required=("run",),
    ),
    Tool(command=("model", "show"), options=("model",), required=("model",)),
)
TOOLS: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in _TOOLS})
"""All of them by name."""
