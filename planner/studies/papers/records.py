"""What a document claims, what came out here, and how we judge that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Verdict(StrEnum):
    """`holds`: as claimed. `close`: short of it, by how much is said. `explained`: it differs, and why is shown.
    `open`: it differs, and nobody can say why from what is published."""

    HOLDS = "holds"
    CLOSE = "close"
    EXPLAINED = "explained"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A long run whose raw table is kept: the command line that made it, the day, its CPU-seconds."""

    name: str
    command: str
    date: str
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A row of the page. `place`: figure, table or section. `published` and `ours`: the figures in words, with units.

    `reason` must say why where the verdict is not `holds`. `also`: other runs that the row's figures come from.
    """

    place: str
    words: str
    published: str
    ours: str
    verdict: Verdict
    run: Run
    reason: str = ""
    also: tuple[Run, ...] = ()

    @property
    def commands(self) -> dict[str, Run]:
        """All its runs by command, `run` first."""
        return {run.command: run for run in (self.run, *self.also)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A document; `studies`: folders of planner/studies whose `claims.py` reads what ran for it."""

    title: str
    reference: str
    studies: tuple[str, ...]


class Results(Protocol):
    """Raw results of a study."""

    def table(self, name: str, /) -> list[Mapping[str, str]]:
        """Rows of `name`.csv, cells by column. InputError where it is not there or is no table."""

    def run(self, name: str, /) -> Run:
        """What made `name`.csv. InputError where runs.csv does not say it."""


class Claims(Protocol):
    """What a study's `claims.py` has."""

    def claims(self, results: Results, /) -> Iterator[Claim]:
        """Each published figure with ours, computed from raw results."""
