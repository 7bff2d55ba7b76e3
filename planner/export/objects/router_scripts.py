"""The programs of a router as bash scripts, `router.sh` and `router-NAME.sh`, beside the files that they read. Written
here, and read back here; reading never runs anything.

A script is its comments, its settings (`name=value`), a list of words, a word a line and quoted, and fixed lines around
them. The only expansion is the script's own folder, where the program's files lie.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from planner.errors import InputError
from planner.export.found import Kind
from planner.export.objects.documents import whole_number
from planner.export.objects.names import one_line
from planner.export.objects.router_objects import CONFIG_KIND, SCRIPT_KIND
from planner.export.seams import CONFIG_FOLDER, Deployment, RouterProcess

FRONT_SCRIPT = "router.sh"
_FOLDER = '"$folder"'
_HEAD, _STRICT = "#!/usr/bin/env bash", "set -euo pipefail"
_UNUSED = "# shellcheck disable=SC2034"  # settings tell people and checks what this is
_FIXED = (_STRICT, 'folder=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)', 'exec "${command[@]}"')
_SETTINGS = ("name", "router", "image", "port")
_WORD = r"""(?:[A-Za-z0-9@%+=:,./_-]|'[^'\x00-\x1f]*'|"'"|"\$folder")+"""
_SETTING = re.compile(rf"({'|'.join(_SETTINGS)})=({_WORD})")
_LISTED = re.compile(rf"\s*{_WORD}(?:\s+{_WORD})*\s*")
_COMMAND, _END = "command=(", ")"


def router_script_files(processes: Sequence[RouterProcess], deployment: Deployment, /) -> dict[str, str]:
    """A script a program, and the files of all."""
    prefix = f"{deployment.name}-"
    files = {f"{process.name.removeprefix(prefix)}.sh": _script(process, deployment) for process in processes}
    return files | {name: text for process in processes for name, text in process.config}


def _script(process: RouterProcess, deployment: Deployment) -> str:
    assert deployment.router is not None
    behaviour = deployment.router.behaviour(deployment.plan)
    comments = [
        f"Router {deployment.router.name} of plan {deployment.plan.scenario.name}.",
        *process.notes,
        *behaviour.notes,
        f"Others reach it at {process.name}:{process.port}; once it takes requests it answers {process.health_path}.",
        f"Its flags are those of {process.image}.",
    ]
    settings = zip(_SETTINGS, (process.name, deployment.router.name, process.image, str(process.port)), strict=True)
    return "\n".join(
        [
            _HEAD,
            _UNUSED,
            *(f"# {one_line(comment)}" for comment in comments),
            _STRICT,
            "",
            *(f"{name}={_quoted(value)}" for name, value in settings),
            _FIXED[1],
            _COMMAND,
            *(f"  {_word(word)}" for word in process.command),
            _END,
            _FIXED[2],
            "",
        ]
    )


def _word(text: str) -> str:
    return _FOLDER.join(_quoted(part) if part else "" for part in text.split(CONFIG_FOLDER)) or "''"


def _quoted(text: str) -> str:
    if not all(character.isprintable() for character in text):
        raise InputError(
            f"Script word {text!r}: must be one line of printable characters.",
            hint="Rename the island, model, plan or label that it comes from.",
        )
    return shlex.quote(text)


def read_router_script(text: str) -> Iterator[dict[str, Any]]:
    """A script as a document: name, router, image, port, and the words that it runs.

    Raises:
        ValueError: a line that a script of ours does not have, lacks or repeats; it is named by its number.
    """
    lines = text.splitlines()
    if lines[:1] != [_HEAD]:
        raise ValueError(f"line 1 must be {_HEAD!r}")
    settings: dict[str, str] = {}
    words: list[str] = []
    fixed = 0
    inside = False
    for number, line in enumerate(lines[1:], start=2):
        stripped = line.strip()
        match = _SETTING.fullmatch(line)
        if not stripped or stripped.startswith("#"):
            continue
        if inside and stripped == _END:
            inside = False
        elif inside and _LISTED.fullmatch(line):
            words += shlex.split(line.replace(_FOLDER, CONFIG_FOLDER))
        elif stripped == _COMMAND and not words:
            inside = True
        elif not inside and fixed < len(_FIXED) and stripped == _FIXED[fixed]:
            fixed += 1
        elif not inside and match and match[1] not in settings:
            settings[match[1]] = shlex.split(match[2])[0]
        else:
            raise ValueError(f"line {number} must be as the planner writes it, is {line!r}")
    if fixed < len(_FIXED) or set(settings) != set(_SETTINGS):
        raise ValueError("must hold all lines and settings that the planner writes")
    yield {
        "metadata": {"name": settings["name"]},
        "router": settings["router"],
        "image": settings["image"],
        "port": whole_number(settings["port"]),
        "command": words,
    }


def read_configuration(text: str) -> Iterator[dict[str, Any]]:
    """A file that a program reads, as it is."""
    yield {"metadata": {"name": "haproxy.cfg"}, "text": text}


ROUTER_SCRIPT_KINDS = (
    Kind(kind=SCRIPT_KIND, schema="router_script.json", files="router*.sh", parse=read_router_script),
    Kind(kind=CONFIG_KIND, schema="router_configuration.json", files="*.cfg", parse=read_configuration),
)
