"""The seams of the export. An engine, whose side is `engines.seam`, knows flags and no target; a target knows objects
and no flag; a router knows who takes which lengths, and neither."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from planner.domain import ModelSpec, Phase, Plan, RouterBehaviour, RouterGrid
from planner.domain.serving.deploy import COUNTS_BYTES
from planner.domain.serving.programs import ENGINE_ROWS, Surroundings
from planner.domain.serving.targets import TARGET_ROWS, Reach, TargetRow, target_row
from planner.export.engines.seam import Engine, Launch
from planner.export.found import Kind, Manifest
from planner.export.islands import ServingIsland
from planner.export.objects.names import weights_location
from planner.export.objects.security.exemptions import Exemption
from planner.export.options import ExportOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """All that a target needs. `name` is the plan's DNS label.

    `grid`: the uniform grid that the plan's routing table is on, where it is on one; for routers that can run no other.
    `intervals`: island -> the lengths (start, end; tokens) that it serves, of those that serve one interval.
    `router`: who executes the routing; None: whoever reads the routing table. `unrouted`: why the target's own router
    does not. `slowest_step_ms`: of each phase that the plan routes.
    """

    name: str
    plan: Plan
    islands: tuple[ServingIsland, ...]
    engine: Engine
    target: "Target"
    options: ExportOptions
    grid: RouterGrid | None = None
    intervals: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    router: "Router | None" = None
    unrouted: str = ""
    slowest_step_ms: Mapping[Phase, float] = field(default_factory=dict)

    @property
    def surroundings(self) -> Surroundings:
        """What a router's choice depends on; ranks count as its endpoints where those of all servers are, of an engine
        that has ports for them."""
        decoding = [island for island in self.islands if island.phase is Phase.DECODE]
        taking = [island for island in self.islands if island.phase is not Phase.DECODE]
        has_ports = ENGINE_ROWS[self.engine.name].ranks_since is not None
        ranks, decode_ranks = (
            has_ports and all(island.by_rank or island.parallel.dp == 1 for island in islands)
            for islands in (taking, decoding)
        )
        return Surroundings(
            engine=self.engine.name,
            ranks=ranks,
            decode_ranks=decode_ranks,
            counts_bytes=self.options.router_counts == COUNTS_BYTES,
        )

    @property
    def behaviour(self) -> RouterBehaviour:
        """How the router chooses; there must be one."""
        assert self.router is not None, "asked of deployments with a router"
        return self.router.behaviour(self.plan, self.surroundings)

    @property
    def chooses(self) -> str:
        """How the router chooses among the plan's servers, in words."""
        return self.behaviour.words([island.phase for island in self.islands])


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where an island answers: one Service over its groups, and the leader of each group as `host:port`.

    `health_path` of the engine. `bootstrap_ports`: where each leader hands out KV caches, one for all where leaders
    have no names; empty where the engine has no such port. `selector`: labels that the answering pods alone have.
    Where attention ranks are endpoints, `rank_ports` are those of a pod's ranks, `port` the first of them, and `ranks`
    all ranks of all copies as `host:port`, where pods have names.
    """

    island: ServingIsland
    service: str
    port: int
    leaders: tuple[str, ...]
    health_path: str = ""
    bootstrap_ports: tuple[int, ...] = ()
    selector: Mapping[str, str] = field(default_factory=dict)
    rank_ports: tuple[int, ...] = ()
    ranks: tuple[str, ...] = ()

    @property
    def ports(self) -> tuple[int, ...]:
        """Where a pod takes requests."""
        return self.rank_ports or (self.port,)

    @property
    def addresses(self) -> tuple[str, ...]:
        """What a router can choose among, as `host:port`: ranks, or else leaders."""
        return self.ranks or self.leaders


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFiles:
    """What a target writes: files, name -> text, and where its islands answer; none where nobody is served."""

    files: Mapping[str, str]
    endpoints: tuple[Endpoint, ...] = ()


class RenderManifests(Protocol):
    """Turns a deployment into files; raises ExportError where the target cannot express it."""

    def __call__(self, deployment: Deployment, /) -> TargetFiles: ...


class SelectPods(Protocol):
    """The labels that all pods of an island have, and no others."""

    def __call__(self, island: ServingIsland, deployment: Deployment, /) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterProcess:
    """A program that takes requests in front of the engines, or in front of other such programs.

    `name`: its object's, a DNS label, and the host at which others reach it. `command`: program and arguments; the
    text `CONFIG_FOLDER` in them stands for the folder that holds `config`, (file name, text) pairs, and `$(NAMESPACE)`
    for the namespace, which the variable NAMESPACE holds. `health_path` answers 200 at `port` once it takes requests.
    `more_ports`: further ones, (name, number), at which other programs of the router reach it.
    `watches_pods`: it asks the API server for pods by label. `resolves`: islands whose pods it finds by name, so that
    `pods_service` of each, and of each rank, has to resolve to all of them. `image` holds the program. `grace_s`: how
    long requests in flight may take once it is told to end. `secrets`: variables, each with name and key of a Secret.
    """

    name: str
    image: str
    command: tuple[str, ...]
    port: int
    health_path: str
    more_ports: tuple[tuple[str, int], ...] = ()
    config: tuple[tuple[str, str], ...] = ()
    replicas: int = 1
    watches_pods: bool = False
    resolves: tuple[Endpoint, ...] = ()
    cpus: int = 1
    memory_mib: int = 1024
    grace_s: int = 60
    secrets: tuple[tuple[str, tuple[str, str]], ...] = ()
    notes: tuple[str, ...] = ()


CONFIG_FOLDER = "{config}"
"""In a router's command: the folder of its configuration, which the target puts in its place."""
NAMESPACE = "NAMESPACE"
"""The variable that holds a program's Kubernetes namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterFiles:
    """What a router adds to an export: files of its own, and programs that the target brings into its own form."""

    files: Mapping[str, str] = field(default_factory=dict)
    processes: tuple[RouterProcess, ...] = ()


class RenderRouter(Protocol):
    """A router's configuration; raises ExportError where it cannot execute the plan's routing."""

    def __call__(self, deployment: Deployment, endpoints: Sequence[Endpoint], /) -> RouterFiles: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a deployment: shell `commands` to run, `looks` that show whether they did it, `undo` to go back."""

    title: str
    why: str
    commands: tuple[str, ...]
    looks: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()


class TellSteps(Protocol):
    """What is to be done for a target or a router that is not applying objects; `files`: name -> text, as written."""

    def __call__(self, files: Mapping[str, str], /) -> tuple[Step, ...]: ...


class RenderProcesses(Protocol):
    """Turns programs into a target's files, name -> text."""

    def __call__(self, processes: Sequence[RouterProcess], deployment: Deployment, /) -> dict[str, str]: ...


class PodLabels(Protocol):
    """Labels or annotations by which a router picks the pods of an island that answer requests."""

    def __call__(self, island: ServingIsland, deployment: Deployment, /) -> dict[str, str]: ...


class PodAnnotations(Protocol):
    """What a router reads of the pods of an island once it has picked them."""

    def __call__(self, island: ServingIsland, deployment: Deployment, launch: Launch, /) -> dict[str, str]: ...


class RankObstacle(Protocol):
    """Why a router cannot choose among the attention ranks of an island, in words; empty where it can."""

    def __call__(self, island: ServingIsland, deployment: Deployment, /) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Where a deployment takes requests: `host` and `port` of a Service, or an InferencePool. `model`: the name by
    which its engines know the model; `names`: of services, to which they answer, too."""

    deployment: str
    model: str
    names: tuple[str, ...] = ()
    host: str = ""
    port: int = 0
    health_path: str = "/health"
    pool: str = ""


class FindEntry(Protocol):
    """The entry with its place, read from a target's objects; None where none of them takes requests for all."""

    def __call__(self, entry: Entry, manifests: Sequence[Manifest], /) -> Entry | None: ...


class InnerConfig(Protocol):
    """The router's own configuration, for targets whose objects hold it; None where the plan's islands are not all in
    one such object."""

    def __call__(self, deployment: Deployment, /) -> dict[str, Any] | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """A program, not ours, that executes a plan's routing.

    `needs`: how it can come to a target's servers, the best way first; `engines` whose hand-over of KV caches it knows.
    `behaviour`: what it goes by and whom it chooses, for a plan; a replay prices that. `kinds` as of a `Target`.
    `pod_labels` and `pod_annotations` are put on the pods that answer; `served_name`: what its engines must call the
    model (None: whatever they do). `inner`: its configuration inside a target's own object. `steps`: what is to be done
    for it that is not `kubectl apply`. `counts_bytes`: it can, where that is asked for. `rank_obstacle`: why it cannot
    choose among the attention ranks of an island; None: it chooses servers, and leaves ranks to their engines.
    `keeps_lanes`: it pairs no engines of different versions while these are upgraded. `requests_metric`: the counter of
    requests that come to it, with the label model_name, as Prometheus has it (empty: it exports none). `passes_key`:
    requests reach engines with the key that clients give, and none without.
    """

    name: str
    needs: tuple[Reach, ...]
    engines: tuple[str, ...]
    render: RenderRouter
    behaviour: Callable[[Plan, Surroundings], RouterBehaviour]
    pod_labels: PodLabels | None = None
    pod_annotations: PodAnnotations | None = None
    served_name: Callable[[Deployment], str] | None = None
    inner: InnerConfig | None = None
    kinds: tuple[Kind, ...] = ()
    steps: TellSteps | None = None
    counts_bytes: bool = False
    rank_obstacle: RankObstacle | None = None
    keeps_lanes: bool = False
    requests_metric: str = ""
    passes_key: bool = False

    @property
    def targets(self) -> tuple[str, ...]:
        """Whose servers it reaches, the best first."""
        return tuple(
            dict.fromkeys(name for way in self.needs for name, row in TARGET_ROWS.items() if way in row.offers)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFacts:
    """What NetworkPolicies have to know of a target's pods. `egress`: all that they reach is known here, and no
    operator tells them more. `together`: whatever is of a plan speaks with each other, routers and engines alike, and
    requests come in at `entry_port`."""

    egress: bool = True
    together: bool = False
    entry_port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A kind of deployment: the engines that it can start (unsaid: whatever it is told), its files, and how its own
    kinds of object are read back.

    Kinds that every target may emit (Service, ConfigMap and so on) are in `checking.structure` and need not be listed.
    `unheeded`: names of options that nothing in its files can carry; `options`: of those that no other target's can.
    `by_grid`: its routers know a uniform grid of lengths and no shares, so plans are brought onto one first.
    `applied`: its files are Kubernetes objects, the routing table among them; else that is a file for people to read.
    `named`: engines are started with the model's own name; else they know it by where they load it from.
    `processes`: how it starts programs of routers; None where it cannot. `steps`: how its engines are started, where
    not by `kubectl apply`. `pods_of`: how evictions of an island's pods can be bounded; None where nothing is evicted.
    `rank_obstacle`: why attention ranks of an island cannot be endpoints there; None: they can wherever the engine
    gives them ports. `exemptions`: what all of its pods cannot do without. `network`: who speaks to them.
    `scaled`: version and kind of the object that runs an island alone and has a scale subresource.
    `entry`: where its own objects take a plan's requests; None: at a router's.
    """

    name: str
    manifests: RenderManifests
    engines: tuple[str, ...] = tuple(ENGINE_ROWS)
    kinds: tuple[Kind, ...] = ()
    unheeded: tuple[str, ...] = ("namespace",)
    options: tuple[str, ...] = ()
    by_grid: bool = False
    applied: bool = True
    named: bool = False
    processes: RenderProcesses | None = None
    steps: TellSteps | None = None
    pods_of: SelectPods | None = None
    rank_obstacle: RankObstacle | None = None
    exemptions: tuple[Exemption, ...] = ()
    network: NetworkFacts = field(default_factory=NetworkFacts)
    scaled: tuple[str, str] | None = None
    entry: "FindEntry | None" = None

    @property
    def row(self) -> TargetRow:
        """What routers know of it."""
        return target_row(self.name)

    def model_name(self, model: ModelSpec, /) -> str:
        """What its engines call the model by themselves. Raises InputError where weights lie nowhere."""
        return model.name if self.named else weights_location(model.name, model.uri)
