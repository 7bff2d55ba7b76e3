"""The two seams of the export. An engine knows flags and no target; a target knows objects and no flag."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from planner.domain import Plan
from planner.export.islands import ServingIsland
from planner.export.options import ExportOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """How the pods of a group find each other: texts that the target turns into the leader's address and the
    pod's index (0: the leader) before the command starts."""

    leader_address: str
    pod_index: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port that a pod listens on."""

    name: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCommand:
    """What one pod runs. `address_variables` are environment variables to be set to the pod's own address."""

    command: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    address_variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One copy of an engine: its leader, its workers (None in a group of one pod), the leader's ports with
    HTTP first, the path that answers 200 once it serves, and notes for the reader of the manifest."""

    leader: PodCommand
    worker: PodCommand | None
    ports: tuple[Port, ...]
    health_path: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredShape:
    """What a command line claims: GPUs of one copy, and over how many pods."""

    gpus: int
    pods: int


class LaunchIsland(Protocol):
    """Turns one island into an engine's commands."""

    def __call__(self, island: ServingIsland, rendezvous: Rendezvous, /) -> Launch: ...


class ReadShape(Protocol):
    """Reads GPUs and pods back from an engine's command line, for the check of finished manifests."""

    def __call__(self, arguments: Sequence[str], /) -> DeclaredShape: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An inference engine: pinned images per GPU vendor (upper case), its launch, and its reading of its own
    flags."""

    name: str
    images: Mapping[str, str]
    launch: LaunchIsland
    read_shape: ReadShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """All that a target needs. `name` is the plan's DNS label."""

    name: str
    plan: Plan
    islands: tuple[ServingIsland, ...]
    engine: Engine
    options: ExportOptions


class Target(Protocol):
    """A kind of deployment: one method, files out."""

    def manifests(self, deployment: Deployment) -> dict[str, str]:
        """File name -> text."""
        ...
