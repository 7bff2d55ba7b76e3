"""Target `script`: bare-metal launch commands, one bash script an island, and the routing table.

A *pod* of the other targets is here a process on a host: the island's script, started once for every copy and rank.
GPUs of a script = copies x ranks x GPUs of a process.

symbol     meaning                                                          unit
offset     added to every port of a copy that may share its host            port numbers
           = 128 x the copy's number among those of its GPU type
128        more ports than a copy takes next to each other (one a
           data-parallel rank, at most the 72 GPUs of a host), and no
           divisor of the distances between the engines' ports
256        copies of a GPU type that may share hosts, at most: the highest
           port of an engine, 30000 + 256 x 128, is still a port
"""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.errors import ExportError
from planner.export.engines.seam import Launch, PodCommand, Rendezvous
from planner.export.found import FoundPod, FoundWorkload, Kind, Manifest
from planner.export.islands import ServingIsland
from planner.export.objects.explanation import island_comments
from planner.export.objects.names import check_node_selector
from planner.export.objects.pods import GPU_RESOURCES, engine_image, gpu_resource, labels
from planner.export.objects.scheduling import HOSTNAME, pinned_nodes
from planner.export.objects.scripts import (
    FRONT_SCRIPT,
    LAUNCH,
    LEADER_ADDRESS,
    OWN_ADDRESS,
    RANK,
    read_launch_script,
    read_router_script,
    router_script_files,
    write_script,
)
from planner.export.objects.shared_files import island_files
from planner.export.seams import Deployment, Endpoint, Step, Target, TargetFiles
from planner.export.summary import island_annotations

KIND = "launch script"
_DEVICES = {GPU_RESOURCES["NVIDIA"]: "CUDA_VISIBLE_DEVICES", GPU_RESOURCES["AMD"]: "HIP_VISIBLE_DEVICES"}
_RESOURCES = {variable: resource for resource, variable in _DEVICES.items()}
_PORT_STRIDE = 128
_MOST_SHARING = 256
_MOST_COPIES = 1024  # whose commands are held against another export's, should somebody have made up their number
_EVERY_COPY = ("image", "ranks", "gpus", "devices", "whole_hosts", "hosts")
UNHEEDED = (
    "cpus_per_gpu",
    "memory_gib_per_gpu",
    "shared_memory_gib",
    "autoscaling",
    "monitoring",
    "namespace",
    "pod_resources",
    "topology_labels",
    "priority_class",
    "prometheus",
    "queue",
    "model_volume",
    "weights",
    "hf_secret",
    "api_key_secret",
    "network_policies",
    "client_namespaces",
    "load_gb_per_s",
    "rdma",
    "hugepages",
    "nccl_ib_hca",
    "socket_interface",
    "compute_domains",
)
"""Options that only a cluster can heed."""


Hosts = dict[tuple[int, int], tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """An island and how its script, `file`, starts each copy; `hosts`: where the placement has them."""

    file: str
    island: ServingIsland
    launches: tuple[Launch, ...]
    hosts: Hosts


def launched_islands(deployment: Deployment) -> tuple[Launched, ...]:
    """The islands, in the plan's order.

    Raises:
        ExportError: a GPU vendor without a known variable or image, or more copies on shared hosts than ports.
        InputError: a name that cannot stand in a script.
    """
    for island in deployment.islands:
        check_node_selector(island.gpu.name, island.gpu.node_selector)
    sharing: Counter[str] = Counter()
    return tuple(
        Launched(
            file=file,
            island=island,
            launches=_launches(island, deployment, sharing),
            hosts=_placed_hosts(island, deployment),
        )
        for file, island in island_files(deployment, ".sh")
    )


def launch_files(deployment: Deployment, launched: Sequence[Launched]) -> TargetFiles:
    """One script an island, `NN-<island>.sh`."""
    files = {}
    for each in launched:
        comments = tuple(_comments(each.file, each.island, deployment, each.launches, each.hosts))
        files[each.file] = _script(comments, each.island, deployment, each.launches, each.hosts)
    return TargetFiles(files=files, endpoints=tuple(_endpoint(each.island, each.launches) for each in launched))


def _manifests(deployment: Deployment, /) -> TargetFiles:
    return launch_files(deployment, launched_islands(deployment))


def shares_host(island: ServingIsland) -> bool:
    """Whether others may run on the hosts of its processes."""
    return island.grouping.gpus_per_pod < island.gpu.gpus_per_host


def _launches(island: ServingIsland, deployment: Deployment, sharing: Counter[str]) -> tuple[Launch, ...]:
    """Each copy's launch; `sharing` counts, by GPU type, the copies so far that may share a host."""
    first = sharing[island.gpu.name]
    if shares_host(island):
        sharing[island.gpu.name] += island.grouping.groups
    if sharing[island.gpu.name] > _MOST_SHARING:
        raise ExportError(
            f"Island {island.id}, replicas: copies of less than a host need ports of their own, so that there are at "
            f"most {_MOST_SHARING} of a GPU type, with this island there are {sharing[island.gpu.name]} on "
            f"{island.gpu.name}.",
            hint="Plan with larger islands, or choose a target whose pods have addresses of their own.",
        )
    offsets = [_PORT_STRIDE * (first + copy) * shares_host(island) for copy in range(island.grouping.groups)]
    return tuple(deployment.engine.launch(island, _rendezvous(offset)) for offset in offsets)


def _rendezvous(offset: int) -> Rendezvous:
    return Rendezvous(leader_address=LEADER_ADDRESS, pod_index=RANK, port_offset=offset)


def _placed_hosts(island: ServingIsland, deployment: Deployment) -> Hosts:
    """(copy, rank) -> host and GPUs in words, from the placement, whose shares processes fill; empty where there is
    none. Where nobody says which GPUs of a host are free, the placement knows their number alone.

    Raises:
        InputError: hosts are to be pinned, and there is no placement.
    """
    if deployment.options.pin_nodes:
        pinned_nodes(island, deployment)
    placement, gpus = deployment.plan.placement, island.grouping.gpus_per_pod
    parts = [part for part in placement.parts if part.island == island.id] if placement else []
    cluster = deployment.plan.scenario.cluster
    names = {node.name: dict(node.labels).get(HOSTNAME, node.name) for node in cluster.nodes} if cluster else {}
    hosts: Hosts = {}
    ranks: Counter[int] = Counter()
    for part in parts:
        for at in range(0, len(part.gpu_indices), gpus):
            host = names.get(part.node, part.node)
            indices = ",".join(map(str, part.gpu_indices[at : at + gpus]))
            which = f"any {gpus} free GPUs (which are free is not known)" if part.gpus_assumed else f"GPUs {indices}"
            hosts[part.replica, ranks[part.replica]] = (host, which)
            ranks[part.replica] += 1
    return hosts


def _script(
    comments: Sequence[str], island: ServingIsland, deployment: Deployment, launches: Sequence[Launch], hosts: Hosts
) -> str:
    pins = hosts if deployment.options.pin_nodes else {}
    return write_script(
        LAUNCH,
        comments,
        settings={
            "name": island.name,
            "image": engine_image(island, deployment),
            "copies": island.grouping.groups,
            "ranks": island.grouping.pods,
            "gpus": island.grouping.gpus_per_pod,
            "devices": _DEVICES[gpu_resource(island)],
            "whole_hosts": "no" if shares_host(island) else "yes",
        },
        lists={
            "labels": labels(island, deployment),
            "annotations": island_annotations(island, deployment, probed=False),
            "hosts": dict(island.gpu.node_selector),
            "pins": [f"{copy}:{rank}={node}" for (copy, rank), (node, _) in sorted(pins.items())],
        },
        commands=_commands(launches),
    )


def _commands(launches: Sequence[Launch]) -> dict[str, tuple[str, ...]]:
    """Branch -> words; one pair of branches where all copies start alike."""
    alike = all(launch == launches[0] for launch in launches)
    words_of: dict[str, tuple[str, ...]] = {}
    for copy, launch in enumerate(launches[:1] if alike else launches):
        branch = "*" if alike else str(copy)
        words_of[f"{branch}:leader"] = _words(launch.leader)
        if launch.worker is not None:
            words_of[f"{branch}:worker"] = _words(launch.worker)
    return words_of


def _words(pod: PodCommand) -> tuple[str, ...]:
    fixed = [f"{name}={value}" for name, value in pod.environment]
    addresses = [f"{name}={OWN_ADDRESS}" for name in pod.address_variables]
    return (*(["env", *fixed, *addresses] if fixed or addresses else ()), *pod.command, *pod.arguments)


def _comments(
    file: str, island: ServingIsland, deployment: Deployment, launches: Sequence[Launch], hosts: Hosts
) -> Iterator[str]:
    grouping, gpu = island.grouping, island.gpu.name
    yield from island_comments(island, deployment, launches[0].notes)
    labelled = "".join(f", {key}={value}" for key, value in island.gpu.node_selector)
    yield f"Here a pod is a process with {grouping.gpus_per_pod} GPUs of a host with {gpu}{labelled}."
    yield f"Flags are those of the engine in {engine_image(island, deployment)}."
    yield f"Start it for every copy and rank, rank 0 (the leader) too: {file} COPY RANK LEADER_ADDRESS OWN_ADDRESS"
    for copy, launch in enumerate(launches):
        ports = ", ".join(f"{port.name} {port.number}" for port in launch.ports)
        who = "each process" if island.by_rank else "the leader"
        yield f"copy {copy}: ranks 0 to {grouping.pods - 1}; {who} listens on {ports}"
        for (at, rank), (node, gpus) in sorted(hosts.items()):
            if at == copy:
                yield f"  rank {rank}: placed on {node}, {gpus}"


def _endpoint(island: ServingIsland, launches: Sequence[Launch]) -> Endpoint:
    """The island's name stands for whatever the site balances its copies with; each process that answers has a name of
    its own."""
    leaders = tuple(f"{island.name}-{copy}:{launch.ports[0].number}" for copy, launch in enumerate(launches))
    first = tuple(port.number for port in launches[0].rank_ports)
    return Endpoint(
        island=island,
        service=island.name,
        port=launches[0].ports[0].number,
        leaders=leaders,
        health_path=launches[0].health_path,
        bootstrap_ports=tuple(port for launch in launches for port in launch.bootstrap_ports),
        rank_ports=first if island.by_rank else (),
        ranks=tuple(_ranks(island, launches)) if island.by_rank else (),
    )


def _ranks(island: ServingIsland, launches: Sequence[Launch]) -> Iterator[str]:
    """Every attention rank: a process has the name of its copy, all but the leader's with its own number behind."""
    for copy, launch in enumerate(launches):
        for process in range(island.grouping.pods):
            host = f"{island.name}-{copy}-{process}" if process else f"{island.name}-{copy}"
            yield from (f"{host}:{port.number}" for port in launch.rank_ports)


def _workloads(manifest: Manifest) -> tuple[FoundWorkload, ...]:
    body = manifest.body
    copies = dict.fromkeys(branch.partition(":")[0] for branch in body["commands"])
    first, *others = (tuple(_found_pods(manifest, copy)) for copy in copies)
    return (
        FoundWorkload(
            manifest=manifest,
            labels=manifest.labels,
            annotations=manifest.annotations,
            labels_path="labels",
            annotations_path="annotations",
            replicas=body["copies"],
            replicas_path="copies",
            size_path="ranks",
            pods=first,
            more_copies=tuple(others),
            endpoints=(manifest.name,),
            leader_address='"$leader_address"',
            pod_index='"$rank"',
            leader_host="",
            template=_template(body),
        ),
    )


def _template(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a copy is started with; each copy's own under its number, so that it does not matter how many there are."""
    copies: dict[str, dict[str, Any]] = {str(copy): {} for copy in range(min(body["copies"], _MOST_COPIES))}
    for branch, words in body["commands"].items():
        copy, _, role = branch.partition(":")
        for number in copies if copy == "*" else (copy,):
            copies.setdefault(number, {})[role] = words
    for pin in body["pins"]:
        place, _, node = pin.partition("=")
        copy, _, rank = place.partition(":")
        copies.setdefault(copy, {})[f"host of rank {rank}"] = node
    return {"object": body["metadata"]["name"], **{key: body[key] for key in _EVERY_COPY}, "copies": copies}


def _found_pods(manifest: Manifest, copy: str) -> Iterator[FoundPod]:
    """The processes of a copy; the checks hold those of each copy that starts differently against the island."""
    body = manifest.body
    limits = {_RESOURCES[body["devices"]]: body["gpus"]}
    container = {"image": body["image"], "resources": {"limits": limits}}
    for role, count in (("leader", 1), ("worker", body["ranks"] - 1)):
        if count:
            branch = f"{copy}:{role}"
            yield FoundPod(
                path=f"commands.{branch}",
                count=count,
                spec={"containers": [container], "nodeSelector": body["hosts"]},
                labels=manifest.labels,
                arguments=tuple(body["commands"].get(branch, ())),
                command_path=f"commands.{branch}",
            )


def _parsed(text: str) -> Iterator[object]:
    yield read_launch_script(text)


def _steps(files: Mapping[str, str], /) -> tuple[Step, ...]:
    """One step an island."""
    scripts = {
        name: read_launch_script(text) for name, text in files.items() if name[:1].isdigit() and name.endswith(".sh")
    }
    return tuple(
        Step(
            title=f"Island {script['metadata']['name']}",
            why=f"On its hosts, for every copy (0 to {script['copies'] - 1}) and rank (0 to {script['ranks'] - 1}); "
            "rank 0 leads. The script's comments tell ports and, where the plan is placed, hosts.",
            commands=(f"bash {shlex.quote(name)} COPY RANK LEADER_ADDRESS OWN_ADDRESS",),
            looks=("curl --fail http://LEADER_ADDRESS:PORT/health",),
            undo=(f"# on each of its hosts: end the process that {shlex.quote(name)} started, by its id",),
        )
        for name, script in scripts.items()
    ) + tuple(_router_steps(files))


def _router_steps(files: Mapping[str, str]) -> Iterator[Step]:
    """One step a program of the router; who takes the requests, `router.sh`, comes last."""
    names = [name for name in files if name.startswith("router") and name.endswith(".sh")]
    for name in sorted(names, key=lambda name: (name == FRONT_SCRIPT, name)):
        program = read_router_script(files[name])
        read = [file for file in files if any(file in word for word in program["command"])]
        read += [file for file in files if file.endswith(".lua") and any(file in files[other] for other in read)]
        beside = f" and {', '.join(read)} beside it" if read else ""
        yield Step(
            title=f"Router {program['metadata']['name']}",
            why=f"On a host that is reached as {program['metadata']['name']}, at port {program['port']}, with its "
            f"program installed ({program['image']} holds it){beside}; engines answer first.",
            commands=(f"bash {shlex.quote(name)}",),
            undo=(f"# on its host: end the process that {shlex.quote(name)} started, by its id",),
        )


LAUNCH_KIND = Kind(kind=KIND, schema="launch_script.json", files="*.sh", parse=_parsed, workloads=_workloads)
SCRIPT = Target(
    name="script",
    manifests=_manifests,
    kinds=(LAUNCH_KIND,),
    unheeded=UNHEEDED,
    applied=False,
    steps=_steps,
    processes=router_script_files,
)
