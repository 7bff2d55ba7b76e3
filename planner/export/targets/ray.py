"""Target `ray`: a configuration of Ray Serve LLM, which `serve deploy` gives to a cluster of Ray.

An application serves a pool: an island that does both phases, or a prefill and a decode island whose requests are one's
and the other's. Ray makes such pairs of one deployment each, so that an island with several partners has its copies
divided among their applications. Several applications are told apart by their route prefix, and Ray has nothing that
tells requests apart by length: then the routing table is for a router of one's own.

symbol    meaning                                                          source
copies    Serve replicas of a deployment, or groups of them that start     num_replicas
          and end together: an attention rank is a replica
bundle    resources of a worker, which has one GPU                         placement_group_config

Ray knows GPUs by the names of its constants; nodes with others have to bring a resource of the GPU's name.

Sources: ray 2.60.0, serve/schema.py (ServeDeploySchema), llm/_internal/serve/core/configs/llm_config.py (LLMConfig; its
only engine is vLLM), core/ingress/builder.py, serving_patterns/prefill_decode and data_parallel (builder.py,
dp_server.py), engines/vllm/vllm_models.py (which keys of engine_kwargs are refused), util/accelerators/accelerators.py;
its package asks for vLLM 0.29.0.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from planner.errors import ExportError
from planner.export.engines.arguments import read_flags
from planner.export.engines.seam import Rendezvous
from planner.export.found import FoundPod, FoundWorkload, Kind, Manifest
from planner.export.islands import ServingIsland
from planner.export.objects.documents import yaml_documents, yaml_text
from planner.export.objects.explanation import island_comments
from planner.export.objects.pods import GPU_RESOURCES, gpu_resource, labels
from planner.export.routers.intervals_served import served_intervals
from planner.export.seams import Deployment, Endpoint, Step, Target, TargetFiles
from planner.export.summary import ISLAND_ID, island_annotations

FILE, KIND = "serve.yaml", "Ray Serve configuration"
VLLM_VERSION = "0.29.0"
PORT = 8000
_BUILDERS = "ray.serve.llm:"
_AGGREGATED, _RANKED, _PAIRED = "build_openai_app", "build_dp_openai_app", "build_pd_openai_app"
_PREFILL, _DECODE, _MIXED, _SEVERAL = "prefill_config", "decode_config", "llm_config", "llm_configs"
_LABELS, _ANNOTATIONS = "PLANNER_LABELS", "PLANNER_ANNOTATIONS"
_ACCELERATORS: Mapping[str, str] = MappingProxyType(
    {name: name for name in ("A10G", "A100", "H100", "H20", "H200", "L4", "L40S", "RTX-PRO-6000")}
    | {"DGX-B200": "B200", "DGX-B300": "B300", "GB200-NVL72": "GB200", "GB300-NVL72": "GB300"}
    | {f"MI{number}X": f"AMD-Instinct-MI{number}X-OAM" for number in (300, 325, 355)}
    | {"MI308X": "AMD-Instinct-MI308X"}
)
"""GPU -> what Ray calls nodes with it by itself, where it tells it from all others."""
_RAYS_OWN = frozenset(
    {"port", "host", "api-server-count", "served-model-name", "headless", "nnodes", "node-rank", "master-addr"}
    | {"master-port", "shutdown-timeout"}
    | {f"data-parallel-{name}" for name in ("size-local", "address", "rpc-port", "start-rank", "rank", "backend")}
    | {f"data-parallel-{name}" for name in ("hybrid-lb", "external-lb")}
)
"""Flags that Ray gives the engines itself."""
_RANK, _LEADER = "RANK", "RANK_0"
"""What stands for the number of a rank and the address of the first, which Ray knows once they run."""
_SIDE_CHANNEL = "VLLM_NIXL_SIDE_CHANNEL_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """`members`: key of the builder's arguments -> the island and how many of its copies."""

    name: str
    members: Mapping[str, tuple[ServingIsland, int]]


def applications(deployment: Deployment) -> tuple[Application, ...]:
    """The applications of a plan, in its order.

    Raises:
        ExportError: islands that share requests many to many, or more partners than copies.
    """
    islands = {island.id: island for island in deployment.islands}
    pairs = dict.fromkeys(
        (prefill, decode)
        for interval in served_intervals(deployment.plan)
        for prefill in interval.prefill
        for decode in interval.decode
    )
    rows = [
        Application(name=island.name, members={_MIXED: (island, island.grouping.groups)})
        for island in deployment.islands
        if island.mixed
    ]
    partners_of: dict[str, list[str]] = {}
    for prefill, decode in pairs:
        partners_of.setdefault(prefill, []).append(decode)
        partners_of.setdefault(decode, []).append(prefill)
    copies = {name: _divided(islands[name], partners, islands) for name, partners in partners_of.items()}
    for prefill, decode in pairs:
        if len(partners_of[prefill]) > 1 and len(partners_of[decode]) > 1:
            raise ExportError(
                f"Target ray: an application pairs one prefill island with one decode island, {prefill} and {decode} "
                "both have several partners.",
                hint="Plan with routing: {form: buckets} and fewer pools, or with serving: aggregated.",
            )
        several = len(partners_of[prefill]) > 1
        name = islands[decode if several else prefill].name
        members = {
            _PREFILL: (islands[prefill], copies[prefill][decode]),
            _DECODE: (islands[decode], copies[decode][prefill]),
        }
        rows.append(Application(name=name, members=members))
    return tuple(rows)


def _divided(island: ServingIsland, partners: Sequence[str], islands: Mapping[str, ServingIsland]) -> dict[str, int]:
    """Partner -> how many of the island's copies are for it, as near to its rate as whole copies allow, one at least.

    Raises:
        ExportError: it has fewer copies than partners.
    """
    groups = island.grouping.groups
    if groups < len(partners):
        raise ExportError(
            f"Target ray, island {island.id}: each of its {len(partners)} partners is in an application of its own and "
            f"needs a copy of the island, which has {groups}.",
            hint="Plan with fewer islands of a phase, or choose a target whose router pairs servers of several.",
        )
    total = sum(islands[name].rate_rps for name in partners) or 1.0
    exact = {name: groups * islands[name].rate_rps / total for name in partners}
    counts = {name: max(1, math.floor(share)) for name, share in exact.items()}
    while sum(counts.values()) < groups:
        counts[max(partners, key=lambda name: exact[name] - counts[name])] += 1
    while sum(counts.values()) > groups:
        counts[min((n for n in partners if counts[n] > 1), key=lambda name: exact[name] - counts[name])] -= 1
    return counts


def _manifests(deployment: Deployment, /) -> TargetFiles:
    """`serve.yaml`.

    Raises:
        ExportError: as `applications`, or a GPU vendor that no engine is known for.
    """
    serving = applications(deployment)
    rows = [_application(deployment, each, alone=len(serving) == 1) for each in serving]
    document = {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": PORT},  # noqa: S104  # a proxy on every node, for clients elsewhere
        "applications": rows,
    }
    text = yaml_text(tuple(_comments(deployment, serving)), [document])
    endpoints = tuple(_endpoint(island) for island in deployment.islands)
    return TargetFiles(files={FILE: text}, endpoints=endpoints)


def _endpoint(island: ServingIsland) -> Endpoint:
    """Behind the proxies, at its application's prefix; nobody reaches a deployment by itself."""
    return Endpoint(island=island, service=island.name, port=PORT, leaders=(), health_path="/-/healthz")


def _application(deployment: Deployment, application: Application, *, alone: bool) -> dict[str, Any]:
    configs = {key: _config(island, copies, deployment) for key, (island, copies) in application.members.items()}
    if _MIXED not in configs:
        builder, arguments = _PAIRED, dict[str, Any](configs)
    elif application.members[_MIXED][0].parallel.dp > 1:
        builder, arguments = _RANKED, dict[str, Any](configs)
    else:
        builder, arguments = _AGGREGATED, {_SEVERAL: [configs[_MIXED]]}
    return {
        "name": application.name,
        "route_prefix": "/" if alone else f"/{application.name}",
        "import_path": f"{_BUILDERS}{builder}",
        "args": arguments,
    }


def _config(island: ServingIsland, copies: int, deployment: Deployment) -> dict[str, Any]:
    launch = deployment.engine.launch(island, Rendezvous(leader_address="", pod_index="0"))
    variables = {name: value for name, value in launch.leader.environment if not name.startswith(_SIDE_CHANNEL)}
    described = {
        _LABELS: labels(island, deployment),
        _ANNOTATIONS: island_annotations(island, deployment, probed=False),
    }
    cpus = deployment.options.cpus(deployment.plan.scenario.placement)
    accelerator = _ACCELERATORS.get(island.gpu.name)
    bundle = {"CPU": cpus, "GPU": 1} | ({} if accelerator else {island.gpu.name: 1})
    spans = island.parallel.tp * island.parallel.pp > island.gpu.gpus_per_host
    gpu_resource(island)
    gang = island.parallel.dp > 1  # whose replicas Ray packs as it likes, and refuses to be told how
    return {
        "model_loading_config": {"model_id": island.weights},
        "engine_kwargs": engine_kwargs(launch.leader.arguments),
        **({"accelerator_type": accelerator} if accelerator else {}),
        "placement_group_config": {
            "bundle_per_worker": bundle,
            **({} if gang else {"strategy": "PACK" if spans else "STRICT_PACK"}),
        },
        "deployment_config": {"num_replicas": copies},
        "runtime_env": {"env_vars": variables | {key: json.dumps(rows) for key, rows in described.items()}},
    }


def engine_kwargs(arguments: Sequence[str]) -> dict[str, Any]:
    """The flags of an engine's command line as vLLM's own arguments: numbers, texts, objects, and whether.

    Those that Ray gives by itself are left out.
    """
    return dict(
        (name.removeprefix("no-").replace("-", "_"), False) if name.startswith("no-") else _argument(name, value)
        for name, value in read_flags(arguments).items()
        if name not in _RAYS_OWN
    )


def _argument(name: str, value: str) -> tuple[str, Any]:
    key = name.replace("-", "_")
    if not value:
        return key, True
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _words(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The command line that the arguments stand for, without the model's name, and what Ray adds for a rank."""
    words = []
    for name, value in config["engine_kwargs"].items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words.append(f"--{flag}={value if isinstance(value, str) else json.dumps(value)}")
    if config["engine_kwargs"].get("data_parallel_size", 1) > 1:
        words += [f"--data-parallel-rank={_RANK}", f"--data-parallel-address={_LEADER}"]
    return tuple(words)


def _comments(deployment: Deployment, serving: Sequence[Application]) -> Iterator[str]:
    plan = deployment.plan.scenario.name
    yield f"Plan {plan} for Ray Serve LLM: serve deploy {FILE}, on a cluster whose nodes have ray[llm] 2.60.0."
    version = deployment.islands[0].profile(deployment.engine.name).version
    if version != VLLM_VERSION:
        yield f"WARNING: that brings vLLM {VLLM_VERSION}, and the plan was priced for vLLM {version}."
    strange = sorted({island.gpu.name for island in deployment.islands} - set(_ACCELERATORS))
    for name in strange:
        yield f"Ray has no name for {name}: start its nodes with --resources='{{\"{name}\": 8}}', one for each GPU."
    for each in serving:
        prefix = "/" if len(serving) == 1 else f"/{each.name}"
        parts = ", ".join(f"{copies} copies of {island.id}" for island, copies in each.members.values())
        yield f"Application {each.name} at {prefix}: {parts}."
    for island in deployment.islands:
        yield from island_comments(island, deployment, ())


def configs_of(application: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Path below the application -> the configuration of each of its deployments."""
    arguments = application["args"]
    rows = {f"args.{key}": arguments[key] for key in (_PREFILL, _DECODE, _MIXED) if key in arguments}
    return rows | {f"args.{_SEVERAL}.{at}": row for at, row in enumerate(arguments.get(_SEVERAL, ()))}


def _workloads(manifest: Manifest) -> Iterator[FoundWorkload]:
    """An island, all of its applications together."""
    rows: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    names = [application["name"] for application in manifest.body["applications"]]
    for number, application in enumerate(manifest.body["applications"]):
        for path, config in configs_of(application).items():
            annotations = json.loads(config["runtime_env"]["env_vars"][_ANNOTATIONS])
            rows.setdefault(annotations.get(ISLAND_ID, ""), []).append((f"applications.{number}.{path}", config))
    for configs in rows.values():
        yield _workload(manifest, configs, [names[int(path.split(".")[1])] for path, _ in configs])


def _workload(
    manifest: Manifest, configs: Sequence[tuple[str, Mapping[str, Any]]], names: Sequence[str]
) -> FoundWorkload:
    path, config = configs[0]
    variables = config["runtime_env"]["env_vars"]
    own_labels, annotations = (json.loads(variables[name]) for name in (_LABELS, _ANNOTATIONS))
    arguments = config["engine_kwargs"]
    tensor, stages, ranks = (arguments.get(f"{degree}_parallel_size", 1) for degree in ("tensor", "pipeline", "data"))
    group = config["placement_group_config"]
    gpus = 1 if group.get("strategy") == "PACK" else tensor * stages  # of a host, which a rank has to itself
    vendor = "AMD" if str(config.get("accelerator_type", "")).startswith("AMD") else "NVIDIA"
    limits = {GPU_RESOURCES[vendor]: gpus * int(group["bundle_per_worker"]["GPU"])}
    pod = FoundPod(
        path=f"{path}.placement_group_config.bundle_per_worker",
        count=tensor * stages * ranks // gpus,
        spec={"containers": [{"resources": {"limits": limits}}]},
        labels=own_labels,
        arguments=_words(config),
        answers_at=PORT,
    )
    set_by_engine = {name: value for name, value in variables.items() if name not in (_LABELS, _ANNOTATIONS)}
    return FoundWorkload(
        manifest=manifest,
        labels=own_labels,
        annotations=annotations,
        labels_path=f"{path}.runtime_env.env_vars.{_LABELS}",
        annotations_path=f"{path}.runtime_env.env_vars.{_ANNOTATIONS}",
        replicas=sum(row["deployment_config"]["num_replicas"] for _, row in configs),
        replicas_path=f"{path}.deployment_config.num_replicas",
        size_path=f"{path}.engine_kwargs",
        pods=(pod,),
        endpoints=(f"{own_labels['app.kubernetes.io/part-of']}-{own_labels['planner/island']}",),
        endpoint_ports=(PORT,),
        leader_address=_LEADER,
        pod_index=_RANK,
        template={
            "object": ", ".join(names),
            **{key: value for key, value in config.items() if key not in ("deployment_config", "runtime_env")},
            "env_vars": set_by_engine,
        },
    )


def _rank_obstacle(_: ServingIsland, __: Deployment, /) -> str:
    return "Ray takes requests at its proxies and chooses the rank itself, which needs no port"


def _parsed(text: str) -> Iterator[object]:
    for document in yaml_documents(text):
        yield {"metadata": {"name": FILE}, **document} if isinstance(document, dict) else document


def _steps(_files: Mapping[str, str], /) -> tuple[Step, ...]:
    return (
        Step(
            title="The applications",
            why=f"On a machine that reaches the cluster of Ray: {FILE} replaces what the cluster serves.",
            commands=(f"serve deploy {FILE}",),
            looks=("serve status", f"curl --fail http://NODE:{PORT}/-/healthz"),
            undo=("serve shutdown",),
        ),
    )


RAY = Target(
    name="ray",
    engines=("vllm",),
    manifests=_manifests,
    kinds=(Kind(kind=KIND, schema="ray_serve.json", files=FILE, parse=_parsed, workloads=_workloads),),
    unheeded=(
        *("memory_gib_per_gpu", "shared_memory_gib", "autoscaling", "monitoring", "namespace", "pod_resources"),
        *("topology_labels", "priority_class", "prometheus", "queue", "model_volume", "weights", "hf_secret"),
        *("load_gb_per_s", "rdma", "hugepages", "nccl_ib_hca", "socket_interface", "compute_domains", "pin_nodes"),
        *("images", "served_names"),
    ),
    applied=False,
    steps=_steps,
    rank_obstacle=_rank_obstacle,
)
