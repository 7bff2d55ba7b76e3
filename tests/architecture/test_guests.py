"""Guests hang on the planner by entry points alone: without their folder and their tests the core is whole."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_tree import PACKAGE, ROOT, sources

from planner import guests

COPIED = ("planner", "tests", "gpu_specs", "workloads", "notebooks", ".ci")
TELLING = (
    "test_house_rules.py",
    "test_program.py",
    "test_hints.py",
    "test_readme.py",
)
"""Tests of the core that meet every module, command, hint, guide and link, in seconds."""
WHOLE = ("tests/api", "tests/cli", "tests/package", "tests/readme", "tests/fuzz", "tests/notebooks")
"""Folders of tests that meet whatever a guest could bring."""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project without the studies and their tests."""
    folder = tmp_path_factory.mktemp("core")
    dropped = shutil.ignore_patterns("studies")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=dropped)
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, folder)
    assert not (folder / "planner" / "studies").exists()
    return folder


def run(core: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(core), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, *words], cwd=core, env=environment, capture_output=True, text=True, check=False
    )


def test_no_text_of_the_core_names_a_module_of_a_guest() -> None:
    """An import is one way; a name in a table or a text that is loaded later would be another."""
    named = [
        source.name for source in sources() if source.part != "studies" and "planner.studies." in _text(source.path)
    ]
    assert named == []


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_without_the_studies_help_and_front_show_none(core: Path) -> None:
    shown = run(core, "-m", "planner", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "cheapest" in shown.stdout
    assert not {"Studies", "simulate", "study"} & set(shown.stdout.replace("─", " ").split())
    for word in ("simulate", "study"):
        refused = run(core, "-m", "planner", word, "--help")
        assert (refused.returncode, word in refused.stderr) == (2, True)
    front = run(core, "-c", "import planner; print(planner.__file__, *dir(planner)); planner.study")
    assert front.stdout.startswith(str(core))
    assert "plan" in front.stdout.split()
    assert "study" not in front.stdout.split()
    assert "AttributeError: module 'planner' has no attribute 'study'" in front.stderr
    assert run(core, "-m", "planner", "docs", "--out", "docs").returncode == 0
    assert not (core / "docs" / "studies.md").exists()
    assert "planner simulate" not in _text(core / "docs" / "commands.md")


def test_without_the_studies_the_core_passes_its_own_tests(core: Path) -> None:
    telling = (str(path) for path in sorted((core / "tests").glob("*/test_*.py")) if path.name in TELLING)
    others = ("the_scenarios_are_scenarios", "doctor", "real_bash")  # the core's own files, the machine, the shell
    _passes(core, *telling, "-k", " and ".join(f"not {name}" for name in others))


@pytest.mark.study
def test_without_the_studies_all_that_a_guest_could_touch_passes(core: Path) -> None:
    _passes(core, *WHOLE)


def _passes(core: Path, *tests: str) -> None:
    done = run(core, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.fixture
def fresh() -> Iterator[None]:
    """Guests looked for anew, here and afterwards."""
    guests.guests.cache_clear()
    yield
    guests.guests.cache_clear()


def install(folder: Path, value: str, code: str = "") -> None:
    """A distribution whose metadata name a guest, and the guest's module."""
    metadata = folder / "poker-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: poker\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{guests.GROUP}]\npoker = {value}\n")
    if code:
        (folder / "poker.py").write_text(code)


POKER = """
import typer
from planner.guests import Guest, GuestCommand
deal = typer.Typer(help="Deal.", no_args_is_help=True)
deal.command("cards")(lambda: print("five cards"))
deal.command("chips")(lambda: None)
GUEST = Guest(panel="Games", commands={"deal": GuestCommand(help="Deal.", group="poker:deal")},
    functions={"bluff": "poker:bluff"})
def bluff(): return "a pair of twos"
"""


def test_an_installed_guest_brings_its_command_and_its_function(tmp_path: Path) -> None:
    install(tmp_path, "poker:GUEST", POKER)
    code = "import planner, sys\nprint(planner.bluff(), 'bluff' in dir(planner))\nfrom planner.cli import main\nmain()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), str(tmp_path)])}
    for words, said in ((["--help"], "Games"), (["deal", "cards"], "five cards")):
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert done.stdout.startswith("a pair of twos True\n"), done.stderr
        assert said in done.stdout


def test_a_guest_whose_package_is_gone_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    install(tmp_path, "poker:GUEST")
    monkeypatch.syspath_prepend(tmp_path)
    assert "deal" not in guests.guest_commands()


def test_a_guest_that_is_broken_inside_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    install(tmp_path, "poker:GUEST", "import no_such_library")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        guests.guests()
