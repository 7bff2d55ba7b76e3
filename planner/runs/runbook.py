"""`README.md` of an export: the commands in order, what to look at after each, and how to go back.

It is made of the finished files alone: what is applied when follows from the kinds of their objects, so a target or a
router with kinds of its own is told of as soon as they stand in `STAGES`.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from planner import export
from planner.domain import Plan
from planner.export.objects.names import ROUTING

FILE = "README.md"
_ROUTER_PREFIX = "router"
_BUILD = re.compile(r"# (?P<build>docker build --tag (?P<image>\S+) \S+)\n")
_SERVED_NAME = re.compile(r"--served-model-name[= \n-]+([A-Za-z0-9._/-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Objects that are applied together. `wave`: of whoever applies by waves; weights go with engines, since a claim
    may wait for its first pod. `look`: a shell command that shows how one of them does, given its name; `why`: a
    sentence to go with it."""

    title: str
    wave: int
    kinds: tuple[str, ...]
    why: str
    look: Callable[[str, str], str] = lambda kind, name: f"kubectl get {kind.lower()} {name}"


def _job(kind: str, name: str) -> str:
    ready = f"kubectl wait --for=condition=complete --timeout=4h {kind.lower()}/{name}"
    return ready if kind == "Job" else f"kubectl get {kind.lower()} {name}"


_CONDITIONS = {"LeaderWorkerSet": "Available", "LLMInferenceService": "Ready", "DynamoGraphDeployment": "Ready"}
"""What a kind says of itself once all its pods are ready."""


def _rolled_out(kind: str, name: str) -> str:
    if kind in ("Deployment", "DaemonSet", "StatefulSet"):
        return f"kubectl rollout status {kind.lower()}/{name} --timeout=1h"
    if kind in _CONDITIONS:
        return f"kubectl wait --for=condition={_CONDITIONS[kind]} --timeout=1h {kind.lower()}/{name}"
    return f"kubectl get {kind.lower()} {name}"


_BEFORE = (
    "Topology ResourceFlavor ClusterQueue LocalQueue PriorityClass NodeResourceTopology FlexTopo DeviceClass "
    "ResourceClaimTemplate ComputeDomain NetworkPolicy ServiceAccount Role RoleBinding"
)
_ENGINES = (
    "LeaderWorkerSet DisaggregatedSet LLMInferenceService DynamoGraphDeployment Deployment Service ConfigMap "
    "PodDisruptionBudget"
)

STAGES = (
    Stage(
        title="What the cluster must know first",
        wave=0,
        kinds=tuple(_BEFORE.split()),
        why="Some of these objects are of the whole cluster: applying them takes the rights to.",
    ),
    Stage(
        title="Weights",
        wave=1,
        kinds=("PersistentVolumeClaim", "Job", "DaemonSet"),
        why="The claim must be bound, and what downloads must have ended: engines wait for it.",
        look=_job,
    ),
    Stage(
        title="Engines and their Services",
        wave=1,
        kinds=tuple(_ENGINES.split()),
        why="Every pod must be ready before requests come; loading the weights takes minutes.",
        look=_rolled_out,
    ),
    Stage(
        title="Router",
        wave=2,
        kinds=("InferencePool", "HTTPRoute", "EndpointPickerConfig", "InferenceObjective"),
        why="It sends each prompt to the engines of its length.",
        look=_rolled_out,
    ),
    Stage(
        title="Watching",
        wave=3,
        kinds=("PodMonitor", "ServiceMonitor", "PrometheusRule"),
        why="What Prometheus then answers is held against the plan by `planner observe`.",
    ),
    Stage(
        title="Scaling",
        wave=3,
        kinds=("HorizontalPodAutoscaler", "ScaledObject"),
        why="Last, as it changes the number of copies that the plan's figures belong to.",
    ),
)
"""In the order of their application; an object of another kind goes with the engines."""

_ENGINE_STAGE, _ROUTER_STAGE = 2, 3


def runbook(plan: Plan, files: Mapping[str, str], *, target: str, engine: str, router: str) -> str:
    """The page, in Markdown. `files`: name -> text, all that was written beside it; `router`: who executes the routing,
    by name."""
    manifests = export.read_manifests(files)
    objects = _objects(manifests)
    by_router = f", router {router}" if router != export.NO_ROUTER else ""
    started = export.TARGETS[target].steps
    routed = export.ROUTERS[router].steps if router in export.ROUTERS else None
    steps = [
        *_images(export.image_files(files)),
        *_evictions(files),
        *_in_order(_applied(objects), started(files) if started else ()),
    ]
    steps += routed(files) if routed else ()
    where = "; `NAMESPACE` is where the engines run" if objects else ""
    lines = [
        f"# {export.one_line(plan.scenario.name)}: how to deploy it, and how to go back",
        "",
        f"Target {target}, engine {engine}{by_router}. Run the commands in this folder{where}.",
        "",
        *_checking(objects),
    ]
    for number, step in enumerate(steps, start=1):
        lines += ["", f"## {number}. {step.title}", "", step.why, "", *_block(step.commands)]
        if step.looks:
            lines += ["", "Then look at", "", *_block(step.looks)]
    if not export.tells_fleet(manifests):
        lines += ["", f"## {len(steps) + 1}. A first request", "", *_first_request(plan, files, objects)]
    lines += ["", "## Going back", "", *_going_back(steps, files, objects)]
    return "\n".join(lines) + "\n"


def fleet_page(fleet: str, routes: Sequence[export.ServiceRoute], files: Mapping[str, str]) -> str:
    """The page of what a fleet's deployments share, in Markdown. `files`: name -> text, all that was written beside
    it."""
    objects = _objects(export.read_manifests(files))
    commands = [step.commands for _, step in _applied(objects)]
    entry = next((f"{m.name}:8080" for items in objects.values() for m in items if m.kind == "Service"), "GATEWAY")
    sent = next(route for route in routes if route.models)
    header = [] if sent.names else ["-H", f"{export.SERVICE_HEADER}: {sent.service}"]
    body = json.dumps({"model": sent.models[0], "prompt": "Hello", "max_tokens": 8})
    typed = ("-H", "content-type: application/json")
    request = ["curl", "--fail-with-body", f"http://{entry}/v1/completions", *typed, *header, "-d", body]
    lines = [
        f"# {export.one_line(fleet)}: where requests go",
        "",
        "| service | what a client sends | deployments |",
        "| :--- | :--- | :--- |",
        *(f"| {route.service} | {route.words} | {_split_words(route)} |" for route in routes if route.models),
        "",
        "Deploy every folder beside this one by its own README.md, then apply what all of them share:",
        "",
        *_block(tuple(command for step in commands for command in step)),
        "",
        "A first request, from a pod in `NAMESPACE` or through `kubectl port-forward`:",
        "",
        *_block((shlex.join(request),)),
    ]
    return "\n".join(lines) + "\n"


def _split_words(route: export.ServiceRoute) -> str:
    total = sum(rate for _, rate in route.entries)
    return ", ".join(f"`{entry.deployment}` {rate / total:.0%}" for entry, rate in route.entries)


def _checking(objects: Mapping[str, Sequence[export.Manifest]]) -> list[str]:
    applied = " ".join(f"-f {shlex.quote(name)}" for name in sorted(objects))
    server = (f"kubectl apply --dry-run=server --namespace NAMESPACE {applied}",) if applied else ()
    words = ", and against the API server's own checks" if applied else ""
    return [
        f"Before anything: the files as they are, against the plan{words}.",
        "",
        *_block(("planner export --check . RUN", *server)),
        *(("", "`kubectl apply -k . --namespace NAMESPACE` applies all objects at once.") if applied else ()),
    ]


def _images(files: Mapping[str, str]) -> Iterator[export.Step]:
    """A step for each folder that an image is built from; its Dockerfile begins with how."""
    for name, text in files.items():
        if match := _BUILD.match(text):
            folder = name.rpartition("/")[0]
            beside = " and ".join(f"`{file}`" for file in sorted(files) if file.startswith(f"{folder}/"))
            image = shlex.quote(match["image"])
            in_registry = "/" in image  # after the registry that nodes pull it from
            where = (
                "" if in_registry else " Load it onto the nodes; or push it to where they pull from, and export with "
            )
            where += "" if in_registry else f"`--image {folder.upper()}=NAME`, as it is called there."
            yield export.Step(
                title=f"The image {match['image']}",
                why=f"Nobody publishes it: it is built from {beside}.{where}",
                commands=(match["build"], *((f"docker push {image}",) if in_registry else ())),
                looks=(f"docker run --rm {image} id -u # says 65532: no root",),
            )


def _evictions(files: Mapping[str, str]) -> Iterator[export.Step]:
    if export.EVICTIONS_FILE in files:
        yield export.Step(
            title="Make room",
            why="The plan lies where pods run that have to go first; the script may be run again.",
            commands=(f"bash {export.EVICTIONS_FILE}",),
            looks=(f"bash {export.EVICTIONS_FILE} # says for each that it is not there any more",),
        )


def _in_order(applied: Iterable[tuple[int, export.Step]], started: Sequence[export.Step]) -> Iterator[export.Step]:
    """The target's own steps stand where engines are applied, before the router."""
    steps = list(applied)
    yield from (step for stage, step in steps if stage < _ENGINE_STAGE)
    yield from started
    yield from (step for stage, step in steps if stage >= _ENGINE_STAGE)


def _applied(objects_of_files: Mapping[str, list[export.Manifest]]) -> Iterator[tuple[int, export.Step]]:
    """A step for each stage that has objects."""
    by_stage: dict[int, dict[str, list[export.Manifest]]] = {}
    for file, objects in objects_of_files.items():
        by_stage.setdefault(max(map(_stage_of, objects)), {})[file] = objects
    for number, stage in enumerate(STAGES):
        if objects_of := by_stage.get(number):
            names = sorted(objects_of)
            yield (
                number,
                export.Step(
                    title=stage.title,
                    why=stage.why,
                    commands=tuple(f"kubectl apply --namespace NAMESPACE -f {shlex.quote(name)}" for name in names),
                    looks=tuple(_looks(stage, [item for name in names for item in objects_of[name]])),
                    undo=tuple(f"kubectl delete --namespace NAMESPACE -f {shlex.quote(name)}" for name in names[::-1]),
                ),
            )


def _objects(manifests: export.FoundManifests) -> dict[str, list[export.Manifest]]:
    """File -> the Kubernetes objects in it."""
    sound = [manifest for manifest, _ in manifests.sound if manifest.api_version]
    by_file: dict[str, list[export.Manifest]] = {}
    for manifest in sound:
        by_file.setdefault(manifest.file, []).append(manifest)
    return by_file


def _stage_of(manifest: export.Manifest) -> int:
    if manifest.labels.get("app.kubernetes.io/component") == _ROUTER_PREFIX:
        return _ROUTER_STAGE
    return next((n for n, stage in enumerate(STAGES) if manifest.kind in stage.kinds), _ENGINE_STAGE)


def _looks(stage: Stage, objects: Sequence[export.Manifest]) -> Iterator[str]:
    """A command an object, for those whose state tells something."""
    for manifest in objects:
        if manifest.kind not in ("Service", "ConfigMap", "ServiceAccount", "Role", "RoleBinding"):
            yield f"{stage.look(manifest.kind, shlex.quote(manifest.name))} --namespace NAMESPACE"


def looks_at(objects: Iterable[export.Manifest]) -> Iterator[str]:
    """A command an object whose state tells something, as of the stage that it is applied in."""
    for manifest in objects:
        yield from _looks(STAGES[_stage_of(manifest)], [manifest])


def goes_with_engines(manifest: export.Manifest) -> bool:
    """Whether engines need the object when they start; a routing table and budgets of evictions come after them."""
    return _stage_of(manifest) <= _ENGINE_STAGE and not _comes_after(manifest)


def _comes_after(manifest: export.Manifest) -> bool:
    return manifest.kind == "PodDisruptionBudget" or (
        manifest.kind == "ConfigMap" and manifest.name.endswith(f"-{ROUTING}")
    )


def wave_of(manifest: export.Manifest, *, starts: bool = True) -> int:
    """The wave of an object. Where servers stop (not `starts`), routers come before engines."""
    wave = STAGES[_ROUTER_STAGE if _comes_after(manifest) else _stage_of(manifest)].wave
    engines, routers = STAGES[_ENGINE_STAGE].wave, STAGES[_ROUTER_STAGE].wave
    return wave if starts or wave not in (engines, routers) else engines + routers - wave


def _first_request(plan: Plan, files: Mapping[str, str], objects: Mapping[str, Sequence[export.Manifest]]) -> list[str]:
    body = shlex.quote(json.dumps({"model": _served_model(plan, files), "prompt": "Hello", "max_tokens": 8}))
    entry = _entry(objects)
    inside = "From a pod in `NAMESPACE`, or through `kubectl port-forward`:"
    where = inside if entry else "`ENTRY` is where the router answers, or one of the Services in the routing table."
    url = f"http://{entry or 'ENTRY'}/v1/completions"
    return [
        where,
        "",
        *_block((f"curl --fail-with-body {url} -H 'content-type: application/json' -d {body}",)),
    ]


def _served_model(plan: Plan, files: Mapping[str, str]) -> str:
    """The name that engines know the model by: what they are told, else where they load it from."""
    flags = (_SERVED_NAME.search(text) for name, text in files.items() if not name.endswith(".md"))
    model = plan.scenario.model
    return next((flag[1] for flag in flags if flag), export.weights_location(model.name, model.uri))


def _entry(objects_of_files: Mapping[str, Sequence[export.Manifest]]) -> str:
    """The Service of the router that no other program of it stands in front of; empty where there is none."""
    services = [
        manifest
        for objects in objects_of_files.values()
        for manifest in objects
        if manifest.kind == "Service" and _stage_of(manifest) == _ROUTER_STAGE
    ]
    if not services:
        return ""
    first = min(services, key=lambda service: len(service.name))
    return f"{first.name}:{first.body['spec']['ports'][0]['port']}"


def _going_back(
    steps: Sequence[export.Step], files: Mapping[str, str], objects: Mapping[str, Sequence[export.Manifest]]
) -> list[str]:
    undo = [command for step in reversed(steps) for command in step.undo]
    words = ["In this order, so that no request meets half a deployment:", "", *_block(tuple(undo))]
    if export.EVICTIONS_FILE in files:
        words += ["", "Pods that were evicted come back by themselves only where a controller makes them anew."]
    if any(item.kind == "PersistentVolumeClaim" for items in objects.values() for item in items):
        words += ["", "A claim that is deleted takes the weights along; leave its line out to keep them."]
    return words


def _block(commands: Sequence[str]) -> list[str]:
    return ["```sh", *commands, "```"]
