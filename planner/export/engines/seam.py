"""The engine's side of the export: how a copy of the model is started, and how its command lines are read back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from planner.domain import Phase, ServerConfig
from planner.export.engines.tiers import PodNeeds
from planner.export.islands import ServingIsland
from planner.export.objects.security.exemptions import UNTOLD_IMAGE, Exemption
from planner.export.objects.security.hardening import GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """How the pods of a group find each other: texts that the target turns into the leader's address and the
    pod's index (0: the leader) before the command starts. `port_offset` is added to every port, so that copies that
    share a host's address do not meet. `joined`: the target's own operator has the ranks of all pods meet."""

    leader_address: str
    pod_index: str
    port_offset: int = 0
    joined: bool = False


BOOTSTRAP = "bootstrap"
"""Name of the port at which a leader hands out KV caches, in engines that have one."""
HTTP, HEALTH = "http", "health"
"""Names of the first port for requests (those of further ranks are http-1 and so on), and of the one at which a pod
answers for all of its ranks, where that is another."""


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
    HTTP first, the path that answers 200 once it serves, notes for the reader of the manifest, and what the pods must
    have for its tiers. Where ranks are endpoints, workers have the leader's ports, too."""

    leader: PodCommand
    worker: PodCommand | None
    ports: tuple[Port, ...]
    health_path: str
    notes: tuple[str, ...] = ()
    needs: PodNeeds = field(default_factory=PodNeeds)

    @property
    def bootstrap_ports(self) -> tuple[int, ...]:
        """Where it hands out KV caches: one port, or none."""
        return tuple(port.number for port in self.ports if port.name == BOOTSTRAP)

    @property
    def rank_ports(self) -> tuple[Port, ...]:
        """Where requests are taken: one port, or one for each rank of a pod."""
        return tuple(port for port in self.ports if port.name == HTTP or port.name.startswith(f"{HTTP}-"))

    @property
    def probed(self) -> str:
        """The port whose answer stands for all ranks of a pod."""
        names = [port.name for port in self.ports]
        return HEALTH if HEALTH in names else names[0]


class LaunchIsland(Protocol):
    """Turns one island into an engine's commands."""

    def __call__(self, island: ServingIsland, rendezvous: Rendezvous, /) -> Launch: ...


class ReadServer(Protocol):
    """Reads what one copy of a model runs back from an engine's command line; InputError where that cannot be told."""

    def __call__(self, arguments: Sequence[str], phase: Phase, /) -> ServerConfig: ...


def _no_rank_ports(_: ServingIsland, /) -> str:
    return "the engine has one port for all ranks of a server"


def _untold(_: ServingIsland, /) -> tuple[Exemption, ...]:
    return (UNTOLD_IMAGE,)


def _one_server(_: Sequence[str], /) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An inference engine: its launch, and its reading of its own flags.

    `program`: its program in words. `http_port`: where it listens without `--port`. `drain_flag`: by which it goes on
    for so many seconds, when told to end, with the requests that it has; empty: it does so by itself. `images`: of the
    version that a deployment is for, by GPU family, else by vendor (upper case); `user` of `group` runs them (None:
    their own), and `exemptions` are what they cannot do without. `key_variable`: where it reads the key that it asks
    requests for, with `key_arguments`; empty: it asks for none. `rank_obstacle`: why the attention
    ranks of an island cannot have a port each; empty where they can. `by_rank`: whether those of a command line have,
    and `answering_ports`: all ports at which it takes requests.
    """

    name: str
    launch: LaunchIsland
    read_server: ReadServer
    program: str
    http_port: int
    drain_flag: str = ""
    rank_obstacle: Callable[[ServingIsland], str] = _no_rank_ports
    by_rank: Callable[[Sequence[str]], bool] = _one_server
    answering_ports: Callable[[Sequence[str]], tuple[int, ...]]
    images: Mapping[str, str] = field(default_factory=dict)
    user: int | None = GROUP
    group: int = GROUP
    exemptions: Callable[[ServingIsland], tuple[Exemption, ...]] = _untold
    key_variable: str = ""
    key_arguments: tuple[str, ...] = ()
