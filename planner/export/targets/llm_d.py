"""Target `llm-d`: values for the llm-d-modelservice chart, one release a pair of islands, the Services in front of
them, and `releases.yaml`, which lists the releases in the form of a helmfile.

An island of both phases is a release with a decode block and no sidecar, as in upstream's guides without P/D.

GPUs of a role = replicas x workers (pods of a group) x GPUs of a pod, and the chart counts those as tensor x dataLocal.
The engines count alike here: tensor x data = GPUs of a copy, SGLang's attention groups lying inside its tensor-parallel
world.

symbol     meaning                                            source
tensor     GPUs of a data-parallel rank                       ParallelConfig.tp
data       ranks of a copy                                    ParallelConfig.dp
workers    pods of a copy                                     PodGrouping.pods
dataLocal  ranks of a pod                                     PodGrouping.gpus_per_pod / tp

Sources: charts/llm-d-modelservice of llm-d-incubation/llm-d-modelservice: values.schema.json and templates, version
0.4.12; its routing sidecar (llm-d-router, docs of the P/D sidecar) for ports and connectors.
"""

from typing import Any

from planner.domain import Phase
from planner.errors import ExportError
from planner.export.engines.seam import Launch, PodCommand
from planner.export.found import Kind
from planner.export.islands import ServingIsland
from planner.export.objects.documents import yaml_text
from planner.export.objects.explanation import island_comments, operating_notes
from planner.export.objects.names import slug
from planner.export.objects.operating.draining import drain_arguments, lifecycle
from planner.export.objects.pods import (
    ENGINE_LABEL,
    GPU_LABEL,
    GPU_RESOURCES,
    ISLAND_LABEL,
    PART_OF_LABEL,
    PHASE_LABEL,
    check_gpus_told_apart,
    gpu_resource,
    http_port,
    island_service,
    labels,
    launch_ports,
    pod_template,
    router_labels,
)
from planner.export.objects.scheduling import queue_labels, spread
from planner.export.objects.security.exemptions import CHART_SIDECAR
from planner.export.objects.weights import model_volume_gib, model_volumes
from planner.export.options import pinned
from planner.export.seams import Deployment, Endpoint, Target, TargetFiles
from planner.export.summary import island_annotations
from planner.export.targets.llm_d_releases import (
    CHART,
    CHART_VERSION,
    GROUP_COMMAND,
    RELEASE_LABEL,
    RELEASES_KIND,
    ROLE_LABEL,
    SERVICE_PORT,
    VALUES_KIND,
    install_steps,
    parse_yaml,
    release_workloads,
)
from planner.export.targets.lws import RENDEZVOUS, answering_index, exclusive_annotation, packing_notes
from planner.export.targets.pairs import IslandPair, island_pairs, refuse_templates
from planner.export.templating import object_of

_TARGET_PORT = 8200  # where a decode engine listens behind its sidecar
_SIDECAR = "ghcr.io/llm-d/llm-d-routing-sidecar:v0.7.1"
_CONNECTORS = {"vllm": "nixlv2", "sglang": "sglang"}
_ACCELERATORS = {GPU_RESOURCES["NVIDIA"]: "nvidia", GPU_RESOURCES["AMD"]: "amd"}
_EXTRA = ("affinity", "securityContext", "automountServiceAccountToken")  # of the pod, without a value of their own
_SHOWN_LABELS = (ENGINE_LABEL, ISLAND_LABEL, PHASE_LABEL, GPU_LABEL)


def _manifests(deployment: Deployment, /) -> TargetFiles:
    """`NN-<release>.values.yaml` for each pair, `releases.yaml` and `services.yaml`.

    Raises:
        ExportError: a rank that spans pods, pipeline stages, or what `lws` cannot express either.
        InputError: a name that Helm would expand.
    """
    refuse_templates(deployment)
    check_gpus_told_apart(deployment)
    launches = {island.id: deployment.engine.launch(island, RENDEZVOUS) for island in deployment.islands}
    pairs = _pairs(deployment)
    files = {
        _file(pair): yaml_text(_comments(pair, deployment, launches), [_values(pair, deployment, launches)])
        for pair in pairs
    }
    services = [_service(pair, island, deployment, launches[island.id]) for pair in pairs for island in pair.islands]
    endpoints = (_endpoint(island, launches[island.id]) for island in deployment.islands)
    files["services.yaml"] = yaml_text(("One Service over the leaders of each role; not part of a release.",), services)
    files["releases.yaml"] = yaml_text(_release_comments(deployment), [_releases(pairs)])
    return TargetFiles(files=files, endpoints=tuple(endpoints))


def _pairs(deployment: Deployment) -> tuple[IslandPair, ...]:
    """A release each: both of its roles have the same labels, so that islands of other lengths are not in it."""
    return island_pairs(deployment, "-prefill", alike=lambda island: _picked_by(island, deployment))


def _file(pair: IslandPair) -> str:
    return f"{pair.digits}.values.yaml"


def _service_name(island: ServingIsland) -> str:
    return f"{island.name}-leader"


def _endpoint(island: ServingIsland, launch: Launch) -> Endpoint:
    ports = tuple(port.number for port in launch.rank_ports) if island.by_rank else ()
    return Endpoint(island=island, service=_service_name(island), port=SERVICE_PORT, leaders=(), rank_ports=ports)


def _comments(pair: IslandPair, deployment: Deployment, launches: dict[str, Launch]) -> tuple[str, ...]:
    lines = [f"Release {pair.name}, values of chart {CHART} {CHART_VERSION}.", pair.note]
    if _traced(pair):
        lines.append(
            f"Tracing is on, with a share of 0.0: chart {CHART} {CHART_VERSION} gives the sidecar of decode groups an "
            "env without entries otherwise, and helm install fails. Only requests that their sender traces leave "
            "traces; to have them, set tracing.otlpEndpoint (else http://otel-collector:4317) and the share."
        )
    for island in pair.islands:
        notes = (*packing_notes(island, deployment), *launches[island.id].notes)
        exempt = (CHART_SIDECAR,) if island.phase is Phase.DECODE else ()
        notes = (*operating_notes(island, deployment, exempt), *notes)
        lines += island_comments(island, deployment, (*notes, *_class_notes(island, deployment)))
        if island.grouping.pods > 1 and not island.by_rank:
            lines.append(
                f"{island.phase}: the chart makes leader and workers of a group from one template, so the pod's index "
                "decides what it runs, and no probe is set: workers answer no HTTP. All of them wait before they end "
                "until requests under way are done."
            )
    return tuple(lines)


def _class_notes(island: ServingIsland, deployment: Deployment) -> tuple[str, ...]:
    """The chart's template gives the sidecar no resources, and no value of this version changes that."""
    if island.phase is not Phase.DECODE:
        return ()
    note = (
        f"chart {CHART} {CHART_VERSION} gives the sidecar of decode pods no resources, so they are of class Burstable, "
        "not Guaranteed"
    )
    if deployment.plan.placement is None or not deployment.plan.scenario.placement.qos(island.phase).binds:
        return (f"The {note}.",)
    return (
        f"WARNING: {note}: the kubelet aligns their GPUs and pins them no CPUs, which the placement counts on. Charts "
        "with pull request 259 take routing.proxy.resources.",
    )


def _values(pair: IslandPair, deployment: Deployment, launches: dict[str, Launch]) -> dict[str, Any]:
    """`connector`: of the sidecar in front of decode engines; one that does both phases fetches from nobody."""
    model = deployment.plan.scenario.model
    return object_of(
        "llm-d-values",
        name=pair.name,
        multinode=_multinode(pair),
        traced=_traced(pair),
        model=model,
        weights=pair.islands[0].weights,
        size=f"{model_volume_gib(model)}Gi",
        labels=_release_labels(pair, deployment),
        accelerator=_ACCELERATORS[gpu_resource(pair.islands[0])],
        service_port=SERVICE_PORT,
        sidecar=pinned(deployment.options, _SIDECAR),
        target_port=_TARGET_PORT,
        connector="" if pair.mixed else _CONNECTORS[deployment.engine.name],
        prefill=_role(pair.prefill, deployment, launches),
        decode=_role(pair.decode or pair.mixed, deployment, launches),
    )


def _traced(pair: IslandPair) -> bool:
    """Without it the chart's sidecar of decode groups has an `env` of nothing, which the API server refuses. No request
    is traced, so that nobody has to listen at its OTLP endpoint."""
    return _multinode(pair) and pair.decode is not None


def _multinode(pair: IslandPair) -> bool:
    return any(island.grouping.pods > 1 for island in pair.islands)


def _release_labels(pair: IslandPair, deployment: Deployment) -> dict[str, str]:
    object_labels = {
        "llm-d.ai/inference-serving": "true",
        "llm-d.ai/model": slug(deployment.plan.scenario.model.name)[:63].strip("-"),
        PART_OF_LABEL: deployment.name,
        RELEASE_LABEL: pair.name,
    }
    return object_labels | _picked_by(pair.islands[0], deployment) | queue_labels(deployment)


def _picked_by(island: ServingIsland, deployment: Deployment) -> dict[str, str]:
    """Labels by which a router picks pods, but the role's, which is the chart's own; both roles of a release have the
    same."""
    return {key: value for key, value in router_labels(island, deployment).items() if key != ROLE_LABEL}


def _role(island: ServingIsland | None, deployment: Deployment, launches: dict[str, Launch]) -> dict[str, Any]:
    if island is None:
        return {"create": False, "replicas": 0}
    launch, pod = launches[island.id], pod_template(island, deployment, launches[island.id])
    every, container = labels(island, deployment), pod["spec"]["containers"][0]
    command, arguments = _command(island, deployment, launch)
    extra = {key: pod["spec"][key] for key in _EXTRA if key in pod["spec"]}
    # one template for leader and workers: none of them may end before the leader's requests are done
    alike = launch.worker is None or island.by_rank
    end = container if alike else lifecycle(island, deployment, finishes=False)
    return object_of(
        "llm-d-role",
        island=island,
        probed=alike,
        # the chart puts them on the LeaderWorkerSet, whose controller knows one of them
        annotations={key: every[key] for key in _SHOWN_LABELS}
        | island_annotations(island, deployment)
        | exclusive_annotation(island, deployment),
        pod=pod,
        container=container,
        accelerator=_ACCELERATORS[gpu_resource(island)],
        parallelism=_parallelism(island),
        extra=extra | spread(island, _pods_of(island, deployment)),
        selector=island.gpu.node_selector,
        command=command,
        args=arguments,
        ports=launch.ports,
        engine_port=_engine_port(island),
        chart_volume=not (model_volumes(deployment) or island.weights.startswith("/")),
        lifecycle=end["lifecycle"],
    )


def _parallelism(island: ServingIsland) -> dict[str, int]:
    """The chart's degrees, which have to give the GPUs of a pod.

    Raises:
        ExportError: the chart has no word for pipeline stages or for a rank of several pods.
    """
    parallel, gpus = island.parallel, island.grouping.gpus_per_pod
    if parallel.pp > 1 or gpus % parallel.tp:
        raise ExportError(
            f"Island {island.id}, parallel: chart {CHART} counts tensor x dataLocal GPUs a pod, so a rank of "
            f"tp {parallel.tp} x pp {parallel.pp} GPUs must be one stage within a pod of {gpus}.",
            hint="Export for lws, or plan with cost.max_pipeline_stages 1 and smaller tensor-parallel groups.",
        )
    return {
        "tensor": parallel.tp,
        "data": parallel.dp,
        "dataLocal": gpus // parallel.tp,
        "workers": island.grouping.pods,
    }


def _engine_port(island: ServingIsland) -> int:
    """Decode engines stand behind the sidecar, which takes the Service's port."""
    return _TARGET_PORT if island.phase is Phase.DECODE else SERVICE_PORT


def _rank_obstacle(island: ServingIsland, _: Deployment, /) -> str:
    """The sidecar would listen at a port a rank if it were told, which no value of the chart does."""
    if island.phase is not Phase.DECODE:
        return ""
    return f"chart {CHART} {CHART_VERSION} starts the sidecar of decode pods with one port"


def _command(island: ServingIsland, deployment: Deployment, launch: Launch) -> tuple[list[str], list[str]]:
    """Command and arguments; in a group of several pods both the leader's and the workers', told apart by a count."""
    leader = _words(launch.leader, launch, island)
    if launch.worker is None:
        command = len(launch.leader.command)
        return leader[:command], [*leader[command:], *drain_arguments(island, deployment, leads=True)]
    worker = _words(launch.worker, launch, island)
    drains = drain_arguments(island, deployment, leads=False)
    return list(GROUP_COMMAND), [str(len(leader) + len(drains)), *leader, *drains, *worker, *drains]


def _words(pod: PodCommand, launch: Launch, island: ServingIsland) -> list[str]:
    old, new = f"--port={launch.ports[0].number}", f"--port={_engine_port(island)}"
    return [*pod.command, *(new if argument == old else argument for argument in pod.arguments)]


def _pods_of(island: ServingIsland, deployment: Deployment, /) -> dict[str, str]:
    """What the chart puts on the pods of a release's block."""
    pair = next(pair for pair in _pairs(deployment) if island in pair.islands)
    return {RELEASE_LABEL: pair.name, ROLE_LABEL: _block(island)}


def _block(island: ServingIsland) -> str:
    """The chart's block of an island: one that does both phases is a decode block."""
    return (Phase.DECODE if island.mixed else island.phase).value


def _service(pair: IslandPair, island: ServingIsland, deployment: Deployment, launch: Launch) -> dict[str, Any]:
    selector = {RELEASE_LABEL: pair.name, ROLE_LABEL: _block(island)}
    selector |= answering_index(island) if _multinode(pair) else {}
    return island_service(_service_name(island), island, deployment, selector, _service_ports(island, launch))


def _service_ports(island: ServingIsland, launch: Launch) -> list[dict[str, Any]]:
    return launch_ports(launch) if island.by_rank else http_port(SERVICE_PORT)


def _release_comments(deployment: Deployment) -> tuple[str, ...]:
    return (
        *((f"WARNING: {deployment.unrouted}",) if deployment.unrouted else ()),
        f"Releases of plan {deployment.plan.scenario.name}, as a helmfile: helmfile -f releases.yaml apply.",
        f"The chart's repository has to be known to Helm under the name {CHART}.",
        "By hand: helm install NAME CHART --version VERSION -f VALUES for each row; services.yaml by kubectl apply.",
        "A release holds one prefill and one decode island at most, the n-th of each in the plan's order. The chart "
        "gives both the same labels, so where a router picks pods by labels only islands with the same are joined.",
        "routing.json says who serves a range. A router sends the request to the decode Service, whose pods' sidecar "
        "fetches the prefill from the pod that header x-prefiller-host-port names (host:port, a pod of the prefill "
        "Service).",
        *_mixed_comments(deployment),
    )


def _mixed_comments(deployment: Deployment) -> tuple[str, ...]:
    if not any(island.mixed for island in deployment.islands):
        return ()
    return (
        "A release whose proxy is off does both phases in its decode block: its Service takes a request as it is, "
        "without that header.",
    )


def _releases(pairs: tuple[IslandPair, ...]) -> dict[str, Any]:
    return {
        "releases": [
            {"name": pair.name, "chart": f"{CHART}/{CHART}", "version": CHART_VERSION, "values": [_file(pair)]}
            for pair in pairs
        ]
    }


LLM_D = Target(
    name="llm-d",
    engines=("vllm", "sglang"),
    manifests=_manifests,
    # its pods bear no labels of islands, which metrics and scalers would need
    unheeded=("namespace", "compute_domains", "monitoring", "autoscaling"),
    pods_of=_pods_of,
    kinds=(
        Kind(
            kind=VALUES_KIND,
            schema="llmd_values.json",
            files="*.values.yaml",
            parse=parse_yaml,
            workloads=release_workloads,
            upstream="*values.schema.json",
        ),
        Kind(kind=RELEASES_KIND, schema="llmd_releases.json", files="releases.yaml", parse=parse_yaml),
    ),
    applied=False,
    steps=install_steps,
    rank_obstacle=_rank_obstacle,
)
