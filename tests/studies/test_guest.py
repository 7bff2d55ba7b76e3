"""What users see of the studies: the function `planner.study`, two groups of commands, a guide, names in helps."""

import re
from typing import Any

import pytest
import typer
from IPython.core.interactiveshell import InteractiveShell

import planner
from planner.cli.app import build
from planner.cli.docs.markdown_pages import commands_text, guide_text
from planner.cli.program.listing import short_help
from planner.studies.guest import STUDIES
from planner.studies.policies.online.policies import NAMES

PROGRAM: Any = typer.main.get_command(build())
MOST_CHARACTERS = 20_000


@pytest.fixture
def shell() -> InteractiveShell:
    return InteractiveShell.instance()


def test_the_function_is_the_packages() -> None:
    from planner.studies.front import study

    assert "study" in dir(planner)
    assert planner.study is study
    assert "planner.study(" in (study.__doc__ or "")


@pytest.mark.parametrize("name", STUDIES.commands)
def test_the_list_says_what_the_command_says(name: str) -> None:
    first_line = " ".join((PROGRAM.commands[name].help or "").split("\n\n")[0].split())
    assert short_help(name) == (STUDIES.panel, first_line)


def test_the_guide_is_a_page_of_the_reference() -> None:
    assert guide_text("studies").startswith("# ")


def test_the_help_names_all_policies() -> None:
    text = commands_text(typer.Context(PROGRAM, info_name="planner"))
    (row,) = [line for line in text.splitlines() if line.startswith("| `--policy ") and "fgd" in line][:1]
    assert {name for name in (*NAMES, "adaptive") if not re.search(rf"(?<![\w-]){name}(?![\w-])", row)} == set()


def test_cards_of_studies_are_short(shell: InteractiveShell) -> None:
    studies = (
        planner.study("spot", nodes=10, days=2, loads=(0.1,), seeds=(0,)),
        planner.study("policies", policies=("fgd", "random"), seeds=(42,)),
    )
    for study in studies:
        data, _ = shell.display_formatter.format(study)
        assert all(len(text) < MOST_CHARACTERS for text in data.values())
        assert "<table" in data["text/html"]
        assert "color:" not in data["text/html"].replace("border", "")


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("poker", {}, "must be one of chapter5"),
        ("spot", {"bet": 3}, "got bet"),
        ("preemption", {"methods": ("luck",)}, "methods: must be one of"),
    ],
)
def test_what_cannot_be_used_is_refused(name: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(planner.InputError, match=words) as caught:
        planner.study(name, **settings)
    assert caught.value.hint
