"""Guests: packages that bring commands, functions and guides, and that the planner knows by their entry points alone.

An installed guest is named by the metadata of its distribution, in the group `planner.studies`; those of a clone, which
need not be installed, by the pyproject.toml beside the package.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "planner.studies"
_PROJECT = Path(__file__).parents[1] / "pyproject.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestCommand:
    """The first line of a group's help, which lists show without reading the group; `group`: "module:attribute"."""

    help: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """What a guest brings. `panel`: of `planner --help`, where its commands stand. `functions`: for notebooks, name ->
    "module:attribute". `guides`: name -> Markdown."""

    panel: str
    commands: Mapping[str, GuestCommand]
    functions: Mapping[str, str] = field(default_factory=dict)
    guides: Mapping[str, Path] = field(default_factory=dict)


@cache
def guests() -> tuple[Guest, ...]:
    """Every guest whose package is there, by name."""
    from importlib.metadata import entry_points

    points = {point.name: point for point in entry_points(group=GROUP)} | _of_a_clone()
    candidates = (_guest(points[name]) for name in sorted(points))
    return tuple(guest for guest in candidates if guest is not None)


def load(place: str) -> Any:
    """What lies at "module:attribute"."""
    from importlib.metadata import EntryPoint

    return EntryPoint(name="", value=place, group=GROUP).load()


def guest_commands() -> dict[str, GuestCommand]:
    """The commands of all guests by name."""
    return {name: command for guest in guests() for name, command in guest.commands.items()}


def guest_functions() -> dict[str, str]:
    """The functions of all guests by name."""
    return {name: place for guest in guests() for name, place in guest.functions.items()}


def guest_guides() -> dict[str, Path]:
    """The guides of all guests by name."""
    return {name: path for guest in guests() for name, path in guest.guides.items()}


def _guest(point: "EntryPoint") -> Guest | None:
    """None where its package is gone, as metadata outlive a deleted folder; one that is broken inside fails."""
    try:
        guest: Guest = point.load()
    except ModuleNotFoundError as error:
        if f"{point.module}.".startswith(f"{error.name}."):
            return None
        raise
    return guest


def _of_a_clone() -> "dict[str, EntryPoint]":
    """The entry points in the pyproject.toml of a clone by name: they are current, what is installed may be older."""
    import tomllib
    from importlib.metadata import EntryPoint

    if not _PROJECT.is_file():
        return {}
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8")).get("project", {})
    points = project.get("entry-points", {}).get(GROUP, {})
    return {name: EntryPoint(name=name, value=value, group=GROUP) for name, value in points.items()}
