"""What it takes to get from one plan to another: servers that stay, and those that start, stop, turn or move."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.layout import Phase
from planner.domain.serving.server import ServerConfig

_Seconds = Annotated[float, Bounds(low=0, high=86_400)]

LEAST_SHARE = 0.9
"""Of the rate, that no step undercuts unless it is asked for: an assumption, the headroom that many fleets have."""


class ChangeKind(StrEnum):
    """What becomes of servers.

    `keep`: nothing. `reroute`: the engine runs on, the router sends it other prompts. `restart`: the same GPUs with the
    same parallelism, started with other flags. `turn`: the same GPUs with the same parallelism do another phase.
    `resize`: GPUs of servers that stop are put together to others. `move`: the same server on other GPUs. `start`: on
    GPUs that did nothing. `stop`: nothing takes their place.
    """

    KEEP = "keep"
    REROUTE = "reroute"
    RESTART = "restart"
    TURN = "turn"
    RESIZE = "resize"
    MOVE = "move"
    START = "start"
    STOP = "stop"

    @property
    def runs_on(self) -> bool:
        """Whether the engine is not touched."""
        return self in (ChangeKind.KEEP, ChangeKind.REROUTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSettings:
    """What a change takes: a node reads weights at `storage_gb_s`, engines are ready `start_s` after them, requests in
    flight are waited for at most `drain_s`. `network_gb_s`: what the storage's network carries to a node (None: what
    its NICs do where the scenario has a network, else it does not limit)."""

    storage_gb_s: Annotated[float, Bounds(above=0, high=1e4), Key("at which a node reads weights", unit="GB/s")] = 2.0
    network_gb_s: Annotated[
        float | None, Bounds(above=0, high=1e4), Key("that the network carries", unit="GB/s", sparse=True)
    ] = None
    start_s: Annotated[_Seconds, Key("from the weights to the first request: graphs, warm-up", unit="s")] = 120.0
    drain_s: Annotated[_Seconds, Key("at most, for requests in flight", unit="s")] = 300.0


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ServerRole:
    """A server's GPUs, how it is started, and what it does: a phase of prompts of `start` <= tokens < `end`. `island`:
    id of its island in its plan."""

    gpu: str
    phase: Phase
    server: ServerConfig
    start: int
    end: int
    island: str = ""

    @property
    def gpus(self) -> int:
        """GPUs of one such server."""
        return self.server.parallel.devices


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChange:
    """`count` servers that go from `before` to `after` (None: were not there, are there no more). `drain_s` before the
    old ones stop, `load_s` until the new ones serve; 0 where the engine runs on."""

    kind: ChangeKind
    before: ServerRole | None
    after: ServerRole | None
    count: int
    drain_s: float = 0.0
    load_s: float = 0.0

    @property
    def gpus(self) -> int:
        """GPUs that it touches: the larger of both sides."""
        return self.count * max(role.gpus for role in (self.before, self.after) if role is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """All servers of two plans, each once. `gpu_seconds`: GPU time that serves nothing meanwhile; `usd`: its rent
    (None: of GPUs whose price is not known)."""

    changes: tuple[ServerChange, ...]
    gpu_seconds: float
    usd: float | None

    def servers(self, *kinds: ChangeKind) -> int:
        """Servers of these kinds of change."""
        return sum(change.count for change in self.changes if change.kind in kinds)

    @property
    def servers_before(self) -> int:
        """Servers of the old plan."""
        return sum(change.count for change in self.changes if change.before is not None)

    @property
    def servers_running_on(self) -> int:
        """Servers whose engines are not touched."""
        return sum(change.count for change in self.changes if change.kind.runs_on)

    @property
    def running_on_share(self) -> float:
        """Of the old plan's servers (1 where it has none)."""
        before = self.servers_before
        return self.servers_running_on / before if before else 1.0

    @property
    def gpus_touched(self) -> int:
        """GPUs of servers whose engines do not run on; what starts takes those of what stops first."""
        touched = [change for change in self.changes if not change.kind.runs_on]
        return sum(max(self._gpus(touched, gpu)) for gpu in {role.gpu for c in touched for role in _roles(c)})

    @staticmethod
    def _gpus(changes: list[ServerChange], gpu: str) -> tuple[int, int]:
        """GPUs of a type in servers that end, and in those that begin."""
        ends = sum(c.count * c.before.gpus for c in changes if c.before is not None and c.before.gpu == gpu)
        begins = sum(c.count * c.after.gpus for c in changes if c.after is not None and c.after.gpu == gpu)
        return ends, begins


def _roles(change: ServerChange) -> list[ServerRole]:
    return [role for role in (change.before, change.after) if role is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """A plan of the frontier of rate against change: the best rate (or the least cost, with a target) for so many GPUs
    touched. `value`, `bound` in the objective's unit; `chosen`: it is the new plan. `pools`: as few are simpler."""

    gpus_touched: int
    running_on_share: float
    rate_rps: float
    value: float
    bound: float | None
    change_usd: float | None
    pools: int
    label: str = ""
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LostServers:
    """What a deployment has lost: `gpus` by type, `servers` by island, and `nodes` of a placed plan by name.

    Of the GPUs of a type idle ones go first, then servers of its largest pool. The inventory of the new scenario is
    still that of before the loss.
    """

    gpus: tuple[tuple[str, int], ...] = ()
    servers: tuple[tuple[str, int], ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLimits:
    """How far a new plan may go. `most_gpus` touched; `least_running_on`: share of the old servers whose engines run
    on; `turns_only`: GPUs stay grouped as they are, servers turn or start with other flags; `horizon_hours`: a change
    must pay within so long (its USD, spread over this time, join an objective that counts money). None: no limit.

    `give_up`: share of what a plan from scratch is worth that may be lost for touching fewer GPUs.
    """

    most_gpus: Annotated[int | None, Bounds(low=0, high=10_000_000), Key("touched at most", sparse=True)] = None
    least_running_on: Annotated[
        float | None, Bounds(low=0, high=1), Key("share of servers that run on, at least", sparse=True)
    ] = None
    turns_only: Annotated[bool, Key("nothing but turns and other flags", sparse=True)] = False
    horizon_hours: Annotated[
        float | None, Bounds(above=0, high=1e6), Key("within which a change must pay", sparse=True)
    ] = None
    give_up: Annotated[float, Bounds(low=0, below=1), Key("of a plan from scratch, for fewer GPUs touched")] = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePolicy:
    """What a scenario says of changes of its plans: what they take, how far they may go, and the `least_share` of the
    rate that no step of a roll-out undercuts."""

    times: Annotated[ChangeSettings, Key("what a change takes")] = field(default_factory=ChangeSettings)
    limits: Annotated[ChangeLimits, Key("how far a change may go")] = field(default_factory=ChangeLimits)
    least_share: Annotated[float, Bounds(low=0, high=1), Key("of the rate, at every step of a roll-out")] = LEAST_SHARE
