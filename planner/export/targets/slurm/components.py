"""Components of a heterogeneous Slurm job, and where in them each copy of an island runs.

symbol   meaning                                                      source
gpus     GPUs of a process                                            PodGrouping.gpus_per_pod
pods     processes of a copy                                          PodGrouping.pods
k        processes that a host holds = host's GPUs // gpus            GpuSpec.gpus_per_host
r        processes of a copy on each of its hosts                     largest divisor of pods up to k; pins say it, too
n        hosts of a copy = pods / r
q        copies that share a host = k // pods, at most the plan's     1 where n > 1
         per_node

A component asks for so many hosts of q r processes each, alike on all, so that Slurm has nothing to choose; what is
left over is a component of one host. Copies of one shape are in one component whichever islands they are of, unless
theirs must lie apart from others: Slurm starts a job only once each component could lie on hosts of its own.

Sources: sbatch(1), srun(1), heterogeneous_jobs.html of Slurm 26.11; the limit is MAX_HET_JOB_COMPONENTS of slurm.h,
which srun holds --het-group to. Slurm 22.05 gives a job of --ntasks=3 --ntasks-per-node=2 room for four, and runs steps
with --gpus-per-task one after the other where the job has --gpus-per-node: so hosts are asked for whole or alike, and
steps by --gpus-per-node.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from planner.errors import ExportError
from planner.export.engines.tiers import host_gib_per_gpu
from planner.export.islands import ServingIsland
from planner.export.objects.pods import engine_image
from planner.export.objects.scheduling import switch_domains
from planner.export.seams import Deployment, RouterProcess
from planner.export.targets.script import Launched, shares_host
from planner.export.targets.slurm.settings import OF_A_COMPONENT, SiteWords

MOST_COMPONENTS = 128
_ASW = "asw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How copies lie: `per_host` processes on each of `hosts` hosts, `shared` copies to a host. `apart`: the island
    whose copies are a component of their own, under one switch or few to a host; empty where any may join them."""

    gpu: str
    gpus: int
    per_host: int
    hosts: int
    shared: int
    apart: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A copy of an island; `pins`: its hosts in the order of its ranks, empty where Slurm chooses."""

    launched: Launched
    number: int
    pins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Copies in the order in which they take up its hosts, `shape.shared` to each; `nodes`: the hosts that it is
    pinned to."""

    shape: Shape
    copies: tuple[Copy, ...]
    nodes: tuple[str, ...] = ()

    @property
    def island(self) -> ServingIsland:
        """One of its islands; they are alike in all that it asks Slurm for."""
        return self.copies[0].launched.island

    @property
    def hosts(self) -> int:
        """How many it needs."""
        return len(self.nodes) or len(self.copies) // self.shape.shared * self.shape.hosts


def components(deployment: Deployment, launched: Sequence[Launched]) -> tuple[Component, ...]:
    """The components of the plan's job, in the order of their islands.

    Raises:
        ExportError: pins that put unlike numbers of processes on hosts, or more components than Slurm knows.
    """
    _check_names(launched)
    groups: dict[Shape, list[Copy]] = {}
    for each in launched:
        for number in range(each.island.grouping.groups):
            pins = _pins(each, number) if deployment.options.pin_nodes else ()
            groups.setdefault(_shape(each.island, pins, deployment), []).append(
                Copy(launched=each, number=number, pins=pins)
            )
    parts = tuple(
        component
        for shape, copies in groups.items()
        for component in (_pinned(shape, copies) if copies[0].pins else _unpinned(shape, copies))
    )
    if len(parts) > MOST_COMPONENTS:
        raise ExportError(
            f"Target slurm: a job has at most {MOST_COMPONENTS} components, this plan needs {len(parts)}.",
            hint="Plan with fewer islands, or choose target script and start its scripts by jobs of your own.",
        )
    return parts


def _check_names(launched: Sequence[Launched]) -> None:
    """Processes are told apart by the names that the job puts hosts in the place of."""
    names = Counter(
        f"{each.island.name}-{copy}" + (f"-{rank}" if rank else "")
        for each in launched
        for copy in range(each.island.grouping.groups)
        for rank in range(each.island.grouping.pods)
    )
    if twice := next((name for name, count in names.items() if count > 1), None):
        raise ExportError(
            f"Target slurm: processes must have names of their own, {twice} are two.",
            hint="Rename one of the islands whose names begin alike.",
        )


def check_ports(part: Component, processes: Sequence[RouterProcess]) -> None:
    """The router's programs run on the first host of `part`, the first component, beside the engines there.

    Raises:
        ExportError: a program and an engine listen on one port.
    """
    first = part.copies[: part.shape.shared]
    ports = {port.number: copy for copy in first for port in copy.launched.launches[copy.number].ports}
    for process in processes:
        for number in (process.port, *(number for _, number in process.more_ports)):
            if number in ports:
                raise ExportError(
                    f"Target slurm, router's program {process.name}: must have port {number} of the job's first host, "
                    f"where copy {ports[number].number} of {ports[number].launched.island.id} listens.",
                    hint="Take --router none, or target script with the programs on hosts of their own.",
                )


def _pins(launched: Launched, copy: int) -> tuple[str, ...]:
    ranks = range(launched.island.grouping.pods)
    return tuple(launched.hosts[copy, rank][0] for rank in ranks)


def _shape(island: ServingIsland, pins: Sequence[str], deployment: Deployment) -> Shape:
    pods, gpus = island.grouping.pods, island.grouping.gpus_per_pod
    fitting = island.gpu.gpus_per_host // gpus
    per_host = max(count for count in range(1, min(pods, fitting) + 1) if pods % count == 0)
    if pins:
        counts = Counter(pins)
        per_host = counts[pins[0]]
        if set(counts.values()) != {per_host} or any(pins[at] != pins[at - at % per_host] for at in range(pods)):
            raise _unlike(island)
    hosts = pods // per_host
    shared = 1 if hosts > 1 or pins else max(1, min(fitting // pods, island.per_node or fitting))
    apart = island.id if island.per_node or (hosts > 1 and _under_one_switch(island, deployment)) else ""
    return Shape(gpu=island.gpu.name, gpus=gpus, per_host=per_host, hosts=hosts, shared=shared, apart=apart)


def _unlike(island: ServingIsland) -> ExportError:
    return ExportError(
        f"Target slurm, island {island.id}: a component has as many processes on each of its hosts, and the placement "
        "puts unlike numbers of them on the island's.",
        hint="Leave --pin-nodes out, and Slurm chooses the hosts.",
    )


def _unpinned(shape: Shape, copies: Sequence[Copy]) -> Iterator[Component]:
    full = len(copies) // shape.shared * shape.shared
    if full:
        yield Component(shape=shape, copies=tuple(copies[:full]))
    if remaining := len(copies) - full:
        yield Component(shape=replace(shape, shared=remaining), copies=tuple(copies[full:]))


def _pinned(shape: Shape, copies: Sequence[Copy]) -> Iterator[Component]:
    """A component for each number of copies that a host has."""
    crowds = Counter(host for copy in copies for host in dict.fromkeys(copy.pins))
    for shared in sorted(set(crowds.values()), reverse=True):
        here = tuple(copy for copy in copies if crowds[copy.pins[0]] == shared)
        if any(crowds[host] != shared for copy in here for host in copy.pins):
            raise _unlike(here[0].launched.island)
        nodes = tuple(sorted({host for copy in here for host in copy.pins}))
        yield Component(shape=replace(shape, shared=shared), copies=here, nodes=nodes)


def directives(component: Component, deployment: Deployment, site: SiteWords) -> Iterator[str]:
    """What a component asks of Slurm."""
    island, shape, options = component.island, component.shape, deployment.options
    settings = deployment.plan.scenario.placement
    processes = shape.shared * shape.per_host
    yield f"--nodes={component.hosts}"
    yield f"--ntasks-per-node={processes}"
    yield f"--cpus-per-task={options.cpus(settings) * shape.gpus}"
    yield f"--gpus-per-node={site.gres(island.gpu, processes * shape.gpus)}"
    if not shares_host(island):
        yield "--exclusive"
    yield f"--mem={_memory(island, deployment, processes * shape.gpus)}"
    for option in OF_A_COMPONENT:
        if word := site.of(option, shape.gpu):
            yield f"--{option}={word}"
    if component.nodes:
        yield f"--nodelist={','.join(component.nodes)}"
    elif shape.hosts > 1 and _under_one_switch(island, deployment):
        yield "--switches=1"


def _memory(island: ServingIsland, deployment: Deployment, gpus: int) -> str:
    """Of so many GPUs on a host; 0, all that there is, where the host is the copy's and nobody says how much."""
    options = deployment.options
    if options.memory_gib_per_gpu is None and not shares_host(island):
        return "0"
    return f"{(options.memory_gib(deployment.plan.scenario.placement) + host_gib_per_gpu(island)) * gpus}G"


def _under_one_switch(island: ServingIsland, deployment: Deployment) -> bool:
    """Whether the placement has all of the island's copies under one access switch."""
    switches = [above for (name, _), above in switch_domains(deployment, _ASW).items() if name == island.id]
    return bool(switches) and len(set[str]().union(*switches)) == 1 and "" not in switches[0]


def copy_rows(number: int, component: Component, deployment: Deployment, site: SiteWords) -> Iterator[str]:
    """The copies of component `number` as the job's script reads them (`slurm.sh`, start_copy)."""
    shape = component.shape
    cpus = deployment.options.cpus(deployment.plan.scenario.placement) * shape.gpus
    for at, copy in enumerate(component.copies):
        island, launch = copy.launched.island, copy.launched.launches[copy.number]
        probed = next(port.number for port in launch.ports if port.name == launch.probed)
        row = (
            *(number, at // shape.shared * shape.hosts, shape.hosts, island.name, copy.launched.file, copy.number),
            *(shape.per_host, shape.gpus, site.gres(island.gpu, shape.per_host * shape.gpus), cpus),
            *(
                _memory(island, deployment, shape.per_host * shape.gpus),
                probed,
                site.image(shape.gpu, engine_image(island, deployment)),
            ),
            *(island.gpu.vendor.upper(), ",".join(dict.fromkeys(copy.pins)) or "-"),
        )
        yield " ".join(map(str, row))
