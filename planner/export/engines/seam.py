"""The engine's side of the export: how a copy of the model is started, and how its command lines are read back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from planner.domain import DeployedIsland, Phase, ServerConfig
from planner.export.engines.groups import FoundGroup, LineFault
from planner.export.islands import ServingIsland


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """How the pods of a group find each other: texts that the target turns into the leader's address and the
    pod's index (0: the leader) before the command starts. `port_offset` is added to every port, so that copies that
    share a host's address do not meet."""

    leader_address: str
    pod_index: str
    port_offset: int = 0


BOOTSTRAP = "bootstrap"
"""Name of the port at which a leader hands out KV caches, in engines that have one."""


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

    @property
    def bootstrap_ports(self) -> tuple[int, ...]:
        """Where it hands out KV caches: one port, or none."""
        return tuple(port.number for port in self.ports if port.name == BOOTSTRAP)


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


class ReadServer(Protocol):
    """Reads what one copy of a model runs back from an engine's command line; InputError where that cannot be told."""

    def __call__(self, arguments: Sequence[str], phase: Phase, /) -> ServerConfig: ...


class CheckFlags(Protocol):
    """Holds a command line against the island that it serves: batch and phase. Gives what must hold and what came."""

    def __call__(self, arguments: Sequence[str], island: DeployedIsland, /) -> Iterable[tuple[str, str]]: ...


class CheckModel(Protocol):
    """Holds a command line against the model and the GPUs that it is for: what the engine could not load. Gives what
    must hold and what came."""

    def __call__(self, arguments: Sequence[str], island: ServingIsland, /) -> Iterable[tuple[str, str]]: ...


class ReadProgram(Protocol):
    """The words behind the engine's program, of all words that a pod starts with; None where it is another program."""

    def __call__(self, words: Sequence[str], /) -> tuple[str, ...] | None: ...


class CheckGroup(Protocol):
    """Holds the command lines of one copy against each other: whether its pods find each other."""

    def __call__(self, group: FoundGroup, /) -> Iterable[LineFault]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An inference engine: its launch, and its reading of its own flags.

    `context_flag` is the one that bounds prompt and answer together (tokens); `check_flags` looks at what is neither
    shape nor context, `check_model` at what it makes of the model's layers. `images`: of the version that a deployment
    is for, by GPU family, else by vendor (upper case).

    `program`: its program in words. `http_port`: where it listens without `--port`; `probe_paths`: what its server
    answers with 200 once it serves; `port_flags` name further ports that others call. A pod with the flag `silent_flag`
    answers nobody. `drain_flag`: by which it goes on for so many seconds, when told to end, with the requests that it
    has; empty: it does so by itself.
    """

    name: str
    launch: LaunchIsland
    read_shape: ReadShape
    read_server: ReadServer
    context_flag: str
    check_flags: CheckFlags
    check_model: CheckModel
    program: str
    read_program: ReadProgram
    check_group: CheckGroup
    http_port: int
    probe_paths: tuple[str, ...]
    port_flags: tuple[str, ...] = ()
    silent_flag: str = ""
    drain_flag: str = ""
    images: Mapping[str, str] = field(default_factory=dict)
