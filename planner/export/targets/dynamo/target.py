"""Target `dynamo`: NVIDIA Dynamo's DynamoGraphDeployments.

Where one pool a phase does, a frontend spreads requests over all workers. Else each pool has a local router, and the
GlobalRouter picks the pool of a prompt by its length; it serves vLLM only (global_router/README.md, "Supported
Backends"). A graph has few components: further workers of a pool come in further graphs and name the Dynamo namespace
of the first, as the frontend and the GlobalRouter do across graphs in upstream's examples.

Workers of both phases come alone, behind one frontend: beside prefill workers it sends every prompt there first, and
the GlobalRouter's mode for them goes by the times that a request asks for, not by its length (README.md, "Agg Mode").

GPUs of a component = replicas (copies) x nodeCount x the container's GPU limit.
Sources: nvidia.com/v1beta1 (ai-dynamo/dynamo, deploy/operator) and examples/global_planner; the Service of a
component is GRAPH-COMPONENT.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.domain import PHASES, Phase
from planner.errors import ExportError
from planner.export.found import FoundPod, FoundWorkload, Kind, Manifest
from planner.export.islands import ServingIsland
from planner.export.objects.documents import whole_number, yaml_text
from planner.export.objects.explanation import island_comments
from planner.export.objects.operating.draining import drain_seconds, grace_seconds
from planner.export.objects.operating.network import network_notes
from planner.export.objects.pods import ENGINE_LABEL, check_gpus_told_apart, found_pod, island_pods
from planner.export.objects.scheduling import packing
from planner.export.objects.security.confinement import confinement_notes
from planner.export.objects.security.exemptions import DYNAMO_DISCOVERY
from planner.export.objects.weights import weights_note
from planner.export.seams import Deployment, Endpoint, Entry, NetworkFacts, Target, TargetFiles
from planner.export.summary import part_path, read_part
from planner.export.targets.dynamo.components import (
    API_VERSION,
    KIND,
    MOST_COMPONENTS,
    SYSTEM_PORT_VARIABLE,
    choice_words,
    container_gpus,
    dynamo_namespace,
    frontend,
    global_router,
    graph,
    graph_name,
    local_router,
    worker,
)
from planner.export.targets.dynamo.engines import DYNAMO_ENGINES, started
from planner.export.targets.dynamo.pools import PhasePools, Pool, phase_pools
from planner.export.targets.dynamo.router import control_file, pool_graph

_FRONTEND_PORT = 8000
_PORT = 9090  # where the operator makes a worker tell its state
_LONGEST_NAME = 42
_WORKERS = frozenset({"worker", "prefill", "decode"})


def _manifests(deployment: Deployment, /) -> TargetFiles:
    """`00-frontend.yaml`, and a file for each pool where there are several.

    Raises:
        ExportError: pools that the engine cannot be routed to, options that no graph carries, a GPU vendor without a
            device plugin or image, or GPU types that no label tells apart.
    """
    _check_options(deployment)
    check_gpus_told_apart(deployment)
    deployment = replace(deployment, engine=DYNAMO_ENGINES[deployment.engine.name].within(deployment.engine))
    if any(island.mixed for island in deployment.islands):
        _check_mixed(deployment)
        return _one_pool(deployment)
    pools = {phase: phase_pools(deployment, phase) for phase in PHASES}
    if all(len(grid.pools) == 1 for grid in pools.values()):
        return _one_pool(deployment)
    _check_routable(deployment, pools)
    return _many_pools(deployment, pools)


def _check_options(deployment: Deployment) -> None:
    if deployment.options.queue:
        raise ExportError(
            f"Target dynamo, queue {deployment.options.queue}: Kueue does not admit DynamoGraphDeployments.",
            hint="Leave --queue out, or export for lws.",
        )
    packed = [island.id for island in deployment.islands if packing(island, deployment)]
    if packed:
        raise ExportError(
            f"Target dynamo, topology labels: a graph packs by the domains of a cluster topology that an administrator "
            f"names, not by node labels; needed for {', '.join(packed)}.",
            hint="Leave --topology out, or export for lws.",
        )


def _check_routable(deployment: Deployment, pools: Mapping[Phase, PhasePools]) -> None:
    if not DYNAMO_ENGINES[deployment.engine.name].routed:
        names = "; ".join(pool.title for grid in pools.values() for pool in grid.pools)
        raise ExportError(
            f"Target dynamo, engine {deployment.engine.name}: the GlobalRouter is written for vLLM alone, so one "
            f"prefill and one decode pool must do, got {names}.",
            hint="Export with --engine vllm, or for lws.",
        )


def _check_mixed(deployment: Deployment) -> None:
    """Refuse plans whose mixed islands would need a choice by length."""
    mixed = [island for island in deployment.islands if island.mixed]
    others = [island.id for island in deployment.islands if not island.mixed]
    spans = {(route.range_start, route.range_end) for island in mixed for route in island.routes}
    where = f"Target dynamo, plan {deployment.plan.scenario.name}: island {mixed[0].id} does both phases, and"
    if others:
        raise ExportError(
            f"{where} Dynamo's frontend would send its prompts to prefill workers first, got {', '.join(others)} "
            "beside it.",
            hint="Export for lws, llm-d or kserve, or plan with serving: split or serving: aggregated.",
        )
    if len(spans) > 1:
        raise ExportError(
            f"{where} what is written for Dynamo's routers goes by times asked for, not by length, got "
            f"{len(spans)} buckets of lengths.",
            hint="Export for lws, llm-d or kserve, or plan with serving: split.",
        )


def _one_pool(deployment: Deployment) -> TargetFiles:
    name = graph_name(deployment)
    comments = (
        f"Plan {deployment.plan.scenario.name}: a frontend that spreads prompts of all lengths over workers "
        f"by {choice_words(deployment, Phase.MIXED)}.",
    )
    return _graphs(
        deployment, name, frontend(deployment, name, routes=True), deployment.islands, "00-frontend", comments
    )


def _many_pools(deployment: Deployment, pools: Mapping[Phase, PhasePools]) -> TargetFiles:
    control = graph_name(deployment, "ctrl")
    config = f"{control}-routes"
    routers = [frontend(deployment, control, routes=False), global_router(deployment, control, config)]
    files = {"00-frontend.yaml": control_file(deployment, graph(deployment, control, routers), config, pools)}
    endpoints: tuple[Endpoint, ...] = ()
    for number, pool in enumerate((pool for phase in PHASES for pool in pools[phase].pools), start=1):
        written = _pool(deployment, pools[pool.phase], pool, f"{number:02}-{pool.phase}-{pool.index}")
        files |= dict(written.files)
        endpoints += written.endpoints
    return TargetFiles(files=files, endpoints=endpoints)


def _pool(deployment: Deployment, phase: PhasePools, pool: Pool, file: str) -> TargetFiles:
    name = pool_graph(deployment, pool)
    cells = [index for index, owner in enumerate(phase.cells) if owner == pool.index]
    comments = (
        f"Plan {deployment.plan.scenario.name}, {pool.title}.",
        f"Takes prompts of {', '.join(_spans(cells, phase.width))} tokens and spreads them by "
        f"{choice_words(deployment, pool.phase)}.",
    )
    return _graphs(deployment, name, local_router(deployment, name, pool.phase), pool.islands, file, comments)


def _graphs(
    deployment: Deployment,
    name: str,
    router: dict[str, Any],
    islands: Sequence[ServingIsland],
    file: str,
    comments: tuple[str, ...],
) -> TargetFiles:
    """A router and its workers, in as many graphs as they fill, a file each."""
    namespace = dynamo_namespace(deployment.options.namespace, name)
    first = MOST_COMPONENTS - 1
    parts = [islands[:first], *(islands[i : i + MOST_COMPONENTS] for i in range(first, len(islands), MOST_COMPONENTS))]
    files: dict[str, str] = {}
    endpoints: tuple[Endpoint, ...] = ()
    for number, part in enumerate(parts):
        part_name = f"{name}-{number}" if number else name
        workers = [(island, *worker(island, deployment, part_name, namespace)) for island in part]
        components = [*([] if number else [router]), *(component for _, component, _ in workers)]
        body = graph(deployment, part_name, components, {built["name"]: island for island, built, _ in workers})
        head = comments if not number else (f"More workers of graph {name}, in its Dynamo namespace {namespace}.",)
        lines = [
            f"{component['name']}: {line}"
            for island, component, notes in workers
            for line in island_comments(island, deployment, (*_operating_notes(island, deployment), *notes))
        ]
        files[f"{file}-{number}.yaml" if number else f"{file}.yaml"] = yaml_text((*head, *lines), [body])
        endpoints += tuple(
            Endpoint(island=island, service=_service(part_name, component["name"]), port=_PORT, leaders=())
            for island, component, _ in workers
        )
    return TargetFiles(files=files, endpoints=endpoints)


def _operating_notes(island: ServingIsland, deployment: Deployment) -> tuple[str, ...]:
    """What Dynamo's operator and runtime do of it, and what they take from here."""
    seconds, grace = drain_seconds(island, deployment), grace_seconds(island, deployment)
    notes = [
        "Probes: the operator's, on its runtime's own port; its startup probe waits two hours.",
        f"End: out of discovery at SIGTERM, then {seconds} s for requests under way; a pod has {grace} s.",
    ]
    if island.grouping.pods > 1:
        notes.append("All nodes of a copy are told to end at once, and requests under way may be cut off.")
    return (
        *notes,
        weights_note(island.weights, deployment.options),
        *confinement_notes(island, deployment),
        *network_notes(island, deployment),
    )


def _service(graph: str, component: str) -> str:
    """The Service that the operator makes of a component."""
    return f"{graph}-{component}"


def _spans(cells: list[int], width: int) -> Iterator[str]:
    """Runs of neighbouring cells, as first to last length."""
    for cell in cells:
        if cell - 1 not in cells:
            end = next(last for last in range(cell, cells[-1] + 1) if last + 1 not in cells)
            yield f"{cell * width} to {(end + 1) * width - 1}"


def _workloads(manifest: Manifest) -> Iterator[FoundWorkload]:
    for index, component in enumerate(manifest.body["spec"]["components"]):
        if component.get("type") in _WORKERS:
            yield _workload(manifest, f"spec.components.{index}", component)


def _workload(manifest: Manifest, path: str, component: Mapping[str, Any]) -> FoundWorkload:
    return FoundWorkload(
        manifest=manifest,
        labels=component["podTemplate"]["metadata"]["labels"],
        annotations=read_part(manifest.annotations, component["name"]),
        labels_path=f"{path}.podTemplate.metadata.labels",
        annotations_path=part_path(component["name"]),
        replicas=component["replicas"],
        replicas_path=f"{path}.replicas",
        size_path=f"{path}.multinode.nodeCount",
        pods=(_pod(path, component),),
        template=_template(manifest, component),
        endpoints=(_service(manifest.name, component["name"]),),
        endpoint_ports=(_system_port(component),),
    )


def _system_port(component: Mapping[str, Any]) -> int:
    """Where the worker tells its state: the operator's port, or the one that its variable names."""
    variables = component["podTemplate"]["spec"]["containers"][0].get("env", ())
    ports = [whole_number(row.get("value")) for row in variables if row["name"] == SYSTEM_PORT_VARIABLE]
    return ports[-1] if ports else _PORT


def _template(manifest: Manifest, component: Mapping[str, Any]) -> dict[str, Any]:
    """All of the component but its copies, and what the graph tells all of its pods."""
    graph = {key: value for key, value in manifest.body["spec"].items() if key != "components"}
    return {**graph, **{key: value for key, value in component.items() if key != "replicas"}}


def _pod(path: str, component: Mapping[str, Any]) -> FoundPod:
    """The component's pods, with the arguments that the operator completes them to."""
    nodes = component.get("multinode", {}).get("nodeCount", 1)
    pod = found_pod(component["podTemplate"], f"{path}.podTemplate", nodes)
    engine = pod.labels.get(ENGINE_LABEL, "")
    written = component["podTemplate"]["spec"]["containers"][0].get("args", ())
    return replace(
        pod, arguments=started(engine, written, container_gpus(component), nodes), command_path="", engine_port=_PORT
    )


def _rank_obstacle(_: ServingIsland, __: Deployment, /) -> str:
    return "Dynamo's own KV router chooses the rank of a worker, which needs no port"


def _entry(entry: Entry, manifests: Sequence[Manifest], /) -> Entry:
    """The first graph's frontend, which the operator makes a Service of."""
    first = [graph.name for graph in manifests if graph.kind == KIND and graph.file.startswith("00-")]
    return replace(entry, host=f"{min(first, key=len)}-frontend", port=_FRONTEND_PORT)


DYNAMO = Target(
    name="dynamo",
    engines=tuple(DYNAMO_ENGINES),
    manifests=_manifests,
    pods_of=island_pods,
    kinds=(
        Kind(
            api_version=API_VERSION,
            kind=KIND,
            schema="dynamographdeployment.json",
            workloads=_workloads,
            longest_name=_LONGEST_NAME,
        ),
    ),
    # its operator scrapes, and scales by adapters of its own; its GlobalRouter registers one name, that of the weights
    unheeded=("compute_domains", "served_names", "api_key_secret", "monitoring", "autoscaling"),
    by_grid=True,
    rank_obstacle=_rank_obstacle,
    entry=_entry,
    exemptions=(DYNAMO_DISCOVERY,),
    network=NetworkFacts(egress=False, together=True, entry_port=8000),
)
