"""The manual: all commands and options, sound roff, examples that can be typed."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Command

from planner.cli.app import build
from planner.cli.docs.manual import ENVIRONMENT, EXAMPLES, EXIT_STATUSES

PROGRAM: Any = typer.main.get_command(build())


def commands_of(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands_of(inner, f"{path} {name}")


def test_the_manual_names_everything_and_is_sound_roff(planner: Command, here: Path) -> None:
    assert planner("docs", "--out", "docs").status == 0
    text = (here / "docs/planner.1").read_text(encoding="utf-8")
    page = (here / "docs/commands.md").read_text(encoding="utf-8")
    for path, command in commands_of(PROGRAM, "planner"):
        assert '.SS "{}"'.format(path.replace("-", "\\-")) in text
        options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
        for name in (name for option in options for name in option.opts):
            assert name.replace("-", "\\-") in text
    for term, _ in (*EXIT_STATUSES, *ENVIRONMENT):
        assert f"\\fB{term}\\fP" in text
        assert f"| `{term}` |" in page
    groff = shutil.which("groff")
    if groff:  # where there is a judge of roff
        words = [groff, "-man", "-Kutf8", "-Tutf8", "-ww", "docs/planner.1"]
        shown = subprocess.run(words, capture_output=True, check=True, timeout=60)
        assert shown.stderr == b""
        assert b"planner cost explain" in re.sub(rb"\x1b\[[0-9;]*m|.\x08", b"", shown.stdout)


@pytest.mark.parametrize("example", EXAMPLES)
def test_its_examples_can_be_typed(example: str) -> None:
    program, command, *words = example.split()
    assert program == "planner"
    if command.startswith("-"):
        assert any(command in parameter.opts for parameter in PROGRAM.params)
        return
    below = PROGRAM.commands[command]
    with below.make_context(command, words, parent=typer.Context(PROGRAM), resilient_parsing=True) as context:
        assert context.args == []
