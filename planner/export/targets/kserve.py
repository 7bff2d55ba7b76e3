"""Target `kserve`: one LLMInferenceService a pair of islands, the Services in front of them, and the routing table.

KServe starts vLLM itself: its presets hold the command, the sidecar of decode pods and the download of the model, and
take further flags from the variable VLLM_ADDITIONAL_ARGS. A single pod gets all flags that way; in a group of several
pods the preset writes the degrees from `parallelism`. SGLang is not exported: the preset's sidecar joins prefill and
decode by vLLM's protocol.

An island of both phases is an object without `prefill`: KServe takes its presets without a sidecar then.

symbol     meaning                                            source
data       data-parallel ranks of a copy                      ParallelConfig.dp
dataLocal  ranks of a pod                                     PodGrouping.gpus_per_pod / (tp x pp)
pods       pods of a group = data / dataLocal                 ParallelismSpec.GetSize of KServe

GPUs of a role = replicas x pods x the main container's GPU limit.
Sources: serving.kserve.io/v1alpha2 (kserve/kserve): the schema; its rule that excludes `scaling` beside `replicas`; the
webhook's rules that `data` and `dataLocal` come together, never with `pipeline`, and that `worker` needs one of them;
config/llmisvcconfig for the presets. KServe expands Go templates in the whole object and evaluates the flags in a
shell, so names are refused that either could read.
"""

import re
import shlex
from dataclasses import replace
from typing import Any

from planner.domain import PHASES, Phase
from planner.errors import ExportError, InputError
from planner.export.engines.arguments import read_flags
from planner.export.engines.seam import Launch
from planner.export.found import Kind
from planner.export.islands import ServingIsland
from planner.export.objects.documents import yaml_text
from planner.export.objects.explanation import island_comments
from planner.export.objects.names import plan_labels
from planner.export.objects.operating.draining import drain_seconds, grace_seconds
from planner.export.objects.operating.network import network_notes
from planner.export.objects.operating.probes import probe_note, startup_budget
from planner.export.objects.pods import (
    GPU_LABEL,
    ISLAND_LABEL,
    PHASE_LABEL,
    cache_mounts,
    cache_volumes,
    check_gpus_told_apart,
    gpu_resource,
    http_port,
    island_service,
    labels,
    pod_template,
    router_labels,
)
from planner.export.objects.scheduling import packing, queue_labels, spread
from planner.export.objects.security.confinement import confinement_notes, engine_mounts
from planner.export.objects.security.exemptions import GROUP_PRESETS, POOL_CHECK, Exemption
from planner.export.objects.security.hardening import scratch_volumes
from planner.export.options import chosen_image
from planner.export.seams import Deployment, Endpoint, NetworkFacts, Target, TargetFiles
from planner.export.summary import part_annotations
from planner.export.targets.inference_services import (
    API_VERSION,
    ARGUMENTS_VARIABLE,
    COMPONENT_LABELS,
    KIND,
    LONGEST_NAME,
    NAME_LABEL,
    PRESET_FLAGS,
    ROLE_LABEL,
    ROLES,
    SERVICE_PORT,
    SIDECAR_COMMAND,
    inference_workloads,
    picked_entry,
)
from planner.export.targets.lws import RENDEZVOUS
from planner.export.targets.pairs import IslandPair, island_pairs, refuse_templates
from planner.export.templating import object_of

_IMAGES = {"nvidia.com/gpu": "ghcr.io/llm-d/llm-d-cuda:v0.6.0"}  # the presets': runs without root, as they demand
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_SHOWN_LABELS = (ISLAND_LABEL, PHASE_LABEL, GPU_LABEL)
_POD_FIELDS = (
    *("nodeSelector", "affinity", "priorityClassName", "tolerations", "terminationGracePeriodSeconds"),
    "securityContext",
)
_LONGEST_SUFFIX = "-kserve-mn-prefill"


def _manifests(deployment: Deployment, /) -> TargetFiles:
    """`NN.yaml` for each pair, and `services.yaml`.

    Raises:
        ExportError: a copy over several pods that is not data parallel, a model that KServe cannot fetch, or what `lws`
            cannot express either.
        InputError: a name that KServe or its shell would expand.
    """
    refuse_templates(deployment)
    _check_model(deployment)
    deployment = _in_presets(deployment)
    check_gpus_told_apart(deployment)
    launches = {island.id: deployment.engine.launch(island, RENDEZVOUS) for island in deployment.islands}
    pairs = island_pairs(deployment, _LONGEST_SUFFIX)
    files = {
        f"{pair.digits}.yaml": yaml_text(_comments(pair, deployment, launches), [_object(pair, deployment, launches)])
        for pair in pairs
    }
    services = [_service(pair, island, deployment) for pair in pairs for island in pair.islands]
    files["services.yaml"] = yaml_text(("One Service over the pods of each role that answer requests.",), services)
    endpoints = (
        Endpoint(island=i, service=_service_name(i), port=SERVICE_PORT, leaders=()) for i in deployment.islands
    )
    return TargetFiles(files=files, endpoints=tuple(endpoints))


def _in_presets(deployment: Deployment) -> Deployment:
    """The presets' image runs as a user of its own, whatever the GPUs."""
    return replace(deployment, engine=replace(deployment.engine, user=None, exemptions=lambda _: ()))


def _preset_exemptions(island: ServingIsland, deployment: Deployment) -> tuple[Exemption, ...]:
    """What the presets put into the island's pods."""
    grouped = (GROUP_PRESETS,) if island.grouping.pods > 1 else ()
    return (*grouped, *((POOL_CHECK,) if _checks_pool(island, deployment) else ()))


def _checks_pool(island: ServingIsland, deployment: Deployment) -> bool:
    return island.phase is Phase.DECODE and not _crosses_pairs(deployment)


def _check_model(deployment: Deployment) -> None:
    name, weights = deployment.plan.scenario.model.name, deployment.islands[0].weights
    if not _MODEL_NAME.fullmatch(name):
        raise InputError(
            f"Model, name: must be letters, digits and . _ / -, as KServe writes it into a shell command, got "
            f"{name!r}.",
            hint="Rename the model.",
        )
    if weights.startswith("/") or deployment.options.model_volume:
        raise ExportError(
            f"Target kserve, model: KServe fetches it from a Hugging Face repository, got "
            f"{deployment.options.model_volume or weights!r}.",
            hint="Give the model as hf://organisation/name and no model volume, or export for lws.",
        )


def _service_name(island: ServingIsland) -> str:
    return f"{island.name}-leader"


def _comments(pair: IslandPair, deployment: Deployment, launches: dict[str, Launch]) -> tuple[str, ...]:
    lines = [pair.note]
    for island in pair.islands:
        notes = (*_operating_notes(island, deployment), *_packing_notes(island, deployment))
        lines += island_comments(island, deployment, (*notes, *launches[island.id].notes))
    if pair.decode is not None and _crosses_pairs(deployment):
        lines.append(
            "WARNING: the decode sidecar takes any prefill pod from header x-prefiller-host-port: KServe's check of "
            "the pool is off, as a prefill of another object is none of it. Let only the router reach these pods."
        )
    if pair.mixed is None and len(pair.islands) == 1:
        lines.append(
            "The role without an island has no replicas; it is named so that KServe takes the preset of its own."
        )
    return tuple(lines)


def _operating_notes(island: ServingIsland, deployment: Deployment) -> tuple[str, ...]:
    """What KServe's presets do of it, and what they take from here."""
    return (
        probe_note(island, deployment),
        "The presets' startup probe takes its patience from here; their other probes wait for it (KServe 0.17).",
        f"End: requests under way have up to {drain_seconds(island, deployment)} s. The presets wait 15 s and give the "
        f"engine what is left of {grace_seconds(island, deployment)} s (KServe 0.19; older ones cut requests off).",
        "Weights: KServe fetches them for every pod; a token comes with the service account that its documents name.",
        *confinement_notes(island, deployment, _preset_exemptions(island, deployment)),
        *network_notes(island, deployment),
    )


def _crosses_pairs(deployment: Deployment) -> bool:
    """Whether a prefill island may hand over to the decode island of another object: with one pair none does."""
    return sum(not island.mixed for island in deployment.islands) > len(PHASES)


def _packing_notes(island: ServingIsland, deployment: Deployment) -> tuple[str, ...]:
    if packing(island, deployment) is None or deployment.options.queue:
        return ()
    return ("WARNING: not asked for below: KServe has no field for it without a Kueue queue (export with --queue).",)


def _object(pair: IslandPair, deployment: Deployment, launches: dict[str, Launch]) -> dict[str, Any]:
    router = deployment.router
    return object_of(
        "kserve-service",
        version=API_VERSION,
        kind=KIND,
        name=pair.name,
        labels=plan_labels(deployment.name) | queue_labels(deployment),
        # those of a role are its pods', whose every change replaces them
        annotations=part_annotations({island.phase.value: island for island in pair.islands}, deployment),
        uri=f"hf://{deployment.islands[0].weights}",
        model=deployment.plan.scenario.model.name,
        role=_role(pair.decode or pair.mixed, deployment, launches),
        prefill=None if pair.mixed else _role(pair.prefill, deployment, launches),
        picker=router.inner(deployment) if router and router.inner else None,
    )


def _role(island: ServingIsland | None, deployment: Deployment, launches: dict[str, Launch]) -> dict[str, Any]:
    if island is None:
        return {"replicas": 0}
    launch, grouped = launches[island.id], island.grouping.pods > 1
    every, template = labels(island, deployment), pod_template(island, deployment, launch)
    role: dict[str, Any] = {
        "labels": {key: every[key] for key in _SHOWN_LABELS}
        | {key: value for key, value in router_labels(island, deployment).items() if key != ROLE_LABEL},
        **({"annotations": pods_own} if (pods_own := template["metadata"].get("annotations")) else {}),
        "replicas": island.grouping.groups,
        "parallelism": _parallelism(island, launch),
        "template": _pod(island, deployment, launch, template["spec"], leads=True),
    }
    if grouped:
        worker = pod_template(island, deployment, launch, leads=False)
        role["worker"] = _pod(island, deployment, launch, worker["spec"], leads=False)
    return role


def _parallelism(island: ServingIsland, launch: Launch) -> dict[str, Any]:
    """The degrees as KServe counts them.

    Raises:
        ExportError: pods of a group that are not data-parallel, or stages beside data-parallel ranks.
    """
    parallel, grouping = island.parallel, island.grouping
    rank = parallel.tp * parallel.pp
    if grouping.pods > 1 and (parallel.pp > 1 or grouping.gpus_per_pod % rank):
        raise ExportError(
            f"Island {island.id}, parallel: KServe's groups of pods are data parallel, so a rank of tp {parallel.tp} x "
            f"pp {parallel.pp} GPUs must be one stage within a pod of {grouping.gpus_per_pod}.",
            hint="Export for lws, or plan with cost.max_pipeline_stages 1 and smaller tensor-parallel groups.",
        )
    if parallel.pp > 1 and parallel.dp > 1:
        raise ExportError(
            f"Island {island.id}, parallel: KServe takes pipeline stages or data-parallel ranks, got pp {parallel.pp} "
            f"and dp {parallel.dp}.",
            hint="Export for lws, or plan with cost.max_pipeline_stages 1.",
        )
    degrees: dict[str, Any] = {"tensor": parallel.tp}
    if parallel.pp > 1:
        degrees["pipeline"] = parallel.pp
    if parallel.dp > 1:
        degrees |= {"data": parallel.dp, "dataLocal": grouping.gpus_per_pod // rank}
    if "enable-expert-parallel" in read_flags(launch.leader.arguments):
        degrees["expert"] = True
    return degrees


def _pod(
    island: ServingIsland, deployment: Deployment, launch: Launch, spec: dict[str, Any], *, leads: bool
) -> dict[str, Any]:
    """A PodSpec to be merged over the preset's: the container `main`, the nodes and what else the plan fixes."""
    container = spec["containers"][0]
    crosses = leads and island.phase is Phase.DECODE and _crosses_pairs(deployment)
    return object_of(
        "kserve-pod",
        spec=spec,
        container=container,
        mounts=[*engine_mounts(island, deployment), *cache_mounts(launch.needs)],
        image=_image(island, deployment),
        env=[*container.get("env", []), *_flags(island, launch)],
        leads=leads,
        startup=startup_budget(island, deployment),
        taken=_POD_FIELDS,
        token=_checks_pool(island, deployment),
        folders=[*scratch_volumes(), *cache_volumes(launch.needs)],
        spread=spread(island, _pods_of(island, deployment)),
        sidecar=SIDECAR_COMMAND if crosses else (),
    )


def _image(island: ServingIsland, deployment: Deployment) -> str:
    image = chosen_image(deployment.options, island.gpu.vendor, _IMAGES.get(gpu_resource(island)))
    if image is None:
        raise ExportError(
            f"Island {island.id}, target kserve: no image is known for {island.gpu.vendor} GPUs.",
            hint="Give one that runs without root: `planner export --image VENDOR=IMAGE`, or deploy.images.",
        )
    return image


def _flags(island: ServingIsland, launch: Launch) -> list[dict[str, str]]:
    """The engine's flags but those that the preset writes, quoted for the shell that reads them."""
    grouped = island.grouping.pods > 1
    left_out = {"port"} | (PRESET_FLAGS if grouped else set())
    arguments = [a for a in launch.leader.arguments[1:] if not set(read_flags([a])) & left_out]
    rows = [{"name": ARGUMENTS_VARIABLE, "value": " ".join(shlex.quote(a) for a in arguments)}]
    count = read_flags(launch.leader.arguments).get("api-server-count")
    return rows + ([{"name": "VLLM_API_SERVER_COUNT", "value": count}] if grouped and count else [])


def _pods_of(island: ServingIsland, deployment: Deployment, /) -> dict[str, str]:
    """KServe puts the object's name on all pods, and the role's labels."""
    pairs = island_pairs(deployment, _LONGEST_SUFFIX)
    pair = next(pair for pair in pairs if island in pair.islands)
    return {NAME_LABEL: pair.name, ISLAND_LABEL: labels(island, deployment)[ISLAND_LABEL]}


def _service(pair: IslandPair, island: ServingIsland, deployment: Deployment) -> dict[str, Any]:
    selector = {NAME_LABEL: pair.name, **COMPONENT_LABELS, ROLE_LABEL: ROLES[island.phase]}
    return island_service(_service_name(island), island, deployment, selector, http_port(SERVICE_PORT))


def _rank_obstacle(_: ServingIsland, __: Deployment, /) -> str:
    return "KServe's presets serve and probe one port of a pod, and its own pool has that one alone"


KSERVE = Target(
    name="kserve",
    engines=("vllm",),
    manifests=_manifests,
    pods_of=_pods_of,
    kinds=(
        Kind(
            api_version=API_VERSION,
            kind=KIND,
            schema="llminferenceservice.json",
            workloads=inference_workloads,
            longest_name=LONGEST_NAME,
        ),
    ),
    unheeded=(
        *("namespace", "weights", "hf_secret", "compute_domains"),
        *("monitoring", "autoscaling"),  # KServe scrapes and scales by itself
    ),
    named=True,
    network=NetworkFacts(egress=False),
    rank_obstacle=_rank_obstacle,
    entry=picked_entry,
)
