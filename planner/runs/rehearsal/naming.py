"""Which programs start a router here, or a load generator: those that the user names, or those that are at hand."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from planner.errors import InputError

_INSTALL = {
    "haproxy": "`apt-get install haproxy`",
    "vllm_router": "`pip install vllm-router` into an environment of its own",
    "sglang_router": "`pip install sglang-router` into an environment of its own",
}
_GENERATORS = {"aiperf": "`pip install aiperf==0.13.0` into an environment of its own"}


def program_of(command: Sequence[str]) -> str:
    """What a command's program is called: `haproxy`, `vllm_router`, `sglang_router`."""
    return command[2].partition(".")[0] if command[1:2] == ("-m",) else command[0]


def program_words(command: Sequence[str], commands: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The command with the words that start its program here: those that the user named (`commands`, by program), else
    the program of PATH, or a Python here that has the module.

    Raises:
        InputError: there is no such program, or nobody speaks to it here as its engines do.
    """
    name = program_of(command)
    if name not in {**_INSTALL, **_GENERATORS}:
        raise InputError(
            f"Router's program {name}: must be one of {', '.join(_INSTALL)}, whose engines are imitated here.",
            hint="Rehearse a plan with serving: aggregated, which needs no pairs.",
        )
    module = command[1:2] == ("-m",)
    arguments = tuple(command[3 if module else 1 :])
    if name in commands:
        _require_program(commands[name][0], name)
        return (*commands[name], *arguments)
    if not module:
        _require_program(command[0], name)
        return tuple(command)
    for python in dict.fromkeys((sys.executable, shutil.which("python3") or "")):
        if python and _has_module(python, name):
            return (python, *command[1:])
    raise _not_here(name, f"a Python with the module {name}")


def _require_program(word: str, name: str) -> None:
    if shutil.which(word) is None:
        raise _not_here(name, f"the program {word!r}")


def _has_module(python: str, name: str) -> bool:
    asks = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"
    return subprocess.run((python, "-c", asks), check=False, capture_output=True).returncode == 0  # noqa: S603


def _not_here(name: str, missing: str) -> InputError:
    kind = "Load generator" if name in _GENERATORS else "Router's program"
    install = {**_INSTALL, **_GENERATORS}.get(name, "as its makers say")
    return InputError(
        f"{kind} {name}: must be at hand, {missing} is not.",
        hint=f"Install it ({install}), or name it: --program {name}=COMMAND.",
    )


def read_generator(text: str) -> tuple[str, tuple[str, ...]]:
    """`aiperf=/opt/venv/bin/aiperf`. Raises InputError for another form."""
    return _read(text, _GENERATORS, "aiperf=/opt/venv/bin/aiperf")


def read_program(text: str) -> tuple[str, tuple[str, ...]]:
    """`haproxy=/opt/haproxy/sbin/haproxy`, `vllm_router=/opt/venv/bin/python -m vllm_router.launch_router`.

    Raises:
        InputError: another form.
    """
    return _read(text, _INSTALL, "haproxy=/usr/sbin/haproxy")


def _read(text: str, names: Mapping[str, str], example: str) -> tuple[str, tuple[str, ...]]:
    name, _, words = text.partition("=")
    try:
        command = tuple(shlex.split(words))
    except ValueError:
        command = ()
    if name not in names or not command:
        raise InputError(
            f"--program: must be NAME=COMMAND, NAME one of {', '.join(names)}, got {text!r}.",
            hint=f"For example {example}.",
        )
    return name, command
