"""The program before any command of it: helps without imports, completion by a real bash."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Command

from planner.cli.app import COMMANDS, GROUPS, build
from planner.cli.program.every_command import ENGINES
from planner.cli.program.lazy_group import LAST_PANEL
from planner.cli.program.listing import FIRST_STEPS, PANELS, short_help
from planner.domain.engine.profile import EngineProfile
from planner.domain.serving.targets import TARGET_ROWS
from planner.export.targets import TARGETS as ALL_TARGETS
from planner.files import engine_profiles, shipped_models, shipped_scenarios

PROGRAM: Any = typer.main.get_command(build())


@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_the_list_says_what_the_command_says(name: str) -> None:
    """Where this fails for a new command, write its panel and the first line of its help into `listing.PANELS`."""
    first_line = " ".join((PROGRAM.commands[name].help or "").split("\n\n")[0].split())
    listed = short_help(name)
    assert listed is not None, f'"{name}": "{first_line}" is missing in planner/cli/program/listing.py'
    assert listed[1] == first_line


def test_helps_stand_in_their_panels(planner: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = planner("--help")
    assert answer.status == 0
    panels = [panel for panel, helps in PANELS.items() if set(helps) & {*COMMANDS, *GROUPS}]
    places = [answer.out.index(f" {panel} ─") for panel in panels]
    assert places == sorted(places)
    assert f" {LAST_PANEL} ─" not in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80
    for words, _ in FIRST_STEPS:
        assert words in answer.out
        assert words.split()[1] in PROGRAM.commands


def test_help_reads_no_command() -> None:
    code = (
        "import sys; sys.argv = ['planner', '--help']; from planner.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print('LOADED', *sys.modules)"
    )
    script = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = script.stdout.partition("LOADED")[2].split()
    assert "planner.cli.app" in loaded
    heavy = {"planner.domain", "planner.files", "planner.cli.plan.plan", "yaml", "numpy", "pandas", "rich.progress"}
    assert heavy & set(loaded) == set()


def test_an_unknown_command_names_the_nearest(planner: Command) -> None:
    answer = planner("exprot")
    assert answer.status == 2
    assert "export" in answer.err


def test_static_names_are_those_of_the_export() -> None:
    assert set(TARGET_ROWS) == set(ALL_TARGETS)
    profiles: tuple[EngineProfile, ...] = engine_profiles()
    assert set(ENGINES) == {profile.name for profile in profiles}


PLANNER = """\
#!/bin/sh
exec "$PYTHON" -c 'import sys; sys.argv[0] = "planner"; from planner.cli import main; main()' "$@"
"""
SCRIPT = """\
PATH=$PWD:$PATH
eval "$(_PLANNER_COMPLETE=source_bash planner)"
complete_words() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    "$(complete -p planner | sed 's/.*-F \\([^ ]*\\).*/\\1/')" planner
    echo "$* => ${COMPREPLY[*]}"
}
complete_words planner ex
complete_words planner cost explain --model qwen
complete_words planner export --target k
complete_words planner check ""
"""


def test_a_real_bash_completes_commands_and_names(tmp_path: Path) -> None:
    (tmp_path / "complete.sh").write_text(SCRIPT)
    (tmp_path / "planner").write_text(PLANNER)
    (tmp_path / "planner").chmod(0o755)
    shell = subprocess.run(
        ["/usr/bin/env", f"PYTHON={sys.executable}", "bash", "--norc", "complete.sh"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    offered = {line.partition(" => ")[0]: line.partition(" => ")[2].split() for line in shell.stdout.splitlines()}
    assert "export" in offered["planner ex"]
    assert offered["planner cost explain --model qwen"] == [
        name for name in shipped_models() if name.startswith("qwen")
    ]
    assert offered["planner export --target k"] == ["kserve", "kubernetes", "kueue"]
    assert offered["planner check "] == [*shipped_scenarios()]


def test_doctor_says_that_all_is_well(planner: Command) -> None:
    answer = planner("doctor", "--json")
    assert answer.status == 0
    assert answer.json["sound"] is True
    subjects = {finding["subject"]: finding for finding in answer.json["findings"]}
    assert {"python", "packages", "shipped data", "a tiny plan", "figures", "this folder"} <= set(subjects)
    assert "highs" in subjects["a tiny plan"]["seen"]


def test_doctor_says_what_is_broken_and_what_to_do(planner: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.cli.facts import doctor

    def version(name: str) -> str | None:
        return None if name in ("highspy", "plotly") else "1"

    def broken(_: object) -> None:
        raise OSError("no solver here")

    monkeypatch.setattr(doctor, "_version", version)
    monkeypatch.setattr(doctor.pipeline, "plan", broken)
    answer = planner("doctor")
    assert answer.status == 1
    assert "missing: highspy" in answer.out
    assert "pip install highspy" in answer.out
    assert "OSError: no solver here" in answer.out
    assert "Something is broken." in answer.out
