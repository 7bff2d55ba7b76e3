"""Lock files read, and which packages a user's installation brings in."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
DEPENDENCIES_LOCK = ROOT / "planner/files/locks/dependencies.txt"
TORCH_LOCK = ROOT / "planner/files/locks/torch-cpu.txt"
ROUTER_LOCK = ROOT / "planner/export/routers/vllm_router_image/requirements.txt"
TORCH = "torch"
PYTHONS = ("3.11", "3.12", "3.13")
_ENTRY = re.compile(r"([a-z0-9-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


@dataclass(frozen=True, slots=True)
class Locked:
    """A package of a lock file."""

    version: str
    hashes: tuple[str, ...]


def read_lock(path: Path) -> dict[str, Locked]:
    """The entries by name. AssertionError where anything but a comment on top and entries with SHA-256 stands there."""
    text = re.sub(r"\A(?:#.*\n)+", "", path.read_text(encoding="utf-8"))
    entries = {}
    for match in _ENTRY.finditer(text):
        assert match[1] not in entries, f"{path.name}: {match[1]} twice"
        entries[match[1]] = Locked(match[2], tuple(re.findall(r"sha256:(\S+)", match[3])))
    assert _ENTRY.sub("", text) == "", f"{path.name} holds what is no entry"
    return entries


def pinned(path: Path) -> dict[str, str]:
    """Version by name of lines `NAME==VERSION`."""
    rows = re.findall(r"^([\w.-]+)==(\S+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in rows}


OF_TESTS = ("dev", "peer")
"""Extras that no user asks for."""


def user_closure() -> set[str]:
    """Names of all that the planner with every extra but those of tests brings in, whichever Python of ours on Linux,
    as the packages installed here say."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"], *(text for extra in extras if extra not in OF_TESTS for text in extras[extra])]
    return {name for python in PYTHONS for name in _closure([Requirement(text) for text in texts], python)}


def _closure(todo: list[Requirement], python: str) -> set[str]:
    seen: set[tuple[str, str]] = set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                todo += _needed(name, extra, python)
    return {name for name, _ in seen}


def _needed(name: str, extra: str, python: str) -> Iterator[Requirement]:
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    here = {"python_version": python, "python_full_version": f"{python}.9", "extra": extra, **linux}
    for requirement in map(Requirement, requires(name) or ()):
        if requirement.marker is None or requirement.marker.evaluate(here):
            yield requirement
