"""What routers' configurations are read by, and what is read in them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.domain import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """By what a router's configuration may name an island. `hosts`: Service, leader's host, or leader's host:port ->
    island. `pods`: (island, labels of the pods that answer) pairs; `followers`: such pairs of the other
    pods of a group, which answer nobody. By island: `leaders` (host:port), `annotations` of the pods that answer, and
    `longest` prompt (tokens)."""

    hosts: Mapping[str, str]
    pods: tuple[tuple[str, Mapping[str, str]], ...] = ()
    annotations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    followers: tuple[tuple[str, Mapping[str, str]], ...] = ()
    longest: Mapping[str, int] = field(default_factory=dict)
    leaders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def selected(self, selector: Mapping[str, str]) -> tuple[str, ...]:
        """The islands whose answering pods have all labels of `selector`."""
        return tuple(island for island, labels in self.pods if selector.items() <= labels.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedServer:
    """A server in a router's configuration: by the name that stands there, an entry of `Addresses.hosts`. `weight`: of
    each of its connections' share; None where the router tells servers apart by load alone. `standing_for`: the islands
    behind a program that the name belongs to. `door`: which frontend it stands behind, weighed with the others there;
    empty: the clients' own."""

    host: str
    weight: int | None = None
    standing_for: tuple[str, ...] = ()
    door: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedInterval:
    """Servers that share the prompts of `start` <= tokens < `end` in a phase."""

    phase: Phase
    start: int
    end: int
    servers: tuple[ListedServer, ...]
